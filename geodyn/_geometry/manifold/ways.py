"""Smooth equations along a way in a space, from its begin at t = 0 to its end at t = 1.

Not by `gd.integrate`: an equation that never is stiff needs no Newton's method, whose program for the 21 numbers of a
frame takes three seconds to compile and a hundredth of that to run.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, Count, Float, Int
from geodyn._integrators.contract.tableau import gauss

# The stages of a step are iterated so often: they are exact to rounding where the error of the step is that small.
STAGES = 6
TURNS = 16
# Steps on the way of a frame or of a geodesic, whose length is known to be right by what stays constant on it.
STEPS = 12


def follow(
    known: Callable, rate: Callable, y: Float[Array, "..."], steps: Count | Int[Array, ""]
) -> Float[Array, "..."]:
    """y(1) of y' = rate(known(t), y), by Gauss collocation of order 12 in this number of steps; what is `known` at a
    time is computed once. It has derivatives in reverse mode if the number is no array."""
    tableau = gauss(STAGES)
    a = jnp.asarray(tableau.a, y.dtype)
    b = jnp.asarray(tableau.b, y.dtype)
    c = jnp.asarray(tableau.c, y.dtype)
    h = 1 / jnp.asarray(steps, y.dtype)

    def step(i: Array, y: Float[Array, "..."]) -> Float[Array, "..."]:
        there = native_rows(known, h * (jnp.asarray(i, y.dtype) + c))

        def improve(_: Any, slopes: Float[Array, "6 ..."]) -> Float[Array, "6 ..."]:
            stages = y[None] + h * jnp.tensordot(a, slopes, 1)
            return jax.vmap(rate)(there, stages)

        zeros = jnp.zeros((STAGES, *y.shape), y.dtype)
        slopes = jax.lax.fori_loop(0, TURNS, improve, zeros)
        return y + h * jnp.tensordot(b, slopes, 1)

    return jax.lax.fori_loop(0, steps, step, y)
