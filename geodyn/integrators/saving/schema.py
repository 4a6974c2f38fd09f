"""What a system is made of, but for its numbers, as JSON that files keep and compare."""

import functools
import json
import types
from collections.abc import Callable

import equinox as eqx
import jax

from geodyn._compile.jit import Closure

VERSION = 1


def structure(system) -> str:
    """The classes of a system and of its parts by name, their fields, the names of functions, and what is static; of
    arrays, whose numbers files keep by name, that there is one. Where a class is defined does not matter."""
    return json.dumps({"schema": VERSION, "system": _schema(system)}, sort_keys=True, ensure_ascii=False)


def _schema(x):
    if eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct):
        return "array"
    if isinstance(x, Closure):
        return {"function": _schema(x.function), "closes over": [_schema(value) for value in x.values]}
    if isinstance(x, eqx.Module):
        return {"class": type(x).__qualname__} | {name: _schema(value) for name, value in sorted(vars(x).items())}
    if isinstance(x, dict):
        return {str(key): _schema(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [_schema(value) for value in x]
    if isinstance(x, functools.partial):
        return {"function": _schema(x.func), "arguments": _schema([*x.args, x.keywords])}
    if isinstance(x, types.MethodType):
        return {"method": x.__func__.__qualname__, "of": _schema(x.__self__)}
    if x is None or isinstance(x, bool | int | float | str):
        return x
    return {"function": x.__qualname__} if isinstance(x, Callable) and getattr(x, "__qualname__", "") else str(type(x))
