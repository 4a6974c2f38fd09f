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
    fixed = [(0 if isinstance(s, Node) else int(s), n, 1) for s, n in zip(starts, shape, strict=True)]
    moved = x.moved
    for start, stride in zip(starts, x.strides, strict=True):
        if isinstance(start, Node):
            step = block.graph.multiply(start, np.int64(stride))
            moved = block.sum(moved, block.operand(step))
    return x.taken(fixed)._replace(moved=moved)


def _result(block: Block, x: RealArray) -> RealArray:
    """The array as numbers, if they are few."""
    return x if x.size > MOST_CELLS else block.cells(x)


def _is_known(starts: Sequence[Operand]) -> bool:
    return not any(isinstance(s, Node) for s in starts)


def _starts(block: Block, x: RealArray, shape: Sequence[int], starts: Sequence[RealArray]) -> list:
    limits = [n - size for n, size in zip(x.shape, shape, strict=True)]
    return [_within(block, block.number(s), most) for s, most in zip(starts, limits, strict=True)]


def _dynamic_slice(block: Block, equation: Operation, x: RealArray, *starts: RealArray) -> list:
    form = kind(equation.outvars[0].aval)
    starts = _starts(block, x, form.shape, starts)
    if _is_known(starts) and not isinstance(x, Stored):
        return [x[tuple(slice(int(s), int(s) + n) for s, n in zip(starts, form.shape, strict=True))]]
    source = block.stored(x, Kind(x.shape, form.dtype))
    return [_result(block, _begins(block, source, starts, form.shape))]


def _changeable(block: Block, x: RealArray, form: Kind, wide: bool, others: Sequence) -> Memory:
    """Memory with the array that may be changed: where it stands, if it is used no more, else a copy."""
    memory = block.takes_over(x, form, wide, others)
    if memory is None:
        memory = block.local(form, wide)
        block.copied(x, whole(memory, form.shape))
    return memory


def _dynamic_update_slice(block: Block, equation: Operation, x: RealArray, new: RealArray, *starts: RealArray) -> list:
    form = kind(equation.outvars[0].aval)
    starts = _starts(block, x, new.shape, starts)
    if _is_known(starts) and form.size <= MOST_CELLS:
        out = block.cells(x).copy()
        out[tuple(slice(int(s), int(s) + n) for s, n in zip(starts, new.shape, strict=True))] = block.cells(new)
        return [out]
    moves = fill((len(starts),), starts)
    memory = _changeable(block, x, form, any(map(block.is_wide, (x, new, moves))), (new, moves))
    target = _begins(block, whole(memory, form.shape), starts, new.shape)
    block.copied(new, target, block.mask_of(memory))
    return [_result(block, whole(memory, form.shape))]


class Window(NamedTuple):
    """One of the parts that are gathered or scattered: its place among the indices, where it begins, whether it is
    inside of the array (a number), and its shape there."""

    batch: tuple[int, ...]
    starts: list
    valid: object
    shape: tuple[int, ...]


def _windows(
    block: Block,
    x: RealArray,
    indices: RealArray,
    axes: Sequence[int],
    own_batch: Sequence[int],
    indices_batch: Sequence[int],
    shape: Sequence[int],
    checked: bool,
) -> list[Window]:
    """The parts of `shape` whose indices give the starts along the axes."""
    cells, found = block.cells(indices), []
    for batch in np.ndindex(*cells.shape[:-1]):
        starts, valid = [np.int64(0)] * len(x.shape), np.True_
        for own, of_indices in zip(own_batch, indices_batch, strict=True):
            starts[own] = np.int64(batch[of_indices])
        for own, start in zip(axes, cells[batch], strict=True):
            starts[own] = _within(block, start, x.shape[own] - shape[own])
            if checked:
                same = block.apply(lax.eq_p, BOOL, starts[own], block.graph.convert(start, WORD))
                valid = same if valid is np.True_ else block.apply(lax.and_p, BOOL, valid, same)
        found.append(Window(batch, starts, valid, shape))
    return found


def _gather(block: Block, equation: Operation, x: RealArray, indices: RealArray) -> list:
    d, p = equation.params["dimension_numbers"], equation.params
    form, sizes = kind(equation.outvars[0].aval), p["slice_sizes"]
    checked = p["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    batch_axes = [k for k in range(len(form.shape)) if k not in d.offset_dims]
    dropped = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    inside = tuple(n for k, n in enumerate(sizes) if k not in dropped)
    own_batch = d.operand_batching_dims, d.start_indices_batching_dims
    if form.size > MOST_CELLS or indices.size > MOST_CELLS:
        places = Places(d.start_index_map, *own_batch, _others(x.shape, dropped), sizes, checked)
        numbers = block.stored(indices, kind(equation.invars[1].aval))
        missing = _missing(p["fill_value"], form.dtype)
        return [_result(block, _gathered(block, x, form, numbers, places, batch_axes, d.offset_dims, missing))]
    windows = _windows(block, x, indices, d.start_index_map, *own_batch, sizes, checked)
    source, cells = None, np.empty(form.shape, object)
    for window in windows:
        if _is_known(window.starts) and not isinstance(x, Stored):
            part = x[tuple(slice(int(s), int(s) + n) for s, n in zip(window.starts, sizes, strict=True))]
        else:
            source = source or block.stored(x, Kind(x.shape, form.dtype))
            part = block.cells(_begins(block, source, window.starts, sizes))
        part = part.reshape(inside)
        for place in np.ndindex(*inside):
            value = part[place]
            if window.valid is not np.True_:
                value = block.graph.select(window.valid, _missing(p["fill_value"], form.dtype), value)
            cells[_index(form.shape, batch_axes, window.batch, d.offset_dims, place)] = value
    return [cells]


def _others(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """The axes that are not these."""
    return [k for k in range(len(shape)) if k not in axes]


def _index(
    shape: Sequence[int], axes: Sequence[int], batch: Sequence[int], others: Sequence[int], place: Sequence[int]
) -> tuple:
    at = [0] * len(shape)
    for axis, i in (*zip(axes, batch, strict=True), *zip(others, place, strict=True)):
        at[axis] = i
    return tuple(at)


class Places(NamedTuple):
    """How an array is indexed: its axes along which the indices give starts, its axes that go along with axes of the
    indices, the axes of a window, and whether a window that is not inside counts as none."""

    axes: tuple[int, ...]
    own_batch: tuple[int, ...]
    indices_batch: tuple[int, ...]
    window: list[int]
    sizes: tuple[int, ...]
    checked: bool


def _on_each_number(block: Block, shape: Sequence[int], indices: Stored, places: Places, function: Callable):
    """Runs `function(inner, moves, valid, batch, window)` for every number of every window on an array of this shape:
    its index there, whether the window counts (None if all do), and the indices of the window and of the number in
    it."""
    inside = [places.sizes[k] for k in places.window]
    index, end = block.turns(indices.shape[:-1])
    outer = block.inner()
    starts, valid = {}, None
    for k, axis in enumerate(places.axes):
        given = outer.given(outer.at(indices, [*index, outer.code.constant(np.int64(k))]))
        start = _within(outer, given, shape[axis] - places.sizes[axis])
        if places.checked:
            same = outer.apply(lax.eq_p, BOOL, start, outer.graph.convert(given, WORD))
            valid = same if valid is None else outer.apply(lax.and_p, BOOL, valid, same)
        starts[axis] = outer.operand(start)
    for axis, of_indices in zip(places.own_batch, places.indices_batch, strict=True):
        starts[axis] = index[of_indices]
    counts = None if valid is None else outer.operand(valid)
    window, close = outer.turns(inside)
    moves = [starts.get(axis) for axis in range(len(shape))]
    inner = outer.inner()
    for axis, k in zip(places.window, window, strict=True):
        if k is not None:
            moves[axis] = inner.sum(moves[axis], k)
    function(inner, moves, counts, index, window)
    close()
    end()


def _arranged(
    shape: Sequence[int],
    axes: Sequence[int],
    batch: Sequence[Value | None],
    others: Sequence[int],
    window: Sequence[Value | None],
) -> list:
    at = [None] * len(shape)
    for axis, k in (*zip(axes, batch, strict=True), *zip(others, window, strict=True)):
        at[axis] = k
    return at


def _gathered(
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
    source = block.stored(x, Kind(x.shape, form.dtype))
    memory = block.local(form, block.is_wide(x) or indices.is_wide)

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
        at = _arranged(form.shape, batch_axes, batch, offset_axes, window)
        inner.code.store(value, inner.at(whole(memory, form.shape), at))

    _on_each_number(block, x.shape, indices, places, one)
    return whole(memory, form.shape)


def _scattered(
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
    updates = block.stored(updates, Kind(updates.shape, form.dtype))
    wide = any(map(block.is_wide, (x, updates, indices)))
    memory = _changeable(block, x, form, wide, (updates, indices))
    mask, target = block.mask_of(memory), whole(memory, form.shape)

    def one(
        inner: Block,
        moves: Sequence[Value | None],
        valid: Value | None,
        batch: Sequence[Value | None],
        window: Sequence[Value | None],
    ):
        place = inner.at(target, moves)
        value = inner.code.load(inner.at(updates, _arranged(updates.shape, batch_axes, batch, update_axes, window)))
        if join is not None:
            old = inner.given(inner.code.load(place))
            value = inner.operand(inner.apply(join, form.dtype, old, inner.given(value)))
        which = [m for m in (mask, valid) if m is not None]
        inner.code.store(value, place, inner.code.both(*which) if len(which) == 2 else next(iter(which), None))

    _on_each_number(block, form.shape, indices, places, one)
    return whole(memory, form.shape)


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


def _scatter(block: Block, equation: Operation, x: RealArray, indices: RealArray, updates: RealArray) -> list:
    name, p = equation.primitive.name, equation.params
    d, form = p["dimension_numbers"], kind(equation.outvars[0].aval)
    join = JOINS.get(name.removeprefix("scatter")[1:])
    inserted = (*d.inserted_window_dims, *d.operand_batching_dims)
    window_axes = [k for k in range(len(form.shape)) if k not in inserted]
    sizes = [1] * len(form.shape)
    for axis, of_updates in zip(window_axes, d.update_window_dims, strict=True):
        sizes[axis] = updates.shape[of_updates]
    batch_axes = [k for k in range(len(updates.shape)) if k not in d.update_window_dims]
    checked = p["mode"] != lax.GatherScatterMode.CLIP
    own_batch = d.operand_batching_dims, d.scatter_indices_batching_dims
    if updates.size > MOST_CELLS or indices.size > MOST_CELLS:
        places = Places(d.scatter_dims_to_operand_dims, *own_batch, window_axes, tuple(sizes), checked)
        numbers = block.stored(indices, kind(equation.invars[1].aval))
        scattered = _scattered(block, x, form, numbers, updates, places, batch_axes, d.update_window_dims, join)
        return [_result(block, scattered)]
    windows = _windows(block, x, indices, d.scatter_dims_to_operand_dims, *own_batch, tuple(sizes), checked)
    news, inside = block.cells(updates), [sizes[k] for k in window_axes]

    def part(window: Window) -> np.ndarray:
        """The new numbers in the shape that they have in the array."""
        places = [_index(news.shape, batch_axes, window.batch, d.update_window_dims, i) for i in np.ndindex(*inside)]
        return fill(tuple(sizes), [news[place] for place in places])

    if all(_is_known(w.starts) for w in windows) and form.size <= MOST_CELLS:
        out = block.cells(x).copy()
        for window in windows:
            for place, value in np.ndenumerate(part(window)):
                at = tuple(int(s) + i for s, i in zip(window.starts, place, strict=True))
                value = value if join is None else block.apply(join, form.dtype, out[at], value)
                out[at] = value if window.valid is np.True_ else block.graph.select(window.valid, out[at], value)
        return [out]
    starts = [s for w in windows for s in w.starts]
    moves = fill((len(starts),), starts)
    memory = _changeable(block, x, form, any(map(block.is_wide, (x, updates, moves))), (news, moves))
    for window in windows:
        target = _begins(block, whole(memory, form.shape), window.starts, sizes)
        valid = block.operand(window.valid)
        mask = block.mask_of(memory)
        mask = valid if mask is None else block.code.both(valid, mask)
        mask = None if mask.text == "true" else mask
        for place, value in np.ndenumerate(part(window)):
            if join is not None:
                old = block.given(block.code.load(target.place(place)))
                value = block.apply(join, form.dtype, old, value)
            block.code.store(block.operand(value), target.place(place), mask)
    return [_result(block, whole(memory, form.shape))]


def _first_extreme(greater: Primitive) -> Callable:
    """The rule of argmax (or argmin, with `less` for `greater`)."""

    def rule(block: Block, equation: Operation, x: RealArray) -> list:
        (axis,), form = equation.params["axes"], kind(equation.outvars[0].aval)
        rows = np.moveaxis(block.cells(x), axis, -1)

        def of(row: np.ndarray) -> Operand:
            best, at = row[0], np.zeros((), form.dtype)[()]
            for k, y in enumerate(row[1:], 1):
                more = block.apply(greater, BOOL, y, best)
                if np.dtype(y.dtype).kind == "f":  # The first NaN is the result.
                    is_nan = block.apply(lax.ne_p, BOOL, y, y)
                    is_number = block.apply(lax.eq_p, BOOL, best, best)
                    more = block.apply(lax.and_p, BOOL, block.apply(lax.or_p, BOOL, more, is_nan), is_number)
                best = block.graph.select(more, best, y)
                at = block.graph.select(more, at, np.asarray(k, form.dtype)[()])
            return at

        return [fill(form.shape, [of(rows[i]) for i in np.ndindex(*form.shape)])]

    return rule


INDEXED = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "argmax": _first_extreme(lax.gt_p),
    "argmin": _first_extreme(lax.lt_p),
}
INDEXED |= {f"scatter{sep}{name}": _scatter for sep, name in itertools.product("-_", JOINS)} | {"scatter": _scatter}
