"""The arrays of a program while it is compiled: numbers of a graph, or places in memory."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from geodyn._engine.cells import fill
from geodyn._engine.internals import ShapedArray
from geodyn._engine.llvm.code import Memory, NotUnderstood, Place, Value

NAMES = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
KINDS = frozenset(map(np.dtype, NAMES.split()))


class Kind(NamedTuple):
    """The shape and the type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Stored(NamedTuple):
    """An array in memory: number (i, j, …) stands at first + i·strides[0] + j·strides[1] + …, plus what is computed
    (`moved`)."""

    memory: Memory
    first: int
    moved: Value | None
    version: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        return self.memory.dtype

    @property
    def is_wide(self) -> bool:
        """Whether its numbers may differ between the members of a batch."""
        return self.memory.wide or (self.moved is not None and self.moved.wide)

    @property
    def is_current(self) -> bool:
        """Whether the memory still holds it."""
        return self.version == self.memory.version

    @property
    def is_dense(self) -> bool:
        """Whether its numbers stand one after the other."""
        pairs = zip(self.shape, self.strides, strides_of(self.shape), strict=True)
        return all(size == 1 or own == dense for size, own, dense in pairs)

    @property
    def is_whole(self) -> bool:
        """Whether it is all that its memory holds."""
        return (
            self.is_current
            and self.is_dense
            and not self.first
            and self.moved is None
            and self.size == self.memory.size
        )

    def place(self, index: Sequence[int]) -> Place:
        """The place of the number with this index."""
        step = sum(i * stride for i, stride in zip(index, self.strides, strict=True))
        return Place(self.memory, self.first + step, self.moved, self.version)

    def part(self, slices: Sequence[tuple[int, int, int]]) -> "Stored":
        """A part of the array, given by (start, count, step) along each axis."""
        first = self.first
        shape, strides = [], []
        for (start, count, step), stride in zip(slices, self.strides, strict=True):
            first += start * stride
            shape.append(count)
            strides.append(step * stride)
        return self._replace(first=first, shape=tuple(shape), strides=tuple(strides))

    def spread(self, shape: Sequence[int], axes: Sequence[int]) -> "Stored":
        """The array with its axes at these places of a larger shape, and repeated along the others."""
        strides = [0] * len(shape)
        for axis, size, stride in zip(axes, self.shape, self.strides, strict=True):
            strides[axis] = 0 if size == 1 else stride
        return self._replace(shape=tuple(shape), strides=tuple(strides))


class Pending(NamedTuple):
    """A large array that is computed where it is used, in one place only: `number(block, numbers)` is its number
    at an index, from those of the `sources` there, which have its shape."""

    shape: tuple[int, ...]
    dtype: np.dtype
    sources: tuple[Stored, ...]
    number: Callable

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_wide(self) -> bool:
        return any(x.is_wide for x in self.sources)


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array whose numbers stand one after the other."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def whole(memory: Memory, shape: Sequence[int], moved: Value | None = None) -> Stored:
    """The array of this shape that a memory holds, from the place `moved` on."""
    return Stored(memory, 0, moved, memory.version, tuple(shape), strides_of(shape))


def merge_axes(*arrays: Stored) -> list[Stored]:
    """The same arrays, which have one shape, with as few axes as loops over their numbers need: two axes are one where
    the numbers of each array follow each other at one distance along both."""
    axes: list[tuple[int, list[int]]] = []
    for k, size in enumerate(arrays[0].shape):
        strides = [x.strides[k] for x in arrays]
        if size == 1:
            continue
        if axes and axes[-1][1] == [size * stride for stride in strides]:
            size *= axes.pop()[0]
        axes.append((size, strides))
    shape = tuple(size for size, _ in axes)
    merged = []
    for k, x in enumerate(arrays):
        own = tuple(strides[k] for _, strides in axes)
        merged.append(x._replace(shape=shape, strides=own))
    return merged


class Complex(NamedTuple):
    """An array of complex numbers."""

    real: Any
    imag: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.real.shape

    @property
    def size(self) -> int:
        return self.real.size


# An array of real numbers, and any array of a program.
RealArray = np.ndarray | Stored
ProgramArray = RealArray | Complex


def parts(x: ProgramArray | Pending) -> list:
    """The real arrays of which an array consists."""
    return list(x) if isinstance(x, Complex) else [x]


def numpy_type(aval: ShapedArray) -> np.dtype:
    """The type of the numbers of an array, if it is one of numpy's."""
    if not isinstance(aval.dtype, np.dtype):  # Such as a key of random numbers.
        raise NotUnderstood(f"numbers of type {aval.dtype}")
    return aval.dtype


def kinds(aval: ShapedArray) -> list[Kind]:
    """Those of the `parts` of an array of this type."""
    dtype = numpy_type(aval)
    if dtype.kind == "c":
        return [Kind(aval.shape, np.dtype(f"f{dtype.itemsize // 2}"))] * 2
    if dtype not in KINDS:
        raise NotUnderstood(f"numbers of type {dtype}")
    return [Kind(aval.shape, dtype)]


def kind(aval: ShapedArray) -> Kind:
    """That of an array of real numbers."""
    found = kinds(aval)
    if len(found) > 1:
        raise NotUnderstood("complex numbers")
    return found[0]


def join_parts(avals: Iterable[ShapedArray], flat: Iterable) -> list:
    """The arrays of these types, from their `parts`."""
    rest = iter(flat)
    arrays = []
    for aval in avals:
        is_complex = len(kinds(aval)) == 2
        arrays.append(Complex(next(rest), next(rest)) if is_complex else next(rest))
    return arrays


def flat(arrays: Iterable[ProgramArray | Pending]) -> list:
    """All parts of some arrays."""
    return [part for x in arrays for part in parts(x)]


def forms(avals: Iterable[ShapedArray]) -> list[Kind]:
    """The kinds of all parts of arrays of these types."""
    return [part for aval in avals for part in kinds(aval)]


def constant(x: Any, aval: ShapedArray) -> np.ndarray | Complex:
    """The array of a number or an array that is known now."""
    x = np.asarray(x, numpy_type(aval))
    kinds(aval)  # Other numbers than these are refused here.
    if x.dtype.kind == "c":
        return Complex(_cells(x.real), _cells(x.imag))
    return _cells(x)


def _cells(x: np.ndarray) -> np.ndarray:
    """The numbers of an array one by one, as numpy's own."""
    return fill(x.shape, list(x.reshape(-1)))
