"""MOTION: polynomials of the shape in a box, as sums of products of Chebyshev polynomials of each variable."""

from functools import reduce
from itertools import product

import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Float


def exponents(degree: int, m: int) -> tuple[tuple[int, ...], ...]:
    """The degrees in m variables of all products of total degree ≤ `degree`, those of lower total degree first."""
    powers = product(range(degree + 1), repeat=m)
    wanted = [power for power in powers if sum(power) <= degree]
    return tuple(sorted(wanted, key=sum))


def chebyshev(
    lower: Float[Array, " m"], upper: Float[Array, " m"], powers: tuple[tuple[int, ...], ...], r: Float[Array, " m"]
) -> Float[Array, " P"]:
    """At the shape r the products of Chebyshev polynomials of the degrees `powers[p]`, one for each shape variable, in
    the box from `lower` to `upper`."""
    x = (2 * r - lower - upper) / (upper - lower)
    # T₀ = 1, T₁ = x, Tₙ₊₁ = 2 x Tₙ − Tₙ₋₁
    values = [jnp.ones_like(x), x]
    for _ in range(max(map(max, powers)) - 1):
        values.append(2 * x * values[-1] - values[-2])
    table = jnp.stack(values)
    degrees = np.array(powers)
    factors = [table[degrees[:, i], i] for i in range(r.shape[0])]
    return reduce(jnp.multiply, factors)
