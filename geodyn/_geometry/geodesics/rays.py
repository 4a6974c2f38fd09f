"""The ends of geodesics that leave a point at an angle, with derivatives of any order that cost little.

A search for strokes asks for third derivatives of the end of a leg by its length and its angle. By the length the end
moves with its velocity, and that changes by the equation of a geodesic there: so only derivatives by the angle have to
be carried along the leg.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import change_of, custom_jvp
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.manifold.tensors import christoffel_at
from geodyn._geometry.manifold.ways import STEPS, follow

# The speed on a geodesic is constant, to this relative error.
SAME = 1e-10


class Fan(eqx.Module):
    """The geodesics from a point x [n] at all angles to the first of two `sides` [n, 2], in the plane of both."""

    x: Float[Array, " n"]
    sides: Float[Array, "n 2"]

    def velocity(self, angle: Scalar) -> Float[Array, " n"]:
        """That with which the geodesic at this angle begins."""
        return self.sides @ jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def end_of_ray(space: AbstractManifold, fan: Fan, length: Scalar, angle: Scalar) -> Float[Array, " n"]:
    """The point of the geodesic at this angle after the time `length`, which is its length where the sides are unit
    vectors; NaN where it is too long."""
    (arrived,) = _arrivals(space, fan, 0, length, angle)
    end, velocity = _parts(arrived)
    begin = fan.velocity(angle)
    square = begin @ space.metric(fan.x) @ begin
    after = velocity @ space.metric(end) @ velocity
    enough = max(SAME, 2**10 * float(jnp.finfo(end.dtype).eps))
    good = jnp.abs(after - square) <= enough * square
    return nan_unless(jnp.broadcast_to(good, end.shape), end, (space, fan, length, angle))


def _derivatives(
    space: AbstractManifold, fan: Fan, order: int, length: Scalar, angle: Scalar
) -> tuple[Float[Array, " y"], ...]:
    """The point and the velocity at the end, and their derivatives by the angle up to an order."""

    def arrived(angle: Scalar) -> Float[Array, " y"]:
        start = jnp.concatenate([fan.x, fan.velocity(angle)])
        return follow(lambda t: t, lambda _, state: length * _rate(space, state), start, STEPS)

    return _jet(arrived, order, angle)


_arrivals = custom_jvp(_derivatives)


@_arrivals.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    space, fan, order, length, angle = primals
    of_space, of_fan, _, of_length, of_angle = tangents
    derivatives = _arrivals(space, fan, order + 1, length, angle)
    states = derivatives[:-1]

    def near(change: Scalar) -> Float[Array, " y"]:
        """The state at the end for an angle that differs so much, to this order."""
        terms = [state * change**k / math.factorial(k) for k, state in enumerate(states)]
        return jnp.sum(jnp.stack(terms), 0)

    changes = tuple(map(jnp.zeros_like, states))
    if of_angle is not None:
        by_angle = derivatives[1:]
        changes = _sum(changes, by_angle, of_angle)
    if of_length is not None:
        by_length = _jet(lambda change: _rate(space, near(change)), order, jnp.zeros_like(angle))
        changes = _sum(changes, by_length, of_length)
    if any(leaf is not None for leaf in jax.tree.leaves((of_space, of_fan), is_leaf=lambda leaf: leaf is None)):

        def plain(space: AbstractManifold, fan: Fan) -> tuple[Float[Array, " y"], ...]:
            return _derivatives(space, fan, order, length, angle)

        _, besides = change_of(plain, (space, fan), (of_space, of_fan))
        changes = _sum(changes, besides, jnp.ones_like(angle))
    return states, changes


def _sum(
    values: tuple[Float[Array, " y"], ...], more: tuple[Float[Array, " y"], ...], factor: Scalar
) -> tuple[Float[Array, " y"], ...]:
    return tuple(value + factor * change for value, change in zip(values, more, strict=True))


def _jet(function: Callable[[Scalar], Array], order: int, x: Scalar) -> tuple[Array, ...]:
    """The value of a function of one number and its derivatives up to an order."""
    if order == 0:
        return (function(x),)
    known, changes = jax.jvp(lambda x: _jet(function, order - 1, x), (x,), (jnp.ones_like(x),))
    return (*known, changes[-1])


def _rate(space: AbstractManifold, state: Float[Array, " y"]) -> Float[Array, " y"]:
    """How the point and the velocity of a geodesic change."""
    x, velocity = _parts(state)
    turning = jnp.einsum("kij,i,j->k", christoffel_at(space, x), velocity, velocity)
    return jnp.concatenate([velocity, -turning])


def _parts(state: Float[Array, " y"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """(the point, the velocity) of a state."""
    n = state.size // 2
    return state[:n], state[n:]
