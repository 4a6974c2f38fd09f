"""Array shapes, named once.

Letters of the shapes: `n` coordinates, `m` shape variables, `k` group coordinates, `N` points, `s` stages,
`c` constraints, `T` saved times.
"""

from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

Scalar = Float[Array, ""]
Number = Float[ArrayLike, ""]

__all__ = ["Array", "ArrayLike", "Bool", "Float", "Int", "Number", "PyTree", "Scalar"]
