"""What the annotation of a parameter admits: a check (name, value) -> the value, or an array made of it.

A check says what it wants in words (`wanted`) and, for an array, the letters of its shape (`sizes`). What it refuses is
a ValueError that names the argument.
"""

import contextlib
import functools
import inspect
import math
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import AbstractArray
from typing_extensions import TypeAliasType

from geodyn._foundations.checks import MOST_AXES, array_of, as_jax_knows_it, is_whole, real_array, shown
from geodyn._foundations.typing import (
    Array,
    Axes,
    Count,
    Each,
    File,
    Index,
    Indices,
    Number,
    Numbers,
    Row,
    Rows,
    Scalar,
    Stages,
    Steps,
    Tree,
    Vector,
)

Check = Callable[[str, Any], Any]
# The letters of a shape; one letter for all of it where it may have any number of axes.
Sizes = list[str] | str | None

# Counters of steps, nodes and bins are 32-bit integers.
BIGGEST = 2**31 - 1
TUPLE = "a tuple"
FILE = "the name of a file"


def wanting(wanted: str) -> Callable[[Check], Check]:
    """Above a check: what it wants, in words."""

    def mark(check: Any) -> Check:
        check.wanted = wanted
        return check

    return mark


def wanted_by(check: Check | None) -> str:
    """What a check wants, in words."""
    return getattr(check, "wanted", "of another kind")


def with_sizes(check: Any, sizes: Sizes) -> Check:
    """The check, which knows the letters of the shape that it admits."""
    check.sizes = sizes
    return check


def sizes_of(check: Check | None) -> Sizes:
    """The letters of the shape that a check admits; None where it knows none."""
    return getattr(check, "sizes", None)


def refused(name: str, wanted: str, value: Any) -> ValueError:
    """The error for a value that is not what is wanted."""
    call = ": call it" if isinstance(value, type) else ""
    return ValueError(f"{name} must be {wanted}, got {shown(value)}{call}")


def kind_of(annotation: Any) -> Check | None:
    """The check that belongs to an annotation, None where it says nothing."""
    try:
        return _KINDS[annotation] if annotation in _KINDS else _composed(annotation)
    except TypeError:  # An annotation that cannot be hashed.
        return _composed(annotation)


def _composed(annotation: Any) -> Check | None:
    """The check of an annotation that is made of others, or that is a class."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, TypeAliasType):
        return kind_of(annotation.__value__)
    if origin in (typing.Union, types.UnionType):
        arrays = {a.array_type: a for a in inner if _is_array(a)}
        if np.ndarray in arrays and jax.Array in arrays:
            # `jit` takes those of NumPy as they are, and makes arrays of JAX of them in a fifth of the time.
            return _array(arrays[jax.Array], kept=True)
        return _one_of(inner)
    if origin is typing.Literal:
        return _literal(inner)
    if origin is typing.Annotated:
        check = cast(Check, kind_of(inner[0]))
        return functools.partial(_bounded, check, inner[1])
    if _is_array(annotation):
        return _array(annotation)
    if origin is tuple or annotation is tuple:
        return _tuple(inner)
    if origin in (Sequence, list) or annotation in (Sequence, list):
        return _sequence(inner)
    if origin in (dict, Mapping) or annotation in (dict, Mapping):
        return _dictionary(inner)
    if origin is Callable or annotation is Callable:
        return _callable(inner)
    if inspect.isclass(origin or annotation) and annotation is not inspect.Parameter.empty:
        return _instance(origin or annotation)
    return None


def _is_array(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, AbstractArray)


def _instance(kind: type) -> Check:
    plain = kind.__name__.removeprefix("Abstract")
    wanted = f"a{'n' if plain[0] in 'AEIOU' else ''} {plain}"

    @wanting(wanted)
    def check(name: str, value: Any) -> Any:
        # An abstract base class takes eight times as long to say so.
        if kind not in type(value).__mro__ and not isinstance(value, kind):
            raise refused(name, f"{wanted} ({kind.__module__}.{kind.__name__})", value)
        return value

    return check


def _one_of(alternatives: Sequence[Any]) -> Check | None:
    """The check of a union; None where one of its members says nothing."""
    optional = type(None) in alternatives
    kinds = [a for a in alternatives if a is not type(None)]
    if os.PathLike in kinds:  # Its check admits strings.
        kinds = [a for a in kinds if a is not str]
    checks = [kind_of(a) for a in kinds]
    known = [check for check in checks if check is not None]
    if len(known) < len(checks):
        return None
    wanted = " or ".join(dict.fromkeys(map(wanted_by, known)))

    @wanting(wanted)
    def check(name: str, value: Any) -> Any:
        if value is None and optional:
            return value
        errors = []
        for one in known:
            try:
                return one(name, value)
            except ValueError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0] from None
        raise refused(name, wanted, value)

    return with_sizes(check, sizes_of(known[0]) if len(known) == 1 else None)


def or_default(check: Check | None, default: Any) -> Check | None:
    """The check, which lets the default itself pass: it need not be what a user may give."""
    if check is None or default is inspect.Parameter.empty:
        return check

    @wanting(wanted_by(check))
    def also(name: str, value: Any) -> Any:
        return value if value is default else check(name, value)

    return with_sizes(also, sizes_of(check))


def with_gaps(check: Check) -> Check:
    """The check of an array in which NaN means that nothing is known."""

    @wanting(wanted_by(check))
    def filled(name: str, value: Any) -> Any:
        with contextlib.suppress(ValueError):
            return check(name, value)
        array = array_of(name, value, wanted_by(check))
        check(name, array if isinstance(array, Tracer) else np.where(np.isfinite(array), array, 0.0))
        return array

    return with_sizes(filled, sizes_of(check))


def _literal(values: tuple) -> Check:
    @wanting(" or ".join(map(repr, values)))
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str | int) or value not in values:
            raise refused(name, check.wanted, value)
        return value

    return check


def _tuple(inner: tuple) -> Check | None:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return _sequence(inner[:1])
    checks = [kind_of(one) for one in inner]

    @wanting(TUPLE)
    def check(name: str, value: Any) -> Any:
        if not _has_length(value) or len(value) != len(checks):
            raise refused(name, f"{TUPLE} of {len(checks)}", value)
        return tuple(x if one is None else one(f"{name}[{i}]", x) for i, (one, x) in enumerate(zip(checks, value)))

    return check if checks else None


def _has_length(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray | jax.Array) and value.ndim > 0)


def _dictionary(inner: tuple) -> Check:
    is_dictionary = _instance(dict)
    one = kind_of(inner[1]) if inner else None

    @wanting("a dictionary")
    def check(name: str, value: Any) -> Any:
        is_dictionary(name, value)
        return value if one is None else {key: one(f"{name}[{key!r}]", x) for key, x in value.items()}

    return check


def _sequence(inner: tuple) -> Check:
    one = kind_of(inner[0]) if inner else None

    @wanting("a sequence")
    def check(name: str, value: Any) -> Any:
        if isinstance(value, str | bytes) or not (_has_length(value) or isinstance(value, Sequence)):
            raise refused(name, "a sequence", value)
        if one is None:
            return value
        return tuple(one(f"{name}[{i}]", x) for i, x in enumerate(value))

    return check


def _callable(inner: tuple) -> Check:
    count = len(inner[0]) if inner and isinstance(inner[0], list) else None
    words = "a function" if count is None else f"a function of {count} argument{'s' * (count != 1)}"

    @wanting(words)
    def check(name: str, value: Any) -> Any:
        if not callable(value) or (isinstance(value, type) and not _makes(value, count)):
            raise refused(name, words, value)
        if count is not None and not _takes(value, count):
            raise ValueError(f"{name} must be {words}, this one is {inspect.signature(value)}")
        return value

    return check


def _makes(kind: type, count: int | None) -> bool:
    """Whether a class is a function of so many arguments. Those of Python, such as `dict`, are given by mistake."""
    return count is not None and kind.__module__ != "builtins" and _takes(kind, count)


def _takes(function: Any, count: int) -> bool:
    """Whether a function takes so many arguments; True where Python does not know."""
    if _plainly_takes(function, count):
        return True
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # Python does not know the signature.
        pass
    return True


def _plainly_takes(function: Any, count: int) -> bool:
    """Whether a function, or the `__call__` of an object, takes so many arguments, as far as its code says so: a
    signature takes much longer to make."""
    if isinstance(function, type) or _is_wrapper(function):
        return False
    if type(function) is not types.FunctionType:
        function, count = type(function).__call__, count + 1
    if type(function) is not types.FunctionType or _is_wrapper(function):
        return False
    code = function.__code__
    fewest = code.co_argcount - len(function.__defaults__ or ())
    most = math.inf if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    return not code.co_kwonlyargcount and fewest <= count <= most


def _is_wrapper(function: Any) -> bool:
    return getattr(function, "__wrapped__", None) is not None


def _array(annotation: Any, kept: bool = False) -> Check:
    """The check of an array; what it makes of lists, and leaves of arrays of NumPy, are arrays of JAX unless they may
    be `kept`."""
    names = [part.rsplit("=", 1)[-1] for part in annotation.dim_str.split()]
    count = len(names)
    fixed = [(i, int(part)) for i, part in enumerate(names) if part.isdigit()]
    variadic = any(part.startswith("*") or part == "..." for part in names)
    # The letter of "*B", which stands for all of the shape.
    whole = names[0][1:] if count == 1 and variadic and names[0] != "..." else None
    numbers = annotation.dtype.__name__
    integers = numbers in ("Int", "Integer")
    logical = numbers == "Bool"
    of_numpy = annotation.array_type is np.ndarray
    words = _words_of(names, variadic)

    @wanting(words)
    def check(name: str, value: Any) -> Any:
        if logical:
            return value
        array = real_array(name, value, words)
        shape, dtype = array.shape, array.dtype
        if not variadic and (len(shape) != count or any(shape[i] != size for i, size in fixed)):
            raise ValueError(f"{name} must be {words}, got shape {shape}")
        if integers:
            if not jnp.issubdtype(dtype, jnp.integer):
                raise refused(name, "whole numbers", value)
            return jnp.asarray(array)
        if of_numpy:
            if isinstance(array, Tracer):
                raise ValueError(f"{name} must be numbers that are known, got traced ones: call this outside of jit")
            return np.asarray(array) if dtype.kind == "f" else np.asarray(array, float)
        if dtype.kind in "iu":
            return jnp.asarray(array, jnp.result_type(float))
        # The first question is the quicker one.
        floating = dtype.kind == "f" or jnp.issubdtype(dtype, jnp.floating)
        if floating and (kept or isinstance(array, jax.Array)):
            return array
        return jnp.asarray(array)

    return with_sizes(check, whole or (None if variadic else names))


def _words_of(names: list[str], variadic: bool) -> str:
    """What an array of axes with these names is called."""
    if not names:
        return "one number"
    return "an array" if variadic else f"an array of shape [{', '.join(names)}]"


def _reals(words: str, axes: Sequence[int] = range(MOST_AXES + 1)) -> Check:
    """Finite numbers with so many axes; with no others than those of any shape, lists become arrays."""
    anything = len(axes) > MOST_AXES

    @wanting(words)
    def check(name: str, value: Any) -> Any:
        if type(value) is float and 0 in axes and -math.inf < value < math.inf:
            return value
        array = real_array(name, value, "real numbers")
        if anything:
            return array if isinstance(value, list | tuple) else as_jax_knows_it(value, array)
        if array.ndim not in axes or array.size == 0:
            raise ValueError(f"{name} must be {words}, got shape {array.shape}")
        return as_jax_knows_it(value, array)

    return check


@wanting("numbers")
def _vector(name: str, value: Any) -> Any:
    """Numbers that may be infinite, as bounds may."""
    array = array_of(name, value, "real numbers")
    if not isinstance(array, Tracer) and np.isnan(np.asarray(array)).any():
        raise refused(name, "numbers", value)
    return as_jax_knows_it(value, array)


def _is_key_or_mask(x: Any) -> bool:
    dtype = getattr(x, "dtype", float)
    return jnp.issubdtype(dtype, jax.dtypes.prng_key) or jnp.issubdtype(dtype, np.bool_)


@wanting("numbers, or a pytree of them")
def _tree(name: str, value: Any) -> Any:
    leaves, structure = jax.tree_util.tree_flatten_with_path(value)
    found = [x if callable(x) or _is_key_or_mask(x) else _leaf(name, path, x) for path, x in leaves]
    return value if all(a is b for a, (_, b) in zip(found, leaves)) else jax.tree.unflatten(structure, found)


def _leaf(name: str, path: tuple, x: Any) -> Any:
    """A number in a pytree, which an error names by its place."""
    return as_jax_knows_it(x, real_array(f"{name}{jax.tree_util.keystr(path)}", x, "real numbers"))


@wanting("a number")
def _number(name: str, value: Any) -> Any:
    kind = type(value)
    if kind is float and -math.inf < value < math.inf:
        return value
    array = real_array(name, value, "a number")
    if array.shape != ():
        raise ValueError(f"{name} must be a number, got shape {array.shape}")
    if kind is int:
        return float(value)
    if jnp.issubdtype(array.dtype, jnp.integer):
        return float(value) if not isinstance(array, jax.Array) else array.astype(float)
    return as_jax_knows_it(value, array)


@wanting("a number")
def _plain_number(name: str, value: Any) -> Any:
    """A number of Python, as what a program depends on must be; traced ones pass."""
    value = _number(name, value)
    return value if isinstance(value, float | Tracer) else float(value)


def _whole(words: str, least: int, most: int = BIGGEST) -> Check:
    """Whole numbers that are known when a program is compiled."""

    @wanting(words)
    def check(name: str, value: Any) -> Any:
        if type(value) is not int:
            if isinstance(value, Tracer):
                raise ValueError(
                    f"{name} must be {words} that is known when a program is compiled, got one that is traced: mark "
                    "it by static_argnames in jax.jit, or give it from outside of the function"
                )
            if not (is_whole(value) or _is_array_of_one_integer(value)):
                raise refused(name, words, value)
            value = int(value)
        if not least <= value <= most:
            limit = f", at most {most}" if value > most else ""
            raise refused(name, words + limit, value)
        return value

    return check


def _is_array_of_one_integer(value: Any) -> bool:
    if not isinstance(value, jax.Array | np.ndarray) or value.shape != ():
        return False
    # Keys of random numbers have a type without a `kind`.
    return jnp.issubdtype(value.dtype, np.integer) and value.dtype.kind in "iu"


def _bounded(check: Check, most: int, name: str, value: Any) -> Any:
    """The value, which is at most `most`."""
    value = check(name, value)
    if value > most:
        raise refused(name, f"{wanted_by(check)}, at most {most},", value)
    return value


@wanting("True or False")
def _flag(name: str, value: Any) -> Any:
    if value is True or value is False or isinstance(value, np.bool_):
        return bool(value)  # One of NumPy would be traced.
    raise refused(name, "True or False", value)


@wanting("a string")
def _text(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        raise refused(name, "a string", value)
    return value


@wanting("a path")
def _path(name: str, value: Any) -> Any:
    if not isinstance(value, str | os.PathLike):
        raise refused(name, "a path, a string or os.PathLike", value)
    if not str(value) or "\0" in str(value):
        raise refused(name, "a path", value)
    return value


@wanting("indices")
def _indices(name: str, value: Any) -> Any:
    array = real_array(name, value, "whole numbers")
    if (array.size and array.dtype.kind not in "iu") or isinstance(array, Tracer):
        raise refused(name, "whole numbers", value)
    return value


@wanting("an Axes of matplotlib")
def _axes(name: str, value: Any) -> Any:
    if value is not None and getattr(value, "get_figure", None) is None:
        raise refused(name, "an Axes of matplotlib", value)
    return value


def check_place(name: str, value: Any) -> None:
    """Raises ValueError unless a file can be written there."""
    path = Path(value)
    if path.is_dir():
        raise refused(name, f"{FILE}, not of a folder", value)
    if not path.parent.is_dir():
        raise refused(name, f"{FILE} in a folder that exists", value)


_KINDS: dict[Any, Check | None] = {
    inspect.Parameter.empty: None,
    typing.Any: None,
    object: None,
    Numbers: _reals("numbers"),
    Number: _number,
    Scalar: _number,
    float: _plain_number,
    Tree: _tree,
    Vector: _vector,
    Each: _reals("one number or one for each, in a row", (0, 1)),
    Row: _reals("a row of numbers", (1,)),
    Rows: _reals("rows of numbers", (2,)),
    Count: _whole("a positive whole number", 1, 10**6),
    Steps: _whole("a positive whole number", 1),
    Stages: _whole("a positive whole number", 1, 64),
    File: wanting(FILE)(functools.partial(_path)),
    Indices: _indices,
    Axes: _axes,
    Index: _whole("a whole number ≥ 0", 0),
    int: _whole("a whole number", -(2**63), 2**63 - 1),
    bool: _flag,
    str: _text,
    os.PathLike: _path,
    Array: _reals("numbers"),
}
