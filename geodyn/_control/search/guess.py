"""PURPOSE: the starting point of a search for a stroke: the optimal small stroke, an ellipse."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.methods.method import AbstractStrokeMethod, Direct
from geodyn._engine.jit import for_one_run
from geodyn._engine.native import native_of
from geodyn._foundations.typing import Array, Bool, Float, Scalar
from geodyn._locomotion.connections.connection import AbstractInvariantMetric, curvature, reduction
from geodyn._locomotion.connections.force_balance import metric_of
from geodyn._locomotion.motion.costs import Costly, Density, energy
from geodyn._locomotion.motion.holonomy import cost
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, Stroke, breaks, floating


def locked_factor(swimmer: AbstractInvariantMetric, r: Float[Array, " m"]) -> Float[Array, "k k"]:
    """A factor L of the locked metric `Lᵀ L` on the Lie algebra at a shape; it makes translations and rotations
    comparable."""
    still = jnp.zeros_like(r)
    momentum = jax.grad(lambda xi: swimmer.quadratic_form(r, xi, still) / 2)
    metric = jax.vmap(momentum)(jnp.eye(swimmer.group.dim, dtype=r.dtype))
    return jnp.linalg.cholesky(metric).T


@for_one_run
def small_stroke(
    swimmer: Costly,
    centre: Float[Array, " m"],
    displacement: Float[Array, "..."],
    free: tuple[int, ...] = (),
) -> tuple[FourierStroke, Bool[Array, ""]]:
    """(the ellipse about a shape that has the displacement to leading order at least energy, whether there is one).

    With lengths measured by G and the curvature F along the displacement of largest singular value σ, the best small
    loop is a circle in the plane of that singular pair, of area |displacement|/σ and energy 4π |displacement|/σ.
    A body without a metric of shapes is replaced by one that has the mean of its dissipation as its metric. There is
    none if a symmetry forbids it or, for a displacement that is a vector, if the loop also moves the body in
    other directions than the `free` ones, by more than a third of the displacement. `displacement` is as in
    `optimal_stroke`. For two shape variables: Avron & Raz, *New J. Phys.* 10 (2008) 063016.
    """
    swimmer = metric_of(swimmer)
    form, metric = native_of(reduction, swimmer, centre)
    field = curvature(swimmer, centre)
    unit = jnp.linalg.inv(jnp.linalg.cholesky(metric)).T
    flux = jnp.einsum("ip,aij,jq->apq", unit, field, unit)
    if displacement.ndim:
        size = jnp.linalg.norm(displacement)
        direction = displacement / size
    else:
        # The translation along which the curvature is largest.
        size = jnp.abs(displacement)
        moves = max(swimmer.group.translations, 1)
        direction = jnp.linalg.svd(flux[:moves].reshape(moves, -1), full_matrices=False)[0][:, 0]
        direction = jnp.concatenate([direction, jnp.zeros(swimmer.group.dim - moves)])
        direction = jnp.sign(displacement) * (jnp.abs(direction) if moves == 1 else direction)
    u, sigma, vt = jnp.linalg.svd(jnp.einsum("a,aij->ij", direction, flux))
    radius = jnp.sqrt(size / (jnp.pi * sigma[0]))
    # If a symmetry forbids the displacement, the curvature along it is rounding error: compare it with the form.
    rounding = jnp.sqrt(jnp.finfo(field.dtype).eps) * jnp.max(jnp.abs(form))
    scale = jnp.maximum(jnp.max(jnp.abs(direction @ form)), rounding)
    along = jnp.tensordot(direction, field, 1)
    exists = jnp.max(jnp.abs(along)) > 1e-6 * scale
    if displacement.ndim:
        reached = size / sigma[0] * jnp.einsum("p,apq,q->a", u[:, 0], flux, vt[0])
        astray = reached - displacement
        astray = astray.at[np.array(free, int)].set(0.0)
        metric = locked_factor(swimmer, centre)
        exists = exists & (jnp.linalg.norm(metric @ astray) < jnp.linalg.norm(metric @ displacement) / 3)
    return FourierStroke(centre, radius * unit @ u[:, :1], -radius * unit @ vt[:1].T), exists


@for_one_run
def unknowns(
    swimmer: Costly,
    start: Stroke,
    base: Float[Array, " m"] | None,
    target: Float[Array, "..."],
    method: AbstractStrokeMethod,
    end: Float[Array, " m"] | None = None,
    density: Density = energy,
) -> tuple[Any, Scalar]:
    """The unknowns of `StrokeProblem` for a first stroke, and its cost."""
    size = cost(swimmer, start, density=density, steps=method.steps)
    if isinstance(method, Direct) and method.corners is not None:
        return sequence_of(start, int(method.corners), int(method.harmonics)), size
    if base is None and (target.ndim == 0 or swimmer.group.is_commutative):
        return FourierStroke.fit(start, method.harmonics), size
    if end is not None:
        base = cast(Array, base)  # A stroke with an end has a beginning.

        def bent(t: Scalar) -> Float[Array, " m"]:
            return start(t) - (base + (end - base) * t)

        return LegendreStroke.fit(bent, jnp.zeros_like(base), 2 * method.harmonics).coefficients, size
    stroke = LegendreStroke.fit(start, start(floating(0.0)), 2 * method.harmonics)
    return stroke if base is None else stroke.coefficients, size


def sequence_of(start: Stroke, corners: int, harmonics: int) -> SequenceStroke:
    """A closed stroke in as many pieces as it shall have corners, each in the same time. If the stroke has so many
    corners, they are the knots."""
    begin = breaks(start)
    own = begin.size == corners
    begin = jnp.sort(begin) if own else jnp.arange(corners) / corners
    ends = jnp.append(begin, 1 + begin[0])

    def evenly(t: Scalar) -> Float[Array, " m"]:
        time = jnp.interp(t, jnp.arange(corners + 1) / corners, ends)
        return start(jnp.where(time >= 1, time - 1, time))

    return SequenceStroke.fit(evenly, corners, max(2, 2 * harmonics // corners))
