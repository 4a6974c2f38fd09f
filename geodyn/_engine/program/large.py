"""Operations on arrays that stay in memory: another view of them, or loops over their numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from geodyn._engine.cells import ELEMENTWISE, REDUCTIONS, RUNNING, fill, left_by_padding
from geodyn._engine.expressions import Node, Operand
from geodyn._engine.internals import Operation, Primitive
from geodyn._engine.llvm.code import BOOL, Memory, NotUnderstood, Place
from geodyn._engine.program.arrays import Kind, Pending, RealArray, Stored, kind, whole
from geodyn._engine.program.block import MOST_CELLS, Block
from geodyn._engine.program.pairs import is_complex

# What a sum, a product, … of no numbers is.
EMPTY = {"reduce_sum": 0, "reduce_prod": 1, "reduce_and": True, "reduce_or": False}


def on_large(
    block: Block, equation: Operation, args: Sequence[RealArray | Pending], wanted: Sequence[Memory | None]
) -> list:
    """The results of an operation on large arrays."""
    name = equation.primitive.name
    if name in ELEMENTWISE:
        return [_on_each(block, equation, args, wanted)]
    if name in REDUCTIONS and isinstance(args[0], Pending):
        return _reduce(block, equation, args[0], wanted[0])
    sources = [block.in_memory(x, kind(v.aval)) for x, v in zip(args, equation.invars, strict=True)]
    if name in REDUCTIONS:
        return _reduce(block, equation, sources[0], wanted[0])
    if name in VIEWS:
        return [VIEWS[name](block, equation, sources[0])]
    if name == "split":
        return _split(equation, sources[0])
    if name == "unstack":
        axis = equation.params["axis"]
        return [_row(sources[0], axis, k) for k in range(sources[0].shape[axis])]
    form = kind(equation.outvars[0].aval)
    if form.size == 0:
        return [fill(form.shape, [])]
    target = _target(block, form, any(x.is_wide for x in sources), wanted[0])
    if name not in FILLS:
        raise NotUnderstood(f"{name} of {[str(v.aval) for v in equation.invars]}")
    FILLS[name](block, equation, target, *sources)
    return [target]


def _target(block: Block, form: Kind, wide: bool, memory: Memory | None) -> Stored:
    """Where a result is written: the memory that is wanted, where it can hold it."""
    return whole(block.local(form, wide) if memory is None or memory.wide < wide else memory, form.shape)


def _on_each(
    block: Block, equation: Operation, args: Sequence[RealArray | Pending], wanted: Sequence[Memory | None]
) -> Pending | Stored | np.ndarray:
    """The result of an operation on each number, which is computed where it is used if that is in one place only."""
    (variable,), form = equation.outvars, kind(equation.outvars[0].aval)
    if form.size == 0:
        return fill(form.shape, [])
    sources = []
    for x, v in zip(args, equation.invars, strict=True):
        is_used_once = isinstance(x, Pending) and x.shape == form.shape
        sources.append(x if is_used_once else block.in_memory(x, kind(v.aval)))
    result = _each(equation, sources, form)
    user = block.frames[-1].user(variable)  # pyright: ignore[reportAttributeAccessIssue]: a `Frame`, of this operation
    if wanted[0] is None and form.size > MOST_CELLS and _takes_pending(user):
        return result
    return block.evaluate(result, _target(block, form, result.is_wide, wanted[0]))


def _takes_pending(equation: Operation | None) -> bool:
    """Whether an operation, if it is one, takes arrays that are computed where they are used."""
    if equation is None or equation.primitive.name not in (*ELEMENTWISE, *REDUCTIONS):
        return False
    return not any(map(is_complex, (*equation.invars, *equation.outvars)))


def _each(equation: Operation, sources: Sequence[Pending | Stored], form: Kind) -> Pending:
    """The array of an operation on each number of some arrays."""
    parts: list[Pending | Stored] = []
    leaves: list[Stored] = []
    for x in sources:
        if isinstance(x, Pending):
            parts.append(x)
            leaves += x.sources
        else:
            # JAX repeats what has length one along an axis, and single numbers.
            repeated = x.spread(form.shape, range(len(x.shape)))
            parts.append(repeated)
            leaves.append(repeated)
    groups = _in_turn(*(len(x.sources) if isinstance(x, Pending) else 1 for x in parts))
    of_number = _OneNumber(equation, form.dtype)

    def number(inner: Block, numbers: list[Node]) -> Operand:
        args = []
        for x, places in zip(parts, groups, strict=True):
            own = [numbers[k] for k in places]
            args.append(x.number(inner, own) if isinstance(x, Pending) else own[0])
        cells = [fill((), [x]) for x in args]
        return inner.number(inner.elementwise(of_number, cells, Kind((), form.dtype)))

    return Pending(form.shape, form.dtype, tuple(leaves), number)


class _OneNumber:
    """An operation on each number of arrays, for one number."""

    def __init__(self, equation: Operation, dtype: np.dtype):
        self.primitive = equation.primitive
        self.params = equation.params
        self.invars = equation.invars
        self.outvars = [_Variable(np.dtype(dtype))]


class _Variable:
    """The variable of a number, which is its own type."""

    def __init__(self, dtype: np.dtype):
        self.aval = self
        self.shape = ()
        self.dtype = dtype


def _fill(block: Block, target: Stored, number: Any):
    """Writes the same number everywhere."""
    value = block.code.constant(np.asarray(number, target.dtype))
    block.loop([target], lambda _, places: block.code.store(value, places[0]))


def _accumulate(block: Block, places: Sequence[Place], primitive: Primitive, value: Operand, empty: Any):
    """What stands at the last of the places ← primitive(that, value), for every value where several are computed at
    once; `empty` is that of none."""
    place = places[-1]
    dtype = place.memory.dtype
    is_of_several = any(x.along for x in places) and not place.along
    values = _lanes(block, value, empty) if is_of_several else [value]
    # In pairs, since a sum one after the other would have to wait for each.
    while len(values) > 1:
        values = [block.apply(primitive, dtype, x, y) for x, y in zip(values[::2], values[1::2], strict=True)]
    total = block.apply(primitive, dtype, block.node_of(place), values[0])
    block.code.store(block.operand(total), place)


def _lanes(block: Block, value: Operand, empty: Any) -> list[Operand]:
    """The numbers that are computed at once, one by one."""
    code = block.code
    numbers = block.operand(value)
    full = code.select(block.mask, numbers, code.constant(np.asarray(empty, numbers.dtype)))
    return [block.node_of(code.lane(full, k)) for k in range(code.width)]


def _of_nothing(name: str, dtype: np.dtype) -> Any:
    """What a reduction of no numbers of this type is."""
    if name in EMPTY:
        return EMPTY[name]
    is_maximum = name == "reduce_max"
    if dtype == BOOL:
        return not is_maximum
    if dtype.kind == "f":
        return -np.inf if is_maximum else np.inf
    limits = np.iinfo(dtype)
    return limits.min if is_maximum else limits.max


def _reduce(block: Block, equation: Operation, x: Stored | Pending, wanted: Memory | None) -> list:
    """The sum of the numbers of an array along axes, or their product, their maximum, …"""
    name = equation.primitive.name
    form = kind(equation.outvars[0].aval)
    if form.size == 0:
        return [fill(form.shape, [])]
    target = _target(block, form, x.is_wide, wanted)
    empty = _of_nothing(name, x.dtype)
    _fill(block, target, empty)
    kept = [k for k in range(len(x.shape)) if k not in equation.params["axes"]]

    def one(inner: Block, places: Sequence[Place]):
        numbers = [inner.node_of(place) for place in places[:-1]]
        value = x.number(inner, numbers) if isinstance(x, Pending) else numbers[0]
        _accumulate(inner, places, REDUCTIONS[name], value, empty)

    sources = x.sources if isinstance(x, Pending) else [x]
    block.loop([*sources, target.spread(x.shape, kept)], one)
    return [target]


def _dot(block: Block, equation: Operation, target: Stored, a: Stored, b: Stored):
    """A product of arrays: a loop over the axes of a batch, those of a alone, those that are summed, those of b alone.
    The rows of b are the inmost ones, along which its numbers and those of the result stand one after the other."""
    (over_a, over_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    own_a = [k for k in range(len(a.shape)) if k not in (*over_a, *batch_a)]
    own_b = [k for k in range(len(b.shape)) if k not in (*over_b, *batch_b)]
    left = _permute(a, (*batch_a, *own_a, *over_a))
    right = _permute(b, (*batch_b, *over_b, *own_b))
    shape = (*left.shape, *(b.shape[k] for k in own_b))
    batch, own, over, others = _in_turn(len(batch_a), len(own_a), len(over_a), len(own_b))
    _fill(block, target, 0)

    def one(inner: Block, places: Sequence[Place]):
        of_left, of_right, _ = places
        x = inner.graph.convert(inner.node_of(of_left), target.dtype)
        y = inner.graph.convert(inner.node_of(of_right), target.dtype)
        _accumulate(inner, places, lax.add_p, inner.graph.multiply(x, y), 0)

    arrays = [
        left.spread(shape, (*batch, *own, *over)),
        right.spread(shape, (*batch, *over, *others)),
        target.spread(shape, (*batch, *own, *others)),
    ]
    block.loop(arrays, one)


def _in_turn(*counts: int) -> list[range]:
    """Numbers that follow each other, so many in each group."""
    ends = np.cumsum(counts)
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _permute(x: Stored, axes: Sequence[int]) -> Stored:
    shape = tuple(x.shape[k] for k in axes)
    strides = tuple(x.strides[k] for k in axes)
    return x._replace(shape=shape, strides=strides)


def _along(x: Stored, axis: int, start: int, count: int) -> Stored:
    """The part of an array with so many rows along an axis, from one on."""
    slices = [(0, size, 1) for size in x.shape]
    slices[axis] = (start, count, 1)
    return x.part(slices)


def _row(x: Stored, axis: int, k: int) -> Stored:
    """The part of an array at the place k along an axis, which it does not have."""
    kept = [i for i in range(len(x.shape)) if i != axis]
    return _permute(_along(x, axis, k, 1), kept)


def _concatenate(block: Block, equation: Operation, target: Stored, *sources: Stored):
    axis = equation.params["dimension"]
    start = 0
    for x in sources:
        count = x.shape[axis]
        if x.size:
            block.copy_to(x, _along(target, axis, start, count))
        start += count


def _stack(block: Block, equation: Operation, target: Stored, *sources: Stored):
    for k, x in enumerate(sources):
        if x.size:
            block.copy_to(x, _row(target, equation.params["axis"], k))


def _tile(block: Block, equation: Operation, target: Stored, x: Stored):
    # Each axis of the result is two: how often, and the array's own.
    shape = [n for pair in zip(equation.params["reps"], x.shape, strict=True) for n in pair]
    block.copy_to(x.spread(shape, range(1, len(shape), 2)), whole(target.memory, shape))


def _pad(block: Block, equation: Operation, target: Stored, x: Stored, value: Stored):
    block.copy_to(value.spread(target.shape, ()), target)
    taken, put = [], []
    for config, size, padded in zip(equation.params["padding_config"], x.shape, target.shape, strict=True):
        begin, count, first, step = left_by_padding(config, size, padded)
        taken.append((begin, count, 1))
        put.append((first, count, step))
    if all(count for _, count, _ in taken):
        block.copy_to(x.part(taken), target.part(put))


def _iota(block: Block, equation: Operation, target: Stored):
    index, end = block.turns(target.shape)
    inner = block.inner()
    k = index[equation.params["dimension"]]
    counter = inner.node_of(block.code.constant(np.int64(0)) if k is None else k)
    number = inner.operand(inner.graph.convert(counter, target.dtype))
    block.code.store(number, inner.at(target, index))
    end()


def _accumulate_along(block: Block, equation: Operation, target: Stored, x: Stored):
    """Each row along an axis is joined to what the rows before it have given."""
    axis = equation.params["axis"]
    join = RUNNING[equation.primitive.name]
    if equation.params["reverse"]:
        x, target = (_opposite(y, [axis]) for y in (x, target))
    count = x.shape[axis]
    block.copy_to(_row(x, axis, 0), _row(target, axis, 0))
    if count == 1:
        return
    k, end = block.code.begin_loop(count - 1)
    starts = [_row(x, axis, 1), _row(target, axis, 0), _row(target, axis, 1)]
    distances = [block.code.times(k, str(y.strides[axis])) for y in (x, target, target)]
    rows = [row._replace(moved=block.sum(row.moved, by)) for row, by in zip(starts, distances, strict=True)]

    def one(inner: Block, places: Sequence[Place]):
        of_own, of_before, place = places
        own = inner.node_of(of_own)
        before = inner.node_of(of_before)
        block.code.store(inner.operand(inner.apply(join, target.dtype, before, own)), place)

    block.loop(rows, one)
    end()


FILLS: dict[str, Callable] = {
    **dict.fromkeys(RUNNING, _accumulate_along),
    "dot_general": _dot,
    "concatenate": _concatenate,
    "stack": _stack,
    "tile": _tile,
    "pad": _pad,
    "iota": _iota,
}


def _reshape(block: Block, equation: Operation, x: Stored) -> Stored:
    form = kind(equation.outvars[0].aval)
    if not x.is_dense:
        x = block.copy_to(x, whole(block.local(Kind(x.shape, x.dtype), x.is_wide), x.shape))
    return whole(x.memory, form.shape, x.moved)._replace(first=x.first, version=x.version)


def _slice(block: Block, equation: Operation, x: Stored) -> Stored:
    params = equation.params
    steps = params["strides"] or (1,) * len(x.shape)
    slices = []
    for start, limit, step in zip(params["start_indices"], params["limit_indices"], steps, strict=True):
        count = -(-(limit - start) // step)
        slices.append((start, count, step))
    return x.part(slices)


def _reverse(block: Block, equation: Operation, x: Stored) -> Stored:
    return _opposite(x, equation.params["dimensions"])


def _opposite(x: Stored, axes: Sequence[int]) -> Stored:
    """The array with the opposite order along these axes."""
    return x.part([(n - 1, n, -1) if k in axes else (0, n, 1) for k, n in enumerate(x.shape)])


def _split(equation: Operation, x: Stored) -> list[Stored]:
    start = 0
    found = []
    for size in equation.params["sizes"]:
        found.append(_along(x, equation.params["axis"], start, size))
        start += size
    return found


def _broadcast(block: Block, equation: Operation, x: Stored) -> Stored:
    return x.spread(equation.params["shape"], equation.params["broadcast_dimensions"])


def _transpose(block: Block, equation: Operation, x: Stored) -> Stored:
    return _permute(x, equation.params["permutation"])


def _same(block: Block, equation: Operation, x: Stored) -> Stored:
    return x


VIEWS = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshape),
    **dict.fromkeys(("copy", "copy_p", "stop_gradient"), _same),
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "rev": _reverse,
}
