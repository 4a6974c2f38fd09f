"""What the arrays of an ensemble, and their axes, are called in a data set."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from geodyn._foundations.typing import PyTree
from geodyn._integrators.trajectory import Trajectory

MEMBER = "member"
STATUS = "status"
TOTAL = "total."
_OURS = MEMBER, STATUS, "chunk"
# The axes of a trajectory's arrays.
_CONFIGURATION = ("point", "coordinate")
_AXES = {
    **dict.fromkeys(("t", "local_error"), ("time",)),
    **dict.fromkeys(("q", "v", "p"), ("time", *_CONFIGURATION)),
    **dict.fromkeys(("inputs.q0", "inputs.v0"), _CONFIGURATION),
    **dict.fromkeys(("impacts.t", "impacts.contact", "impacts.impulse"), ("impact",)),
    "multipliers": ("time", "constraint"),
    "frame": ("time", "frame"),
}
_STATES = "t", "q", "v", "p", "multipliers", "local_error"


def by_name(tree: PyTree) -> dict:
    """The leaves of what a function returned, by their paths, such as `q` or `inputs.q0` of a trajectory and
    `system.elements.0.stiffness` of the system that it carries."""
    return {_free(name): x for name, x in _paths(tree)}


def axes_of(values: PyTree) -> dict[str, tuple[str, ...]]:
    """The names of the axes of one member's arrays, by their names: those of a trajectory where they are of one. Axes
    of one name have one length, and bear the name of no array."""
    given = by_name(values)
    sizes: dict[str, int] = {}
    axes: dict[str, tuple[str, ...]] = {}
    known = {name: axis for name, _, axis in _of_trajectories(values)}
    for name, x in given.items():
        found = _fitting(known.get(name, ()), x.shape) or [f"{name}_{i}" for i in range(len(x.shape))]
        clear = [axis not in given and sizes.get(axis, n) == n for axis, n in zip(found, x.shape, strict=True)]
        axes[name] = tuple(axis if ok else f"{name}.{axis}" for axis, ok in zip(found, clear, strict=True))
        sizes |= dict(zip(axes[name], x.shape, strict=True))
    return axes


def times_of(values: PyTree) -> list[str]:
    """The names of the arrays that are the times of trajectories."""
    return [name for name, field, _ in _of_trajectories(values) if field == "t"]


def notes_of(values: PyTree) -> list[str]:
    """The names of a trajectory's arrays that are no states: its inputs, statistics and impacts, and its system's
    numbers."""
    return [name for name, field, _ in _of_trajectories(values) if field not in _STATES]


def parameters_of(function: Callable, members: PyTree, taken: set[str]) -> dict[str, np.ndarray]:
    """The members by name: a field or a key of theirs, or the argument of the function; none of those that are taken.
    Keys of random numbers are given by their data."""
    found = {}
    for path, x in tree_leaves_with_path(members):
        is_field = path and not isinstance(path[0], jax.tree_util.SequenceKey | jax.tree_util.FlattenedIndexKey)
        inner = _name_of_path(path)
        name = inner if is_field else ".".join(filter(None, (_argument(function), inner)))
        found[f"members.{name}" if name in taken else name] = as_numbers(x)
    return found


def as_numbers(x: Any) -> np.ndarray:
    """The array on the host; of keys of random numbers their data."""
    return np.asarray(jax.random.key_data(x) if is_key(x) else x)


def is_key(x: Any) -> bool:
    """Whether x holds keys of random numbers."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _argument(function: Callable) -> str:
    """The name of the function's argument."""
    try:
        return next(iter(inspect.signature(function).parameters))
    except (StopIteration, TypeError, ValueError):
        return "parameter"


def _paths(tree: PyTree) -> Iterator[tuple[str, Any]]:
    """(path, leaf) for each leaf that has a shape."""
    for path, x in tree_leaves_with_path(tree):
        if getattr(x, "shape", None) is not None:
            yield _name_of_path(path) or "value", x


def _name_of_path(path: tuple[Any, ...]) -> str:
    """The path as a name; a name with a slash would be a folder to zarr."""
    return keystr(path, simple=True, separator=".").replace("/", "_").replace("carried.", "")


def _free(name: str) -> str:
    return f"value.{name}" if name in _OURS or name.startswith(TOTAL) else name


def _of_trajectories(values: PyTree) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(name, its name in the trajectory, the names of its axes) for each array of a trajectory in the tree."""
    for path, x in tree_leaves_with_path(values, is_leaf=lambda x: isinstance(x, Trajectory)):
        if not isinstance(x, Trajectory):
            continue
        quasi = (*_AXES["p"][:-1], "quasi-velocity")
        for inner, array in _paths(x):
            axes = quasi if inner == "p" and array.shape != x.q.shape else _AXES.get(inner, ())
            yield _free(".".join(filter(None, (_name_of_path(path), inner)))), inner, axes


def _fitting(axes: tuple[str, ...], shape: tuple[int, ...]) -> tuple[str, ...]:
    """The axes of an array with this shape; a flat configuration has no points."""
    axes = tuple(axis for axis in axes if axis != "point" or len(shape) == len(axes))
    return axes if len(axes) == len(shape) else ()
