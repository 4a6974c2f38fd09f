"""Complex numbers, as pairs of real ones."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from geodyn._engine.cells import apply, each, fill
from geodyn._engine.expressions import Operand
from geodyn._engine.internals import Operation, Primitive
from geodyn._engine.llvm.code import BOOL, NotUnderstood
from geodyn._engine.program.arrays import Complex, ProgramArray, RealArray, kinds, numpy_type
from geodyn._engine.program.block import Block
from geodyn._engine.program.indexing import INDEXED

# What does the same to the real and to the imaginary parts.
LINEAR = {"add", "add_any", "sub", "neg", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "slice", "pad"}
LINEAR |= {"transpose", "rev", "concatenate", "stack", "tile", "reduce_sum", "cumsum", "copy", "copy_p"}


class Pairs:
    """The rules of the operations on complex numbers whose results have this shape, by operations on real ones."""

    def __init__(self, block: Block, equation: Operation):
        self.block = block
        self.graph = block.graph
        self.equation = equation
        self.shape = equation.outvars[0].aval.shape
        self.dtype = kinds(equation.outvars[0].aval)[0].dtype

    def result(self, args: Sequence) -> ProgramArray:
        """The array of the results."""
        name = self.equation.primitive.name
        if name in ("real", "imag"):
            return getattr(args[0], name)
        if name == "complex":
            return Complex(*map(self.block.cells, args))
        if name == "select_n":
            return self.select(*args)
        pairs = [self.pair(x) for x in args]
        if name in LINEAR:
            real = self.linear(*(x.real for x in pairs))
            imag = self.linear(*(x.imag for x in pairs))
            return Complex(real, imag)
        if name not in RULES:
            raise NotUnderstood(f"{name} of complex numbers")
        return RULES[name](self, *pairs)

    def pair(self, x: ProgramArray) -> Complex:
        """The numbers of an array as pairs."""
        if isinstance(x, Complex):
            return Complex(self.block.cells(x.real), self.block.cells(x.imag))
        cells = self.block.cells(x)
        return Complex(cells, self.zeros(cells))

    def select(self, which: RealArray, *cases: Complex) -> Complex:
        """The number of one of the cases."""
        which = self.block.cells(which)
        pairs = [self.pair(x) for x in cases]
        real = self.linear(which, *(x.real for x in pairs))
        imag = self.linear(which, *(x.imag for x in pairs))
        return Complex(real, imag)

    def conjugate(self, x: Complex) -> Complex:
        return Complex(x.real, each(self.shape, self.graph.negative, x.imag))

    def convert(self, x: Complex) -> Complex:
        """The numbers in the precision of the result."""

        def one(y: Operand) -> Operand:
            return self.graph.convert(y, self.dtype)

        return Complex(each(self.shape, one, x.real), each(self.shape, one, x.imag))

    def times(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return each(self.shape, self.graph.multiply, x, y)

    def plus(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return each(self.shape, self.graph.add, x, y)

    def minus(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return each(self.shape, self.graph.subtract, x, y)

    def product(self, x: Complex, y: Complex) -> Complex:
        """The product of numbers."""
        return self.product_by(self.times, x, y)

    def matrix_product(self, x: Complex, y: Complex) -> Complex:
        return self.product_by(self.linear, x, y)

    def power(self, x: Complex) -> Complex:
        """A whole power."""
        exponent = self.equation.params["y"]
        one = Complex(fill(self.shape, [np.ones((), self.dtype)[()]] * x.size), self.zeros(x.real))
        result = one
        for _ in range(abs(exponent)):
            result = self.product(result, x)
        return result if exponent >= 0 else self.ratio(one, result)

    def ratio(self, x: Complex, y: Complex) -> Complex:
        """The quotient."""
        parts = (x.real, x.imag, y.real, y.imag)
        rows = [np.broadcast_to(part, self.shape).reshape(-1) for part in parts]
        quotients = [self.quotient(*numbers) for numbers in zip(*rows, strict=True)]
        real = [number for number, _ in quotients]
        imag = [number for _, number in quotients]
        return Complex(fill(self.shape, real), fill(self.shape, imag))

    def zeros(self, x: np.ndarray) -> np.ndarray:
        """As many zeros as there are numbers in x."""
        return fill(x.shape, [np.zeros((), self.dtype)[()]] * x.size)

    def linear(self, *args: np.ndarray) -> np.ndarray:
        """The operation itself, on real numbers."""
        return apply(self.graph, _OnReal(self.equation, self.dtype), list(args))[0]

    def product_by(self, times: Callable, x: Complex, y: Complex) -> Complex:
        """The product of pairs, by products of numbers or of matrices."""
        real = self.minus(times(x.real, y.real), times(x.imag, y.imag))
        imag = self.plus(times(x.real, y.imag), times(x.imag, y.real))
        return Complex(real, imag)

    def square(self, z: Complex) -> Complex:
        """(x + iy)², in which no square overflows that the result does not have."""
        x, y = z
        real = self.times(self.minus(x, y), self.plus(x, y))
        imag = self.times(self.plus(x, x), y)
        return Complex(real, imag)

    def is_equal(self, x: Complex, y: Complex) -> np.ndarray:
        """Whether both parts are equal."""
        return self.compare(lax.eq_p, lax.and_p, x, y)

    def is_different(self, x: Complex, y: Complex) -> np.ndarray:
        """Whether one of the parts is not equal."""
        return self.compare(lax.ne_p, lax.or_p, x, y)

    def compare(self, primitive: Primitive, join: Primitive, x: Complex, y: Complex) -> np.ndarray:
        def one(a: Operand, b: Operand, c: Operand, d: Operand) -> Operand:
            of_real = self.block.apply(primitive, BOOL, a, b)
            of_imaginary = self.block.apply(primitive, BOOL, c, d)
            return self.block.apply(join, BOOL, of_real, of_imaginary)

        return each(self.shape, one, x.real, y.real, x.imag, y.imag)

    def size(self, z: Complex) -> np.ndarray:
        """The absolute values."""
        return each(self.shape, self.size_of, z.real, z.imag)

    def size_of(self, x: Operand, y: Operand) -> Operand:
        """√(x² + y²) by the larger of the two."""
        x = self.block.apply(lax.abs_p, self.dtype, x)
        y = self.block.apply(lax.abs_p, self.dtype, y)
        large = self.block.apply(lax.max_p, self.dtype, x, y)
        small = self.block.apply(lax.min_p, self.dtype, x, y)
        one: Operand = np.ones((), self.dtype)[()]
        # Two zeros or two infinities are alike, and their ratio is not a number.
        alike = self.block.apply(lax.eq_p, BOOL, small, large)
        ratio = self.graph.select(alike, self.graph.divide(small, large), one)
        square = self.graph.multiply(ratio, ratio)
        root = self.block.apply(lax.sqrt_p, self.dtype, self.graph.add(one, square))
        return self.graph.multiply(large, root)

    def quotient(self, a: Operand, b: Operand, c: Operand, d: Operand) -> tuple[Operand, Operand]:
        """(a + ib)/(c + id), by the larger of c and d (Smith, Communications of the ACM 5 (1962) 435)."""
        graph = self.graph
        size_of_c = self.block.apply(lax.abs_p, self.dtype, c)
        size_of_d = self.block.apply(lax.abs_p, self.dtype, d)
        is_real = self.block.apply(lax.ge_p, BOOL, size_of_c, size_of_d)
        large = graph.select(is_real, d, c)
        small = graph.select(is_real, c, d)
        # Where d is the larger one, both numbers are turned by −i, and the quotient stays as it is.
        first = graph.select(is_real, b, a)
        second = graph.select(is_real, a, b)
        ratio = graph.divide(small, large)
        below = graph.add(large, graph.multiply(small, ratio))
        real = graph.divide(graph.add(first, graph.multiply(second, ratio)), below)
        turned = graph.divide(graph.subtract(second, graph.multiply(first, ratio)), below)
        return real, graph.select(is_real, graph.negative(turned), turned)


RULES: dict[str, Callable] = {
    "abs": Pairs.size,
    "conj": Pairs.conjugate,
    "convert_element_type": Pairs.convert,
    "div": Pairs.ratio,
    "dot_general": Pairs.matrix_product,
    "eq": Pairs.is_equal,
    "integer_pow": Pairs.power,
    "mul": Pairs.product,
    "ne": Pairs.is_different,
    "square": Pairs.square,
}


def is_complex(x: Any) -> bool:
    """Whether an array of the program is one of complex numbers."""
    return numpy_type(x.aval).kind == "c"


def part_by_part(block: Block, equation: Operation, args: Sequence[ProgramArray]) -> list:
    """The results of an operation that takes or changes numbers at computed places."""
    name = equation.primitive.name
    if name not in INDEXED or name.endswith(("mul", "min", "max")) or name.startswith("arg"):
        raise NotUnderstood(f"{name} of complex numbers")
    if equation.params.get("mode") is lax.GatherScatterMode.FILL_OR_DROP and name == "gather":
        raise NotUnderstood("a complex number that stands for none")
    on_real = _OnReal(equation, kinds(equation.outvars[0].aval)[0].dtype)
    # The places are real numbers, and the same for both parts.
    real = [x.real if isinstance(x, Complex) else x for x in args]
    imag = [x.imag if isinstance(x, Complex) else x for x in args]
    real_results = INDEXED[name](block, on_real, *real)
    imag_results = INDEXED[name](block, on_real, *imag)
    return [Complex(x, y) for x, y in zip(real_results, imag_results, strict=True)]


class _OnReal:
    """An operation on complex numbers, as one on their real or imaginary parts."""

    def __init__(self, equation: Operation, dtype: np.dtype):
        self.primitive = equation.primitive
        self.params = equation.params
        self.invars = [_real_variable(v, dtype) if is_complex(v) else v for v in equation.invars]
        self.outvars = [_real_variable(v, dtype) for v in equation.outvars]


class _Variable(NamedTuple):
    aval: Any


class _Type(NamedTuple):
    shape: tuple
    dtype: np.dtype


def _real_variable(variable: Any, dtype: np.dtype) -> _Variable:
    """A variable of the same shape with real numbers."""
    return _Variable(_Type(variable.aval.shape, dtype))
