"""Hamilton's principle between two configurations: paths of stationary action.

A path is a polynomial of degree s on each of `steps` intervals, its action a Gauss quadrature with s nodes. Where that
is stationary, the path is that of s-stage Gauss collocation, of order 2s (Marsden & West, *Acta Numerica* 10 (2001)
2.6; Hairer, Lubich & Wanner, VI.6.2). Newton's method solves for all its nodes at once, by block-tridiagonal
elimination, whose pivots have as many negative eigenvalues as the second variation: the Morse index.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._bands import Banded
from geodyn._jit import jit
from geodyn._typing import Array, Bool, Float, Int, Numbers, Scalar
from geodyn.integrators.system import AbstractSystem
from geodyn.integrators.tableau import gauss
from geodyn.mechanics.hamiltonian import Hamiltonian, check_conservative, legendre

MOST_ITERATIONS = 60


class ActionPath(eqx.Module):
    """A path of stationary action: t[T], q, v, p [T, …] at the ends of the steps, its `action`, and the polynomials'
    `nodes` [steps · stages + 1, …], for `discrete_action`.

    `index` is the number of directions in which the action falls, that of the conjugate points between the ends (Morse;
    Milnor, *Morse Theory*, 15): the action is least, among paths nearby, only where it is 0. `conjugate` says that the
    ends themselves are conjugate: then no path is stationary, or many are, and q is NaN; it is NaN too where Newton's
    method did not converge.
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


def discrete_action(system: AbstractSystem, path: Numbers, *, t1, t0=0.0, stages: int = 1) -> Scalar:
    """∫ L dt along a path through equally many nodes in equal intervals, path[K · stages + 1, …] from t0 to t1.

    By default a polygon with the midpoint rule, of order 2; with more `stages` the nodes of an interval are Lobatto's,
    the path between them a polynomial, and the order of the quadrature is 2 · stages. Raises ValueError for a system
    with constraints, dissipation or contacts, and for a number of nodes that does not fit.
    """
    lagrangian, path = _conservative(system), jnp.asarray(path, float)
    if path.shape[0] < 2 or (path.shape[0] - 1) % stages:
        raise ValueError(f"path must have K · stages + 1 nodes with stages={stages}, got {path.shape[0]}")
    flat, steps = path.reshape(path.shape[0], -1), (path.shape[0] - 1) // stages
    t0, t1 = jnp.asarray(t0, path.dtype), jnp.asarray(t1, path.dtype)
    return jnp.sum(_actions(lagrangian.lagrangian_at, flat[0], flat[1:].reshape(steps, stages, -1), t0, t1))


def least_action_path(
    system: AbstractSystem,
    q0: Numbers,
    q1: Numbers,
    *,
    t1,
    steps: int,
    t0=0.0,
    stages: int = 3,
    guess: Numbers | None = None,
) -> ActionPath:
    """The motion from q0 at t0 to q1 at t1, as the path of stationary action near a `guess` (path[steps · stages + 1,
    …], by default the straight segment): `integrate(system, q0, p0=path.p[0], …, method=Gauss(stages))` retraces it.

    Configurations are in the user's shapes. Of several motions, each is found from a guess near it; `.index` tells
    which is the least. Differentiable in both modes to every number in the system, the ends and the times. Any
    consistent units.

    Raises ValueError for arguments that do not fit, for a system with constraints, dissipation or contacts, and where
    no path was found, or the ends are conjugate (NaN inside of jit).
    """
    lagrangian = _conservative(system)
    q0, q1 = (jnp.asarray(q, float) for q in (q0, q1))
    if q1.shape != q0.shape:
        raise ValueError(f"q1 must have the shape of q0, {q0.shape}; got {q1.shape}")
    for name, count in (("steps", steps), ("stages", stages)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count <= 0:
            raise ValueError(f"{name} must be a positive whole number, got {count!r}")
    shape = (steps * stages + 1, *q0.shape)
    if guess is None:
        fraction = _fractions(steps, stages).reshape(-1, *[1] * q0.ndim)
        guess = (1 - fraction) * q0[None] + fraction * q1[None]
    guess = jnp.asarray(guess, float)
    if guess.shape != shape:
        raise ValueError(f"guess must have shape {shape} (steps · stages + 1 nodes), got {guess.shape}")
    times = (jnp.asarray(t, q0.dtype) for t in (t0, t1))
    path = _stationary(lagrangian, q0, q1, *times, guess, steps=steps, stages=stages)
    if not isinstance(path.q, jax.core.Tracer):
        _check_found(path)
    return path


def _conservative(system):
    system = legendre(system) if isinstance(system, Hamiltonian) else system
    check_conservative(system)
    return system


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


def _fractions(steps: int, stages: int) -> np.ndarray:
    """The times of all nodes, as fractions of the whole."""
    inner = (np.arange(steps)[:, None] + _basis(stages)[0][None, 1:]) / steps
    return np.concatenate([[0.0], inner.reshape(-1)])


@functools.cache
def _basis(stages: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lobatto's points on [0, 1], and at Gauss's nodes the polynomials that are 1 at one of them and 0 at the others,
    [node, point], with their derivatives."""
    inner = np.polynomial.legendre.Legendre.basis(stages).deriv().roots().real
    points = (np.concatenate([[-1.0], np.sort(inner), [1.0]]) + 1) / 2
    legendre = np.polynomial.legendre
    coefficients = np.linalg.inv(legendre.legvander(2 * points - 1, stages))
    at = 2 * np.asarray(gauss(stages).c) - 1
    slopes = np.stack([legendre.legval(at, legendre.legder(row)) for row in np.eye(stages + 1)], axis=1)
    return points, legendre.legvander(at, stages) @ coefficients, 2 * slopes @ coefficients


def _action(lagrangian, nodes, t, h):
    """∫ L dt over one interval, nodes[s + 1, n]."""
    stages = nodes.shape[0] - 1
    (values, slopes), tableau = (jnp.asarray(x, nodes.dtype) for x in _basis(stages)[1:]), gauss(stages)
    times, weights = t + h * jnp.asarray(tableau.c, nodes.dtype), jnp.asarray(tableau.b, nodes.dtype)
    return h * weights @ jax.vmap(lagrangian)(times, values @ nodes, slopes @ nodes / h)


def _intervals(q0, z):
    """The nodes of every interval [K, s + 1, n], from those that are not its first."""
    left = jnp.concatenate([q0[None], z[:-1, -1]])
    return jnp.concatenate([left[:, None], z], axis=1)


def _each(function, q0, z, t0, t1):
    """function(nodes, t, h) of every interval."""
    h = (t1 - t0) / z.shape[0]
    starts = t0 + h * jnp.arange(z.shape[0], dtype=z.dtype)
    return jax.vmap(lambda nodes, t: function(nodes, t, h))(_intervals(q0, z), starts)


def _actions(lagrangian, q0, z, t0, t1):
    return _each(lambda *at: _action(lagrangian, *at), q0, z, t0, t1)


def _slope(lagrangian, q0, z, t0, t1):
    """∂S/∂z, but for the last node, which is held."""
    slope = jax.grad(lambda z: jnp.sum(_actions(lagrangian, q0, z, t0, t1)))(z)
    return jnp.where(_held(z), 0, slope)


def _held(z):
    """The last node of the last interval."""
    last = (np.arange(z.shape[0])[:, None] == z.shape[0] - 1) & (np.arange(z.shape[1])[None, :] == z.shape[1] - 1)
    return jnp.broadcast_to(last[:, :, None], z.shape)


def _hessian(lagrangian, q0, z, t0, t1) -> Float[Array, "K 3 B B"]:
    """∂²S/∂z², each interval's unknowns a block: to the left, on and to the right of the diagonal."""
    size, n = z.shape[1] * z.shape[2], z.shape[2]
    local = _each(jax.hessian(lambda *at: _action(lagrangian, *at)), q0, z, t0, t1).reshape(-1, size + n, size + n)
    # On the unknowns of the interval before, whose last node is the first of this one, and its own.
    pair = jnp.pad(local, ((0, 1), (size - n, 0), (size - n, 0)))
    here, after = pair[:-1], pair[1:]
    blocks = [here[:, size:, :size], here[:, size:, size:] + after[:, :size, :size], after[:, :size, size:]]
    # What is held: equations of its own, of the size of the others.
    held = _held(z).reshape(-1, size)
    free, scale = jnp.where(held, 0, jnp.ones_like(z[0, 0, 0])), jnp.max(jnp.abs(blocks[1]))
    columns = [jnp.roll(free, 1, axis=0), free, jnp.roll(free, -1, axis=0)]
    blocks = [free[:, :, None] * block * column[:, None, :] for block, column in zip(blocks, columns, strict=True)]
    blocks[1] = blocks[1] + scale * jnp.eye(size, dtype=z.dtype)[None] * (1 - free)[:, None, :]
    return jnp.stack(blocks, axis=1)


def _form(z):
    size = z.shape[1] * z.shape[2]
    return Banded(np.arange(z.shape[0] * size).reshape(-1, size), z.size)


def _solved(factors, r):
    return _form(r).solved(factors, r.reshape(-1)).reshape(r.shape)


@eqx.filter_custom_jvp
def _nodes(lagrangian, q0, z, t0, t1):
    """The stationary z, from a guess, by Newton steps that are halved until they make the slope smaller; NaN where that
    does not converge."""
    eps = jnp.finfo(z.dtype).eps
    slope = lambda z: _slope(lagrangian, q0, z, t0, t1)  # noqa: E731

    def improve(state):
        z, part, _, count = state
        here = slope(z)
        change = -_solved(_form(z).factors(_hessian(lagrangian, q0, z, t0, t1)), here)
        done = jnp.max(jnp.abs(change)) <= eps**0.5 * jnp.max(jnp.abs(z))
        trial = z + part * change
        better = done | (jnp.sum(slope(trial) ** 2) < jnp.sum(here**2))
        return jnp.where(better, trial, z), jnp.where(better, 1.0, part / 2).astype(z.dtype), done, count + 1

    state = (z, jnp.ones((), z.dtype), jnp.zeros((), bool), 0)
    z, _, done, _ = jax.lax.while_loop(lambda s: ~s[2] & (s[3] < MOST_ITERATIONS), improve, state)
    return jnp.where(done, z, jnp.nan)


@_nodes.def_jvp
def _(primals, tangents):
    z, (lagrangian, q0, _, t0, t1) = _nodes(*primals), primals
    # The end that is held moves with the guess.
    held = jnp.zeros_like(z) if tangents[2] is None else jnp.where(_held(z), tangents[2], 0)
    slope = lambda lagrangian, q0, z, t0, t1: _slope(lagrangian, q0, z, t0, t1)  # noqa: E731
    moved = eqx.filter_jvp(slope, (lagrangian, q0, z, t0, t1), (*tangents[:2], held, *tangents[3:]))[1]
    push = jax.linearize(lambda z: _slope(lagrangian, q0, z, t0, t1), z)[1]
    hessian = lambda dz: jnp.where(_held(z), dz, push(jnp.where(_held(z), 0, dz)))  # noqa: E731
    factors = _form(z).factors(_hessian(lagrangian, q0, z, t0, t1))
    solve = lambda _, r: _solved(factors, r)  # noqa: E731
    return z, held - jax.lax.custom_linear_solve(hessian, moved, solve, symmetric=True)


@jit
def _stationary(system, q0, q1, t0, t1, guess, *, steps, stages) -> ActionPath:
    flat = guess.reshape(guess.shape[0], -1).at[-1].set(q1.reshape(-1))
    start, z = q0.reshape(-1), flat[1:].reshape(steps, stages, -1)
    # What the system closes over becomes an explicit argument, so that derivatives with respect to it exist as well.
    lagrangian = eqx.filter_closure_convert(system.lagrangian_at, t0, start, start)
    z = _nodes(lagrangian, start, z, t0, t1)
    pivots = _form(z).factors(_hessian(lagrangian, start, z, t0, t1))[:, 0]
    # These are inverses: between conjugate ends the last one is infinite.
    values = jnp.linalg.eigvalsh(jax.lax.stop_gradient(pivots + jnp.swapaxes(pivots, 1, 2)) / 2)
    last = jnp.max(jnp.abs(values[0])) / jnp.max(jnp.abs(values[-1]))
    slopes = _each(jax.grad(lambda *at: _action(lagrangian, *at)), start, z, t0, t1)
    p = jnp.concatenate([-slopes[:1, 0], slopes[:, -1]])
    q = jnp.concatenate([start[None], z[:, -1]])
    t = t0 + (t1 - t0) / steps * jnp.arange(steps + 1, dtype=q.dtype)
    v = jax.vmap(system.velocity)(t, q, p)
    shaped = lambda x: x.reshape(-1, *q0.shape)  # noqa: E731
    return ActionPath(
        *(t, shaped(q), shaped(v), shaped(p), shaped(jnp.concatenate([start[None], z.reshape(-1, start.size)]))),
        jnp.sum(_actions(lagrangian, start, z, t0, t1)),
        jnp.sum(values < 0),
        last < jnp.finfo(q.dtype).eps ** 0.4,
    )
