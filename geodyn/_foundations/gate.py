"""The one place where the arguments of public functions are checked: against the annotations of their signatures.

`@checked` stands above a public function, method or class. What each annotation admits is the table `_admitted`; what
an argument must be besides (a sign, a length that belongs to another argument) the function itself says. Errors are
ValueErrors that name the argument. Under jit shapes and dtypes are checked and values are not known.
"""

import contextlib
import dataclasses
import functools
import inspect
import math
import os
import re
import traceback
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import AbstractArray
from typing_extensions import TypeAliasType

from geodyn._foundations.checks import (
    MOST_AXES,
    PACKAGE,
    TRACEABLE,
    UNTRACEABLE,
    array_of,
    as_jax_knows_it,
    is_our_own,
    is_whole,
    real_array,
    shown,
)
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

_Public = typing.TypeVar("_Public", bound=Callable)

# Counters of steps, nodes and bins are 32-bit integers.
BIGGEST = 2**31 - 1
_TUPLE = "a tuple"
_FILE = "the name of a file"


@typing.overload
def checked(public: _Public) -> _Public: ...
@typing.overload
def checked(*, gaps: tuple[str, ...]) -> Callable[[_Public], _Public]: ...
def checked(public: typing.Any = None, *, gaps: tuple[str, ...] = ()) -> typing.Any:
    """The function, or the class, whose arguments are checked before it runs. Of a class without an `__init__` of its
    own the fields say what they admit. In the arguments `gaps` what is not finite means that nothing is known."""
    if public is None:
        return functools.partial(checked, gaps=gaps)
    if not inspect.isclass(public):
        return _gated(public, gaps=gaps)
    if issubclass(public, tuple):
        public.__new__ = _gated(public.__new__)
    else:
        public.__init__ = _gated(public.__init__, {field.name: field.type for field in dataclasses.fields(public)})
    return public


def _gated(function, fields=MappingProxyType({}), gaps=()):
    tables, dispatch = {}, getattr(function, "dispatch", None)
    first = next(iter(inspect.signature(function).parameters), None)

    @functools.wraps(function)
    def call(*args, **kwargs):
        target = function if dispatch is None else dispatch(type(args[0] if args else kwargs.get(first)))
        table = tables.get(target)
        if table is None:
            table = tables[target] = _Table(target, fields, gaps)
        try:
            args, kwargs = table.positional(args), table.named(kwargs)
            if table.related:
                table.check_together(args, kwargs)
        except ValueError as error:
            doc = function.__doc__ or (type(args[0]).__doc__ if args else "")
            raise ValueError(f"{error}{_about(str(error), doc)}") from None
        try:
            return target(*args, **kwargs)
        except (TypeError, AttributeError, ValueError, LookupError, OverflowError, MemoryError) as error:
            explained = table.explained(error, args, kwargs)
            if explained is None:
                raise
            raise explained from error

    return call


class Unfit(ValueError):
    """Arguments with which a function failed. A function around that hands its own on says so of these instead."""


def _may_be_due_to_arguments(error) -> bool:
    """Whether an error is of a kind that Python, numpy or JAX raise for operands that do not fit. Others, those that a
    user has made and those of a compiler or an assertion, stay as they are."""
    return type(error).__module__.partition(".")[0] in ("builtins", "numpy", "jax")


@functools.cache
def _also(kind: type, ours: type) -> type:
    """`ours`, a ValueError, that is caught as what it was before, too."""
    before = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    if issubclass(before, ValueError):
        return ours
    return type(ours.__name__, (ours, before), {"__str__": BaseException.__str__})


def _about(error: str, doc: str | None) -> str:
    """What a docstring says of the argument that an error begins with."""
    name = re.split(r"\W", error, maxsplit=1)[0]
    entry = rf"^ {{4}}(?:\w+, )*\*?{name}(?:, \w+)*: (.*(?:\n {{8}}.*)*)"
    said = re.search(entry, inspect.cleandoc(doc or ""), re.MULTILINE)
    return f" ({name}: {' '.join(said[1].split()).rstrip('.;')})" if said else ""


def _one_of_many(name: str, check: Callable, i: int, value):
    """The value, the i-th of those that are given one by one, as `check` returns it."""
    if isinstance(value, list | tuple) and _wanted(check) != _TUPLE:
        raise ValueError(f"{name} are given one by one, not in a list: *{name}")
    return check(f"{name}[{i}]", value)


class _Table:
    """The check of each parameter of a function; None where anything is admitted."""

    def __init__(self, function, fields, gaps):
        parameters = inspect.signature(function).parameters.values()
        kinds = [(p, _kind(fields.get(p.name, p.annotation))) for p in parameters]
        kinds = [(p, _with_gaps(check) if p.name in gaps else check) for p, check in kinds]
        before = [(p, check) for p, check in kinds if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.names = [p.name for p, _ in before]
        self.before = [(p.name, _or_default(check, p.default)) for p, check in before]
        self.rest = next(((p.name, check) for p, check in kinds if p.kind is p.VAR_POSITIONAL), None)
        named = [(p, check) for p, check in kinds if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.by_name = {p.name: _or_default(check, p.default) for p, check in named}
        # The dimension of a space is that of its points.
        self.space = "space" if any(p.name == "space" for p, _ in kinds) else None
        self.sizes = _shared({p.name: check.sizes for p, check in kinds if getattr(check, "sizes", None)}, self.space)
        self.files = [p.name for p, check in kinds if getattr(check, "wanted", "") == _FILE]
        self.related = bool(self.sizes or self.files)

    def positional(self, args):
        """The positional arguments, those of array kinds as arrays."""
        given = [value if check is None else check(name, value) for (name, check), value in zip(self.before, args)]
        if len(given) == len(args):
            return given
        more = args[len(given) :]
        name, check = self.rest or ("", None)
        if check is not None:
            more = [_one_of_many(name, check, i, value) for i, value in enumerate(more)]
        return (*given, *more)

    def check_together(self, args, kwargs):
        """Raises ValueError unless the shapes of arrays agree; files come last, since others may not depend on them."""
        given = dict(zip(self.names, args)) | kwargs
        space = given.get(self.space)
        known = {"n": ("space", space.dim), "dim": ("space", space.dim)} if _is_space(type(space)) else {}
        for name, sizes in self.sizes.items():
            value = given.get(name)
            if value is not None and not callable(value):
                _check_sizes(name, np.shape(value), sizes, known)
        for name in self.files:
            if given.get(name) is not None:
                _check_place(name, given[name])

    def explained(self, error, args, kwargs):
        """What to raise for an error from inside that is due to what was given; None for one that explains itself, and
        for kinds of errors that no argument is to blame for."""
        if error.__traceback__.tb_next is None:  # Arguments are missing, or are too many.
            return None
        if isinstance(error, Unfit):
            error = error.__cause__
        elif (type(error) is ValueError and is_our_own(error)) or not _may_be_due_to_arguments(error):
            return None
        given = self._given(args, kwargs)
        said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}".removesuffix(": ")
        untraceable = isinstance(error, UNTRACEABLE)
        if run := _run_in(error, given):
            words = f"cannot be traced: {TRACEABLE}" if untraceable else f"must be a function as described: {said}"
            return _also(type(error), ValueError)(f"{' or '.join(run)} {words}")
        if untraceable and (traced := [name for name, x in given.items() if _has_tracers(x)]):
            return _also(type(error), ValueError)(
                f"{' and '.join(traced)} must be numbers that are known, got traced ones: call this outside of "
                "jit, grad and vmap, and hand in what it returns"
            )
        parts = [f"{name} of shape {np.shape(x)}" if _has_shape(x) else name for name, x in given.items()]
        words = f"the call failed on what was given for {', '.join(parts)}: {said}"
        remedy = "if these are what the documentation asks for, then this is a mistake of geodyn"
        return _also(type(error), Unfit)(f"{words}; {remedy}") if parts else None

    def _given(self, args, kwargs) -> dict:
        """All arguments by the names of their parameters."""
        given = dict(zip(self.names, args)) | kwargs
        if self.rest is not None and len(args) > len(self.before):
            given[self.rest[0]] = args[len(self.before) :]
        return {name: x for name, x in given.items() if name not in ("self", "cls")}

    def named(self, kwargs):
        """The arguments given by name."""
        if not kwargs:
            return kwargs
        checks = self.by_name
        return {
            name: value if (check := checks.get(name)) is None else check(name, value) for name, value in kwargs.items()
        }


def _or_default(check, default):
    """The check, which lets the default itself pass: it need not be what a user may give."""
    if check is None or default is inspect.Parameter.empty:
        return check

    @_named(_wanted(check))
    def also(name, value):
        return value if value is default else check(name, value)

    also.sizes = getattr(check, "sizes", None)
    return also


def _check_sizes(name: str, shape: tuple, sizes: str | list, known: dict) -> None:
    """Raises ValueError unless the letters `sizes` of a shape, or the one for all of it, mean what is `known` of them,
    {letter: (the argument that has it, what it means)}. What is new is added."""
    if isinstance(sizes, str):
        other, wanted = known.setdefault(sizes, (name, shape))
        if shape != wanted:
            raise ValueError(f"{name} must have the shape of {other}, {wanted}; got {shape}")
    elif len(shape) == len(sizes):
        for letter, size in zip(sizes, shape):
            other, wanted = known.setdefault(letter, (name, size)) if letter else (name, size)
            if size != wanted:
                known_from = "" if other == name else f" with {letter} = {wanted} as {other} has it"
                shown_sizes = ", ".join(map(str, sizes))
                raise ValueError(f"{name} must have shape [{shown_sizes}]{known_from}, got shape {shape}")


def _run_in(error, given: dict) -> list[str]:
    """The names of the functions given in which an error came up, those within objects too, as in `reduce.of`."""
    lines = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    lines = {line for line in lines if not line.co_filename.startswith(PACKAGE)}
    named = [place for name, x in given.items() for place, f in _within(name, x) if _code(f) in lines]
    return list(dict.fromkeys(named))


def _code(function):
    return getattr(function, "__code__", None)


def _within(place: str, x, depth: int = 0):
    """What is given, and what it holds, with the place of each."""
    yield place, x
    if depth < MOST_AXES and not isinstance(x, type):
        held = [(place, y) for y in _items(x)]
        if isinstance(x, functools.partial):
            held = [(place, y) for y in (x.func, *x.args)]
        elif dataclasses.is_dataclass(x):
            held = [(f"{place}.{field.name}", getattr(x, field.name, None)) for field in dataclasses.fields(x)]
        for name, y in held:
            yield from _within(name, y, depth + 1)


def _has_shape(x) -> bool:
    return isinstance(x, jax.Array | np.ndarray)


def _items(x) -> tuple:
    return tuple(x) if isinstance(x, list | tuple) else ()


def _has_tracers(x) -> bool:
    return any(isinstance(y, Tracer) for y in jax.tree.leaves(x))


def _with_gaps(check):
    """The check of an array in which NaN means that nothing is known."""

    @_named(_wanted(check))
    def filled(name, value):
        with contextlib.suppress(ValueError):
            return check(name, value)
        array = array_of(name, value, _wanted(check))
        check(name, array if isinstance(array, Tracer) else np.where(np.isfinite(array), array, 0.0))
        return array

    filled.sizes = getattr(check, "sizes", None)
    return filled


@functools.cache
def _is_space(kind) -> bool:
    """Whether a class is one of spaces, which stand right of this room; level sets are none."""
    return any(base.__name__ == "AbstractManifold" for base in kind.__mro__)


def _shared(sizes: dict, space: str | None) -> dict:
    """Of the letters of the shapes of each argument those that occur more than once; None for the others."""
    whole = {name: row for name, row in sizes.items() if isinstance(row, str)}
    sizes = {name: row for name, row in sizes.items() if name not in whole}
    letters = [letter for row in sizes.values() for letter in row] + (["n", "dim"] if space else [])
    kept = {name: [x if letters.count(x) > 1 else None for x in row] for name, row in sizes.items()}
    return whole | {name: row for name, row in kept.items() if any(row)}


def _refused(name, wanted, value):
    call = ": call it" if isinstance(value, type) else ""
    return ValueError(f"{name} must be {wanted}, got {shown(value)}{call}")


# What each annotation admits: a function (name, value) -> the value, or an array made of it.


def _kind(annotation) -> Callable | None:
    """The check that belongs to an annotation, None where it says nothing."""
    try:
        return _KINDS[annotation] if annotation in _KINDS else _composed(annotation)
    except TypeError:  # An annotation that cannot be hashed.
        return _composed(annotation)


def _composed(annotation) -> Callable | None:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, TypeAliasType):
        return _kind(annotation.__value__)
    if origin in (typing.Union, types.UnionType):
        arrays = {a.array_type: a for a in inner if _is_array(a)}
        # `jit` takes those of NumPy as they are, and makes arrays of JAX of them in a fifth of the time.
        return _array(arrays[jax.Array], kept=True) if {np.ndarray, jax.Array} <= set(arrays) else _one_of(inner)
    if origin is typing.Literal:
        return _literal(inner)
    if origin is typing.Annotated:
        return functools.partial(_bounded, _kind(inner[0]), inner[1])
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


def _is_array(annotation) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, AbstractArray)


def _instance(kind: type):
    plain = kind.__name__.removeprefix("Abstract")
    wanted = f"a{'n' if plain[0] in 'AEIOU' else ''} {plain}"

    @_named(wanted)
    def check(name, value):
        # An abstract base class takes eight times as long to say so.
        if kind not in type(value).__mro__ and not isinstance(value, kind):
            raise _refused(name, f"{wanted} ({kind.__module__}.{kind.__name__})", value)
        return value

    return check


def _one_of(alternatives):
    alternatives = [a for a in alternatives if a is not str or os.PathLike not in alternatives]
    checks = [None if a is type(None) else _kind(a) for a in alternatives]
    optional = type(None) in alternatives
    checks = [check for check, a in zip(checks, alternatives) if a is not type(None)]
    known = [check for check in checks if check is not None]
    if len(known) < len(checks):
        return None

    def check(name, value):
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
        raise _refused(name, " or ".join(dict.fromkeys(_wanted(one) for one in known)), value)

    check.wanted = " or ".join(dict.fromkeys(map(_wanted, checks)))
    check.sizes = getattr(checks[0], "sizes", None) if len(checks) == 1 else None
    return check


def _wanted(check):
    return getattr(check, "wanted", "of another kind")


def _named(wanted):
    def mark(check):
        check.wanted = wanted
        return check

    return mark


def _literal(values):
    @_named(" or ".join(map(repr, values)))
    def check(name, value):
        if not isinstance(value, str | int) or value not in values:
            raise _refused(name, check.wanted, value)
        return value

    return check


def _tuple(inner):
    if len(inner) == 2 and inner[1] is Ellipsis:
        return _sequence(inner[:1])
    checks = [_kind(one) for one in inner]

    @_named(_TUPLE)
    def check(name, value):
        if not _has_length(value) or len(value) != len(checks):
            raise _refused(name, f"{_TUPLE} of {len(checks)}", value)
        return tuple(x if one is None else one(f"{name}[{i}]", x) for i, (one, x) in enumerate(zip(checks, value)))

    return check if checks else None


def _has_length(value) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray | jax.Array) and value.ndim > 0)


def _dictionary(inner):
    is_dictionary, one = _instance(dict), _kind(inner[1]) if inner else None

    @_named("a dictionary")
    def check(name, value):
        is_dictionary(name, value)
        return value if one is None else {key: one(f"{name}[{key!r}]", x) for key, x in value.items()}

    return check


def _sequence(inner):
    one = _kind(inner[0]) if inner else None

    @_named("a sequence")
    def check(name, value):
        if isinstance(value, str | bytes) or not (_has_length(value) or isinstance(value, Sequence)):
            raise _refused(name, "a sequence", value)
        if one is None:
            return value
        return tuple(one(f"{name}[{i}]", x) for i, x in enumerate(value))

    return check


def _callable(inner):
    count = len(inner[0]) if inner and isinstance(inner[0], list) else None
    words = "a function" if count is None else f"a function of {count} argument{'s' * (count != 1)}"

    @_named(words)
    def check(name, value):
        if not callable(value) or (isinstance(value, type) and not _makes(value, count)):
            raise _refused(name, words, value)
        if count is not None and not _takes(value, count):
            raise ValueError(f"{name} must be {words}, this one is {inspect.signature(value)}")
        return value

    return check


def _makes(kind: type, count: int | None) -> bool:
    """Whether a class is a function of so many arguments. Those of Python, such as `dict`, are given by mistake."""
    return count is not None and kind.__module__ != "builtins" and _takes(kind, count)


def _takes(function, count: int) -> bool:
    if _plainly_takes(function, count):
        return True
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # Python does not know the signature.
        pass
    return True


def _plainly_takes(function, count: int) -> bool:
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


def _is_wrapper(function) -> bool:
    return getattr(function, "__wrapped__", None) is not None


def _array(annotation, kept: bool = False):
    """The check of an array; what it makes of lists, and leaves of arrays of NumPy, are arrays of JAX unless they may
    be `kept`."""
    names = [part.rsplit("=", 1)[-1] for part in annotation.dim_str.split()]
    variadic = any(part.startswith("*") or part == "..." for part in names)
    whole = names[0][1:] if len(names) == 1 and variadic and names[0] != "..." else None
    count, fixed = len(names), [(i, int(part)) for i, part in enumerate(names) if part.isdigit()]
    integers, logical = annotation.dtype.__name__ in ("Int", "Integer"), annotation.dtype.__name__ == "Bool"
    words = "one number" if not names else "an array" if variadic else f"an array of shape [{', '.join(names)}]"

    @_named(words)
    def check(name, value):
        if logical:
            return value
        array = real_array(name, value, words)
        shape, dtype = array.shape, array.dtype
        if not variadic and (len(shape) != count or any(shape[i] != size for i, size in fixed)):
            raise ValueError(f"{name} must be {words}, got shape {shape}")
        if integers:
            if not jnp.issubdtype(dtype, jnp.integer):
                raise _refused(name, "whole numbers", value)
            return jnp.asarray(array)
        if annotation.array_type is np.ndarray:
            if isinstance(array, Tracer):
                raise ValueError(f"{name} must be numbers that are known, got traced ones: call this outside of jit")
            return np.asarray(array) if dtype.kind == "f" else np.asarray(array, float)
        if (kept or isinstance(array, jax.Array)) and (dtype.kind == "f" or jnp.issubdtype(dtype, jnp.floating)):
            return array
        return jnp.asarray(array, jnp.result_type(float)) if dtype.kind in "iu" else jnp.asarray(array)

    check.sizes = whole or (None if variadic else names)
    return check


def _reals(words, axes=range(MOST_AXES + 1)):
    """Finite numbers with so many axes; with no others than those of any shape, lists become arrays."""
    anything = len(axes) > MOST_AXES

    @_named(words)
    def check(name, value):
        if type(value) is float and 0 in axes and -math.inf < value < math.inf:
            return value
        array = real_array(name, value, "real numbers")
        if anything:
            return array if isinstance(value, list | tuple) else as_jax_knows_it(value, array)
        if array.ndim not in axes or array.size == 0:
            raise ValueError(f"{name} must be {words}, got shape {array.shape}")
        return as_jax_knows_it(value, array)

    return check


@_named("numbers")
def _vector(name, value):
    """Numbers that may be infinite, as bounds may."""
    array = array_of(name, value, "real numbers")
    if not isinstance(array, Tracer) and np.isnan(np.asarray(array)).any():
        raise _refused(name, "numbers", value)
    return as_jax_knows_it(value, array)


def _is_key_or_mask(x) -> bool:
    dtype = getattr(x, "dtype", float)
    return jnp.issubdtype(dtype, jax.dtypes.prng_key) or jnp.issubdtype(dtype, np.bool_)


@_named("numbers, or a pytree of them")
def _tree(name, value):
    leaves, structure = jax.tree_util.tree_flatten_with_path(value)
    found = [x if callable(x) or _is_key_or_mask(x) else _leaf(name, path, x) for path, x in leaves]
    return value if all(a is b for a, (_, b) in zip(found, leaves)) else jax.tree.unflatten(structure, found)


def _leaf(name, path, x):
    return as_jax_knows_it(x, real_array(f"{name}{jax.tree_util.keystr(path)}", x, "real numbers"))


@_named("a number")
def _number(name, value):
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


@_named("a number")
def _plain_number(name, value):
    """A number of Python, as what a program depends on must be; traced ones pass."""
    value = _number(name, value)
    return value if isinstance(value, float | Tracer) else float(value)


def _whole(words, least, most=BIGGEST):
    @_named(words)
    def check(name, value):
        if type(value) is not int:
            if isinstance(value, Tracer):
                raise ValueError(
                    f"{name} must be {words} that is known when a program is compiled, got one that is traced: mark "
                    "it by static_argnames in jax.jit, or give it from outside of the function"
                )
            whole = is_whole(value) or (
                isinstance(value, jax.Array | np.ndarray)
                and value.shape == ()
                and jnp.issubdtype(value.dtype, np.integer)
                and value.dtype.kind in "iu"
            )
            if not whole:
                raise _refused(name, words, value)
            value = int(value)
        if not least <= value <= most:
            limit = f", at most {most}" if value > most else ""
            raise _refused(name, words + limit, value)
        return value

    return check


def _bounded(check, most: int, name, value):
    value = check(name, value)
    if value > most:
        raise _refused(name, f"{_wanted(check)}, at most {most},", value)
    return value


@_named("True or False")
def _flag(name, value):
    if value is True or value is False or isinstance(value, np.bool_):
        return bool(value)  # One of NumPy would be traced.
    raise _refused(name, "True or False", value)


@_named("a string")
def _text(name, value):
    if not isinstance(value, str):
        raise _refused(name, "a string", value)
    return value


@_named("a path")
def _path(name, value):
    if not isinstance(value, str | os.PathLike):
        raise _refused(name, "a path, a string or os.PathLike", value)
    if not str(value) or "\0" in str(value):
        raise _refused(name, "a path", value)
    return value


@_named("indices")
def _indices(name, value):
    array = real_array(name, value, "whole numbers")
    if (array.size and array.dtype.kind not in "iu") or isinstance(array, Tracer):
        raise _refused(name, "whole numbers", value)
    return value


@_named("an Axes of matplotlib")
def _axes(name, value):
    if value is not None and getattr(value, "get_figure", None) is None:
        raise _refused(name, "an Axes of matplotlib", value)
    return value


def _check_place(name, value):
    path = Path(value)
    if path.is_dir():
        raise _refused(name, f"{_FILE}, not of a folder", value)
    if not path.parent.is_dir():
        raise _refused(name, f"{_FILE} in a folder that exists", value)


_KINDS = {
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
    File: _named(_FILE)(functools.partial(_path)),
    Indices: _indices,
    Axes: _axes,
    Index: _whole("a whole number ≥ 0", 0),
    int: _whole("a whole number", -(2**63), 2**63 - 1),
    bool: _flag,
    str: _text,
    os.PathLike: _path,
    Array: _reals("numbers"),
}
