"""One step of `g' = g ξ` in a Lie group by the Magnus method of order 6, with ξ at three Gauss nodes.

Source: Blanes, Casas, Oteo & Ros, *Phys. Rep.* 470 (2009) 151, section 5.5; the brackets have the opposite sign here,
because the velocity multiplies g from the right.
"""

from collections.abc import Callable

import numpy as np

from geodyn._foundations.typing import Array, Float, Number
from geodyn._geometry.groups.lie_group import AbstractLieGroup

# The Gauss–Legendre quadrature with three nodes on [0, 1].
NODES = 0.5 + np.sqrt(0.15) * np.array([-1.0, 0.0, 1.0])
WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18


def increment(group: AbstractLieGroup, xi: Float[Array, "3 k"], h: Number) -> Float[Array, " k"]:
    """The exponential coordinates of one step of length h from the body velocities at its three nodes."""
    values: Float[Array, "3 k"] = h * xi
    return exponent(group.bracket, values)


def exponent(bracket: Callable[[Array, Array], Array], values: Float[Array, "3 ..."]) -> Float[Array, "..."]:
    """The exponent of a step from the elements of a Lie algebra at its three nodes, times the length of the step."""
    # Taylor coefficients in the middle of the step: the value, the first derivative and half of the second, in units
    # of the step. They are those of the parabola through the nodes: 1/(2 √0.15) = √15/3, and 1/(2 · 0.15) = 10/3.
    a1 = values[1]
    a2 = np.sqrt(15) / 3 * (values[2] - values[0])
    a3 = 10 / 3 * (values[2] - 2 * values[1] + values[0])
    # Two brackets inside of a third give all commutators up to the sixth order.
    c1 = -bracket(a1, a2)
    c2 = bracket(a1, 2 * a3 + c1) / 60
    commutators = bracket(-20 * a1 - a3 + c1, a2 + c2) / 240
    # a1 + a3/12 is the integral of the parabola over the step.
    return a1 + a3 / 12 - commutators
