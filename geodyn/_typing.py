"""Array shapes, named once.

Letters of the shapes: `n` coordinates, `m` shape variables, `k` group coordinates, `N` points, `s` stages,
`c` constraints, `T` saved times.

The aliases have names, since what they stand for would fill the first lines of `help`: `Number`, what may be one;
`Numbers`, anything that jnp.asarray takes, nested lists included, whose shape is checked where it comes in; `Count`, a
positive whole number, static in jit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree
from typing_extensions import TypeAliasType

Scalar = TypeAliasType("Scalar", Float[Array, ""])
Number = TypeAliasType("Number", Float[ArrayLike, ""])
Vector = TypeAliasType("Vector", Float[ArrayLike, " _"] | Sequence[float])
Numbers = Any
Count = TypeAliasType("Count", int | np.integer)

__all__ = [
    "Array",
    "ArrayLike",
    "Bool",
    "Count",
    "Float",
    "Int",
    "Number",
    "Numbers",
    "PyTree",
    "Scalar",
    "TypeAliasType",
    "Vector",
]
