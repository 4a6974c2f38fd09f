"""Long runs as a host loop over jitted parts, with a progress bar, Ctrl-C and checkpoints. Ctrl-C keeps what was
computed, and a run continues from its checkpoint. A callback in every step would cost two hundred times more."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from geodyn._foundations.progress import compiling
from geodyn._integrators.saving.checkpoint import Piece, read_pieces, write_piece

# The parts of a run in view: so many steps of its progress bar.
PARTS = 200
# The fewest steps of a part, since each call of the program takes as long as many steps.
SHORTEST_PART = 100
# The most steps of a part times the numbers of a state. They take 0.1 to 1 s, so that Ctrl-C is heeded soon.
LONGEST_PART = 2**22
# The time in seconds between two files of a checkpoint: what a run that is killed loses at most.
SECONDS = 5.0
# The rows for which programs have room: few sizes, since each is a program to compile. A run that is not in view takes
# the small one if it is done after FEW_PARTS of these, so that short runs do not fill arrays of 8192 rows.
ROOMS = (512, 8192)
FEW_PARTS = 2


class Plan(NamedTuple):
    """The division of a run into parts: `rows` states, `stride` steps apart, in parts of `part` rows. The arrays of a
    part have `room` for so many rows, and every `kept`-th row is saved."""

    rows: int
    stride: int
    part: int
    kept: int
    room: int


def plan(saves: int, every: int, size: int, in_view: bool) -> Plan:
    """The parts of a run of `saves` × `every` steps, for states of `size` numbers.

    They depend on the arguments only, so that a continued run has the same parts. `room` has few possible values, so
    that one program serves many runs. A run that is `in_view`, with a progress bar or a checkpoint, has 200 parts, but
    none shorter than 100 steps, and none that takes longer than some 0.1 to 1 s; for that, a part may end between two
    saves, and then states between the saves are rows too."""
    longest = max(1, LONGEST_PART // size)
    small, large = (min(room, longest) for room in ROOMS)
    if not in_view:
        room = small if saves <= FEW_PARTS * small else large
        return Plan(saves, every, min(saves, room), 1, room)
    kept = _divisor(every, every / longest, default=every)
    rows, stride = saves * kept, every // kept
    least = max(min(PARTS, rows * stride / SHORTEST_PART), rows * stride / longest, rows / large)
    parts = _divisor(rows, least, default=min(rows, math.ceil(least)))
    part = -(-rows // parts)
    return Plan(rows, stride, part, kept, small if part <= small else large)


def _divisor(number: int, least: float | int, default: int) -> int:
    """The smallest divisor of `number` that is at least `least`, if it is below twice that; else `default`."""
    first = max(1, math.ceil(least))
    return next((k for k in range(first, 2 * first) if number % k == 0), default)


def by_parts(advance: Callable, start: Piece, plan: Plan, folder: Path | None, progress: bool) -> list[Piece]:
    """The pieces of a run, `start` first: up to its end, until a step fails, or, if it shows `progress` or has a
    folder, until Ctrl-C. `advance(state, rows, stride)` returns (state, rows, others). These rows begin with the one
    before the part, and may have more after its end. Every `kept`-th row is saved, and all of the `others`.

    With a folder the run continues from the checkpoint there, and writes to it every few seconds and at its end.
    """
    pieces = [start, *(read_pieces(folder, start) if folder else [])]
    written, clock = len(pieces), time.monotonic()

    def goes_on() -> bool:
        return pieces[-1].done < plan.rows and (not pieces[-1].done or bool(pieces[-1].state.alive))

    try:
        with compiling(progress):  # The bar begins after the first part, so that its rate is that of the steps.
            pieces += [_next_piece(advance, pieces[-1], plan)] if goes_on() else []
        shown = {"total": plan.rows * plan.stride, "unit": " steps", "unit_scale": True, "disable": not progress}
        with tqdm(initial=pieces[-1].done * plan.stride, **shown) as bar:
            while goes_on():
                # One assignment, so that Ctrl-C finds all of a part in the list or nothing.
                pieces.append(_next_piece(advance, pieces[-1], plan))
                bar.update((pieces[-1].done - pieces[-2].done) * plan.stride)
                if folder and time.monotonic() - clock > SECONDS:
                    write_piece(folder, pieces[written - 1].done, pieces[written:])
                    written, clock = len(pieces), time.monotonic()
    except KeyboardInterrupt:
        if not progress and folder is None:
            raise
    if folder and pieces[written:]:
        write_piece(folder, pieces[written - 1].done, pieces[written:])
    return pieces


def _next_piece(advance: Callable, before: Piece, plan: Plan) -> Piece:
    count = min(plan.part, plan.rows - before.done)
    state, rows, others = jax.block_until_ready(advance(before.state, count, plan.stride))
    first = plan.kept - before.done % plan.kept if before.done else 0
    saved = jax.tree.map(lambda x: np.asarray(x)[first : count + 1 : plan.kept], rows)
    return Piece(state, saved, others, before.done + count)
