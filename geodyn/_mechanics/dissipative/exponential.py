"""Geodesic steps: the exponential map, and a velocity transported along the geodesic; for points of a space, and for
any Lagrangian in the metric of its kinetic energy."""

from functools import singledispatch

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.internals import is_constant
from geodyn._foundations.typing import Array, Bool, Float, Scalar
from geodyn._geometry.geodesics.geodesic import geodesic
from geodyn._geometry.manifold.manifold import AbstractManifold, christoffel
from geodyn._geometry.models.spaces import AbstractConstantCurvature
from geodyn._integrators.contract.system import AbstractLagrangianSystem
from geodyn._integrators.contract.tableau import rk4
from geodyn._mechanics.points.system import System


class KineticMetric(AbstractManifold):
    """The mass matrix ∂²L/∂v², the metric in which a system without forces moves along geodesics."""

    system: AbstractLagrangianSystem
    t: Scalar
    dim: int = eqx.field(static=True)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        return jax.jacfwd(self.system.momentum, 2)(self.t, x, jnp.zeros_like(x))


@singledispatch
def exp_and_transport(
    system: AbstractLagrangianSystem,
    t: Scalar,
    q: Float[Array, " n"],
    h: Scalar,
    u: Float[Array, " n"],
    v: Float[Array, " n"] | None = None,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """(exp_q(hu), v transported along the geodesic from q with velocity u); by default v is u."""
    space = KineticMetric(system=system, t=t, dim=q.size)
    # In a constant metric geodesics are straight, and vectors stay as they are.
    if is_constant(space.metric, q):
        return q + h * u, u if v is None else v
    return _along(space, h, q, u, v)


@exp_and_transport.register
def _(
    system: System,
    t: Scalar,
    q: Float[Array, " n"],
    h: Scalar,
    u: Float[Array, " n"],
    v: Float[Array, " n"] | None = None,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    given = (q, u) if v is None else (q, u, v)
    points = [x.reshape(system.masses.size, system.space.dim) for x in given]
    q, v = jax.vmap(lambda *point: _along(system.space, h, *point))(*points)
    return q.reshape(-1), v.reshape(-1)


def _along(
    space: AbstractManifold,
    h: Scalar,
    x: Float[Array, " n"],
    u: Float[Array, " n"],
    v: Float[Array, " n"] | None = None,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """`exp_and_transport` for one point; a point at rest keeps its position to the last bit. The velocity u of the
    geodesic is transported parallel. Another v is transported as a Jacobi field, which is parallel up to O(h²)."""

    def flow(u: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        return _flow(space, h, x, u)

    def exactly(value: Float[Array, " n"], known: Float[Array, " n"], where: Bool[Array, ""]) -> Float[Array, " n"]:
        return value + jax.lax.stop_gradient(jnp.where(where, known - value, 0))

    if v is None:
        end, carried = flow(u)
        return exactly(end, x, jnp.all(u == 0)), carried
    (end, along), (change, _) = jax.jvp(flow, (u,), (v - u,))
    return exactly(end, x, jnp.all(u == 0)), exactly(along + change / h, 0 * v, jnp.all(v == 0))


def _flow(
    space: AbstractManifold, h: Scalar, x: Float[Array, " n"], u: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """(exp_x(hu), the velocity of the geodesic there): in closed form in constant curvature, else by one step of the
    classical Runge–Kutta method. Its error O(h⁵) is smaller than that of the steps that use it, which have order 1 or
    2, and it is cheap to differentiate."""
    if isinstance(space, AbstractConstantCurvature):
        return jax.tree.map(lambda a: a[0], geodesic(space, x, u, h[None]))

    def rate(x: Float[Array, " n"], u: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        return (u, -jnp.einsum("kij,i,j", christoffel(space, x), u, u))

    kutta = rk4()
    slopes = []
    for row in kutta.a:
        stage = _advance(h, row, (x, u), slopes)
        slopes.append(rate(*stage))
    return _advance(h, kutta.b, (x, u), slopes)


def _advance(
    h: Scalar,
    weights: np.ndarray,
    start: tuple[Float[Array, " n"], Float[Array, " n"]],
    slopes: list[tuple[Array, Array]],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """x + h Σ weight · slope, for both components of the state `start`."""
    x, u = start
    x_slope = jnp.zeros_like(x)
    u_slope = jnp.zeros_like(u)
    # In the first stages there are fewer slopes than weights.
    for weight, (dx, du) in zip(weights, slopes):
        if weight:
            x_slope = x_slope + weight * dx
            u_slope = u_slope + weight * du
    return x + h * x_slope, u + h * u_slope
