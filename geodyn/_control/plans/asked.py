"""PURPOSE: what a plan is asked for: checks of the arguments, before the search begins."""

from typing import Any, NamedTuple, cast

import jax
import numpy as np

from geodyn._control.plans.loops import meeting_shape
from geodyn._control.plans.route import Obstacles
from geodyn._control.search.checks import (
    check_count,
    check_density,
    check_needs_bounds,
    check_shapes,
    checked_limits,
    checked_shape,
    known,
    shape_ends,
)
from geodyn._engine.jit import as_pytree, jit
from geodyn._foundations.checks import check_arguments
from geodyn._foundations.typing import Array, Float, PyTree
from geodyn._geometry.groups.lie_group import AbstractLieGroup, element
from geodyn._locomotion.motion.costs import Costly, Density, derivatives_taken
from geodyn._locomotion.strokes.stroke import floating


class Asked(NamedTuple):
    """What `plan` is asked for, after the checks of its arguments: the way to go as an element of the group; the first
    and the last shape, both None if the plan shall only close; and the shape through which the loops of its
    route lead."""

    swimmer: Costly
    way: Float[Array, "d d"]
    base: Float[Array, " m"] | None
    end: Float[Array, " m"] | None
    home: Float[Array, " m"]
    bounds: tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]
    limits: tuple[Float[Array, " b"], Float[Array, " b"]]
    bounded: tuple[int, ...]
    obstacles: Obstacles | None
    density: Density


def asked_for(
    swimmer: Costly,
    pose: Any,
    start: Any,
    base: Any,
    ends: Any,
    bounds: Any,
    rates: Any,
    obstacles: Obstacles | None,
    density: Density,
    strokes: PyTree | None,
) -> Asked:
    """What is asked for; ValueError for arguments by which no plan can be found. `strokes`, stacked in one pytree, are
    those of which the route shall be."""
    group = swimmer.group
    pose = _checked_pose("pose", group, pose)
    way = pose
    around = None
    if obstacles is not None:
        check_arguments("obstacles", obstacles, "g", "r")
        around = as_pytree(obstacles)
    if start is not None:
        start = _checked_pose("start", group, start)
        way = group.compose(group.inverse(start), pose)
        around = None if around is None else jax.tree_util.Partial(_seen_from, around, group, start)
    identity = group.identity()  # Inside jit it is traced, though the pose may be known.
    if known((way, identity)) and np.allclose(np.asarray(way), np.asarray(identity), atol=1e-12):
        raise ValueError("plan: pose is where the body is already; ask for another one.")
    check_needs_bounds(swimmer, bounds, base, ends)
    first, last = shape_ends(base, ends)
    if first is None:
        home = _home(swimmer, bounds) if strokes is None else jit(meeting_shape)(strokes)
    else:
        home = first if last is None else last
    m = home.size
    check_count(swimmer, m, closed=last is None)
    check_density(swimmer, density, m)
    if derivatives_taken(density) > 1:
        raise ValueError(
            "plan: density takes accelerations, which are infinite where a plan turns a corner, as it may between its"
            " pieces; take a density (swimmer, r, r') of rates alone."
        )
    limits, bounded = checked_limits(bounds, rates, m)
    if known((swimmer, first, last)):
        check_shapes(swimmer, bounds, **{"base or ends[0]": first, "ends[1]": last})
    box = np.tile([[-np.inf], [np.inf]], m) if bounds is None else np.asarray(bounds, float)
    asked = Asked(swimmer, way, first, last, home, (box[0], box[1]), limits, bounded, around, as_pytree(density))
    if around is not None and known((swimmer, way, identity, around, home)):
        _check_clear(asked, start, pose)
    return asked


def _seen_from(
    obstacles: Obstacles,
    group: AbstractLieGroup,
    start: Float[Array, "d d"],
    g: Float[Array, "d d"],
    r: Float[Array, " m"],
) -> Float[Array, "..."]:
    """The gaps at a pose g as seen from the start."""
    return obstacles(group.compose(start, g), r)


def _checked_pose(name: str, group: AbstractLieGroup, pose: Any) -> Float[Array, "d d"]:
    """The argument `name` as an element of the group; ValueError if it is none."""
    g = floating(pose, name)
    if g.shape != (group.size, group.size):
        kind = type(group).__name__
        known_as = f", such as gd.groups.pose(group, …) makes of {group.dim} numbers" if kind in ("SE2", "SE3") else ""
        raise ValueError(
            f"plan: {name} must be an element [{group.size}, {group.size}] of {kind}{known_as}, or"
            f" group.exp(coordinates[{group.dim}]); got the shape {g.shape}."
        )
    return element(group, g)


def _home(swimmer: Costly, bounds: Any) -> Float[Array, " m"]:
    """The shape through which loops are tried: the middle of the bounds, or the body's first shape."""
    if bounds is not None and np.all(np.isfinite(np.asarray(bounds, float))):
        return floating(np.mean(np.asarray(bounds, float), axis=0))
    if swimmer.first_shape is None:
        raise ValueError(
            f"plan: {type(swimmer).__name__} needs base=, a shape at which the plan starts and ends, such as"
            f" jnp.zeros({swimmer.shape_count or 2}); or let the class say such a shape by first_shape."
        )
    return checked_shape("first_shape", swimmer.first_shape)


def _check_clear(asked: Asked, start: Float[Array, "d d"] | None, pose: Float[Array, "d d"]) -> None:
    """Raise ValueError if the body touches an obstacle at the start or at the pose."""
    group = asked.swimmer.group
    places = {
        "start": (group.identity(), asked.base),
        "pose": (asked.way, asked.base if asked.end is None else asked.end),
    }
    for name, (g, shape) in places.items():
        r = asked.home if shape is None else shape
        gaps = np.ravel(np.asarray(cast(Obstacles, asked.obstacles)(g, r)))
        if not gaps.size or not np.all(np.isfinite(gaps)):
            raise ValueError(f"plan: obstacles must return finite gaps, at least one; got {gaps} at the {name}.")
        if np.min(gaps) < 0 and shape is not None:
            raise ValueError(
                f"plan: {name} lies in an obstacle: the gaps there are {gaps} at the shape {np.asarray(r)}; move"
                f" {name}, or the obstacle."
            )
