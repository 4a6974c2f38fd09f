"""A map of 20 × 20 best strokes of Purcell's swimmer, over the first coordinate of the displacement and the turn: its
time and its gaps, beside a local method that goes on from each stroke to the next point, as one does by hand."""

import jax
import numpy as np
from timing import elapsed, machine, table

import geodyn as gd

jax.config.update("jax_enable_x64", True)
BODY = gd.swimmers.Purcell()
POINTS = 20
STEP, TURN = np.linspace(0.02, 0.3, POINTS), np.linspace(0.0, 0.6, POINTS)
METHOD = gd.Direct(harmonics=12, steps=24, max_iterations=25)


def whole_map() -> gd.strokes.StrokeMap:
    return gd.stroke_map(BODY, displacement=STEP, turn=TURN, components=(0, 2), method=METHOD)


def followed() -> np.ndarray:
    """The costs of the strokes to which the stroke of the point before leads, along rows from the first column of each;
    NaN where the search fails."""
    costs = np.full((POINTS, POINTS), np.nan)
    first = None
    for i in range(POINTS):
        before = first
        for j in range(POINTS):
            demand = [STEP[i], None, TURN[j]]
            best = gd.optimal_stroke(BODY, before, displacement=demand, method=METHOD, throw=False)
            if best.successful:
                costs[i, j] = best.cost
                before = best.stroke
                first = best.stroke if j == 0 else first
    return costs


def main():
    print(machine())
    first, _ = elapsed(whole_map)
    again, found = elapsed(whole_map)
    local_seconds, costs = elapsed(followed)
    missed = int(np.sum(np.isnan(costs)))
    ratio = costs / found.cost
    dearer = int(np.sum(ratio > 1.01))
    rows = [
        ["geodyn", first, again, str(found.gaps), "–", "–"],
        ["the local method", local_seconds, local_seconds, str(missed), str(dearer), float(np.nanmax(ratio))],
    ]
    head = ["map", "first [s]", "again [s]", "gaps", "1 % dearer than ours", "dearest / ours"]
    table(f"{POINTS} × {POINTS} strokes", head, rows)
    cheaper = int(np.sum(ratio < 0.99))
    print(f"points at which the local method found a stroke that is 1 % cheaper: {cheaper}")


if __name__ == "__main__":
    main()
