"""The sources of what a result was computed by."""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

import equinox as eqx

from geodyn._engine.jit import Carried
from geodyn._foundations.gate import checked
from geodyn._version import __version__

ITSELF = f"geodyn {__version__}: The geodyn developers, https://github.com/geodyn/geodyn"


@checked
def cite(what: eqx.Module, *more: eqx.Module) -> str:
    """What to cite for a motion, a stroke or a body: the sources of everything that it was computed by.

    These are the sections `Source` of the docstrings of its classes: of the method, the system, its space and what acts
    on it, and of classes of your own. What is a function, such as a metric or a Lagrangian, has none.

    Args:
        what: a trajectory, an optimal stroke, or anything that they are made of, such as a system or a swimmer.
        more: further such objects. An optimal stroke does not keep the method by which it was found: name it here, as
            in `gd.cite(best, gd.Direct())`.

    Returns:
        A text to be printed: geodyn itself, then a line for each class that has a source, in the order in which they
        are met.

    Example:
        >>> motion = gd.integrate(gd.ODE(lambda t, y: -y), [1.0], t1=1.0, steps=10)
        >>> print(gd.cite(motion))
        geodyn ...: The geodyn developers, https://github.com/geodyn/geodyn
        Gauss: Hairer, Lubich & Wanner, *Geometric Numerical Integration*, II.1.3 and VI.4.
        ButcherTableau: Hairer, Lubich & Wanner, *Geometric Numerical Integration*, II.1.
    """
    sources = {cls: _source(cls) for cls in _classes((what, *more))}
    return "\n".join([ITSELF, *(f"{cls.__name__}: {source}" for cls, source in sources.items() if source)])


def _classes(x: Any) -> Iterator[type]:
    """The classes of an object and of its parts, with those from which they are derived."""
    if not isinstance(x, dict | list | tuple):
        yield from type(x).__mro__
    for part in _parts(x):
        yield from _classes(part)


def _parts(x: Any) -> Iterable:
    if isinstance(x, dict):
        return x.values()
    if isinstance(x, list | tuple):
        return x
    if isinstance(x, Carried):
        return (x.tree,)
    return vars(x).values() if isinstance(x, eqx.Module) else ()


def _source(cls: type) -> str:
    """The section of the docstring in one line; empty where there is none."""
    found = re.search(r"^Source:\n((?: {4}.*\n?)+)", inspect.cleandoc(cls.__doc__ or ""), re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
