"""Which pairs of bodies may touch."""

import itertools

from geodyn._foundations.typing import Indices
from geodyn._mechanics.elements.abstract import Tuples, index_tuples, once_each


def pairs_of(name: str, noun: str, parts: Tuples, pairs: Indices | None) -> Tuples:
    """The pairs of the parts of a contact `name` that may touch, by their numbers: all that share no point, or those
    given. Raises ValueError where there are none, or they cannot be apart."""
    many = "bodies" if noun == "body" else f"{noun}s"

    def are_joined(pair: tuple[int, ...]) -> bool:
        return not set(parts[pair[0]]).isdisjoint(parts[pair[1]])

    if pairs is None:
        every = itertools.combinations(range(len(parts)), 2)
        apart = tuple(pair for pair in every if not are_joined(pair))
        if not apart:
            raise ValueError(f"{many} of {name} must have two or more that share no point, got {parts}")
        return apart
    chosen = once_each("pairs", index_tuples("pairs", pairs, 2))
    for pair in chosen:
        if max(pair) >= len(parts):
            raise ValueError(f"pairs of {name} name {noun} {max(pair)}, but there are {len(parts)} {many}")
        if are_joined(pair):
            raise ValueError(f"pairs of {name} must have no point in common, but {many} {pair} do: leave that pair out")
    return chosen


def meeting(groups: Tuples, pairs: Tuples) -> list[tuple[int, ...]]:
    """The points that meet at the contact of each pair of segments or bodies: all points of both."""
    return [groups[first] + groups[second] for first, second in pairs]
