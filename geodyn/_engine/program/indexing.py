"""Parts of arrays at places that are computed."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jax import lax

from geodyn._engine.cells import fill
from geodyn._engine.expressions import Node, Operand
from geodyn._engine.internals import Operation, Primitive
from geodyn._engine.llvm.code import BOOL, WORD, Memory, Value
from geodyn._engine.program.arrays import Kind, RealArray, Stored, kind, whole
from geodyn._engine.program.block import MOST_CELLS, Block

JOINS = {"add": lax.add_p, "sub": lax.sub_p, "mul": lax.mul_p, "min": lax.min_p, "max": lax.max_p}


def _within(block: Block, index: Operand, most: int) -> Operand:
    """The index, moved into 0 … most, as a 64-bit number."""
    index = block.graph.convert(index, WORD)
    if not isinstance(index, Node):
        return np.int64(min(max(int(index), 0), most))
    low = block.apply(lax.max_p, WORD, index, np.int64(0))
    return block.apply(lax.min_p, WORD, low, np.int64(most))


def _begins(block: Block, x: Stored, starts: Sequence[Operand], shape: Sequence[int]) -> Stored:
    """The part of this shape that begins at these starts, numbers or nodes."""
    slices = []
    moved = x.moved
    for start, size, stride in zip(starts, shape, x.strides, strict=True):
        if isinstance(start, Node):
            step = block.graph.multiply(start, np.int64(stride))
            moved = block.sum(moved, block.operand(step))
            slices.append((0, size, 1))
        else:
            slices.append((int(start), size, 1))
    return x.part(slices)._replace(moved=moved)


def _result(block: Block, x: RealArray) -> RealArray:
    """The array as numbers, if they are few."""
    return x if x.size > MOST_CELLS else block.cells(x)


def _known_slices(starts: Sequence[Operand], shape: Sequence[int]) -> tuple[slice, ...] | None:
    """The part of this shape that begins at these starts; None if one of them is computed."""
    slices = []
    for start, size in zip(starts, shape, strict=True):
        if isinstance(start, Node):
            return None
        slices.append(slice(int(start), int(start) + size))
    return tuple(slices)


def _starts(block: Block, x: RealArray, shape: Sequence[int], starts: Sequence[RealArray]) -> list[Operand]:
    """Where a part of this shape begins: moved into the array where it would not fit, as JAX has it."""
    found = []
    for start, size, part in zip(starts, x.shape, shape, strict=True):
        found.append(_within(block, block.number(start), size - part))
    return found


def _dynamic_slice(block: Block, equation: Operation, x: RealArray, *indices: RealArray) -> list[RealArray]:
    form = kind(equation.outvars[0].aval)
    starts = _starts(block, x, form.shape, indices)
    known = _known_slices(starts, form.shape)
    if known is not None and not isinstance(x, Stored):
        return [x[known]]
    source = block.in_memory(x, Kind(x.shape, form.dtype))
    return [_result(block, _begins(block, source, starts, form.shape))]


def _changeable(block: Block, x: RealArray, form: Kind, wide: bool, others: Sequence) -> Memory:
    """Memory with the array that may be changed: where it stands, if it is used no more, else a copy."""
    memory = block.takes_over(x, form, wide, others)
    if memory is None:
        memory = block.local(form, wide)
        block.copy_to(x, whole(memory, form.shape))
    return memory


def _dynamic_update_slice(
    block: Block, equation: Operation, x: RealArray, new: RealArray, *indices: RealArray
) -> list[RealArray]:
    form = kind(equation.outvars[0].aval)
    starts = _starts(block, x, new.shape, indices)
    known = _known_slices(starts, new.shape)
    if known is not None and form.size <= MOST_CELLS:
        out = block.cells(x).copy()
        out[known] = block.cells(new)
        return [out]
    moves = fill((len(starts),), starts)
    wide = any(map(block.is_wide, (x, new, moves)))
    memory = _changeable(block, x, form, wide, (new, moves))
    target = _begins(block, whole(memory, form.shape), starts, new.shape)
    block.copy_to(new, target, block.mask_of(memory))
    return [_result(block, whole(memory, form.shape))]


class Window(NamedTuple):
    """One of the parts that are gathered or scattered: its place among the indices, where it begins, whether it is
    inside of the array (a number), and its shape there."""

    batch: tuple[int, ...]
    starts: list[Operand]
    valid: Operand
    shape: tuple[int, ...]


class Places(NamedTuple):
    """How an array is indexed: its axes along which the indices give starts, its axes that go along with axes of the
    indices, the axes of a window, and whether a window that is not inside counts as none."""

    axes: tuple[int, ...]
    own_batch: tuple[int, ...]
    indices_batch: tuple[int, ...]
    window: list[int]
    sizes: tuple[int, ...]
    checked: bool


def _start_and_whether_inside(
    block: Block, index: Operand, most: int, places: Places, valid: Operand
) -> tuple[Operand, Operand]:
    """(where a window begins along an axis, `valid` where it is inside there as well)."""
    start = _within(block, index, most)
    if not places.checked:
        return start, valid
    is_inside = block.apply(lax.eq_p, BOOL, start, block.graph.convert(index, WORD))
    return start, is_inside if valid is np.True_ else block.apply(lax.and_p, BOOL, valid, is_inside)


def _windows(block: Block, x: RealArray, indices: RealArray, places: Places) -> list[Window]:
    """The parts whose indices give the starts along the axes."""
    cells = block.cells(indices)
    found = []
    for batch in np.ndindex(*cells.shape[:-1]):
        starts: list[Operand] = [np.int64(0)] * len(x.shape)
        valid: Operand = np.True_
        for own, of_indices in zip(places.own_batch, places.indices_batch, strict=True):
            starts[own] = np.int64(batch[of_indices])
        for own, index in zip(places.axes, cells[batch], strict=True):
            most = x.shape[own] - places.sizes[own]
            starts[own], valid = _start_and_whether_inside(block, index, most, places, valid)
        found.append(Window(batch, starts, valid, places.sizes))
    return found


def _gather(block: Block, equation: Operation, x: RealArray, indices: RealArray) -> list[RealArray]:
    params = equation.params
    d = params["dimension_numbers"]
    form = kind(equation.outvars[0].aval)
    batch_axes = _others(form.shape, d.offset_dims)
    places = Places(
        axes=d.start_index_map,
        own_batch=d.operand_batching_dims,
        indices_batch=d.start_indices_batching_dims,
        window=_others(x.shape, (*d.collapsed_slice_dims, *d.operand_batching_dims)),
        sizes=params["slice_sizes"],
        checked=params["mode"] == lax.GatherScatterMode.FILL_OR_DROP,
    )
    if form.size > MOST_CELLS or indices.size > MOST_CELLS:
        numbers = block.in_memory(indices, kind(equation.invars[1].aval))
        missing = _missing(params["fill_value"], form.dtype)
        return [_result(block, _gather_large(block, x, form, numbers, places, batch_axes, d.offset_dims, missing))]
    inside = tuple(places.sizes[k] for k in places.window)
    source = None
    cells = np.empty(form.shape, object)
    for window in _windows(block, x, indices, places):
        known = _known_slices(window.starts, places.sizes)
        if known is not None and not isinstance(x, Stored):
            part = x[known]
        else:
            source = source or block.in_memory(x, Kind(x.shape, form.dtype))
            part = block.cells(_begins(block, source, window.starts, places.sizes))
        part = part.reshape(inside)
        for place in np.ndindex(*inside):
            value: Operand = part[place]
            if window.valid is not np.True_:
                value = block.graph.select(window.valid, _missing(params["fill_value"], form.dtype), value)
            cells[tuple(_index(batch_axes, window.batch, d.offset_dims, place))] = value
    return [cells]


def _others(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """The axes that are not these."""
    return [k for k in range(len(shape)) if k not in axes]


def _index(axes: Sequence[int], batch: Sequence, others: Sequence[int], place: Sequence) -> list:
    """The index with those of `batch` along these axes, and with those of `place` along the others."""
    by_axis = dict(zip(axes, batch, strict=True)) | dict(zip(others, place, strict=True))
    return [by_axis[k] for k in range(len(by_axis))]


def _on_each_number(block: Block, shape: Sequence[int], indices: Stored, places: Places, function: Callable):
    """Runs `function(inner, moves, valid, batch, window)` for every number of every window on an array of this shape:
    its index there, whether the window counts (None if all do), and the indices of the window and of the number in
    it."""
    index, end = block.turns(indices.shape[:-1])
    outer = block.inner()
    moves: list[Value | None] = [None] * len(shape)
    valid: Operand = np.True_
    for k, axis in enumerate(places.axes):
        number = outer.node_of(outer.at(indices, [*index, outer.code.constant(np.int64(k))]))
        most = shape[axis] - places.sizes[axis]
        start, valid = _start_and_whether_inside(outer, number, most, places, valid)
        moves[axis] = outer.operand(start)
    for axis, of_indices in zip(places.own_batch, places.indices_batch, strict=True):
        moves[axis] = index[of_indices]
    counts = None if valid is np.True_ else outer.operand(valid)
    window, close = outer.turns([places.sizes[k] for k in places.window])
    inner = outer.inner()
    for axis, k in zip(places.window, window, strict=True):
        if k is not None:
            moves[axis] = inner.sum(moves[axis], k)
    function(inner, moves, counts, index, window)
    close()
    end()


def _gather_large(
    block: Block,
    x: RealArray,
    form: Kind,
    indices: Stored,
    places: Places,
    batch_axes: Sequence[int],
    offset_axes: Sequence[int],
    missing: np.generic,
) -> Stored:
    """A large array of parts of an array, or one of many."""
    source = block.in_memory(x, Kind(x.shape, form.dtype))
    memory = block.local(form, block.is_wide(x) or indices.is_wide)
    target = whole(memory, form.shape)

    def one(
        inner: Block,
        moves: Sequence[Value | None],
        valid: Value | None,
        batch: Sequence[Value | None],
        window: Sequence[Value | None],
    ):
        value = inner.code.load(inner.at(source, moves))
        if valid is not None:
            value = inner.code.select(valid, value, inner.code.constant(missing))
        place = inner.at(target, _index(batch_axes, batch, offset_axes, window))
        inner.code.store(value, place)

    _on_each_number(block, x.shape, indices, places, one)
    return target


def _scatter_large(
    block: Block,
    x: RealArray,
    form: Kind,
    indices: Stored,
    updates: RealArray,
    places: Places,
    batch_axes: Sequence[int],
    update_axes: Sequence[int],
    join: Primitive | None,
) -> Stored:
    """An array with many numbers written into it."""
    news = block.in_memory(updates, Kind(updates.shape, form.dtype))
    wide = any(map(block.is_wide, (x, news, indices)))
    memory = _changeable(block, x, form, wide, (news, indices))
    mask = block.mask_of(memory)
    target = whole(memory, form.shape)

    def one(
        inner: Block,
        moves: Sequence[Value | None],
        valid: Value | None,
        batch: Sequence[Value | None],
        window: Sequence[Value | None],
    ):
        place = inner.at(target, moves)
        value = inner.code.load(inner.at(news, _index(batch_axes, batch, update_axes, window)))
        if join is not None:
            old = inner.node_of(inner.code.load(place))
            value = inner.operand(inner.apply(join, form.dtype, old, inner.node_of(value)))
        which = [m for m in (mask, valid) if m is not None]
        inner.code.store(value, place, inner.code.both(*which) if len(which) == 2 else next(iter(which), None))

    _on_each_number(block, form.shape, indices, places, one)
    return target


def _missing(value: np.typing.ArrayLike | None, dtype: np.dtype) -> np.generic:
    """What stands for an entry beyond the end."""
    if value is not None:
        return np.asarray(value, dtype)[()]
    if dtype.kind == "f":
        return np.asarray(np.nan, dtype)[()]
    if dtype == BOOL:
        return np.True_
    limits = np.iinfo(dtype)
    return np.asarray(limits.min if dtype.kind == "i" else limits.max, dtype)[()]


def _scatter(
    block: Block, equation: Operation, x: RealArray, indices: RealArray, updates: RealArray
) -> list[RealArray]:
    name, params = equation.primitive.name, equation.params
    d = params["dimension_numbers"]
    form = kind(equation.outvars[0].aval)
    join = JOINS.get(name.removeprefix("scatter")[1:])
    window_axes = _others(form.shape, (*d.inserted_window_dims, *d.operand_batching_dims))
    sizes = [1] * len(form.shape)
    for axis, of_updates in zip(window_axes, d.update_window_dims, strict=True):
        sizes[axis] = updates.shape[of_updates]
    places = Places(
        axes=d.scatter_dims_to_operand_dims,
        own_batch=d.operand_batching_dims,
        indices_batch=d.scatter_indices_batching_dims,
        window=window_axes,
        sizes=tuple(sizes),
        checked=params["mode"] != lax.GatherScatterMode.CLIP,
    )
    batch_axes = _others(updates.shape, d.update_window_dims)
    if updates.size > MOST_CELLS or indices.size > MOST_CELLS:
        numbers = block.in_memory(indices, kind(equation.invars[1].aval))
        scattered = _scatter_large(block, x, form, numbers, updates, places, batch_axes, d.update_window_dims, join)
        return [_result(block, scattered)]
    windows = _windows(block, x, indices, places)
    news = block.cells(updates)
    inside = [sizes[k] for k in window_axes]
    parts = []
    for window in windows:
        # The new numbers in the shape that they have in the array.
        indices_of_news = [_index(batch_axes, window.batch, d.update_window_dims, i) for i in np.ndindex(*inside)]
        parts.append(fill(places.sizes, [news[tuple(i)] for i in indices_of_news]))
    is_known = all(_known_slices(window.starts, window.shape) is not None for window in windows)
    if is_known and form.size <= MOST_CELLS:
        return [_scatter_in_cells(block, block.cells(x).copy(), windows, parts, form.dtype, join)]
    starts = [start for window in windows for start in window.starts]
    moves = fill((len(starts),), starts)
    wide = any(map(block.is_wide, (x, updates, moves)))
    memory = _changeable(block, x, form, wide, (news, moves))
    _scatter_in_memory(block, memory, form, windows, parts, join)
    return [_result(block, whole(memory, form.shape))]


def _scatter_in_cells(
    block: Block,
    out: np.ndarray,
    windows: Sequence[Window],
    parts: Sequence[np.ndarray],
    dtype: np.dtype,
    join: Primitive | None,
) -> np.ndarray:
    """The array `out` with new numbers at places that are known now."""
    for window, part in zip(windows, parts, strict=True):
        first = [int(start) for start in window.starts]  # pyright: ignore[reportArgumentType]: no start is a node
        for place, new in np.ndenumerate(part):
            at = tuple(start + i for start, i in zip(first, place, strict=True))
            old: Operand = out[at]
            value: Operand = new if join is None else block.apply(join, dtype, old, new)
            out[at] = value if window.valid is np.True_ else block.graph.select(window.valid, old, value)
    return out


def _scatter_in_memory(
    block: Block,
    memory: Memory,
    form: Kind,
    windows: Sequence[Window],
    parts: Sequence[np.ndarray],
    join: Primitive | None,
):
    """Writes new numbers to places of which some are computed."""
    for window, part in zip(windows, parts, strict=True):
        target = _begins(block, whole(memory, form.shape), window.starts, window.shape)
        valid = block.operand(window.valid)
        own = block.mask_of(memory)
        mask = valid if own is None else block.code.both(valid, own)
        for place, new in np.ndenumerate(part):
            value: Operand = new
            if join is not None:
                old = block.node_of(block.code.load(target.place(place)))
                value = block.apply(join, form.dtype, old, value)
            block.code.store(block.operand(value), target.place(place), None if mask.text == "true" else mask)


def _first_extreme(greater: Primitive) -> Callable:
    """The rule of argmax (or argmin, with `less` for `greater`)."""

    def is_better(block: Block, new: Operand, best: Operand) -> Operand:
        """Whether a number takes the place of the best one so far; of all NaN the first one does."""
        better = block.apply(greater, BOOL, new, best)
        if np.dtype(new.dtype).kind != "f":
            return better
        is_nan = block.apply(lax.ne_p, BOOL, new, new)
        best_is_number = block.apply(lax.eq_p, BOOL, best, best)
        return block.apply(lax.and_p, BOOL, block.apply(lax.or_p, BOOL, better, is_nan), best_is_number)

    def place_in(block: Block, row: Sequence[Operand], dtype: np.dtype) -> Operand:
        best = row[0]
        at: Operand = np.zeros((), dtype)[()]
        for k, new in enumerate(row[1:], 1):
            better = is_better(block, new, best)
            best = block.graph.select(better, best, new)
            here: Operand = np.asarray(k, dtype)[()]
            at = block.graph.select(better, at, here)
        return at

    def rule(block: Block, equation: Operation, x: RealArray) -> list[RealArray]:
        (axis,) = equation.params["axes"]
        form = kind(equation.outvars[0].aval)
        rows = np.moveaxis(block.cells(x), axis, -1)
        return [fill(form.shape, [place_in(block, list(rows[i]), form.dtype) for i in np.ndindex(*form.shape)])]

    return rule


INDEXED = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "argmax": _first_extreme(lax.gt_p),
    "argmin": _first_extreme(lax.lt_p),
}
INDEXED |= {f"scatter{sep}{name}": _scatter for sep, name in itertools.product("-_", JOINS)} | {"scatter": _scatter}
