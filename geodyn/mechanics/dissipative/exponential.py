"""Along one's own geodesic: exp and the velocity that is carried there, for points of a space and for any Lagrangian,
in the metric of its kinetic energy."""

from functools import singledispatch

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._compile.internals import is_constant
from geodyn._typing import Array
from geodyn.geometry.geodesics.geodesic import geodesic
from geodyn.geometry.manifold.manifold import AbstractManifold, christoffel
from geodyn.geometry.models.spaces import AbstractConstantCurvature
from geodyn.integrators.contract.system import AbstractLagrangianSystem
from geodyn.integrators.contract.tableau import rk4
from geodyn.mechanics.points.system import System


class KineticMetric(AbstractManifold):
    """∂²L/∂v², the metric in which a system without forces moves along geodesics."""

    system: AbstractLagrangianSystem
    t: Array
    dim: int = eqx.field(static=True)

    def metric(self, x):
        return jax.jacfwd(self.system.momentum, 2)(self.t, x, jnp.zeros_like(x))


@singledispatch
def travelled(system: AbstractLagrangianSystem, t, q, h, u, v=None):
    """(exp_q hu, the velocity v, by default u, carried along that geodesic)."""
    space = KineticMetric(system, t, q.size)
    if is_constant(space.metric, q):
        return q + h * u, u if v is None else v
    return _along(space, h, q, u, v)


@travelled.register
def _(system: System, t, q, h, u, v=None):
    points = [x.reshape(system.masses.size, system.space.dim) for x in ((q, u) if v is None else (q, u, v))]
    q, v = jax.vmap(lambda *x: _along(system.space, h, *x))(*points)
    return q.reshape(-1), v.reshape(-1)


def _along(space, h, x, u, v=None):
    """`travelled` of one point; one at rest stays where it is, bit for bit. What moves is parallel along its geodesic;
    what else is carried is so up to O(h²), as a Jacobi field."""

    def flow(u):
        return _flow(space, h, x, u)

    def exactly(value, known, where):
        return value + jax.lax.stop_gradient(jnp.where(where, known - value, 0))

    if v is None:
        end, carried = flow(u)
        return exactly(end, x, jnp.all(u == 0)), carried
    (end, along), (change, _) = jax.jvp(flow, (u,), (v - u,))
    return exactly(end, x, jnp.all(u == 0)), exactly(along + change / h, 0 * v, jnp.all(v == 0))


def _flow(space, h, x, u):
    """(exp_x hu, its velocity): in closed form where there is one, else by a step of Kutta's method, whose error h⁵ is
    beyond that of any step here, and whose derivatives cost little."""
    if isinstance(space, AbstractConstantCurvature):
        return jax.tree.map(lambda a: a[0], geodesic(space, x, u, h[None]))

    def rate(x, u):
        return (u, -jnp.einsum("kij,i,j", christoffel(space, x), u, u))

    kutta, slopes = rk4(), []
    for row in kutta.a:
        slopes.append(rate(*_moved(h, row, (x, u), slopes)))
    return _moved(h, kutta.b, (x, u), slopes)


def _moved(h, weights, start, slopes):
    """start + h Σ weight · slope."""
    return tuple(
        x + h * sum((w * s[i] for w, s in zip(weights, slopes) if w), jnp.zeros_like(x)) for i, x in enumerate(start)
    )
