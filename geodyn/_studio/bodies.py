"""The bodies of the studio: how the page names them, their parameters, and what it needs to begin."""

from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np

from geodyn._catalogue.bodies import BODIES, SPACES, WRITTEN, Body
from geodyn._catalogue.options import NONE, WITHOUT_OPTIMUM, bare, body_of, defaults, is_given
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._locomotion.connections.connection import AbstractConnection, AbstractInvariantMetric, AbstractLinkSwimmer
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.kaluza_klein import KaluzaKlein
from geodyn._locomotion.connections.measured import MeasuredConnection
from geodyn._plot.shapes.names import shape_names
from geodyn._studio.checks import choice, number, numbers
from geodyn._studio.fields import drawing, frames_of, group_of

SMALL_LOOPS = (
    "Where small loops of shapes lead it, gd.plot.small_loops(body, component, r) draws; where a stroke does,"
    " gd.plot.displacement(body, stroke), and gd.plot.swim(body, stroke, path) films it."
)
NEAR = 4.0
"""Sliders go from a quarter of a default to four times it."""


class Kind(NamedTuple):
    """A kind of body: how to make one from its parameters, and the Python that does the same: the name of what makes
    it, or, if it `is_made`, the body itself."""

    name: str
    known: Body
    imports: str
    call: str
    is_made: bool = False


def kind_of(name: str) -> Kind:
    """The kind of that name: one of geodyn's, or module:name of a class, a function that makes a body, or a body.

    Raises ValueError if there is none.
    """
    module, _, attribute = name.partition(":")
    if not attribute:
        if bare(name) in WITHOUT_OPTIMUM:
            raise ValueError(f"the studio draws height functions, of which {name} has none. {SMALL_LOOPS}")
        known = body_of(name)
        key = next(key for key, body in BODIES.items() if body is known)
        return Kind(key, known, "", f"gd.swimmers.{known.kind.__name__}")
    known, imports = body_of(name), f"from {module} import {attribute}"
    made = getattr(import_module(module), attribute)
    if isinstance(made, AbstractConnection):
        return Kind(name, known._replace(kind=lambda: made), imports, attribute, is_made=True)
    return Kind(name, known, imports, attribute)


def measured(name: str, body: MeasuredConnection) -> Kind:
    """The kind of a connection that was fitted to the data of a file."""
    known = Body(lambda: body, f"measured: {name}", (0.1,), asked="net displacement")
    return Kind(name, known, "", f"gd.bundles.read_connection({name!r})", is_made=True)


def parameters(kind: Kind) -> list[dict[str, Any]]:
    """The parameters that the page shows, each with its default and, where there are sliders, their range."""
    shown = []
    for key, default in defaults(kind.known).items():
        about = {"name": key, "label": key.replace("_", " ")}
        if not is_given(kind.known, key):
            continue
        if default is NONE:
            raise ValueError(
                f"the parameter {key!r} of {kind.call} has no default: give it one, or name a function that makes the"
                " body, with defaults for what the sliders are to change."
            )
        if isinstance(default, bool):
            shown.append(about | {"kind": "flag", "default": default})
        elif isinstance(default, AbstractManifold):
            of = next((name for name, space in SPACES.items() if space == default), None)
            if of is not None:
                shown.append(about | {"kind": "choice", "default": of, "options": list(SPACES)})
        elif default is None:
            shown.append(about | {"kind": "optional", "default": None})
        elif np.asarray(default).dtype.kind in "iuf":
            values = np.asarray(default)
            whole = values.dtype.kind in "iu" and not isinstance(default, tuple | list)
            near = np.where(values == 0, 1.0, NEAR * np.abs(values)).astype(float)
            low = np.where(values > 0, near / NEAR**2, -near)
            high = np.where(values < 0, -near / NEAR**2, near)
            if whole:
                low = np.round(low)
                high = np.round(high)
            ranges = {"default": values.tolist(), "low": low.tolist(), "high": high.tolist()}
            shown.append(about | {"kind": "whole" if whole else "number"} | ranges)
    return shown


def made(kind: Kind, given: dict) -> tuple[AbstractConnection, str]:
    """(the body with these values of its parameters, the Python that makes it); ValueError for values that do not
    suit."""
    known = {about["name"]: about for about in parameters(kind)}
    for name in given:
        choice("a parameter", name, known)
    values = {}
    told = []
    for name, about in known.items():
        value = given.get(name, about["default"])
        if about["kind"] == "choice":
            space = choice(name, value, SPACES)
            values[name] = SPACES[space]
            told.append(f"{name}={WRITTEN[space]}")
            continue
        if about["kind"] == "flag":
            value = bool(value)
        elif about["kind"] == "optional":
            value = None if value is None else number(name, value)
        elif about["kind"] == "whole":
            value = int(number(name, value, whole=True))
        else:
            value = numbers(name, value, np.shape(about["default"])).tolist()
        values[name] = value
        if value is not None:
            told.append(f"{name}={value!r}")
    try:
        body = kind.known.kind(**{**kind.known.parameters, **values})
    except (TypeError, IndexError) as error:
        raise ValueError(f"{kind.call} cannot be made of these parameters: {error}") from error
    if isinstance(body, AbstractForceBalance):
        searched = f"`geodyn stroke {kind.name}` looks for its best stroke. " if kind.name in BODIES else ""
        raise ValueError(
            f"{kind.call} balances forces that are not linear in the velocities: it has no connection and no height"
            f" functions, which the studio draws. {searched}{SMALL_LOOPS}"
        )
    if not isinstance(body, AbstractConnection):
        raise ValueError(
            f"{kind.call} makes {type(body).__name__}; wanted a body with a connection, such as gd.swimmers.Purcell()."
        )
    python = kind.call if kind.is_made else f"{kind.call}({', '.join(told)})"
    return body, python


def with_metric(body: AbstractConnection) -> AbstractInvariantMetric:
    """The body itself, or with the Euclidean metric of shapes if it has none: its cost is the length of a stroke."""
    return body if isinstance(body, AbstractInvariantMetric) else KaluzaKlein(body)


def describe(kind: Kind, body: AbstractConnection, python: str) -> dict:
    """What the page says of a body and begins with."""
    start = _start(kind.known, body)
    lower, upper = _region(kind.known, body, start)
    if start.size < 2:
        raise ValueError(
            f"{kind.call} has one shape variable: a stroke of it encloses nothing, and the studio draws in two."
        )
    metric = isinstance(body, AbstractInvariantMetric)
    return {
        "name": kind.name,
        "title": kind.known.title,
        "parameters": parameters(kind),
        "imports": kind.imports,
        "python": python,
        "variables": [_plain(name) for name in shape_names(body, start.size)],
        "start": start.tolist(),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "group": group_of(body.group),
        "drawing": drawing(body),
        "frames": frames_of(body.group),
        "metric": metric,
        "towing": _towing(body),
        "goals": _goals(kind.known, body),
        "based": kind.known.based or kind.known.bounded,
        "fitted": float(cast(float, body.error)) if isinstance(body, MeasuredConnection) else None,
    }


def _plain(name: str) -> str:
    """A name without matplotlib's mathematics."""
    return name.replace("$", "").replace("{", "").replace("}", "").replace("_", "")


def _start(known: Body, body: AbstractConnection) -> np.ndarray:
    """The shape to begin with: of a body that says none, as many zeros as it names shape variables, else two."""
    if known.start is not None:
        return np.asarray(known.start(body), float)
    if body.first_shape is not None:
        return np.asarray(body.first_shape, float)
    return np.zeros(body.shape_count or 2)


def _region(known: Body, body: AbstractConnection, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the box of shapes that is drawn: of a body that says none, the neighbourhood of its start."""
    if known.region is not None:
        lower, upper = known.region(body)
        return np.asarray(lower, float), np.asarray(upper, float)
    if body.shape_region is not None:
        lower, upper = body.shape_region
        return np.asarray(lower, float), np.asarray(upper, float)
    reach = np.full(start.size, np.pi if isinstance(body, AbstractLinkSwimmer) else 1.0)
    return start - reach, start + reach


def _towing(body: AbstractConnection) -> float | None:
    """The drag with which the efficiency compares, as `gd.efficiency` has it; None for a body that says none."""
    return None if body.towing_drag is None else float(cast(float, body.towing_drag))


def _goals(known: Body, body: AbstractConnection) -> list[str]:
    """What one can ask of an optimal stroke: a distance without turning, a turn alone, or the whole displacement."""
    goals: list[str] = []
    if known.heading and body.group._turns_in_plane and body.group.translations:
        goals.append("turn")
    elif body.group.translations:
        goals.append("distance")
    return [*goals, "whole"]
