"""Complex numbers, as pairs of real ones."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from geodyn._engine.cells import apply, each, fill
from geodyn._engine.expressions import Operand
from geodyn._engine.internals import Operation
from geodyn._engine.llvm.code import BOOL, NotUnderstood
from geodyn._engine.program.arrays import Complex, ProgramArray, kinds
from geodyn._engine.program.block import Block
from geodyn._engine.program.indexing import INDEXED

LINEAR = {"add", "add_any", "sub", "neg", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "slice", "pad"}
LINEAR |= {"transpose", "rev", "concatenate", "stack", "tile", "reduce_sum", "cumsum", "copy", "copy_p"}


class Pairs:
    """The rules of the operations on complex numbers whose results have this shape, by operations on real ones."""

    def __init__(self, block: Block, equation: Operation):
        self.block, self.graph, self.equation = block, block.graph, equation
        self.shape = equation.outvars[0].aval.shape
        self.dtype = kinds(equation.outvars[0].aval)[0].dtype

    def result(self, args: Sequence[ProgramArray]) -> ProgramArray:
        """The array of the results."""
        name = self.equation.primitive.name
        if name in ("real", "imag"):
            return getattr(args[0], name)
        cells = [Complex(*map(self.block.cells, x)) if isinstance(x, Complex) else self.block.cells(x) for x in args]
        if name == "complex":
            return Complex(*cells)
        if name == "abs":
            return each(self.shape, self.size_of, *cells[0])
        if name in ("eq", "ne"):
            return self.compared(name, *cells)
        if name == "select_n":
            which, *cases = cells
            return Complex(*(self.linear(which, *parts) for parts in zip(*cases, strict=True)))
        pairs = [x if isinstance(x, Complex) else Complex(x, self.zeros(x)) for x in cells]
        if name in LINEAR:
            return Complex(self.linear(*(x.real for x in pairs)), self.linear(*(x.imag for x in pairs)))
        if name == "conj":
            return Complex(pairs[0].real, each(self.shape, self.graph.negative, pairs[0].imag))
        if name == "convert_element_type":
            return Complex(*(each(self.shape, lambda y: self.graph.convert(y, self.dtype), part) for part in pairs[0]))
        if name == "mul":
            return self.product(each_of(self.shape, self.graph.multiply), *pairs)
        if name == "square":
            return self.squared(*pairs[0])
        if name == "integer_pow":
            return self.power(pairs[0], self.equation.params["y"])
        if name == "dot_general":
            return self.product(self.linear, *pairs)
        if name == "div":
            return self.divided(*pairs)
        raise NotUnderstood(f"{name} of complex numbers")

    def power(self, x: Complex, exponent: int) -> Complex:
        """A whole power."""
        one = Complex(fill(self.shape, [np.ones((), self.dtype)[()]] * x.size), self.zeros(x.real))
        result = one
        for _ in range(abs(exponent)):
            result = self.product(each_of(self.shape, self.graph.multiply), result, x)
        return result if exponent >= 0 else self.divided(one, result)

    def divided(self, *pairs: Complex) -> Complex:
        """The quotient."""
        arrays = [np.broadcast_to(part, self.shape).reshape(-1) for x in pairs for part in x]
        values = [self.quotient(*x) for x in zip(*arrays, strict=True)]
        return Complex(*(fill(self.shape, part) for part in zip(*values, strict=True)))

    def zeros(self, x: np.ndarray) -> np.ndarray:
        """As many zeros as there are numbers in x."""
        return fill(x.shape, [np.zeros((), self.dtype)[()]] * x.size)

    def linear(self, *args: np.ndarray) -> np.ndarray:
        """The operation itself, on real numbers."""
        return apply(self.graph, _OnReal(self.equation, self.dtype), list(args))[0]

    def product(self, times: Callable, a: Complex, b: Complex) -> Complex:
        """The product of pairs, by products of numbers or of matrices."""
        minus = each_of(self.shape, self.graph.subtract)
        plus = each_of(self.shape, self.graph.add)
        real = minus(times(a.real, b.real), times(a.imag, b.imag))
        return Complex(real, plus(times(a.real, b.imag), times(a.imag, b.real)))

    def squared(self, x: np.ndarray, y: np.ndarray) -> Complex:
        """(x + iy)², in which no square overflows that the result does not have."""
        plus, minus = each_of(self.shape, self.graph.add), each_of(self.shape, self.graph.subtract)
        times = each_of(self.shape, self.graph.multiply)
        return Complex(times(minus(x, y), plus(x, y)), times(plus(x, x), y))

    def compared(self, name: str, a: Complex, b: Complex) -> np.ndarray:
        """Whether both parts are equal, or whether one is not."""
        primitive, join = (lax.eq_p, lax.and_p) if name == "eq" else (lax.ne_p, lax.or_p)

        def one(*parts: Operand) -> Operand:
            first, second = (self.block.apply(primitive, BOOL, *pair) for pair in (parts[:2], parts[2:]))
            return self.block.apply(join, BOOL, first, second)

        return each(self.shape, one, a.real, b.real, a.imag, b.imag)

    def size_of(self, x: Operand, y: Operand) -> Operand:
        """√(x² + y²) by the larger of the two."""
        x, y = (self.block.apply(lax.abs_p, self.dtype, part) for part in (x, y))
        large = self.block.apply(lax.max_p, self.dtype, x, y)
        small = self.block.apply(lax.min_p, self.dtype, x, y)
        one = np.ones((), self.dtype)[()]
        # Two zeros or two infinities are alike, and their ratio is not a number.
        alike = self.block.apply(lax.eq_p, BOOL, small, large)
        ratio = self.graph.select(alike, self.graph.divide(small, large), one)
        root = self.block.apply(lax.sqrt_p, self.dtype, self.graph.add(one, self.graph.multiply(ratio, ratio)))
        return self.graph.multiply(large, root)

    def quotient(self, a: Operand, b: Operand, c: Operand, d: Operand) -> tuple[Operand, Operand]:
        """(a + ib)/(c + id), by the larger of c and d (Smith, Communications of the ACM 5 (1962) 435)."""
        graph = self.graph
        sizes = [self.block.apply(lax.abs_p, self.dtype, part) for part in (c, d)]
        is_real = self.block.apply(lax.ge_p, BOOL, *sizes)
        large, small = graph.select(is_real, d, c), graph.select(is_real, c, d)
        first, second = graph.select(is_real, b, a), graph.select(is_real, a, b)
        ratio = graph.divide(small, large)
        below = graph.add(large, graph.multiply(small, ratio))
        real = graph.divide(graph.add(first, graph.multiply(second, ratio)), below)
        turned = graph.divide(graph.subtract(second, graph.multiply(first, ratio)), below)
        return real, graph.select(is_real, graph.negative(turned), turned)


def each_of(shape: tuple[int, ...], function: Callable) -> Callable:
    """The function of two numbers, as one of arrays."""
    return lambda a, b: each(shape, function, a, b)


def is_complex(x: Any) -> bool:
    """Whether an array of the program is one of complex numbers."""
    return len(kinds(x.aval)) > 1


def part_by_part(block: Block, equation: Operation, args: Sequence[ProgramArray]) -> list:
    """The results of an operation that takes or changes numbers at computed places."""
    name = equation.primitive.name
    if name not in INDEXED or name.endswith(("mul", "min", "max")) or name.startswith("arg"):
        raise NotUnderstood(f"{name} of complex numbers")
    if equation.params.get("mode") is lax.GatherScatterMode.FILL_OR_DROP and name == "gather":
        raise NotUnderstood("a complex number that stands for none")
    on_real = _OnReal(equation, kinds(equation.outvars[0].aval)[0].dtype)
    real, imag = ([x[k] if isinstance(x, Complex) else x for x in args] for k in (0, 1))
    pairs = zip(INDEXED[name](block, on_real, *real), INDEXED[name](block, on_real, *imag), strict=True)
    return [Complex(*pair) for pair in pairs]


class _OnReal:
    """An operation on complex numbers, as one on their real or imaginary parts."""

    def __init__(self, equation: Operation, dtype: np.dtype):
        self.primitive, self.params = equation.primitive, equation.params
        self.invars = [_Variable(_Type(v.aval.shape, dtype)) if is_complex(v) else v for v in equation.invars]
        self.outvars = [_Variable(_Type(v.aval.shape, dtype)) for v in equation.outvars]


class _Variable(NamedTuple):
    aval: Any


class _Type(NamedTuple):
    shape: tuple
    dtype: np.dtype
