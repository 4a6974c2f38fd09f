"""`geodyn studio`: the page on which one draws a stroke and watches it swim."""

import math
from pathlib import Path

from geodyn._catalogue.bodies import BODIES, Body
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._studio.assemble import assembled
from geodyn._studio.bodies import describe, kind_of, made, with_metric
from geodyn._studio.desk import Desk
from geodyn._studio.maps import read_map
from geodyn._studio.server import serve


def studio(name: str | None, port: int, browser: bool, export: str | None, map: str | None) -> int:
    """Open the studio with a body: one of geodyn's, or module:name of a class, a function or a body of one's own.

    With `export` write the page into a file that works without a server. `map` is the file of a map of its strokes.
    """
    first = kind_of(name or "purcell")
    body, python = made(first, {})
    about = describe(first, body, python)
    maps = {} if map is None else {(first.name, python): read_map(map, with_metric(body), python)}
    kinds = {key: kind_of(key) for key, known in BODIES.items() if _has_fields(known)} | {first.name: first}
    if export is not None:
        page = assembled(Desk(kinds, maps).alone({"body": first.name}, {}))
        Path(export).write_text(page, encoding="utf-8")
        print(f"page {export} ({math.ceil(len(page.encode()) / 1000)} kB, works without a server): {about['title']}")
        return 0
    titles = [{"name": key, "title": kind.known.title} for key, kind in kinds.items()]
    serve(kinds, maps, first.name, titles, port, browser)
    return 0


def _has_fields(known: Body) -> bool:
    """Whether a body has a connection and two shape variables, so that there are height functions of it."""
    is_balance = isinstance(known.kind, type) and issubclass(known.kind, AbstractForceBalance)
    return not is_balance and known.region is not None
