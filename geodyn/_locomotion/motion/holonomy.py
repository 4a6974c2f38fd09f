"""MOTION: the holonomy of a stroke (the displacement that it causes), and its cost.

`g' = −g A(r) r'` is solved by the Magnus method of order 6 with three Gauss nodes in each step, so that g stays in the
group. The power is integrated with the same nodes.
"""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._engine.native import native, native_rows
from geodyn._engine.numerics.failure import no_derivative_where
from geodyn._foundations.checks import is_finite
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, ArrayLike, Count, Float, Number, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._geometry.groups.magnus import NODES, WEIGHTS, increment
from geodyn._locomotion.connections.connection import (
    check_law,
    law,
)
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion import costs
from geodyn._locomotion.strokes.stroke import Stroke, breaks, derivatives_at, first_corner, shape_and_rate


def step_ends(steps: Count, breaks: Float[ArrayLike, " B"] | tuple = ()) -> Float[Array, " T"]:
    """The ends of `steps` equal steps of [0, 1], from 0 to 1, with the breaks of a stroke inserted.

    Raises ValueError unless steps ≥ 1.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}; 64 to 256 suit most strokes.")
    equal = np.arange(steps + 1) / steps
    inside = cast(Array | np.ndarray, breaks)
    if not len(inside):
        return jnp.asarray(equal, float)
    if isinstance(inside, np.ndarray):
        return jnp.asarray(np.sort(np.append(equal, inside)), float)
    return jnp.sort(jnp.concatenate([jnp.asarray(equal, float), inside]))


def gauss_times(steps: Count, breaks: Float[ArrayLike, " B"] | tuple = ()) -> Float[Array, " Q"]:
    """The times of the three Gauss nodes in each step of `step_ends`, in order. Raises ValueError unless steps ≥ 1."""
    ends = step_ends(steps, breaks)
    return (ends[:-1, None] + jnp.diff(ends)[:, None] * jnp.asarray(NODES, ends.dtype)[None]).ravel()


def mean(powers: Float[Array, " Q"], widths: Float[Array, " T"] | None = None) -> Scalar:
    """The integral over [0, 1] of values at `gauss_times`, with the widths of the steps (None: equal ones)."""
    means = powers.reshape(-1, 3) @ jnp.asarray(WEIGHTS, powers.dtype)
    return jnp.mean(means) if widths is None else means @ widths


def magnus(
    group: AbstractLieGroup, xi: Float[Array, "Q k"], widths: Float[Array, " T"] | None = None
) -> Float[Array, "T d d"]:
    """The solution of `g' = g ξ` from the identity, with ξ at `gauss_times`: g at the end of each of the T steps.

    `widths` of the steps; None: equal ones.
    """
    steps = xi.shape[0] // 3
    widths = jnp.full(steps, 1 / steps, xi.dtype) if widths is None else widths
    increments = native_rows(lambda x, h: group.exp(increment(group, x, h)), xi.reshape(steps, 3, -1), widths)

    def follow(g: Float[Array, "d d"], step: Float[Array, "d d"]) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
        after = group.compose(g, step)
        return after, after

    def products(first: Float[Array, "d d"], increments: Float[Array, "S d d"]) -> Float[Array, "S d d"]:
        return jax.lax.scan(follow, first, increments)[1]

    return native(products, group.identity().astype(xi.dtype), increments)


def _looked_at(times: Array) -> slice:
    """Four of the times, in order."""
    return slice(None, None, -(-len(times) // 4))


def true_along(swimmer: AbstractLocomotion, stroke: Stroke, times: Float[Array, " Q"]) -> Scalar:
    """The factor 1; NaN if the law of the body is not of its kind at one of four of the shapes at these times."""
    return jnp.prod(native_rows(lambda t: law(swimmer, shape_and_rate(stroke, t)[0]), times[_looked_at(times)]))


@jit
def _path(swimmer: AbstractLocomotion, stroke: Stroke, steps: Count) -> Float[Array, "T d d"]:
    corners = breaks(stroke)

    def velocity(t: Scalar) -> Float[Array, " k"]:
        r, rdot = shape_and_rate(stroke, t)
        return swimmer.velocity(r, rdot)

    ends, times = step_ends(steps, corners), gauss_times(steps, corners)
    velocities = true_along(swimmer, stroke, times) * native_rows(velocity, times)
    elements = magnus(swimmer.group, velocities, jnp.diff(ends))
    elements = jnp.concatenate([swimmer.group.identity()[None], elements])
    return elements[jnp.searchsorted(ends, step_ends(steps))] if corners.size else elements


@jit
def _last(poses: Float[Array, "T d d"]) -> Float[Array, "d d"]:
    return poses[-1]  # Without jit it takes a tenth of the time of a path.


@checked
def path(swimmer: AbstractLocomotion, stroke: Stroke, *, steps: Count = 128) -> Float[Array, "points d d"]:
    """The poses of a body along a stroke, as group elements g(t) at the times 0, 1/steps, …, 1, from the identity.

    It solves `g' = −g A(r) r'` by a Magnus method of order 6 on three Gauss nodes a step, so that g stays in the
    group to rounding. The error is O(steps⁻⁶) for strokes that are smooth inside each of the equal steps, or that name
    the times where they are not in an attribute `breaks`, as those of `gd.strokes` do. Differentiable with respect to
    the numbers in the body and in the stroke.

    Args:
        swimmer: body that moves by its shape, such as one of `gd.swimmers`.
        stroke: function t -> r[m], t from 0 to 1, such as a `gd.FourierStroke`; it need not be closed.
        steps: number of equal steps; 64 to 256 suit most strokes.

    Returns:
        The group elements, matrices [steps + 1, d, d]. `swimmer.group.log` gives the coordinates of one.

    Raises:
        ValueError: unless steps ≥ 1, and where the body cannot have a shape of the stroke (not inside jit).

    Example:
        A car that drives with its wheels at the steering angle 45° follows a circle of the radius of its wheelbase.

        >>> car = gd.swimmers.KinematicCar(wheelbase=1.0, radius=1.0)
        >>> poses = gd.path(car, lambda t: jnp.stack([2 * jnp.pi * t, jnp.pi / 4 + 0 * t]), steps=8)
        >>> print(poses[4, :2, 2].round(6), bool(jnp.allclose(poses[8], jnp.eye(3))))
        [0. 2.] True

    Source:
        Blanes, Casas, Oteo & Ros, *Phys. Rep.* 470 (2009) 151, section 5.5.
    """
    return require_defined_along("path", swimmer, stroke, _path(swimmer, stroke, steps=steps))


@checked
def holonomy(swimmer: AbstractLocomotion, stroke: Stroke, *, steps: Count = 128) -> Float[Array, "d d"]:
    """The group element by which one stroke moves the body: the last of `gd.path`.

    `swimmer.group.log(g)` gives its exponential coordinates, translations first, then rotations. The error is that of
    `gd.path`, O(steps⁻⁶). Differentiable with respect to the numbers in the body and in the stroke.

    Args:
        swimmer: body that moves by its shape, such as one of `gd.swimmers`.
        stroke: function t -> r[m], t from 0 to 1, such as a `gd.FourierStroke`.
        steps: number of equal steps; 64 to 256 suit most strokes.

    Returns:
        The group element, a matrix [d, d].

    Raises:
        ValueError: unless steps ≥ 1, and where the body cannot have a shape of the stroke (not inside jit).

    Example:
        The cat turns about its spine by 2π (cos β I₃/(I₃ cos² β + I₁ sin² β) − 1) when the bend 2β goes round once.

        >>> cat = gd.swimmers.FallingCat(axial=0.25, transverse=0.5)
        >>> beta = np.pi / 6
        >>> turn = cat.group.log(gd.holonomy(cat, gd.FourierStroke.circle(2 * beta)))
        >>> known = 2 * np.pi * (0.25 * np.cos(beta) / (0.25 * np.cos(beta) ** 2 + 0.5 * np.sin(beta) ** 2) - 1)
        >>> print(f"{turn[2]:.6f} {known:.6f}")
        -1.930067 -1.930067
    """
    return require_defined_along("holonomy", swimmer, stroke, _last(_path(swimmer, stroke, steps=steps)))


@checked
@jit
def power(swimmer: costs.Costly, stroke: Stroke, t: Number) -> Scalar:
    """The power `r'ᵀ G r'` that a swimmer dissipates at one time of a stroke of period 1.

    For a free body it is twice its kinetic energy. The integral over the period is `gd.cost`.

    Args:
        swimmer: body with a metric of shapes, such as one of `gd.swimmers`.
        stroke: function t -> r[m], t from 0 to 1.
        t: the time.

    Returns:
        The power, a number, in any consistent units.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> powers = jax.vmap(lambda t: gd.bundles.power(swimmer, stroke, t))(jnp.arange(32) / 32)
        >>> print(f"mean power {powers.mean():.6f}, energy {gd.cost(swimmer, stroke):.6f}")
        mean power 1.925217, energy 1.925217
    """
    r, rdot = shape_and_rate(stroke, t)
    return law(swimmer, r) * costs.energy(swimmer, r, rdot)


@jit
def _cost(swimmer: costs.Costly, stroke: Stroke, density: costs.Density, steps: Count) -> Scalar:
    corners = breaks(stroke)
    times = gauss_times(steps, corners)
    taken = costs.derivatives_taken(density)
    values = native_rows(lambda t: costs.value_of(density, swimmer, derivatives_at(stroke, t, taken)), times)
    total = true_along(swimmer, stroke, times) * mean(values, jnp.diff(step_ends(steps, corners)))
    if taken == 1:
        return total
    has_corner = jnp.isfinite(first_corner(stroke))
    value = jnp.where(has_corner, jnp.inf, total)  # It takes an infinite acceleration to turn a corner.
    return no_derivative_where(has_corner, value, (swimmer, stroke, density))


@checked
def cost(swimmer: costs.Costly, stroke: Stroke, *, density: costs.Density = costs.energy, steps: Count = 128) -> Scalar:
    """What one stroke of period 1 costs: the integral over it of a density (swimmer, r, r'), by default the energy.

    The energy is `E = ∫₀¹ r'ᵀ G r' dt`; a stroke run through in the time T costs E/T. `gd.costs` has other
    densities, and any function of this form is one, or (swimmer, r, r', r'') for one of accelerations. Gauss's rule of
    order 6 is used on each step. Differentiable with respect to the numbers in the body and in the stroke.

    Args:
        swimmer: body with a metric of shapes, such as one of `gd.swimmers`.
        stroke: function t -> r[m], t from 0 to 1, such as a `gd.FourierStroke`.
        density: function (swimmer, r[m], r'[m]) -> number, or (swimmer, r[m], r'[m], r''[m]) -> number; default
            `gd.costs.energy`.
        steps: number of equal steps of the quadrature.

    Returns:
        The cost, a number, in any consistent units.

    Raises:
        ValueError: where the body cannot have a shape of the stroke (not inside jit), for a density that does not give
            a number, and for one of accelerations along a stroke that turns a corner (inside jit: ∞).

    Example:
        A stroke at constant power: the energy is the square of the length.

        >>> cat, stroke = gd.swimmers.FallingCat(), gd.FourierStroke.circle(1.0)
        >>> energy, length = gd.cost(cat, stroke), gd.cost(cat, stroke, density=gd.costs.length)
        >>> print(f"{energy:.6f} {length**2:.6f}")
        7.378198 7.378198
    """
    value = _cost(swimmer, stroke, density, steps=steps)
    if not isinstance(value, Tracer) and np.isposinf(value) and costs.derivatives_taken(density) > 1:
        _refuse_corners(stroke)
    return require_defined_along("cost", swimmer, stroke, value)


def _refuse_corners(stroke: Stroke) -> None:
    """Raise ValueError for a stroke that turns a corner."""
    corner = float(first_corner(stroke))
    if np.isfinite(corner):
        raise ValueError(
            f"cost: at t = {corner:.3g} the stroke turns a corner, where its acceleration is infinite: give one with a"
            " rate that does not jump, such as a gd.FourierStroke, or a density of rates alone."
        )


def require_defined_along(name: str, swimmer: AbstractLocomotion, stroke: Stroke, value: Any) -> Any:
    """The value; if it is not finite, ValueError with the first shape of the stroke where the swimmer is singular."""
    if isinstance(value, Tracer) or is_finite(np.asarray(value)):
        return value
    times = gauss_times(128, breaks(stroke))
    shapes, velocities = _along(swimmer, stroke, times)
    bad = ~np.isfinite(velocities).all(axis=1)
    for r in shapes[_looked_at(times)]:
        check_law(swimmer, r)
    if not bad.any():
        raise ValueError(f"{name}: not a finite number; check the shapes and rates of the stroke, and the density.")
    check_law(swimmer, shapes[bad][0])
    raise ValueError(
        f"{name}: {type(swimmer).__name__} is singular at the shape {np.asarray(shapes[bad][0])}, t ="
        f" {float(times[bad][0]):.3g}: its docstring says which shapes it can have, and the stroke must keep to them."
    )


@jit
def _along(
    swimmer: AbstractLocomotion, stroke: Stroke, times: Float[Array, " Q"]
) -> tuple[Float[Array, "Q m"], Float[Array, "Q k"]]:
    """The shapes at some times of a stroke, and the velocities of the body."""

    def at(t: Scalar) -> tuple[Float[Array, " m"], Float[Array, " k"]]:
        r, rdot = shape_and_rate(stroke, t)
        return r, swimmer.velocity(r, rdot)

    return jax.vmap(at)(times)
