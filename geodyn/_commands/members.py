"""The table [sweep] of a scenario file: numbers of the file that vary, on a grid or at random."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from geodyn._foundations.files.toml import Source

RANGE = {"from", "to", "count", "log"}
# Each is a method of NumPy's random generators, with two parameters.
DRAWS = ("normal", "uniform")
WANTED = (
    "a list of values, {from = …, to = …, count = …} (with log = true for a geometric progression), "
    "{normal = [mean, deviation]} or {uniform = [low, high]}"
)


class Sweep(NamedTuple):
    """The members of a sweep: the `places` in the file of the numbers that vary, and their values [N] for every member,
    both by name; the axes of the grid, by name; and how many members with random numbers there are at each of its
    points."""

    places: dict[str, tuple]
    values: dict[str, np.ndarray]
    grid: dict[str, np.ndarray]
    draws: int

    def put(self, source: Source, member: dict) -> Source:
        """The file with the numbers of one member, which may be traced."""
        return source.put({self.places[name]: x for name, x in member.items()})

    def member(self, source: Source, i: int) -> Source:
        """The file with the numbers of one member."""
        return self.put(source, {name: float(x[i]) for name, x in self.values.items()})

    @property
    def extremes(self) -> list[int]:
        """The first member, and those with the least and the largest value of each number."""
        least = {int(np.argmin(x)) for x in self.values.values()}
        largest = {int(np.argmax(x)) for x in self.values.values()}
        return sorted({0} | least | largest)


def members_of(source: Source) -> Sweep:
    """The members that the table [sweep] describes."""
    table = dict(source.allow(("sweep",), [*source.tables.get("sweep", {})]))
    draws = source.get(("sweep", "draws"), int, 1)
    seed = source.get(("sweep", "seed"), int, 0)
    if draws < 1:
        source.fail(("sweep", "draws"), f"'draws' must be at least 1, got {draws}")
    entries: dict[tuple, Any] = {}
    for name, entry in table.items():
        if name not in ("draws", "seed"):
            entries.update(_entries((name,), entry))
    if not entries:
        source.fail(("sweep",), "[sweep] names no number of this file, as spring.stiffness = [1.0, 2.0] does")
    places = {".".join(key): _place(source, key) for key in entries}
    grid = {".".join(key): _axis(source, key, entry) for key, entry in entries.items() if not _is_random(entry)}
    if len(grid) == len(entries) and draws > 1:
        source.fail(
            ("sweep", "draws"), "'draws' goes with random numbers, {normal = …} or {uniform = …}; there are none"
        )
    meshes = np.meshgrid(*grid.values(), indexing="ij")
    # All draws at the first point of the grid, then all at the second, …
    values = {name: np.repeat(mesh.reshape(-1), draws) for name, mesh in zip(grid, meshes, strict=True)}
    count = draws * (meshes[0].size if meshes else 1)
    random = np.random.default_rng(seed)
    for key, entry in entries.items():
        if _is_random(entry):
            values[".".join(key)] = _drawn(source, key, entry, random, count)
    # In the order of the file.
    ordered = {name: values[name] for name in places}
    return Sweep(places, ordered, grid, draws)


def _entries(key: tuple, entry: Any) -> Iterator[tuple[tuple, Any]]:
    """(key, entry) for each number that a dotted key such as spring.stiffness names."""
    if isinstance(entry, dict) and not (RANGE | set(DRAWS)) & set(entry):
        for name, inner in entry.items():
            yield from _entries((*key, name), inner)
    else:
        yield key, entry


def _is_random(entry: Any) -> bool:
    return isinstance(entry, dict) and any(name in entry for name in DRAWS)


def _place(source: Source, key: tuple) -> tuple:
    """The place in the tables of the number that a key of [sweep] names; the only table of a kind needs no index."""
    place: tuple = ()
    value = cast(Any, source.tables)
    name = ".".join(key)
    for word in key:
        if isinstance(value, list) and not word.isdigit() and len(value) == 1:
            place = (*place, 0)
            value = value[0]
        # The keys of a table, or the indices of a list, by the words for them.
        indices = value if isinstance(value, dict) else range(len(value))
        by_word: dict[str, Any] = {str(index): index for index in indices}
        if word not in by_word:
            there_are = ", ".join(by_word)
            source.fail(("sweep", *key), f"{name} is no number of this file: there are {there_are}, no {word!r}")
        place = (*place, by_word[word])
        value = value[by_word[word]]
        if not isinstance(value, dict | list) and word is not key[-1]:
            source.fail(("sweep", *key), f"{name} is no number of this file: {word!r} is {value!r}")
    if not _is_number(value):
        remedy = "a number in a list has its index behind it, such as body.masses.0"
        source.fail(("sweep", *key), f"{name} must name one number of this file, and it is {value!r}; {remedy}")
    return place


def _axis(source: Source, key: tuple, entry: Any) -> np.ndarray:
    """The values of one axis of the grid."""
    place = ("sweep", *key)
    name = ".".join(key)
    if not isinstance(entry, dict):
        values = source.get(place, (None,))
        return values if len(values) else source.fail(place, f"{name} needs at least one value")
    count = entry.get("count", 0)
    log = entry.get("log", False)
    first = entry.get("from", "")
    last = entry.get("to", "")
    is_count = isinstance(count, int) and count >= 1
    if set(entry) - RANGE or not is_count or not _is_number(first) or not _is_number(last):
        source.fail(place, f"{name} must be {WANTED}; got {entry!r}")
    if log and not first * last > 0:
        source.fail(place, f"from and to of {name} must have one sign with log = true; got {first} and {last}")
    spaced = np.geomspace if log else np.linspace
    return spaced(first, last, count)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _drawn(source: Source, key: tuple, entry: dict, random: np.random.Generator, count: int) -> np.ndarray:
    """Random values of one number for all members."""
    kind = next(kind for kind in DRAWS if kind in entry)
    name = ".".join(key)
    # Mean and deviation, or the two bounds.
    first, second = source.get(("sweep", *key, kind), (2,))
    is_wrong = second < 0 if kind == "normal" else second < first
    if len(entry) > 1 or is_wrong:
        source.fail(("sweep", *key), f"{name} must be {WANTED}; got {entry!r}")
    return getattr(random, kind)(first, second, count)
