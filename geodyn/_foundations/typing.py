"""Array shapes, named once.

Letters of the shapes: `n` coordinates, `m` shape variables, `k` group coordinates, `N` points, `s` stages,
`c` constraints, `T` saved times.

The aliases have names, since what they stand for would fill the first lines of `help`, and since `kinds.py` checks
arguments by them: `Number`, what may be one; `Numbers`, anything that jnp.asarray takes, nested lists included, whose
shape is checked where it comes in; `Row`, numbers in a row; `Rows`, several; `Each`, one or a row; `Vector`, a row
that may be infinite; `Count`, `Steps` and `Stages`, positive whole numbers, static in jit; `Index`, one from 0;
`Indices`, rows of such; `File`, the name of a file; `Axes`, of matplotlib, or None; `Tree`, a pytree of numbers.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree
from typing_extensions import TypeAliasType

Scalar = TypeAliasType("Scalar", Float[Array, ""])
Number = TypeAliasType("Number", Float[ArrayLike, ""])
Row = TypeAliasType("Row", ArrayLike | Sequence[Any])
Rows = TypeAliasType("Rows", ArrayLike | Sequence[Any])
Each = TypeAliasType("Each", ArrayLike | Sequence[Any])
Vector = TypeAliasType("Vector", Float[ArrayLike, " _"] | Sequence[float | int])
Numbers = TypeAliasType("Numbers", ArrayLike | Sequence[Any])
Count = TypeAliasType("Count", int | np.integer)
Steps = TypeAliasType("Steps", int | np.integer)
Stages = TypeAliasType("Stages", int | np.integer)
File = TypeAliasType("File", str | os.PathLike)
Index = TypeAliasType("Index", int | np.integer)
Indices = TypeAliasType("Indices", ArrayLike | Sequence[Any])
Axes = TypeAliasType("Axes", Any)
Tree = TypeAliasType("Tree", PyTree)

__all__ = [
    "Array",
    "ArrayLike",
    "Axes",
    "Bool",
    "Count",
    "Each",
    "File",
    "Float",
    "Index",
    "Indices",
    "Int",
    "Number",
    "Numbers",
    "PyTree",
    "Row",
    "Rows",
    "Scalar",
    "Stages",
    "Steps",
    "Tree",
    "TypeAliasType",
    "Vector",
]
