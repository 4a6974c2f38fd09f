"""Hamilton's principle between two configurations: paths of stationary action.

A path is a polynomial of degree s on each of `steps` intervals, and its action is computed by Gauss quadrature with s
nodes. The path of stationary action is that of s-stage Gauss collocation, of order 2s (Marsden & West, *Acta Numerica*
10 (2001) 2.6; Hairer, Lubich & Wanner, VI.6.2). Newton's method solves for all nodes of the path at once, by
block-tridiagonal elimination. The number of negative eigenvalues of the pivots is that of the second variation of the
action: the Morse index.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import change_of, custom_jvp, jit, static_count
from geodyn._engine.numerics.bands import Banded
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Number, Numbers, Scalar, Stages
from geodyn._integrators.contract.system import AbstractLagrangianSystem, AbstractSystem
from geodyn._mechanics.hamiltonian.action import actions, conservative, fractions, interval_action, of_intervals

MOST_ITERATIONS = 60


class Descent(NamedTuple):
    """The state of Newton's method: the nodes `z`, the `part` of the next step that is taken, whether the last step was
    so small that the search is `done`, and the number of `turns`."""

    z: Float[Array, "K s n"]
    part: Scalar
    done: Bool[Array, ""]
    turns: Int[Array, ""]


class ActionPath(eqx.Module):
    """A path of stationary action between two configurations; the result of `gd.hamilton.least_action_path`.

    Its property `is_least` says whether the action is a minimum among the paths nearby: where the index is 0. Where
    Newton's method did not converge, or the ends are conjugate, q is NaN.

    Args:
        t: times [T] at the ends of the steps.
        q: configurations [T, …].
        v: velocities [T, …].
        p: momenta [T, …].
        nodes: [steps · stages + 1, …] of the polynomials, for `gd.hamilton.discrete_action`.
        action: its action, a number.
        index: number of directions in which the action falls: the number of conjugate points between the ends (Morse).
        conjugate: whether the ends themselves are conjugate, where no path is stationary, or many are.

    Example:
        An oscillator from 0 to 1: until half of the period, π, the action of the motion is the least, then not any
        more.

        >>> oscillator = gd.Lagrangian(lambda q, v: (v @ v - q @ q) / 2)
        >>> for t1 in (2.0, 4.0):
        ...     path = gd.hamilton.least_action_path(oscillator, [0.0], [1.0], t1=t1, steps=8)
        ...     print(f"{path.action:.6f} {0.5 / np.tan(t1):.6f}", path.index, path.is_least)
        -0.228829 -0.228829 0 True
        0.431846 0.431846 1 False

    Source:
        Milnor, *Morse Theory*, 15.
    """

    t: Float[Array, " T"]
    q: Float[Array, "T ..."]
    v: Float[Array, "T ..."]
    p: Float[Array, "T ..."]
    nodes: Float[Array, "M ..."]
    action: Scalar
    index: Int[Array, ""]
    conjugate: Bool[Array, ""]

    @property
    def is_least(self) -> Bool[Array, ""]:
        """Whether the action is a minimum among the paths nearby."""
        return self.index == 0


@checked
def least_action_path(
    system: AbstractSystem,
    q0: Float[Array, "*shape"],
    q1: Float[Array, "*shape"],
    *,
    t1: Number,
    steps: Count,
    t0: Number = 0.0,
    stages: Stages = 3,
    guess: Numbers | None = None,
) -> ActionPath:
    """The motion from one configuration to another in a given time, as a path of stationary action.

    The path is a polynomial on each step, that of Gauss collocation with so many stages, of order 2 · stages:
    `gd.integrate(system, q0, p0=path.p[0], …, method=gd.Gauss(stages))` retraces it. Of several motions, each is
    found from a guess near it; `index` of the result tells which is the least. Differentiable in both modes with
    respect to every number in the system, the ends and the times. Any consistent units.

    Args:
        system: a `gd.Lagrangian`, `gd.System` or `gd.hamilton.Hamiltonian`.
        q0: configuration at t0.
        q1: configuration at t1, in the shape of q0.
        t1: time at the end.
        steps: number of steps.
        t0: time at the start.
        stages: degree of the polynomials.
        guess: path [steps · stages + 1, …] near the motion; None: the straight segment.

    Returns:
        ActionPath.

    Raises:
        ValueError: for arguments that do not fit, for a system with constraints, dissipation or contacts, and where no
            path is found or the ends are conjugate (inside jit they are NaN).

    Example:
        A stone thrown to come back to the ground after the time 2 starts with the speed g.

        >>> stone = gd.Lagrangian(lambda q, v: v @ v / 2 - 9.81 * q[0])
        >>> path = gd.hamilton.least_action_path(stone, [0.0], [0.0], t1=2.0, steps=4)
        >>> print(path.v[0].round(6), path.q[2].round(6))
        [9.81] [4.905]

    Source:
        Marsden & West, *Acta Numerica* 10 (2001) 2.6.
    """
    lagrangian = conservative(system)
    q0 = floats("q0", q0)
    q1 = floats("q1", q1)
    if q1.shape != q0.shape:
        raise ValueError(f"q1 must have the shape of q0, {q0.shape}; got {q1.shape}")
    steps = static_count("steps", steps)
    stages = static_count("stages", stages)
    shape = (steps * stages + 1, *q0.shape)
    if guess is None:
        fraction = fractions(steps, stages).reshape(-1, *[1] * q0.ndim)
        guess = (1 - fraction) * q0[None] + fraction * q1[None]
    guess = jnp.asarray(guess, float)
    if guess.shape != shape:
        raise ValueError(f"guess must have shape {shape} (steps · stages + 1 nodes), got {guess.shape}")
    start_time = jnp.asarray(t0, q0.dtype)
    end_time = jnp.asarray(t1, q0.dtype)
    path = _stationary(lagrangian, q0, q1, start_time, end_time, guess, steps=steps, stages=stages)
    if not isinstance(path.q, Tracer):
        _check_found(path)
    return path


def _check_found(path: ActionPath) -> None:
    if bool(path.conjugate):
        raise ValueError(
            f"q0 and q1 are conjugate at t1={float(path.t[-1]):.6g} (or nearly so): motions from q0 meet again there, "
            "so that no path, or a family of them, has stationary action. Choose another t1"
        )
    if not np.all(np.isfinite(path.nodes)):
        raise ValueError(
            "no path of stationary action was found from this guess: give guess=, a path nearer to the motion wanted, "
            "or take a t1 nearer to t0, or more steps"
        )


def _slope(
    lagrangian: Callable, q0: Float[Array, " n"], z: Float[Array, "K s n"], t0: Scalar, t1: Scalar
) -> Float[Array, "K s n"]:
    """∂S/∂z, with zeros for the last node, which is fixed."""
    slope = jax.grad(lambda z: jnp.sum(actions(lagrangian, q0, z, t0, t1)))(z)
    return jnp.where(_held(z), 0, slope)


def _held(z: Float[Array, "K s n"]) -> Bool[Array, "K s n"]:
    """The mask of the fixed node: True at the last node of the last interval."""
    intervals, stages, _ = z.shape
    last = np.zeros((intervals, stages), bool)
    last[-1, -1] = True
    return jnp.broadcast_to(last[:, :, None], z.shape)


def _hessian(
    lagrangian: Callable, q0: Float[Array, " n"], z: Float[Array, "K s n"], t0: Scalar, t1: Scalar
) -> Float[Array, "K 3 B B"]:
    """∂²S/∂z² as a block-tridiagonal matrix, with one row of blocks for each interval: the blocks to the left of the
    diagonal, on it, and to the right of it."""
    n = z.shape[2]
    size = z.shape[1] * n

    def action(nodes: Float[Array, "S n"], t: Scalar, h: Scalar) -> Scalar:
        return interval_action(lagrangian, nodes, t, h)

    local = of_intervals(jax.hessian(action), q0, z, t0, t1).reshape(-1, size + n, size + n)
    # The first node of an interval is the last one of the interval before. So each Hessian is padded with zeros to one
    # on the unknowns of both intervals. After that of the last interval comes one of zeros.
    pair = jnp.pad(local, ((0, 1), (size - n, 0), (size - n, 0)))
    here = pair[:-1]
    after = pair[1:]
    left = here[:, size:, :size]
    middle = here[:, size:, size:] + after[:, :size, :size]
    right = after[:, :size, size:]
    # The fixed node is decoupled: its rows become those of the identity, scaled to the size of the other blocks.
    held = _held(z).reshape(-1, size)
    free = jnp.where(held, 0, jnp.ones_like(z[0, 0, 0]))
    scale = jnp.max(jnp.abs(middle))
    identity = jnp.eye(size, dtype=z.dtype)[None] * (1 - free)[:, None, :]
    # The columns of the left and of the right block are the unknowns of the interval before and of the one after.
    left = free[:, :, None] * left * jnp.roll(free, 1, axis=0)[:, None, :]
    middle = free[:, :, None] * middle * free[:, None, :] + scale * identity
    right = free[:, :, None] * right * jnp.roll(free, -1, axis=0)[:, None, :]
    return jnp.stack([left, middle, right], axis=1)


def _form(z: Float[Array, "K s n"]) -> Banded:
    """The form of the second derivative: one block for each interval."""
    columns = np.arange(z.size).reshape(z.shape[0], -1)
    return Banded(columns, z.size)


def _solve_blocks(factors: Float[Array, "K 3 B B"], r: Float[Array, "K s n"]) -> Float[Array, "K s n"]:
    """The nodes whose image under the matrix of these factors is r."""
    return _form(r).solve(factors, r.reshape(-1)).reshape(r.shape)


@custom_jvp
def _nodes(
    lagrangian: Callable, q0: Float[Array, " n"], z: Float[Array, "K s n"], t0: Scalar, t1: Scalar
) -> Float[Array, "K s n"]:
    """The z at which the action is stationary, by Newton's method from the guess z, with steps that are halved until
    |∂S/∂z| decreases; NaN if it does not converge."""
    eps = jnp.finfo(z.dtype).eps

    def slope(z: Float[Array, "K s n"]) -> Float[Array, "K s n"]:
        return _slope(lagrangian, q0, z, t0, t1)

    def improve(state: Descent) -> Descent:
        z = state.z
        here = slope(z)
        factors = _form(z).factors(_hessian(lagrangian, q0, z, t0, t1))
        change = -_solve_blocks(factors, here)
        done = jnp.max(jnp.abs(change)) <= eps**0.5 * jnp.max(jnp.abs(z))
        trial = z + state.part * change
        # The last step is taken as it is. Newton's method converges quadratically: after a step of the relative size
        # √eps the slope is only rounding error, and need not fall.
        better = done | (jnp.sum(slope(trial) ** 2) < jnp.sum(here**2))
        part = jnp.asarray(jnp.where(better, 1.0, state.part / 2), z.dtype)
        return Descent(jnp.where(better, trial, z), part, done, state.turns + 1)

    def proceed(state: Descent) -> Bool[Array, ""]:
        return ~state.done & (state.turns < MOST_ITERATIONS)

    begin = Descent(z, jnp.ones((), z.dtype), jnp.zeros((), bool), jnp.asarray(0))
    end = jax.lax.while_loop(proceed, improve, begin)
    return jnp.where(end.done, end.z, jnp.nan)


@_nodes.def_jvp
def _(primals: tuple, tangents: tuple) -> tuple[Float[Array, "K s n"], Float[Array, "K s n"]]:
    z = _nodes(*primals)
    lagrangian, q0, _, t0, t1 = primals
    # The fixed node is taken from the guess, so that its tangent is that of the guess.
    held = jnp.zeros_like(z) if tangents[2] is None else jnp.where(_held(z), tangents[2], 0)

    def slope(
        lagrangian: Callable, q0: Float[Array, " n"], z: Float[Array, "K s n"], t0: Scalar, t1: Scalar
    ) -> Float[Array, "K s n"]:
        return _slope(lagrangian, q0, z, t0, t1)

    around = (lagrangian, q0, z, t0, t1)
    changes = (*tangents[:2], held, *tangents[3:])
    _, moved = change_of(slope, around, changes)
    push = jax.linearize(lambda z: _slope(lagrangian, q0, z, t0, t1), z)[1]

    def hessian(dz: Float[Array, "K s n"]) -> Float[Array, "K s n"]:
        return jnp.where(_held(z), dz, push(jnp.where(_held(z), 0, dz)))

    factors = _form(z).factors(_hessian(lagrangian, q0, z, t0, t1))

    def solve(_: Callable, r: Float[Array, "K s n"]) -> Float[Array, "K s n"]:
        return _solve_blocks(factors, r)

    return z, held - jax.lax.custom_linear_solve(hessian, moved, solve, symmetric=True)


@jit
def _stationary(
    system: AbstractLagrangianSystem,
    q0: Float[Array, "*shape"],
    q1: Float[Array, "*shape"],
    t0: Scalar,
    t1: Scalar,
    guess: Float[Array, "M ..."],
    *,
    steps: int,
    stages: int,
) -> ActionPath:
    """The path near `guess`; NaN where none was found."""
    flat = guess.reshape(guess.shape[0], -1).at[-1].set(q1.reshape(-1))
    start = q0.reshape(-1)
    z = flat[1:].reshape(steps, stages, -1)
    # Arrays that the Lagrangian closes over become explicit arguments, so that derivatives with respect to them exist.
    lagrangian = eqx.filter_closure_convert(system.lagrangian_at, t0, start, start)
    z = _nodes(lagrangian, start, z, t0, t1)
    hessian = jax.lax.stop_gradient(_hessian(lagrangian, start, z, t0, t1))
    # If the ends are conjugate points, the last pivot is singular and its inverse infinite.
    inverses = _form(z).factors(hessian)[:, 0]
    # The eigenvalues of the inverse pivots, which have the signs of those of the pivots.
    values = jnp.linalg.eigvalsh((inverses + jnp.swapaxes(inverses, 1, 2)) / 2)
    # The size of the smallest eigenvalue of the last pivot, relative to that of the first pivot.
    last_to_first = jnp.max(jnp.abs(values[0])) / jnp.max(jnp.abs(values[-1]))
    # At this distance from conjugate ends rounding leaves an error of eps over it, so that eps**0.6 is the worst that
    # is let pass: nine digits in double precision, four in single. (Measured for an oscillator: 3e-10 at 1e-6.)
    conjugate = last_to_first < jnp.finfo(z.dtype).eps ** 0.4
    found = ~conjugate & jnp.all(jnp.isfinite(z))
    z = nan_unless(found, z, (lagrangian, start, flat[-1], t0, t1))

    def action(nodes: Float[Array, "S n"], t: Scalar, h: Scalar) -> Scalar:
        return interval_action(lagrangian, nodes, t, h)

    # The momenta at the ends of an interval are the slopes of its action there.
    slopes = of_intervals(jax.grad(action), start, z, t0, t1)
    p = jnp.concatenate([-slopes[:1, 0], slopes[:, -1]])
    q = jnp.concatenate([start[None], z[:, -1]])
    t = t0 + (t1 - t0) / steps * jnp.arange(steps + 1, dtype=q.dtype)
    v = jax.vmap(system.velocity)(t, q, p)
    nodes = jnp.concatenate([start[None], z.reshape(-1, start.size)])

    def in_shape(x: Float[Array, "M n"]) -> Float[Array, "M ..."]:
        return x.reshape(-1, *q0.shape)

    return ActionPath(
        t=t,
        q=in_shape(q),
        v=in_shape(v),
        p=in_shape(p),
        nodes=in_shape(nodes),
        action=jnp.sum(actions(lagrangian, start, z, t0, t1)),
        index=jnp.sum(values < 0),
        conjugate=conjugate,
    )
