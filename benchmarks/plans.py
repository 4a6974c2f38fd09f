"""Plans to random poses beside the plan that turns, swims straight ahead and turns again, each of them by the best
number of the best strokes. All strokes of that plan are free: the ways between their shapes are not counted."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from timing import elapsed, machine, table

import geodyn as gd

jax.config.update("jax_enable_x64", True)
BODIES = {
    "Purcell's swimmer": gd.swimmers.Purcell(),
    "ellipses in a perfect fluid": gd.swimmers.FluidLinks(),
}
BOUNDS = [-2.0, -2.0], [2.0, 2.0]
MOST_STROKES = 8


def length_of_strokes(body, displacement: np.ndarray) -> float:
    """The least length of n equal strokes that lead to this displacement together, over n."""
    lengths = [np.inf]
    for n in range(1, MOST_STROKES + 1):
        try:
            found = gd.optimal_stroke(body, displacement=displacement / n, bounds=BOUNDS)
        except gd.StrokeError:
            continue
        lengths.append(n * float(jnp.sqrt(found.cost)))
        if len(lengths) > 2 and lengths[-1] > lengths[-2] > min(lengths):
            break
    return min(lengths)


def straight_ahead(body, pose: np.ndarray) -> float:
    """The length of the plan that turns towards the pose, or away from it, swims there, and turns as is asked for."""
    distance, way = np.hypot(*pose[:2]), np.arctan2(pose[1], pose[0])
    lengths = []
    for sign, first in ((1, way), (-1, way + np.pi)):
        turns = [(x + np.pi) % (2 * np.pi) - np.pi for x in (first, pose[2] - first)]
        parts = [length_of_strokes(body, np.array([0.0, 0.0, turn])) for turn in turns if abs(turn) > 1e-3]
        parts.append(length_of_strokes(body, np.array([sign * distance, 0.0, 0.0])))
        lengths.append(sum(parts))
    return min(lengths)


def compared(body, pose: np.ndarray) -> list:
    """A row of the table."""
    asked = gd.groups.pose(body.group, pose)
    seconds, plan = elapsed(lambda: gd.plan(body, asked, bounds=BOUNDS, throw=False))
    steps = 64 * plan.stroke.coefficients.shape[0]
    reached = gd.groups.place_and_turn(body.group, gd.holonomy(body, plan.stroke, steps=steps))
    miss = float(jnp.max(jnp.abs(reached - pose)))
    ours = float(jnp.sqrt(plan.cost))
    other = straight_ahead(body, pose)
    where = " ".join(f"{x:.2f}" for x in pose)
    return [where, bool(plan.successful), f"{miss:.0e}", seconds, ours, other, other / ours]


def main(count: int = 10):
    print(machine())
    random = np.random.default_rng(0)
    poses = random.uniform([-0.5, -0.5, -1.0], [0.5, 0.5, 1.0], (count, 3))
    head = ["pose", "found", "miss", "seconds", "length", "straight ahead", "ratio"]
    for name, body in BODIES.items():
        table(f"Plans of {name}", head, [compared(body, pose) for pose in poses])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
