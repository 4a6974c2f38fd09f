"""Array shapes, named once.

Letters of the shapes: `n` coordinates, `m` shape variables, `k` group coordinates, `N` points, `s` stages,
`c` constraints, `T` saved times.
"""

from typing import Any

import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

Scalar = Float[Array, ""]
Number = Float[ArrayLike, ""]
Numbers = Any
"""Anything that jnp.asarray takes, nested lists included; its shape is checked where it comes in."""
Count = int | np.integer
"""A positive whole number, static in jit."""

__all__ = ["Array", "ArrayLike", "Bool", "Count", "Float", "Int", "Number", "Numbers", "PyTree", "Scalar"]
