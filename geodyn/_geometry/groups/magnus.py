"""One step of `g' = g ξ` in a Lie group by the Magnus method of order 6, with ξ at three Gauss nodes.

Source: Blanes, Casas, Oteo & Ros, *Phys. Rep.* 470 (2009) 151, section 5.5; the brackets have the opposite sign here,
because the velocity multiplies g from the right.
"""

import numpy as np

from geodyn._foundations.typing import Array, Float, Number
from geodyn._geometry.groups.lie_group import AbstractLieGroup

NODES = 0.5 + np.sqrt(0.15) * np.array([-1.0, 0.0, 1.0])
WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18


def increment(group: AbstractLieGroup, xi: Float[Array, "3 k"], h: Number) -> Float[Array, " k"]:
    """The exponential coordinates of one step of length h from the body velocities at its three nodes."""
    # The velocity in the middle of the step, and its first and second derivatives there, in units of the step.
    a1: Float[Array, " k"] = h * xi[1]
    a2: Float[Array, " k"] = np.sqrt(15) / 3 * h * (xi[2] - xi[0])
    a3: Float[Array, " k"] = 10 / 3 * h * (xi[2] - 2 * xi[1] + xi[0])
    c1 = -group.bracket(a1, a2)
    c2 = group.bracket(a1, 2 * a3 + c1) / 60
    return a1 + a3 / 12 - group.bracket(-20 * a1 - a3 + c1, a2 + c2) / 240
