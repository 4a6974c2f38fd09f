"""The structure of a system without its numbers, as JSON that files store and compare."""

import functools
import json
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from geodyn._engine.jit import Closure
from geodyn._foundations.typing import PyTree

VERSION = 1


def structure(system: PyTree) -> str:
    """The structure of a system as JSON: the names of its class and of those of its parts, their fields, the names of
    functions, and static values. An array is only listed as such, since files store its numbers by name. The module in
    which a class is defined does not matter."""
    return json.dumps({"schema": VERSION, "system": _schema(system)}, sort_keys=True, ensure_ascii=False)


def _schema(x: Any) -> Any:
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
