"""Checks of a user's arguments: of numbers, and of the arguments and results of functions. Errors name the argument."""

import dis
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.indices import check_program
from geodyn._foundations.typing import Array, Scalar

NUMBERS = float, int, complex, np.generic, range
# The largest number of single precision.
LARGEST = float(np.finfo(np.float32).max)
MOST_AXES = 16
PACKAGE = str(Path(__file__).parents[1])
_RAISE = dis.opmap["RAISE_VARARGS"]
# What JAX is set to: attributes that a type checker knows nothing of.
SETTINGS: Any = jax.config

# How a user's function is written that is to be traced.
TRACEABLE = "write it with jax.numpy instead of math, numpy, float() or an `if` on its arguments"
UNTRACEABLE = jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError


def numbers(name: str, value: Any, wanted: str = "real numbers") -> Array:
    """`value` as an array; ValueError for strings, other objects, complex numbers and rows of different lengths."""
    return jnp.asarray(array_of(name, value, wanted))


def array_of(name: str, value: Any, wanted: str) -> Array | np.ndarray:
    """What `numbers` returns, but of numpy where the numbers are plain or numpy's: an array of JAX takes longer to
    make, and of a list JAX would compile a program for it."""
    if isinstance(value, jax.Array):
        array = value
    elif isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} must be {wanted} without a mask, got {shown(value)}: give value.filled(…)")
    elif isinstance(value, list | tuple):
        array = _joined(name, value, wanted)
    elif (
        isinstance(value, NUMBERS)
        or getattr(value, "__array__", None) is not None
        or getattr(value, "__jax_array__", None) is not None
    ):
        array = _converted(name, value, wanted)
    else:
        raise _not_numbers(name, value, wanted)
    if not _is_real(array.dtype):
        raise _not_numbers(name, value, wanted)
    if array.dtype.kind in "iu" and array.size and not isinstance(array, jax.Array) and not _fits(array):
        raise ValueError(f"{name} must be {wanted}, got whole numbers that are too large: {shown(value)}; write floats")
    return array if _is_known(array.dtype) else array.astype(_nearest_known(array.dtype))


def _converted(name: str, value: Any, wanted: str) -> Array | np.ndarray:
    """An object that says itself how it becomes an array."""
    try:
        return jnp.asarray(value) if getattr(value, "__jax_array__", None) is not None else np.asarray(value)
    except Exception as error:
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}, which gives none: {error}") from error


def _is_real(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and (dtype.kind in "fiu" or jnp.issubdtype(dtype, jnp.floating))


def _is_known(dtype: np.dtype) -> bool:
    """Whether JAX knows a type of numbers: those in the order of bytes of another machine, as some files have them, and
    those of more than 8 bytes are of NumPy alone."""
    return dtype.isnative and dtype.itemsize <= 8


def _nearest_known(dtype: np.dtype) -> np.dtype:
    return dtype.newbyteorder("=") if dtype.itemsize <= 8 else np.dtype(float)


def as_jax_knows_it(value: Any, array: Array | np.ndarray) -> Any:
    """The value if it is of Python or of JAX, or of NumPy with a type that JAX knows, else the `array` made of it."""
    if isinstance(value, np.ndarray | np.generic):
        return value if _is_known(value.dtype) else array
    return value if isinstance(value, jax.Array | float | int | list | tuple) else array


def _joined(name: str, value: Any, wanted: str) -> Array | np.ndarray:
    """A list as an array."""
    leaves = []
    shapes = set()
    try:
        _flatten(name, value, wanted, leaves, shapes, 0)
    except ValueError:
        raise _not_numbers(name, value, wanted) from None
    if len(shapes) > 1:
        raise ValueError(f"{name} must be {wanted}, rows of equal length, got {shown(value)}")
    if any(isinstance(x, jax.Array) for x in leaves):
        return jnp.asarray(value)
    return np.asarray(value) if leaves else np.asarray(value, float)


def _flatten(
    name: str,
    value: Any,
    wanted: str,
    leaves: list,
    shapes: set[tuple[int, ...]],
    depth: int,
    outer: tuple[int, ...] = (),
) -> None:
    """Collects the numbers of a nested list, each with the lengths of the lists around it."""
    if not isinstance(value, list | tuple):
        if type(value) is not float and type(value) is not int:
            array = array_of(name, value, wanted)
            outer = (*outer, *array.shape)
        elif type(value) is int and not -(2**63) <= value < 2**63:
            raise ValueError
        leaves.append(value)
        shapes.add(outer)
        return
    if depth > MOST_AXES:
        raise _not_numbers(name, value, wanted)
    if not value:
        shapes.add((*outer, 0))
    for x in value:
        _flatten(name, x, wanted, leaves, shapes, depth + 1, (*outer, len(value)))


def _fits(array: np.ndarray) -> bool:
    limit = np.iinfo(np.int64 if SETTINGS.jax_enable_x64 else np.int32)
    return bool(array.min() >= limit.min and array.max() <= limit.max)


def _not_numbers(name: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"{name} must be {wanted}, got {shown(value)}")


def real_array(name: str, value: Any, wanted: str) -> Array | np.ndarray:
    """`array_of`, of finite numbers where they are known."""
    if _is_plain(value):
        return value
    array = array_of(name, value, wanted)
    if array.dtype.kind in "iu" or isinstance(array, Tracer):
        return array
    if isinstance(array, jax.Array) and not _is_here(array):
        return array
    known = np.asarray(array)
    if not is_finite(known):
        where = np.argwhere(~np.isfinite(known))[0].tolist()
        first = f", first at {where}" if known.size > 8 else ""
        raise ValueError(f"{name} must be finite, got {shown(value)}{first}")
    if not SETTINGS.jax_enable_x64 and known.dtype == np.float64 and np.abs(known).max(initial=0.0) > LARGEST:
        raise ValueError(f"{name} must be finite in single precision, got {shown(value)}")
    return array


def _is_plain(value: Any) -> bool:
    """Whether `value` is what most arguments are: an array of finite floating-point numbers, of JAX on one device or of
    NumPy. That is found in less time than what is wrong with others; False does not say that anything is wrong."""
    if type(value) is np.ndarray:
        if not _is_known(value.dtype):
            return False
    elif not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return False
    elif not isinstance(value.sharding, jax.sharding.SingleDeviceSharding):
        # Of an array on several devices this process may not have all numbers.
        return False
    dtype = value.dtype
    # Some types of JAX, such as that of random keys, are none of NumPy's.
    if not isinstance(dtype, np.dtype) or dtype.kind != "f":
        return False
    # In single precision JAX would round a double, which may be too large for that.
    if dtype.itemsize > 4 and not SETTINGS.jax_enable_x64:
        return False
    return _has_finite_squares(np.asarray(value))


def is_finite(known: np.ndarray) -> bool:
    """Whether all numbers are finite; each is looked at only where the sum of squares leaves it open."""
    return _has_finite_squares(known) or bool(np.isfinite(known).all())


def _has_finite_squares(known: np.ndarray) -> bool:
    """Whether the sum of the squares is finite: then all numbers are, since infinity and NaN would stay in a sum
    without negative terms. It takes a third of the time of a look at each. Of finite numbers beyond about 1e154 (1e19
    in single precision) the sum overflows to infinity, so that False does not say that one is not finite."""
    return math.isfinite(np.vdot(known, known))


def _is_here(array: Array) -> bool:
    """Whether this process has all numbers of an array; of one on a single device JAX takes longer to say so."""
    return isinstance(array.sharding, jax.sharding.SingleDeviceSharding) or array.is_fully_addressable


def shown(value: Any) -> str:
    """A value in the words of an error."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, Tracer):
        return f"a traced array of shape {value.shape} and type {value.dtype}"
    try:
        text = repr(value)
    except Exception:
        text = ""
    return text if 0 < len(text) <= 200 else f"{text[:100]}… ({type(value).__name__})"


def floats(name: str, value: Any, wanted: str = "real numbers") -> Array:
    """`numbers`, as floating-point numbers of the working precision."""
    if isinstance(value, jax.Array) and not value.weak_type and value.dtype == _floating():
        return value
    value = np.asarray(float(value)) if isinstance(value, float | int) else value
    return numbers(name, value, wanted).astype(float)


def _floating() -> type:
    """The working precision; JAX takes longer to say so."""
    return np.float64 if SETTINGS.jax_enable_x64 else np.float32


def check_arguments(name: str, function: Callable, *wanted: str, named: tuple[str, ...] = ("t",)) -> None:
    """Raises ValueError unless the function takes the arguments `wanted`. It may also have parameters with the names in
    `named`, but without defaults: with a default, a parameter of the same name might mean something else."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    asked = {key: p for key, p in signature.parameters.items() if key in named and key not in wanted}
    try:
        signature.bind(*wanted, **dict.fromkeys(asked))
        error = next((f"{key} has a default" for key, p in asked.items() if p.default is not p.empty), None)
    except TypeError as failure:
        error = failure
    if error is not None:
        also = " and ".join(f"{key!r}" for key in named)
        raise ValueError(
            f"{name} must be a function ({', '.join(wanted)}), which may name {also} besides, without a default; this "
            f"one is {signature} ({error})"
        )


def check_indices(name: str, function: Callable, *args: Any) -> None:
    """Raises ValueError if the function takes a number of an array that has fewer."""
    try:
        check_program(jax.make_jaxpr(function)(*args))
    except IndexError as error:
        if "out of bounds for axis" not in str(error):
            return
        shapes = ", ".join(str(x.shape) for x in args if isinstance(x, jax.Array | jax.ShapeDtypeStruct) and x.shape)
        words = f"{name} takes more numbers than there are in arrays of the shapes {shapes}"
        raise ValueError(f"{words}: {error}. Give it as many as it takes, or let it take fewer") from None
    except Exception:  # What is wrong else is found, and said, where the function is called.
        return


def returned(name: str, function: Callable, *args: Any) -> Array:
    """The value of a user's function as an array of real numbers; else ValueError."""
    if any(isinstance(x, Tracer) for x in args):
        check_indices(name, function, *args)
    try:
        value = function(*args)
    except UNTRACEABLE as error:
        raise ValueError(f"{name} cannot be traced ({type(error).__name__}): {TRACEABLE}") from None
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        if type(error) is ValueError and is_our_own(error):
            raise
        shapes = ", ".join(str(x.shape) for x in args if isinstance(x, jax.Array))
        raise ValueError(
            f"{name} cannot be evaluated on arrays of the shapes {shapes}: {error}. Does it fit these shapes, as of q0 "
            "and v0?"
        ) from error
    if isinstance(value, list | tuple | dict) or value is None:
        raise ValueError(f"{name} must return an array, got {type(value).__name__}: join its parts with jnp.stack")
    value = numbers(f"what {name} returns", value)
    return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(jnp.result_type(float))


def is_our_own(error: BaseException) -> bool:
    """Whether an error comes from a `raise` of this package: JAX leaves its own frames out, so that the last one may be
    that of a call."""
    last = cast(TracebackType, error.__traceback__)
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    return code.co_filename.startswith(PACKAGE) and code.co_code[last.tb_lasti] == _RAISE


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number of Python or NumPy; flags and durations are none, though Python and NumPy make
    them kinds of whole numbers."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def one_number(name: str, value: Array) -> Scalar:
    """`value` if it is a scalar; else ValueError."""
    if jnp.shape(value) != ():
        raise ValueError(f"{name} must return a scalar, got shape {jnp.shape(value)}")
    return value


def row(name: str, value: Array) -> Array:
    """`value`, a scalar or a row, as a row [c]; else ValueError."""
    if jnp.ndim(value) > 1:
        raise ValueError(f"{name} must return one row [c], got shape {jnp.shape(value)}: ravel it")
    return jnp.atleast_1d(value)


def shaped(q: Array, shape: tuple[int, ...], what: str) -> Array:
    """A flat configuration, velocity or momentum, reshaped to `shape`, whose axes `what` describes; else ValueError."""
    if q.size != math.prod(shape):
        raise ValueError(f"q (or q0), and v or p, must have shape {shape} ({what}), got {q.size} numbers")
    return q.reshape(shape)


def a_number(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is one real number."""
    if not isinstance(value, float | int) and np.shape(numbers(name, value, "a number")) != ():
        raise ValueError(f"{name} must be a number, got shape {np.shape(value)}")
