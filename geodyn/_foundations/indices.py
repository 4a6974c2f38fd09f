"""Whether a program takes a number of an array that the array does not have. JAX takes the last one for it, without a
word.

An index seldom stands in the program as it was written: it is compared with 0, the length of the array is added to it,
it counts the turns of a loop. So what follows from known whole numbers is computed along the program, by NumPy, which
compiles nothing. An index that depends on a floating-point number is not known, and passes."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

# Programs of JAX and their equations. Their classes are not public; nothing here needs more than their attributes.
ClosedJaxpr = Jaxpr = JaxprEqn = Any
# An array of whole numbers where they are known, else None.
Known = np.ndarray | None

MOST_TURNS = 1000
MOST_NUMBERS = 256
TAKING = "gather", "scatter", "dynamic_"


def check_program(closed: ClosedJaxpr) -> None:
    """Raises IndexError if the program takes a number of an array by a known index that the array does not have."""
    if takes_by_index(closed.jaxpr):
        _Walk().run(closed.jaxpr, closed.consts, [None] * len(closed.jaxpr.invars))


def takes_by_index(jaxpr: Jaxpr) -> bool:
    """Whether a program takes numbers of an array by indices that JAX does not hold against its shape. Those that are
    known and not too large become slices instead."""
    return any(
        equation.primitive.name.startswith(TAKING) or any(takes_by_index(inner) for inner, _ in _programs(equation))
        for equation in jaxpr.eqns
    )


def _programs(equation: JaxprEqn) -> Iterator[tuple[Jaxpr, Sequence[Any]]]:
    """The programs in an equation, each with its constants."""
    for parameter in equation.params.values():
        for part in parameter if isinstance(parameter, tuple | list) else (parameter,):
            inner = getattr(part, "jaxpr", part)
            if getattr(inner, "eqns", None) is not None:
                yield inner, getattr(part, "consts", [None] * len(inner.constvars))


def scan_counts(equation: JaxprEqn) -> tuple[int, int]:
    """(how many of the arguments of a scan are the same in every turn, how many after these it carries)."""
    params = equation.params
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].update(equation.invars).unpack()  # Since JAX 0.12.
    return len(list(consts)), len(list(carry))


class _Walk:
    """A walk along a program, with a bound on the turns of loops that it follows."""

    def __init__(self):
        self.turns_left = MOST_TURNS

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Known]) -> list[Known]:
        """The results of a program, as far as they are known."""
        known = dict(zip(jaxpr.constvars, map(_known, consts), strict=True))
        known.update(zip(jaxpr.invars, args, strict=True))

        def value(variable: Any) -> Known:
            is_literal = getattr(variable, "val", None) is not None
            return _known(variable.val) if is_literal else known.get(variable)

        for equation in jaxpr.eqns:
            inputs = [value(x) for x in equation.invars]
            outputs = self.results(equation, inputs)
            known.update(zip(equation.outvars, outputs, strict=True))
        return [value(x) for x in jaxpr.outvars]

    def results(self, equation: JaxprEqn, inputs: list[Known]) -> list[Known]:
        """The results of an equation, as far as they are known."""
        name = equation.primitive.name
        if name.startswith(TAKING):
            _check(equation, inputs)
        if name in VALUES:
            return [_small(VALUES[name](equation, *inputs))] if all(x is not None for x in inputs) else [None]
        if not any(takes_by_index(inner) for inner, _ in _programs(equation)):
            return [None] * len(equation.outvars)
        if name == "scan":
            return self.scan(equation, inputs)
        if name == "while":
            return self.while_loop(equation, inputs)
        if name == "cond":
            return self.cond(equation, inputs)
        return self.call(equation, inputs)

    def call(self, equation: JaxprEqn, inputs: list[Known]) -> list[Known]:
        """A program that is called with the inputs (`jit`); others (of a derivative, say) get unknown ones."""
        for jaxpr, consts in _programs(equation):
            if len(jaxpr.invars) == len(inputs) and len(jaxpr.outvars) == len(equation.outvars):
                return self.run(jaxpr, consts, inputs)
            self.run(jaxpr, consts, [None] * len(jaxpr.invars))
        return [None] * len(equation.outvars)

    def cond(self, equation: JaxprEqn, inputs: list[Known]) -> list[Known]:
        which, *operands = inputs
        branches = equation.params["branches"]
        if which is not None:
            branch = branches[int(np.clip(which, 0, len(branches) - 1))]
            return self.run(branch.jaxpr, branch.consts, operands)
        for branch in branches:
            self.run(branch.jaxpr, branch.consts, operands)
        return [None] * len(equation.outvars)

    def scan(self, equation: JaxprEqn, inputs: list[Known]) -> list[Known]:
        p = equation.params
        consts_count, carry_count = scan_counts(equation)
        length = p["length"]
        consts = inputs[:consts_count]
        carry = inputs[consts_count : consts_count + carry_count]
        arrays = inputs[consts_count + carry_count :]
        results = [None] * len(equation.outvars)
        for k in range(length - 1, -1, -1) if p["reverse"] else range(length):
            row = [None if x is None else x[k] for x in arrays]
            turns_differ = any(x is not None for x in [*carry, *row])
            if not turns_differ or self.turns_left == 0:
                self.turn(p["jaxpr"], [*consts, *[None] * (carry_count + len(row))])
                return results
            carry = self.turn(p["jaxpr"], [*consts, *carry, *row])[:carry_count]
        return [*carry, *results[carry_count:]]

    def while_loop(self, equation: JaxprEqn, inputs: list[Known]) -> list[Known]:
        p = equation.params
        first = p["cond_nconsts"]
        second = first + p["body_nconsts"]
        of_test = inputs[:first]
        of_body = inputs[first:second]
        carry = inputs[second:]
        while self.turns_left > 0:
            (goes_on,) = self.turn(p["cond_jaxpr"], [*of_test, *carry])
            if goes_on is None:
                break
            if not goes_on.any():
                return carry
            carry = self.turn(p["body_jaxpr"], [*of_body, *carry])
        unknown = [None] * len(carry)
        self.turn(p["body_jaxpr"], [*of_body, *unknown])
        return unknown

    def turn(self, program: ClosedJaxpr, args: list[Known]) -> list[Known]:
        self.turns_left = max(self.turns_left - 1, 0)
        return self.run(program.jaxpr, program.consts, args)


def _known(value: Any) -> Known:
    """A constant of a program, if it is an array of whole numbers or truth values."""
    if isinstance(value, jax.Array) and (isinstance(value, Tracer) or not value.is_fully_addressable):
        return None
    if value is None or np.size(value) > MOST_NUMBERS:
        return None
    return _small(value) if np.asarray(value).dtype.kind in "iub" else None


def _small(value: Any) -> Known:
    """Numbers that are too many are not followed."""
    return np.asarray(value) if value is not None and np.size(value) <= MOST_NUMBERS else None


def _check(equation: JaxprEqn, inputs: list[Known]) -> None:
    """Raises IndexError where what is taken, or set, lies beyond the ends of the array. Modes that say what happens
    then (`x.at[5].get(mode="fill")`, say) are the user's own words."""
    name = equation.primitive.name
    shape = equation.invars[0].aval.shape
    p = equation.params
    if name == "dynamic_slice":
        _check_starts(shape, p["slice_sizes"], inputs[1:])
    elif name == "dynamic_update_slice":
        _check_starts(shape, equation.invars[1].aval.shape, inputs[2:])
    elif name == "gather" and _holds_indices(p) and inputs[1] is not None:
        axes = p["dimension_numbers"].start_index_map
        for rows in inputs[1].reshape(-1, len(axes)):
            for axis, start in zip(axes, rows, strict=True):
                _check_start(shape, axis, start, p["slice_sizes"][axis])
    elif name.startswith("scatter") and inputs[1] is not None:
        axes = p["dimension_numbers"].scatter_dims_to_operand_dims
        rows = inputs[1].reshape(-1, len(axes))
        # Some places beyond the end are a known way to set fewer numbers; where none is set, it is none.
        is_there = [all(0 <= start < shape[axis] for axis, start in zip(axes, row, strict=True)) for row in rows]
        if len(rows) and not any(is_there):
            for axis, start in zip(axes, rows[0], strict=True):
                _check_start(shape, axis, start, 1)


def _holds_indices(p: dict[str, Any]) -> bool:
    """Whether a `gather` promises that its indices are inside; a batch of `dynamic_slice`, which keeps the axes of its
    slices, promises nothing, but has no words of the user's either."""
    mode = p["mode"].name
    return mode == "PROMISE_IN_BOUNDS" or (mode == "CLIP" and not p["dimension_numbers"].collapsed_slice_dims)


def _check_starts(shape: tuple[int, ...], sizes: Sequence[int], starts: list[Known]) -> None:
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if start is not None and start.size == 1:
            _check_start(shape, axis, start, size)


def _check_start(shape: tuple[int, ...], axis: int, start: Any, size: int) -> None:
    first = int(start)
    if first < 0 or first + size > shape[axis]:
        index = first if first < 0 else first + size - 1
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {shape[axis]}")


def _of_two(operation: Callable) -> Callable:
    return lambda equation, x, y: operation(x, y)


def _select(equation: JaxprEqn, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    return np.choose(which.astype(int), cases)


def _convert(equation: JaxprEqn, x: np.ndarray) -> Known:
    dtype = np.dtype(equation.params["new_dtype"])
    return x.astype(dtype) if dtype.kind in "iub" else None


def _broadcast(equation: JaxprEqn, x: np.ndarray) -> np.ndarray:
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    if math.prod(shape) > MOST_NUMBERS:
        return None
    ones = [1] * len(shape)
    for axis, size in zip(axes, x.shape, strict=True):
        ones[axis] = size
    return np.broadcast_to(x.reshape(ones), shape)


def _iota(equation: JaxprEqn) -> Known:
    p = equation.params
    shape, axis = p["shape"], p["dimension"]
    if math.prod(shape) > MOST_NUMBERS or np.dtype(p["dtype"]).kind not in "iu":
        return None
    ones = [1] * len(shape)
    ones[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis], dtype=p["dtype"]).reshape(ones), shape)


def _slice(equation: JaxprEqn, x: np.ndarray) -> np.ndarray:
    p = equation.params
    strides = p["strides"] or (1,) * x.ndim
    return x[tuple(map(slice, p["start_indices"], p["limit_indices"], strides))]


def _dynamic_slice(equation: JaxprEqn, x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    sizes = equation.params["slice_sizes"]
    return x[tuple(slice(int(start), int(start) + size) for start, size in zip(starts, sizes, strict=True))]


# What programs do with indices.
VALUES = {
    "add": _of_two(operator.add),
    "sub": _of_two(operator.sub),
    "mul": _of_two(operator.mul),
    "neg": lambda equation, x: -x,
    "lt": _of_two(operator.lt),
    "le": _of_two(operator.le),
    "gt": _of_two(operator.gt),
    "ge": _of_two(operator.ge),
    "eq": _of_two(operator.eq),
    "ne": _of_two(operator.ne),
    "and": _of_two(operator.and_),
    "or": _of_two(operator.or_),
    "max": _of_two(np.maximum),
    "min": _of_two(np.minimum),
    "select_n": _select,
    "convert_element_type": _convert,
    "broadcast_in_dim": _broadcast,
    "reshape": lambda equation, x: x.reshape(equation.params["new_sizes"]),
    "squeeze": lambda equation, x: np.squeeze(x, equation.params["dimensions"]),
    "concatenate": lambda equation, *xs: np.concatenate(xs, equation.params["dimension"]),
    "iota": _iota,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
}
