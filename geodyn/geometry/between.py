"""The geodesic between two points of any metric: the path that makes the energy ∫₀¹ ½ g(x', x') dt stationary.

The path is a polynomial, the integral Gauss' quadrature: the boundary-value form of one step of Gauss collocation
(Marsden & West, *Acta Numerica* 10 (2001); Hall & Leok, *Numer. Math.* 130 (2015)). So everything that is wanted is a
derivative of one number, the energy E(x, y) = ½ dist²: log_x y = −g⁻¹ ∂E/∂x (first variation), and its error is the
square of the path's. At a stationary path the first derivatives of E need no derivative of the path (envelope theorem);
those of the path, for second derivatives, come from the implicit-function theorem.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import jit
from geodyn._linalg import solve
from geodyn._typing import Array, Float, Scalar
from geodyn.geometry.manifold import AbstractManifold

ITERATIONS = 60
FEW_NODES = 12


@jit
def energy_between(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], nodes: int) -> Scalar:
    """½ dist² of two points, along the geodesic to which the chart's straight segment relaxes; smooth where x = y.

    NaN if no path is found, if it is no minimum (beyond a conjugate point), or if the last two modes of a polynomial
    path of degree `nodes` have more than √eps of its energy: then more than half of the digits of E could be wrong.
    """
    # What the metric closes over becomes an explicit argument, so that derivatives with respect to it exist as well.
    return _energy(eqx.filter_closure_convert(space.metric, x), x, y, nodes)


@functools.cache
def _basis(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss nodes t[q], weights w[q], and Legendre's polynomials P_k orthonormal on [0, 1] with their integrals from 0,
    k = 1 … nodes−1, as [q, k, (integral, P_k)]."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    P = np.polynomial.legendre.legvander(points, nodes)
    k = np.arange(1, nodes)
    integral = (P[:, 2:] - P[:, :-2]) / (2 * np.sqrt(2 * k + 1))
    return (points + 1) / 2, weights / 2, np.stack([integral, P[:, 1:-1] * np.sqrt(2 * k + 1)], axis=2)


def _nodal(x, y, modes):
    """The path x + t (y − x) + Σ_k modes_k ∫P_k and its velocity at the nodes, as [q, (position, velocity), n]."""
    t, _, basis = (jnp.asarray(array, x.dtype) for array in _basis(modes.shape[0] + 1))
    straight = jnp.stack(
        [x[None, :] + t[:, None] * (y - x)[None, :], jnp.broadcast_to(y - x, (t.size, x.size))], axis=1
    )
    return straight + jnp.einsum("qks,kn->qsn", basis, modes)


def _lagrangian(metric, z):
    return 0.5 * z[1] @ metric(z[0]) @ z[1]


def _action(metric, x, y, modes):
    """∫ ½ g(x', x') dt by quadrature."""
    weights = jnp.asarray(_basis(modes.shape[0] + 1)[1], x.dtype)
    return weights @ jax.vmap(lambda z: _lagrangian(metric, z))(_nodal(x, y, modes))


_slope = jax.grad(_action, 3)


def _hessians(metric, x, y, modes):
    """Second derivative of the action in the modes, and the part of it that is always positive (metric held fixed)."""
    _, weights, basis = (jnp.asarray(array, x.dtype) for array in _basis(modes.shape[0] + 1))
    at_nodes = jax.vmap(jax.hessian(lambda z: _lagrangian(metric, z)))(_nodal(x, y, modes))
    full = jnp.einsum("q,qks,qsitj,qlt->kilj", weights, basis, at_nodes, basis, optimize="optimal")
    velocity = basis[:, :, 1]
    fixed = jnp.einsum("q,qk,qij,ql->kilj", weights, velocity, at_nodes[:, 1, :, 1, :], velocity, optimize="optimal")
    return tuple(matrix.reshape(modes.size, modes.size) for matrix in (full, fixed))


def _solve_positive(a, b):
    """x with a x = b, by Cholesky's method: NaN where a is not positive definite."""
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a, symmetrize_input=False), True), b)


@eqx.filter_custom_jvp
def _modes(metric, x, y, nodes):
    """The stationary modes[k, n]: on few nodes where these resolve the path to rounding, else, from there, on all. NaN
    if that does not converge to a minimum, or does not resolve the path to half of the digits of its energy."""
    eps = jnp.finfo(x.dtype).eps
    modes, converged, resolved = jnp.zeros((0, x.size), x.dtype), jnp.zeros((), bool), jnp.zeros((), bool)
    for degree in (FEW_NODES, nodes) if nodes > FEW_NODES else (nodes,):
        start = jnp.where(converged, jnp.pad(modes, ((0, degree - 1 - modes.shape[0]), (0, 0))), 0)
        modes, converged, tail = _relaxed(metric, x, y, start, ~resolved)
        resolved = resolved | converged & (tail <= (eps**0.5 if degree == nodes else eps))
    return jnp.where(resolved, modes, jnp.nan)


def _relaxed(metric, x, y, start, active):
    """The modes to which `start` relaxes, by Newton's method; where the energy would grow, the metric is held fixed in
    part (Levenberg–Marquardt), which always descends. Also whether that converged, and the part of the energy that is
    in the last two modes, about the square of the path's error. `start` as it is where not active."""
    eps = jnp.finfo(x.dtype).eps

    def step(state):
        modes, energy, damping, count, _ = state
        slope = _slope(metric, x, y, modes).reshape(-1)
        full, fixed = _hessians(metric, x, y, modes)
        change = _solve_positive(full + damping * fixed, -slope)
        trial = modes + change.reshape(modes.shape)
        trial_energy = _action(metric, x, y, trial)
        expected = -slope @ change
        # Newton converges quadratically: from a path within eps^(5/8), the last step arrives at rounding.
        done = (damping == 0) & (jnp.abs(expected) <= eps**1.25 * energy)
        better = done | ((expected > 0) & (trial_energy <= energy * (1 + 16 * eps)))
        calmer = jnp.where(damping < 1e-2, 0.0, damping / 8)
        return (
            jnp.where(better, trial, modes),
            jnp.where(better, trial_energy, energy),
            jnp.where(better, calmer, jnp.maximum(4 * damping, 0.1)),
            count + 1,
            done,
        )

    state = (start, _action(metric, x, y, start), jnp.zeros((), x.dtype), 0, ~active)
    modes, energy, _, _, done = jax.lax.while_loop(lambda state: (state[3] < ITERATIONS) & ~state[4], step, state)
    _, weights, basis = (jnp.asarray(array, x.dtype) for array in _basis(modes.shape[0] + 1))
    ripple = jnp.stack([_nodal(x, y, modes)[:, 0], basis[:, -2:, 1] @ modes[-2:]], axis=1)
    tail = weights @ jax.vmap(lambda z: _lagrangian(metric, z))(ripple)
    return modes, done, tail / jnp.where(energy > 0, energy, 1.0)


@_modes.def_jvp
def _modes_jvp(primals, tangents):
    modes, point = _modes(*primals), primals[:3]
    change = eqx.filter_jvp(lambda *point: _slope(*point, modes), point, tangents[:3])[1]
    return modes, solve(_hessians(*point, modes)[0], -change.reshape(-1)).reshape(modes.shape)


@eqx.filter_custom_jvp
def _energy(metric, x, y, nodes):
    return _action(metric, x, y, _modes(metric, x, y, nodes))


@_energy.def_jvp
def _energy_jvp(primals, tangents):
    modes, point = _modes(*primals), primals[:3]
    return eqx.filter_jvp(lambda *point: _action(*point, modes), point, tangents[:3])
