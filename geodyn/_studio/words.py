"""What is known of an optimal stroke, in words that need no other text."""

import numpy as np

from geodyn._control.problem.optimum import OptimalStroke
from geodyn._control.search.failure import is_certified
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float

SAME = {
    "distance": "as far and without turning",
    "turn": "with the same turn",
    "whole": "with the same net motion",
    "map": "as far, with the same turn",
    "components": "by the same two components",
}
"""What the strokes have in common among which the best is sought, by the goal."""


def sentences(optimum: OptimalStroke, wanted: Float[Array, "..."], goal: str) -> list[dict]:
    """Sentences, each with `good`: whether it speaks for the stroke, which was to have the `wanted` displacement."""
    kkt = float(optimum.kkt_residual)
    second = float(optimum.second_order)
    wong = float(optimum.wong_residual)
    power = float(optimum.power_variation)
    room = float(optimum.room)
    found = is_certified(optimum, wanted)
    said = [
        (
            found,
            f"No small change of the stroke lowers the cost at first order: the conditions for an optimum hold to"
            f" {kkt:.0e}."
            if found
            else f"This is not an optimum yet: {RESULTS(int(optimum.result)).message} (the conditions hold to {kkt:.0e}"
            " only).",
        ),
        (
            second > 0,
            f"It is a minimum: every other stroke nearby that moves the body {SAME[goal]} costs more (least second"
            f" variation {second:.2g})."
            if second > 0
            else f"It is not a minimum: some stroke nearby that moves the body {SAME[goal]} costs less (least second"
            f" variation {second:.2g}). Change it a little, and optimise again.",
        ),
    ]
    if room < 1e-4:
        along = "It runs along the bounds, where its power may change: the tests of strokes without bounds say nothing."
        return _marked([*said, (True, along)])
    said += [
        (
            power < 1e-3,
            f"The power is the same all along the stroke, to {power:.0e}, as it must be at an optimum."
            if power < 1e-3
            else f"The power changes along the stroke by {100 * power:.2g} % of its mean; at an optimum without bounds"
            " it would not.",
        ),
        (
            wong < 1e-2,
            f"The coefficients resolve the stroke: Wong's equations of motion hold along it to {wong:.0e}."
            if wong < 1e-2
            else f"More harmonics would follow the true optimum better: Wong's equations hold to {wong:.0e} only.",
        ),
    ]
    if np.isfinite(room):
        said.append((True, "It keeps clear of the bounds."))
    return _marked(said)


def _marked(said: list[tuple[bool, str]]) -> list[dict]:
    return [{"good": bool(good), "text": text} for good, text in said]
