"""MOTION: free bodies that turn and move by changing shape: the mechanical connection, with and without momentum.

The momentum `p = ∂T/∂ξ = R_gg (ξ + A r')` in the body frame is `Ad_gᵀ μ`, with μ constant in the world. At μ = 0 the
body moves by its connection alone; otherwise `ξ = −A r' + R_gg⁻¹ Ad_gᵀ μ`, and it drifts in addition. Source: Marsden,
Montgomery & Ratiu, *Mem. AMS* 436 (1990); Marsden, *Lectures on Mechanics* (1992), chapter 3.
"""

from abc import abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Int, Numbers, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._integrators.contract.tableau import gauss
from geodyn._locomotion.connections.checks import require_defined
from geodyn._locomotion.connections.connection import AbstractInvariantMetric, check_law, inverse_and_reduction, law
from geodyn._locomotion.motion.holonomy import require_defined_along, true_along
from geodyn._locomotion.strokes.stroke import Stroke, floating, shape_and_rate

_ITERATIONS = 8


class AbstractDeformableBody(AbstractInvariantMetric):
    """A free body that is driven from inside, given by its kinetic energy.

    The kinetic energy is a positive definite quadratic form in (ξ, r'). Without momentum it moves by its connection,
    `ξ = −A r'`: at each moment with the velocity for which the kinetic energy is least. With the momentum μ,
    constant in space, it drifts as well, `ξ = −A r' + R_gg⁻¹ Ad_gᵀ μ`; see `gd.bundles.drifting_path`.

    A subclass has a field `group`, one of `gd.groups`, and defines `kinetic_energy(r, xi, rdot)` at the shape r[m],
    the body velocity `ξ = g⁻¹ g'` [k] (translations first, then rotations) and the rate r'[m], in any consistent
    units.

    Example:
        A platform of the mass 3 on which a mass 1 is moved by r: the platform goes back by r/4.

        >>> class Platform(gd.bundles.AbstractDeformableBody):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def kinetic_energy(self, r, xi, rdot):
        ...         return (3.0 * xi[0] ** 2 + (xi[0] + rdot[0]) ** 2) / 2
        >>> print(gd.connection(Platform(), [0.0]), gd.shape_metric(Platform(), [0.0]))
        [[0.25]] [[0.75]]

    Source:
        Marsden, Montgomery & Ratiu, *Mem. AMS* 436 (1990); Marsden, *Lectures on Mechanics* (1992), chapter 3.
    """

    @abstractmethod
    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        """The kinetic energy at shape r, body velocity ξ and shape rate r'; any consistent units."""

    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        return 2 * self.kinetic_energy(r, xi, rdot)

    @property
    def _hint_if_it_stays(self) -> str | None:
        if not (self.group._turns_in_plane and self.group.translations):
            return None
        return "a body afloat keeps its centre of mass where it is: ask for its turn, gd.bundles.Heading(body)"


@checked
def locked_inertia(body: AbstractDeformableBody, r: Float[Array, " m"]) -> Float[Array, "k k"]:
    """The inertia R_gg of a free body locked in one shape: its momentum is `R_gg ξ`.

    Args:
        body: a `gd.bundles.AbstractDeformableBody`.
        r: shape [m].

    Returns:
        R_gg [k, k], symmetric and positive definite.

    Example:
        Elroy's beanie, locked, has the sum of both moments of inertia.

        >>> print(gd.bundles.locked_inertia(gd.swimmers.Beanie(inertias=(3.0, 1.0)), jnp.array([0.5])))
        [[4.]]
    """
    return require_defined("locked_inertia", body, check_law, r, _true_locked(body, r))


@jit
def _true_locked(body: AbstractDeformableBody, r: Float[Array, " m"]) -> Float[Array, "k k"]:
    return law(body, r) * _locked_inertia(body, r)


def _locked_inertia(body: AbstractDeformableBody, r: Float[Array, " m"]) -> Float[Array, "k k"]:
    momentum = jax.grad(lambda xi: body.kinetic_energy(r, xi, jnp.zeros_like(r)))
    return jax.vmap(momentum)(jnp.eye(body.group.dim, dtype=r.dtype))


@checked
def drifting_path(
    body: AbstractDeformableBody, stroke: Stroke, momentum: Numbers, *, steps: Count = 128
) -> Float[Array, "points d d"]:
    """The poses of a free body with momentum along a stroke of period 1, at the times 0, 1/steps, …, 1.

    The body velocity is `ξ = −A r' + R_gg⁻¹ Ad_gᵀ μ`, with the momentum μ constant in space. Gauss collocation
    of order 6 in exponential coordinates is used, for strokes that are smooth inside each of the equal steps. Without
    momentum this is `gd.path`.

    Args:
        body: a `gd.bundles.AbstractDeformableBody`.
        stroke: function t -> r[m], t from 0 to 1.
        momentum: μ [k] in space, at the frame in which the body starts: for rigid motions the linear momenta, then the
            angular ones about its origin; the unit of time is the period.
        steps: number of equal steps.

    Returns:
        The group elements, matrices [steps + 1, d, d].

    Raises:
        ValueError: for momenta of another size, unless steps ≥ 1, and for shapes that the body cannot have.

    Example:
        A skater with the angular momentum 1 who draws in the arms: the turn is ∫ μ/I dt.

        >>> class Skater(gd.bundles.AbstractDeformableBody):
        ...     group: gd.groups.SO2 = gd.groups.SO2()
        ...     def kinetic_energy(self, r, xi, rdot):
        ...         return (r[0] * xi[0] ** 2 + rdot[0] ** 2) / 2
        >>> draw_in = gd.strokes.OpenStroke([2.0], [1.0], [[0.0]])
        >>> end = gd.bundles.drifting_path(Skater(), draw_in, [1.0])[-1]
        >>> print(Skater().group.log(end).round(6), f"{np.log(2.0):.6f}")
        [0.693147] 0.693147

    Source:
        Munthe-Kaas, *Appl. Numer. Math.* 29 (1999) 115.
    """
    momentum = floating(momentum, "momentum")
    if momentum.shape != (body.group.dim,) or steps < 1:
        raise ValueError(
            f"drifting_path: momentum must have {body.group.dim} numbers and steps be at least 1, got shape"
            f" {momentum.shape} and {steps}."
        )
    return require_defined_along("drifting_path", body, stroke, _drifting_path(body, stroke, momentum, steps))


@jit
def _drifting_path(
    body: AbstractDeformableBody, stroke: Stroke, momentum: Float[Array, " k"], steps: Count
) -> Float[Array, "T d d"]:
    group = body.group

    def parts(t: Scalar) -> tuple[Float[Array, "k k"], Float[Array, " k"]]:
        """What belongs to the shape at a time: the inverse of the locked inertia, and `A r'`."""
        r, rdot = shape_and_rate(stroke, t)
        inverse, form, _ = inverse_and_reduction(body, r)
        return inverse, form @ rdot

    def velocity(part: tuple[Array, Array], g: Float[Array, "d d"]) -> Float[Array, " k"]:
        inverse, swum = part
        return inverse @ group.adjoint(g).T @ momentum - swum

    start = true_along(body, stroke, jnp.arange(4) / 4) * group.identity().astype(momentum.dtype)

    def follow(g: Float[Array, "d d"], i: Int[Array, ""]) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
        after = _collocation_step(group, parts, velocity, g, i / steps, 1 / steps)
        return after, after

    _, elements = jax.lax.scan(follow, start, jnp.arange(steps))
    return jnp.concatenate([start[None], elements])


def _collocation_step(
    group: AbstractLieGroup, parts: Callable, velocity: Callable, g: Float[Array, "d d"], t: Scalar, h: float
) -> Float[Array, "d d"]:
    """One step of `g' = g ξ` from g, with `ξ = velocity(parts(t), g)`: `g exp(u)` with `u' = dexp⁻¹ ξ`, by Gauss's
    method with three stages."""
    tableau = gauss(3)
    a, b, c = (jnp.asarray(x, g.dtype) for x in (tableau.a, tableau.b, tableau.c))

    known = jax.vmap(parts)(t + c * h)

    def stage(part: tuple[Array, Array], u: Float[Array, " k"]) -> Float[Array, " k"]:
        return _inverse_dexp(group, u, velocity(part, group.compose(g, group.exp(u))))

    slopes = jnp.zeros((3, group.dim), g.dtype)
    slopes = jax.lax.fori_loop(0, _ITERATIONS, lambda _, slopes: jax.vmap(stage)(known, h * a @ slopes), slopes)
    return group.compose(g, group.exp(h * b @ slopes))


def _inverse_dexp(group: AbstractLieGroup, u: Float[Array, " k"], xi: Float[Array, " k"]) -> Float[Array, " k"]:
    """The rate u' for which `exp u` has the body velocity ξ: `ad_u/(1 − exp(−ad_u)) ξ`, with an error of order 6 in
    ad_u."""
    once = group.bracket(u, xi)
    twice = group.bracket(u, once)
    return xi + once / 2 + twice / 12 - group.bracket(u, group.bracket(u, twice)) / 720
