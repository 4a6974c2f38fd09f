"""The options of `geodyn stroke BODY`: the parameters of the body, and the requirements on its stroke."""

import argparse
import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, get_args

import numpy as np

from geodyn._catalogue.bodies import BODIES, SPACES, Body
from geodyn._foundations.typing import Number
from geodyn._geometry.manifold.manifold import AbstractManifold

NONE = inspect.Parameter.empty
USAGE = """usage: geodyn stroke BODY [--displacement D ...] [--family D1] [--global] [--animate] [...]

The stroke of least energy that moves a body as wanted, its certificate and its pictures. BODY is one of these, or
module:class, one of your own; `geodyn stroke BODY --help` shows its parameters. D, if it is left out:
"""


def listing() -> str:
    """The text that lists the bodies, one in each line, with their default displacements."""
    lines = [
        f"  {name:29}{body.title:57}{body.asked + ' ' + ' '.join(f'{d:g}' for d in body.displacement)}"
        for name, body in BODIES.items()
    ]
    return "\n".join([USAGE, *lines])


COMPARE = "; compare strokes of your own in Python, by gd.holonomy and gd.cost"
AT_ANY_PACE = f"its forces do not depend on the speed, so that none is the only best one{COMPARE}"
WITHOUT_OPTIMUM = {
    "drylinks": AT_ANY_PACE,
    "granularlinks": AT_ANY_PACE,
    "powerlawlinks": f"its best strokes have corners, and the search is for smooth ones{COMPARE}",
}
"""Why some swimmers have no name on the command line."""


def body_of(name: str) -> Body:
    """The body of the given name (case, hyphens and underscores do not matter), or that of a user's class,
    "module:class".

    Raises ValueError, with the nearest name, if there is no such body or class.
    """
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            kind = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"{name!r} must be module:class, importable from here ({error})") from None
        return Body(kind, f"{attribute} of {module}", (0.1,), asked="net displacement")
    # Of several bodies of one class the first has its name.
    of_class = {bare(body.kind.__name__): key for key, body in reversed(BODIES.items())}
    names = of_class | {bare(key): key for key in BODIES}
    if bare(name) in WITHOUT_OPTIMUM:
        raise ValueError(f"there is no search for strokes of {name!r}: {WITHOUT_OPTIMUM[bare(name)]}")
    if bare(name) not in names:
        nearest = get_close_matches(bare(name), names, 1)
        remedy = f"did you mean {names[nearest[0]]!r}?" if nearest else "`geodyn stroke` lists them"
        raise ValueError(f"there is no body {name!r}: {remedy}")
    return BODIES[names[bare(name)]]


def bare(name: str) -> str:
    """A name of which case, hyphens and underscores do not matter."""
    return name.lower().replace("-", "").replace("_", "")


def parse(name: str, body: Body, words: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """(the body with the given parameters, the other options) from the words of the command line.

    Raises ValueError for an unknown option, with the nearest one, and for parameters that the class does not accept.
    """
    parser, parameters = _parser(name, body)
    given, unknown = parser.parse_known_args(words)
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        nearest = get_close_matches(unknown[0].split("=")[0], known, 1)
        remedy = f"did you mean {nearest[0]}?" if nearest else f"`geodyn stroke {name} --help` shows what it takes"
        raise ValueError(f"{name} knows no {unknown[0]!r}: {remedy}")
    options = vars(given)
    values = {key: _value(body, key, options.pop(key)) for key in parameters if key in options}
    return body.kind(**{**body.parameters, **values}), options


def _parser(name: str, body: Body) -> tuple[argparse.ArgumentParser, list[str]]:
    """(the parser, the names of its options that are parameters of the body)."""
    text = argparse.RawDescriptionHelpFormatter
    about = inspect.getdoc(body.kind)
    parser = argparse.ArgumentParser(prog=f"geodyn stroke {name}", description=about, formatter_class=text)
    own = parser.add_argument_group("parameters of the body")
    parameters = []
    for key, default in defaults(body).items():
        if is_given(body, key):
            own.add_argument(f"--{key.replace('_', '-')}", dest=key, default=argparse.SUPPRESS, **_kind(default))
            parameters.append(key)
    asked = parser.add_argument_group("the stroke")
    how_far = " ".join(f"{d:g}" for d in body.displacement)
    numbers = {"type": float, "nargs": "+"}
    asked.add_argument(
        "--displacement", **numbers, default=body.displacement, metavar="D", help=f"{body.asked} (default {how_far})"
    )
    asked.add_argument("--guess", **numbers, metavar="r", help="the shape around which the search begins")
    asked.add_argument("--base", **numbers, metavar="r", help="a shape through which the stroke must go")
    asked.add_argument("--lower", **numbers, metavar="r", help="bounds of the shape, from below ...")
    asked.add_argument("--upper", **numbers, metavar="r", help="... and from above")
    asked.add_argument("--rates", **numbers, metavar="r'", help="the largest |r'| of each, inf where there is none")
    asked.add_argument(
        "--harmonics", type=int, default=body.harmonics, metavar="K", help=f"of the stroke (default {body.harmonics})"
    )
    if body.period is not None:
        about_period = f"the time that it takes (default {body.period:g})"
        asked.add_argument("--period", type=float, default=body.period, metavar="T", help=about_period)
    asked.add_argument(
        "--global", dest="everywhere", action="store_true", help="search all shapes for the best strokes"
    )
    asked.add_argument("--starts", type=int, default=64, metavar="N", help="of that search (default 64)")
    asked.add_argument("--family", type=float, metavar="D1", help="follow the best strokes from D towards D1")
    asked.add_argument(
        "--animate", nargs="?", const="gif", choices=("gif", "mp4"), help="film the body as well (default gif)"
    )
    asked.add_argument("--out", metavar="DIR", default="geodyn-out", help="folder of the results (geodyn-out)")
    return parser, parameters


def defaults(body: Body) -> dict[str, Any]:
    """The parameters of the body and their defaults; `NONE` for a parameter without a default."""
    of_class = {key: p.default for key, p in inspect.signature(body.kind).parameters.items()}
    return {**of_class, **body.parameters}


def is_given(body: Body, key: str) -> bool:
    """Whether words or sliders can give a parameter: no group, no function, and no object that is None by default."""
    default = defaults(body)[key]
    if default is None:
        return Number in get_args(inspect.signature(body.kind).parameters[key].annotation)
    return key != "group" and (default is NONE or not callable(default))


def _kind(default: Any) -> dict[str, Any]:
    """The keyword arguments of argparse's `add_argument` for a parameter with this default."""
    if isinstance(default, bool):
        return {"action": "store_true"}
    if isinstance(default, AbstractManifold):
        (name,) = (name for name, space in SPACES.items() if space == default)
        return {"choices": list(SPACES), "help": f"(default {name})"}
    if default is NONE:
        return {"type": float, "nargs": "+", "required": True, "metavar": "X"}
    shown = {"metavar": "X", "help": "" if default is None else f"(default {' '.join(map(str, np.ravel(default)))})"}
    if default is not None and np.ndim(default):
        return {"type": float, "nargs": "+", **shown}
    return {"type": int if isinstance(default, int) else float, **shown}


def _value(body: Body, key: str, given: Any) -> Any:
    """The value of a parameter from the words of an option."""
    default: Any = defaults(body)[key]
    if isinstance(default, AbstractManifold):
        return SPACES[given]
    if default is NONE:
        return given[0] if len(given) == 1 else given
    if np.ndim(default) < 2:
        return given
    rows = np.shape(default)[1:]
    if np.size(given) % np.prod(rows):
        raise ValueError(f"--{key.replace('_', '-')} takes rows of {rows[0]} numbers, got {np.size(given)} of them.")
    return np.reshape(given, (-1, *rows))
