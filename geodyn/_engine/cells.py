"""Rules for JAX's operations on arrays of scalars, whose entries (cells) are nodes of an expression graph.

An operation that only moves entries adds nothing to the program; any other becomes arithmetic on single numbers.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jax import lax

from geodyn._engine.expressions import Graph, Operand
from geodyn._engine.internals import Operation

ELEMENTWISE = {
    *("add", "add_any", "sub", "mul", "div", "rem", "neg", "sign", "abs", "max", "min", "pow", "integer_pow", "square"),
    *(
        "one_minus_square",
        "sqrt",
        "rsqrt",
        "cbrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
    ),
    *("atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "logistic", "erf", "floor", "ceil", "round"),
    *(
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "lt_to",
        "le_to",
        "and",
        "or",
        "xor",
        "not",
        "is_finite",
        "select_n",
        "clamp",
        "nextafter",
    ),
    *("real", "imag", "conj", "complex", "stop_gradient", "copy", "copy_p", "convert_element_type"),
    *("shift_left", "shift_right_arithmetic", "shift_right_logical", "bitcast_convert_type"),
}
REDUCTIONS = {"reduce_sum": lax.add_p, "reduce_prod": lax.mul_p, "reduce_max": lax.max_p, "reduce_min": lax.min_p}
REDUCTIONS |= {"reduce_and": lax.and_p, "reduce_or": lax.or_p}
RUNNING = {"cumsum": lax.add_p, "cumprod": lax.mul_p, "cummax": lax.max_p, "cummin": lax.min_p}


def has_rule(equation: Operation) -> bool:
    """Whether there is a rule for an operation."""
    name, wanted = equation.primitive.name, equation.params.get("out_dtype")
    if wanted is not None and any(v.aval.dtype != wanted for v in equation.invars):
        return False
    if name == "bitcast_convert_type":
        return equation.outvars[0].aval.dtype.itemsize == equation.invars[0].aval.dtype.itemsize
    if name in REDUCTIONS or name in RUNNING or name == "unstack":
        return all(v.aval.size for v in equation.invars)
    return name in ELEMENTWISE or name in MOVES


def apply(graph: Graph, equation: Operation, cells: list) -> list:
    """The cells of the results of an operation, from the cells of its arguments."""
    name, (out, *_) = equation.primitive.name, equation.outvars
    if name in MOVES:
        moved = MOVES[name](graph, equation, *cells)
        return moved if isinstance(moved, list) else [moved]
    if name in REDUCTIONS:
        return [_reduce(graph, equation, *cells)]

    def function(*x: Operand) -> Operand:
        if name == "convert_element_type":
            return graph.convert(x[0], out.aval.dtype)
        return graph.apply(equation.primitive, equation.params, x, out.aval.dtype)

    return [each(out.aval.shape, function, *cells)]


def fill(shape: Sequence[int], parts: Iterable) -> np.ndarray:
    """An array of cells of this shape, filled from a list. (np.array would convert the numbers in the list.)"""
    return np.fromiter(parts, object).reshape(shape)


def each(shape: Sequence[int], function: Callable, *arrays: np.ndarray) -> np.ndarray:
    """The array of cells `function(a, b, …)`, where the arrays of cells a, b, … are broadcast to the shape."""
    return fill(shape, [function(*x) for x in zip(*spread(arrays, shape), strict=True)])


def spread(arrays: Iterable[np.ndarray], shape: Sequence[int]) -> list[np.ndarray]:
    """The cells of some arrays that are broadcast to the shape, each in a row."""
    return [(x if x.shape == shape else np.broadcast_to(x, shape)).reshape(-1) for x in arrays]


def _broadcast(graph: Graph, equation: Operation, x: np.ndarray) -> np.ndarray:
    shape, kept = equation.params["shape"], equation.params["broadcast_dimensions"]
    expanded = [1] * len(shape)
    for axis, size in zip(kept, x.shape, strict=True):
        expanded[axis] = size
    return np.broadcast_to(x.reshape(expanded), shape)


def _reshape(graph: Graph, equation: Operation, x: np.ndarray) -> np.ndarray:
    return x.reshape(equation.outvars[0].aval.shape)


def _slice(graph: Graph, equation: Operation, x: np.ndarray) -> np.ndarray:
    p = equation.params
    strides = p["strides"] or (1,) * x.ndim
    return x[(*(slice(*s) for s in zip(p["start_indices"], p["limit_indices"], strides, strict=True)), ...)]


def _iota(graph: Graph, equation: Operation) -> np.ndarray:
    shape = equation.params["shape"]
    return fill(shape, np.indices(shape)[equation.params["dimension"]].astype(equation.params["dtype"]).reshape(-1))


def _pad(graph: Graph, equation: Operation, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    out = each(equation.outvars[0].aval.shape, lambda x: x, value)
    left = [left_by_padding(*axis) for axis in zip(equation.params["padding_config"], x.shape, out.shape, strict=True)]
    take = tuple(slice(begin, begin + count) for begin, count, _, _ in left)
    put = tuple(slice(first, first + count * step, step) for _, count, first, step in left)
    out[put] = x[take]
    return out


def left_by_padding(config: tuple[int, int, int], size: int, padded: int) -> tuple[int, int, int, int]:
    """(the first number that padding along an axis leaves, their count, the place of the first, the step between their
    places). Negative padding takes numbers away, and gaps between them."""
    low, _, gap = config
    step = gap + 1
    begin = max(-(low // step), 0)
    end = min(-((low - padded) // step), size)
    return begin, max(end - begin, 0), low + begin * step, step


def _split(graph: Graph, equation: Operation, x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(equation.params["sizes"])[:-1], equation.params["axis"])


def _reduce(graph: Graph, equation: Operation, x: np.ndarray) -> np.ndarray:
    (out,), axes = equation.outvars, equation.params["axes"]
    columns = np.moveaxis(x, axes, range(len(axes))).reshape(-1, math.prod(out.aval.shape)).T

    def join(a: Operand, b: Operand) -> Operand:
        return graph.apply(REDUCTIONS[equation.primitive.name], {}, (a, b), out.aval.dtype)

    return fill(out.aval.shape, [functools.reduce(join, column) for column in columns])


def _running(graph: Graph, equation: Operation, x: np.ndarray) -> np.ndarray:
    (out,), axis = equation.outvars, equation.params["axis"]

    def flip(x: np.ndarray) -> np.ndarray:
        return np.flip(x, axis) if equation.params["reverse"] else x

    def join(a: Operand, b: Operand) -> Operand:
        return graph.apply(RUNNING[equation.primitive.name], {}, (a, b), out.aval.dtype)

    rows = itertools.accumulate(_rows(flip(x), axis), lambda a, b: each(a.shape, join, a, b))
    return flip(np.concatenate([*rows], axis))


def _rows(x: np.ndarray, axis: int) -> list[np.ndarray]:
    """The parts of length one along an axis, which they keep."""
    return np.split(x, x.shape[axis], axis)


def _unstack(graph: Graph, equation: Operation, x: np.ndarray) -> list[np.ndarray]:
    return [row.squeeze(equation.params["axis"]) for row in _rows(x, equation.params["axis"])]


def _dot(graph: Graph, equation: Operation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (over_a, over_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    dtype = equation.outvars[0].aval.dtype

    def entry(row: np.ndarray, column: np.ndarray) -> Operand:
        total: Operand = np.zeros((), dtype)[()]
        for x, y in zip(row, column, strict=True):
            total = graph.add(total, graph.multiply(graph.convert(x, dtype), graph.convert(y, dtype)))
        return total

    pairs = zip(_as_matrices(a, batch_a, over_a), _as_matrices(b, batch_b, over_b), strict=True)
    entries = [entry(row, column) for rows, columns in pairs for row in rows for column in columns]
    return fill(equation.outvars[0].aval.shape, entries)


def _as_matrices(x: np.ndarray, batch: Sequence[int], over: Sequence[int]) -> np.ndarray:
    """x as an array [batch, free, contracted]."""
    free = [i for i in range(x.ndim) if i not in batch and i not in over]

    def size(axes: Sequence[int]) -> int:
        return math.prod(x.shape[i] for i in axes)

    return x.transpose([*batch, *free, *over]).reshape(size(batch), size(free), size(over))


MOVES = dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshape)
MOVES |= {"broadcast_in_dim": _broadcast, "slice": _slice, "iota": _iota, "pad": _pad, "split": _split}
MOVES |= {
    "dot_general": _dot,
    "transpose": lambda graph, equation, x: x.transpose(equation.params["permutation"]),
    "rev": lambda graph, equation, x: np.flip(x, equation.params["dimensions"]),
    "concatenate": lambda graph, equation, *x: np.concatenate(x, equation.params["dimension"]),
    # Since JAX 0.12 these are operations of their own.
    "stack": lambda graph, equation, *x: np.stack(x, equation.params["axis"]),
    "tile": lambda graph, equation, x: np.tile(x, equation.params["reps"]),
    "unstack": _unstack,
}
MOVES |= dict.fromkeys(RUNNING, _running)
