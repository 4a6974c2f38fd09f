"""The action of a path that is a polynomial of degree s on each of K intervals, by Gauss's quadrature with s nodes.

Source: Marsden & West, *Acta Numerica* 10 (2001) 2.6; Hairer, Lubich & Wanner, VI.6.2.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Numbers, PyTree, Scalar, Stages
from geodyn._integrators.contract.system import AbstractLagrangianSystem, AbstractSystem
from geodyn._integrators.contract.tableau import gauss
from geodyn._mechanics.hamiltonian.hamiltonian import Hamiltonian, check_conservative
from geodyn._mechanics.hamiltonian.hamiltonian import legendre as legendre_transform


@checked
def discrete_action(
    system: AbstractSystem, path: Numbers, *, t1: Number, t0: Number = 0.0, stages: Stages = 1
) -> Scalar:
    """The action ∫ L dt of a path that is given by its nodes at equal intervals of time.

    By default the path is a polygon, with the midpoint rule, of order 2. With more `stages` the nodes of an interval
    are Lobatto's, the path between them is a polynomial, and the quadrature has the order 2 · stages. Differentiable
    with respect to the path, the times and the numbers in the system.

    Args:
        system: a `gd.Lagrangian`, `gd.System` or `gd.hamilton.Hamiltonian`.
        path: [K · stages + 1, …], configurations.
        t1: time at its end.
        t0: time at its start.
        stages: degree of the polynomials.

    Returns:
        The action, a number.

    Raises:
        ValueError: for a system with constraints, dissipation or contacts, and for a number of nodes that does not fit.

    Example:
        A free particle that goes from 0 to 1 in the time 1 at constant speed has the action 1/2, any other way more.

        >>> free, t = gd.Lagrangian(lambda q, v: v @ v / 2), jnp.linspace(0.0, 1.0, 101)[:, None]
        >>> print([f"{gd.hamilton.discrete_action(free, path, t1=1.0):.4f}" for path in (t, t**2)])
        ['0.5000', '0.6666']

    Source:
        Marsden & West, *Acta Numerica* 10 (2001) 2.6; Hairer, Lubich & Wanner, *Geometric Numerical Integration*
        (2006), VI.6.2.
    """
    lagrangian = conservative(system).lagrangian_at
    path = jnp.asarray(path, float)
    count = path.shape[0]
    if count < 2 or (count - 1) % stages:
        raise ValueError(f"path must have K · stages + 1 nodes with stages={stages}, got {count}")
    steps = (count - 1) // stages
    nodes = path.reshape(count, -1)
    of_each_interval = nodes[1:].reshape(steps, stages, -1)
    start_time = jnp.asarray(t0, path.dtype)
    end_time = jnp.asarray(t1, path.dtype)
    return jnp.sum(actions(lagrangian, nodes[0], of_each_interval, start_time, end_time))


def conservative(system: AbstractSystem) -> AbstractLagrangianSystem:
    """The system as a Lagrangian system without constraints and dissipation; else ValueError. A `Hamiltonian` is
    Legendre-transformed."""
    if isinstance(system, Hamiltonian):
        system = legendre_transform(system)
    check_conservative(system)
    return cast(AbstractLagrangianSystem, system)


def fractions(steps: int, stages: int) -> np.ndarray:
    """The times of all nodes, as fractions of the whole interval of time."""
    starts = np.arange(steps)[:, None]
    within = _basis(stages).points[None, 1:]
    inner = (starts + within) / steps
    return np.concatenate([[0.0], inner.reshape(-1)])


class Basis(NamedTuple):
    """Lobatto's points on [0, 1], and the values and the derivatives of their Lagrange polynomials at Gauss's nodes,
    both [node, point]."""

    points: Float[np.ndarray, " S"]
    values: Float[np.ndarray, "s S"]
    slopes: Float[np.ndarray, "s S"]


@functools.cache
def _basis(stages: int) -> Basis:
    # Lobatto's inner points are where the derivative of the Legendre polynomial vanishes.
    inner = legendre.Legendre.basis(stages).deriv().roots().real
    points = np.concatenate([[-1.0], np.sort(inner), [1.0]])
    # From [0, 1], where times are fractions of an interval, to [−1, 1], where the polynomials are defined, and back.
    points = (points + 1) / 2
    at = 2 * np.asarray(gauss(stages).c) - 1
    # The coefficients of the Lagrange polynomials in Legendre's.
    coefficients = np.linalg.inv(legendre.legvander(2 * points - 1, stages))
    slopes = []
    for unit in np.eye(stages + 1):
        slopes.append(legendre.legval(at, legendre.legder(unit)))
    values = legendre.legvander(at, stages)
    return Basis(points, values @ coefficients, 2 * np.stack(slopes, axis=1) @ coefficients)


def interval_action(lagrangian: Callable, nodes: Float[Array, "S n"], t: Scalar, h: Scalar) -> Scalar:
    """∫ L dt over one interval of length h from time t, along the polynomial through nodes[s + 1, n]."""
    stages = nodes.shape[0] - 1
    basis = _basis(stages)
    tableau = gauss(stages)
    values = jnp.asarray(basis.values, nodes.dtype)
    slopes = jnp.asarray(basis.slopes, nodes.dtype)
    times = t + h * jnp.asarray(tableau.c, nodes.dtype)
    weights = jnp.asarray(tableau.b, nodes.dtype)
    positions = values @ nodes
    velocities = slopes @ nodes / h
    return h * weights @ jax.vmap(lagrangian)(times, positions, velocities)


def _intervals(q0: Float[Array, " n"], z: Float[Array, "K s n"]) -> Float[Array, "K S n"]:
    """The nodes of every interval [K, s + 1, n], from z[K, s, n], its nodes without the first, and the start q0."""
    # The first node of an interval is the last one of the interval before.
    first = jnp.concatenate([q0[None], z[:-1, -1]])
    return jnp.concatenate([first[:, None], z], axis=1)


def of_intervals(
    function: Callable, q0: Float[Array, " n"], z: Float[Array, "K s n"], t0: Scalar, t1: Scalar
) -> PyTree:
    """function(nodes, t, h) for every interval."""
    steps = z.shape[0]
    h = (t1 - t0) / steps
    starts = t0 + h * jnp.arange(steps, dtype=z.dtype)
    return jax.vmap(lambda nodes, t: function(nodes, t, h))(_intervals(q0, z), starts)


def actions(
    lagrangian: Callable, q0: Float[Array, " n"], z: Float[Array, "K s n"], t0: Scalar, t1: Scalar
) -> Float[Array, " K"]:
    """∫ L dt over every interval."""

    def action(nodes: Float[Array, "S n"], t: Scalar, h: Scalar) -> Scalar:
        return interval_action(lagrangian, nodes, t, h)

    return of_intervals(action, q0, z, t0, t1)
