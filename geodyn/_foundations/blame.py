"""What is said of an error that comes up inside of a function because of what the function was given."""

import dataclasses
import functools
import inspect
import re
import traceback
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from geodyn._foundations.checks import MOST_AXES, PACKAGE, TRACEABLE, UNTRACEABLE, is_our_own


class Unfit(ValueError):
    """Arguments with which a function failed. A function around that hands its own on says so of these instead."""


def explained(error: Exception, given: dict[str, Any]) -> Exception | None:
    """What to raise for an error from inside of a function that is due to what was `given` to it, by name; None for one
    that explains itself, and for kinds of errors that no argument is to blame for."""
    cause = error.__cause__ if isinstance(error, Unfit) else error
    if cause is error and not _may_be_due_to_arguments(error):
        return None
    first_line = (str(cause).splitlines() or [""])[0][:200]
    said = f"{type(cause).__name__}: {first_line}".removesuffix(": ")
    untraceable = isinstance(cause, UNTRACEABLE)
    functions = _run_in(cause, given)
    if functions:
        words = f"cannot be traced: {TRACEABLE}" if untraceable else f"must be a function as described: {said}"
        return _also(type(cause), ValueError)(f"{' or '.join(functions)} {words}")
    traced = [name for name, x in given.items() if _has_tracers(x)]
    if untraceable and traced:
        return _also(type(cause), ValueError)(
            f"{' and '.join(traced)} must be numbers that are known, got traced ones: call this outside of "
            "jit, grad and vmap, and hand in what it returns"
        )
    if not given:
        return None
    parts = [f"{name} of shape {np.shape(x)}" if _has_shape(x) else name for name, x in given.items()]
    words = f"the call failed on what was given for {', '.join(parts)}: {said}"
    remedy = "if these are what the documentation asks for, then this is a mistake of geodyn"
    return _also(type(cause), Unfit)(f"{words}; {remedy}")


def _may_be_due_to_arguments(error: Exception) -> bool:
    """Whether an error is of a kind that Python, numpy or JAX raise for operands that do not fit. Others, those that a
    user has made and those of a compiler or an assertion, stay as they are, and so do ours, which say what is wrong."""
    if type(error) is ValueError and is_our_own(error):
        return False
    return type(error).__module__.partition(".")[0] in ("builtins", "numpy", "jax")


@functools.cache
def _also(kind: type, ours: type) -> type:
    """`ours`, a ValueError, that is caught as what it was before, too."""
    before = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    if issubclass(before, ValueError):
        return ours
    return type(ours.__name__, (ours, before), {"__str__": BaseException.__str__})


def documented(error: str, doc: str | None) -> str:
    """What a docstring says of the argument that an error begins with."""
    name = re.split(r"\W", error, maxsplit=1)[0]
    entry = rf"^ {{4}}(?:\w+, )*\*?{name}(?:, \w+)*: (.*(?:\n {{8}}.*)*)"
    said = re.search(entry, inspect.cleandoc(doc or ""), re.MULTILINE)
    return f" ({name}: {' '.join(said[1].split()).rstrip('.;')})" if said else ""


def _run_in(error: BaseException | None, given: dict[str, Any]) -> list[str]:
    """The names of the functions given in which an error came up, those within objects too, as in `reduce.of`."""
    running = [frame.f_code for frame, _ in traceback.walk_tb(error and error.__traceback__)]
    foreign = {code for code in running if not code.co_filename.startswith(PACKAGE)}
    places = [place for name, x in given.items() for place, held in _within(name, x) if _code(held) in foreign]
    return list(dict.fromkeys(places))


def _code(function: Any) -> Any:
    return getattr(function, "__code__", None)


def _within(place: str, x: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """What is given, and what it holds, with the place of each."""
    yield place, x
    if depth == MOST_AXES or isinstance(x, type):
        return
    held = [(place, y) for y in _items(x)]
    if isinstance(x, functools.partial):
        held = [(place, y) for y in (x.func, *x.args)]
    elif dataclasses.is_dataclass(x):
        held = [(f"{place}.{field.name}", getattr(x, field.name, None)) for field in dataclasses.fields(x)]
    for name, y in held:
        yield from _within(name, y, depth + 1)


def _has_shape(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray)


def _items(x: Any) -> tuple:
    return tuple(x) if isinstance(x, list | tuple) else ()


def _has_tracers(x: Any) -> bool:
    return any(isinstance(y, Tracer) for y in jax.tree.leaves(x))
