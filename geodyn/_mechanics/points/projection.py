"""Initial data projected onto the constraints."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit, traced_numbers
from geodyn._engine.native import native_of
from geodyn._engine.numerics.failure import nan_unless
from geodyn._engine.tracing import batched_as
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, Scalar
from geodyn._integrators.contract.constraints import constraint_state, dependent_rows, normals
from geodyn._integrators.contract.system import AbstractSystem, constraint_rate
from geodyn._mechanics.points.body import AbstractBody, constraint_names

MOST_ITERATIONS = 50


@checked
def project(
    system: AbstractSystem, q: Float[Array, "*shape"], v: Float[Array, "*shape"], t: Number = 0.0
) -> tuple[Array, Array]:
    """The nearest position and velocity that obey the constraints of a system, to start a motion from.

    The position is found by Newton steps that are orthogonal in the kinetic metric, the velocity by the orthogonal
    projection onto the velocities that all constraints admit, nonholonomic ones too.

    Args:
        system: a `System`, a `Lagrangian` or another system.
        q: a configuration near the constraints, [N, dim] of a `System`, [n] of a `Lagrangian`.
        v: a velocity, in the shape of q.
        t: the time, for constraints that depend on it.

    Returns:
        (q, v) on the constraints, in the same shapes; unchanged for a system without constraints. Inside of jit they
        are NaN where none were reached.

    Raises:
        ValueError: where none were reached: the constraints are redundant or contradict each other, or q is too far
            away.

    Example:
        On the unit circle the nearest point lies in the same direction from the centre.

        >>> pendulum = gd.Lagrangian(lambda q, v: v @ v / 2 - 9.81 * q[1], constraint=lambda q: (q @ q - 1) / 2)
        >>> q, v = gd.project(pendulum, [1.2, -0.9], [1.0, 1.0])
        >>> print(f"{q[0]:.6f} {q[1]:.6f} {abs(q @ v):.6f}")
        0.800000 -0.600000 0.000000

    Source:
        Hairer, Lubich & Wanner, *Geometric Numerical Integration*, VII.2.
    """
    system, q, v, t = traced_numbers((system, *(floats(*x) for x in (("q", q), ("v", v))), t))
    if q.shape != v.shape:
        raise ValueError(f"v must have the shape of q, {q.shape}; got {v.shape}")
    if q.size == 0:
        raise ValueError(f"q (or q0) must be a configuration, got shape {q.shape}")
    t = jnp.asarray(t, q.dtype)
    if system.count_constraints(q) == 0:
        return q, v
    flat_q, flat_v, reached, last = _project(system, q.reshape(-1), v.reshape(-1), t)
    if not isinstance(reached, Tracer) and not bool(reached):
        raise ValueError(
            "project reached no q and v on the constraints: they are redundant or contradict each other there, or q is "
            f"too far from them; {_obstacles(system, q.reshape(-1), last, t)}; q = {np.asarray(q).tolist()}"
        )
    return flat_q.reshape(q.shape), flat_v.reshape(v.shape)


@jit
def _project(
    system: AbstractSystem, q: Float[Array, " n"], v: Float[Array, " n"], t: Scalar
) -> tuple[Float[Array, " n"], Float[Array, " n"], Bool[Array, ""], Float[Array, " n"]]:
    """(q, v on the constraints, whether they were reached, where the search for q ended)."""
    return native_of(_search, system, q, v, t)


class Iterate(NamedTuple):
    """A configuration of Newton's method, and how far its last two steps went."""

    q: Float[Array, " n"]
    change: Scalar
    previous: Scalar


def _search(
    system: AbstractSystem, q: Float[Array, " n"], v: Float[Array, " n"], t: Scalar
) -> tuple[Float[Array, " n"], Float[Array, " n"], Bool[Array, ""], Float[Array, " n"]]:
    """What `_project` returns: the configuration by Newton's method, and then the velocity."""
    given = (system, q, v, t)
    size = 1 + jnp.max(jnp.abs(q))

    def newton_step(state: Iterate) -> Iterate:
        residual = system.constraint(t, state.q)
        holonomic = residual.size
        normal, gram = normals(system, t, state.q, v)
        multipliers = jnp.linalg.solve(gram[:holonomic, :holonomic], residual)
        dq = normal[:, :holonomic] @ multipliers
        return Iterate(state.q - dq, jnp.max(jnp.abs(dq)), state.change)

    def improve(state: Iterate, count: Int[Array, ""]) -> tuple[Iterate, None]:
        # It goes on as long as the steps become shorter fast; the first ones need not.
        going = (state.change > 0) & ((state.change < state.previous / 2) | (count < 4))
        return jax.lax.cond(going, newton_step, lambda same: same, state), None

    # A scan and not a while loop, through which JAX has no derivative in reverse mode.
    huge = jnp.asarray(jnp.inf, q.dtype)
    start = batched_as(given, Iterate(q, huge, huge))
    end, _ = jax.lax.scan(improve, start, jnp.arange(MOST_ITERATIONS))
    q = end.q
    normal, gram = normals(system, t, q, v)
    # The rate is affine in v: the second step takes away what rounding has left.
    v = v - normal @ jnp.linalg.solve(gram, constraint_rate(system, t, q, v))
    v = v - normal @ jnp.linalg.solve(gram, constraint_rate(system, t, q, v))
    small = jnp.finfo(q.dtype).eps ** 0.75
    slip = jnp.max(jnp.abs(constraint_rate(system, t, q, v)))
    kept = slip <= small * (1 + jnp.max(jnp.abs(v)))
    reached = (end.change <= small * size) & kept
    q_if_reached, v_if_reached = nan_unless(reached, (q, v), given)
    return q_if_reached, v_if_reached, reached, q


def _obstacles(system: AbstractSystem, first: Float[Array, " n"], last: Float[Array, " n"], t: Scalar) -> str:
    """For an error message: the constraints that are linearly dependent where the projection began or ended; if none
    are, those that are violated most where it ended."""
    for q in (first, last):
        residual, _, gram = map(np.asarray, constraint_state(system, q, jnp.zeros_like(q), t))
        if isinstance(system, AbstractBody):
            names = constraint_names(system)
        else:
            names = [f"φ[{i}]" for i in range(len(gram))]
        if np.all(np.isfinite(gram)) and (rows := dependent_rows(gram)):
            return f"dependent on each other are {', '.join(names[i] for i in rows)}"
    residual = np.nan_to_num(residual, nan=np.inf)
    violation = np.abs(residual)
    worst = np.flatnonzero(violation >= 0.1 * np.max(violation, initial=0.0))
    return "violated are " + ", ".join(f"{names[i]} (by {residual[i]:.3g})" for i in worst)
