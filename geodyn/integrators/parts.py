"""A run as a host loop over jitted parts of it, which shows progress, keeps what was computed on Ctrl-C, and goes on
from a checkpoint. A callback in every step would cost two hundred times more."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
from tqdm import tqdm

from geodyn.integrators.checkpoint import Piece, read_pieces, write_piece

PARTS, SHORTEST_PART, LONGEST_PART = 200, 100, 2**22
SECONDS = 5.0


class Plan(NamedTuple):
    """`rows` states, `stride` steps apart, in parts of `part` rows; every `kept`-th row is to be saved."""

    rows: int
    stride: int
    part: int
    kept: int


def plan(saves: int, every: int, size: int) -> Plan:
    """The parts of `saves` × `every` steps, which depend on nothing but these numbers, so that a run that goes on takes
    the same ones: 200 of them, but none shorter than 100 steps, nor longer than some 0.1 to 1 s of steps whose state is
    `size` numbers: for that, states between the saves are saved too."""
    longest = max(1, LONGEST_PART // size)
    kept = _divisor(every, every / longest, default=every)
    rows, stride = saves * kept, every // kept
    least = max(min(PARTS, rows * stride / SHORTEST_PART), rows * stride / longest)
    parts = _divisor(rows, least, default=min(rows, math.ceil(least)))
    return Plan(rows, stride, -(-rows // parts), kept)


def _divisor(number, least, default):
    """The smallest divisor that is at least `least`, if there is one near it."""
    first = max(1, math.ceil(least))
    return next((k for k in range(first, 2 * first) if number % k == 0), default)


def by_parts(advance: Callable, start: Piece, plan: Plan, folder: Path | None, progress: bool) -> list[Piece]:
    """The pieces of a run, `start` first: all of it, or until a step fails or Ctrl-C. `advance(state, rows, stride)` is
    (state, rows, others), of which all others are saved, and every `kept`-th of the rows.

    With a folder the run goes on from the checkpoint there, and writes to it every few seconds and at its end.
    """
    pieces = [start, *(read_pieces(folder, start) if folder else [])]
    written, clock = len(pieces), time.monotonic()
    shown = {"total": plan.rows * plan.stride, "unit": " steps", "unit_scale": True, "disable": not progress}
    with tqdm(initial=pieces[-1].done * plan.stride, **shown) as bar:
        try:
            while pieces[-1].done < plan.rows and bool(pieces[-1].state.alive):
                # One assignment, so that Ctrl-C finds all of a part in the list or nothing.
                pieces.append(_next_piece(advance, pieces[-1], plan))
                bar.update((pieces[-1].done - pieces[-2].done) * plan.stride)
                if folder and time.monotonic() - clock > SECONDS:
                    write_piece(folder, pieces[written - 1].done, pieces[written:])
                    written, clock = len(pieces), time.monotonic()
        except KeyboardInterrupt:
            pass
    if folder and pieces[written:]:
        write_piece(folder, pieces[written - 1].done, pieces[written:])
    return pieces


def _next_piece(advance, before, plan):
    count = min(plan.part, plan.rows - before.done)
    state, rows, others = jax.block_until_ready(advance(before.state, count, plan.stride))
    first = -(before.done + 1) % plan.kept
    return Piece(state, jax.tree.map(lambda x: x[first :: plan.kept], rows), others, before.done + count)
