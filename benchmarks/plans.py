"""Plans to random poses beside the plan that turns, goes straight ahead and turns again, each of them by the best
number of the best strokes. All strokes of that plan are free: the ways between their shapes are not counted. Each plan
is made twice, by random loops and from a map of the best strokes, and the shorter one once more from its own stroke, on
more steps, so that it arrives to 1e-9; the miss is that on yet finer steps.

`python plans.py 3 fluid` takes three poses, and the bodies whose names have this word in them."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from timing import elapsed, machine, table

import geodyn as gd

jax.config.update("jax_enable_x64", True)
SNAKE = gd.swimmers.KinematicSnake()
LINKS = gd.swimmers.NLink(SNAKE.lengths)


def friction(r):
    """The power of friction in the hinges, and of the wheels of each link that roll: a metric of shapes. It grows
    towards the shapes at which the snake is singular, and keeps strokes away from there."""
    x, y, heading = LINKS.links(r).T
    way = jnp.stack([jnp.cos(heading), jnp.sin(heading)])

    def rolling(rdot):
        xdot, ydot, _ = jax.jvp(LINKS.links, (r,), (rdot,))[1].T
        u, v, turning = -SNAKE.form(r) @ rdot
        return jnp.sum(way * jnp.stack([u - turning * y + xdot, v + turning * x + ydot]), axis=0)

    rolls = jax.jacfwd(rolling)(jnp.zeros_like(r))
    return jnp.eye(2) + rolls.T @ rolls


BODIES = {
    "Purcell's swimmer": gd.swimmers.Purcell(),
    "ellipses in a perfect fluid": gd.swimmers.FluidLinks(),
    "the crawler, a snake on wheels with friction": gd.bundles.KaluzaKlein(SNAKE, friction),
}
BOUNDS = {
    "Purcell's swimmer": ([-2.0, -2.0], [2.0, 2.0]),
    "ellipses in a perfect fluid": ([-2.0, -2.0], [2.0, 2.0]),
    "the crawler, a snake on wheels with friction": ([0.05, -2.5], [2.5, -0.05]),
}
GRID = {"displacement": np.linspace(0.05, 0.25, 5), "turn": np.linspace(-0.4, 0.4, 5)}
FINE = gd.Direct(harmonics=4, steps=64)
FINER = 128
"""Steps in each piece of a plan, on which the miss is measured."""

MOST_STROKES = 8


def length_of_strokes(body, bounds, displacement: np.ndarray) -> float:
    """The least length of n equal strokes that lead to this displacement together, over n."""
    lengths = [np.inf]
    for n in range(1, MOST_STROKES + 1):
        try:
            found = gd.optimal_stroke(body, displacement=displacement / n, bounds=bounds)
        except gd.StrokeError:
            continue
        lengths.append(n * float(jnp.sqrt(found.cost)))
        if len(lengths) > 2 and lengths[-1] > lengths[-2] > min(lengths):
            break
    return min(lengths)


def straight_ahead(body, bounds, pose: np.ndarray) -> float:
    """The length of the plan that turns towards the pose, or away from it, swims there, and turns as is asked for."""
    distance, way = np.hypot(*pose[:2]), np.arctan2(pose[1], pose[0])
    lengths = []
    for sign, first in ((1, way), (-1, way + np.pi)):
        turns = [(x + np.pi) % (2 * np.pi) - np.pi for x in (first, pose[2] - first)]
        parts = [length_of_strokes(body, bounds, np.array([0.0, 0.0, turn])) for turn in turns if abs(turn) > 1e-3]
        parts.append(length_of_strokes(body, bounds, np.array([sign * distance, 0.0, 0.0])))
        lengths.append(sum(parts))
    return min(lengths)


def found_plan(body, bounds, pose: np.ndarray, strokes: gd.strokes.StrokeMap | None) -> gd.Plan:
    """A plan, where the search stood if it failed."""
    return gd.plan(body, gd.groups.pose(body.group, pose), bounds=bounds, strokes=strokes, throw=False)


def length_of(plan: gd.Plan) -> float:
    """Its length; infinite for none."""
    return float(jnp.sqrt(plan.cost)) if plan.successful else np.inf


def compared(body, bounds, strokes: gd.strokes.StrokeMap, pose: np.ndarray) -> list:
    """A row of the table."""
    seconds, of_loops = elapsed(lambda: found_plan(body, bounds, pose, None))
    seconds_of_map, of_map = elapsed(lambda: found_plan(body, bounds, pose, strokes))
    plan = min(of_loops, of_map, key=length_of)
    if plan.successful:
        asked = gd.groups.pose(body.group, pose)
        plan = gd.plan(body, asked, bounds=bounds, guess=plan.stroke, method=FINE, throw=False)
    steps = FINER * plan.stroke.coefficients.shape[0]
    reached = gd.groups.place_and_turn(body.group, gd.holonomy(body, plan.stroke, steps=steps))
    miss = float(jnp.max(jnp.abs(reached - pose)))
    lengths = length_of(of_loops), length_of(of_map)
    other = straight_ahead(body, bounds, pose)
    where = " ".join(f"{x:.2f}" for x in pose)
    return [where, f"{miss:.0e}", seconds, lengths[0], seconds_of_map, lengths[1], other, other / length_of(plan)]


def random_poses(count: int) -> np.ndarray:
    """Poses (x, y, turn), always the same."""
    random = np.random.default_rng(0)
    return random.uniform([-0.5, -0.5, -1.0], [0.5, 0.5, 1.0], (count, 3))


def main(count: int = 10, word: str = ""):
    print(machine())
    head = ["pose", "miss", "s", "by loops", "s", "from a map", "straight ahead", "ratio"]
    for name, body in BODIES.items():
        if word in name:
            seconds, strokes = elapsed(lambda b=body, n=name: gd.stroke_map(b, **GRID, bounds=BOUNDS[n], starts=16))
            rows = [compared(body, BOUNDS[name], strokes, pose) for pose in random_poses(count)]
            table(f"Plans of {name}; its map {seconds:.0f} s, with {strokes.gaps} gaps", head, rows)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(*map(int, arguments[:1]), *arguments[1:])
