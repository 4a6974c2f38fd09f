"""Operations on arrays that stay in memory: another view of them, or loops over their numbers."""

from collections.abc import Sequence
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
        sources: Sequence[Stored | Pending] = args
    else:
        sources = [block.stored(x, kind(v.aval)) for x, v in zip(args, equation.invars, strict=True)]
    if name in VIEWS:
        return [VIEWS[name](block, equation, *sources)]
    if name == "split":
        return _split(equation, *sources)
    if name == "unstack":
        (x,) = sources
        return [_row(x, equation.params["axis"], k) for k in range(x.shape[equation.params["axis"]])]
    form = kind(equation.outvars[0].aval)
    if form.size == 0:
        return [fill(form.shape, [])]
    target = _target(block, form, any(x.is_wide for x in sources), wanted[0])
    if name in REDUCTIONS:
        _reduced(block, equation, *sources, target)
    elif name in FILLS:
        FILLS[name](block, equation, target, *sources)
    else:
        raise NotUnderstood(f"{name} of {[str(v.aval) for v in equation.invars]}")
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
        sources.append(x if is_used_once else block.stored(x, kind(v.aval)))
    result = _each(equation, sources, form)
    user = block.frames[-1].user(variable)  # pyright: ignore[reportAttributeAccessIssue]: a `Frame`, of this operation
    if wanted[0] is None and form.size > MOST_CELLS and _takes_pending(user):
        return result
    return block.evaluated(result, _target(block, form, result.is_wide, wanted[0]))


def _takes_pending(equation: Operation | None) -> bool:
    """Whether an operation, if it is one, takes arrays that are computed where they are used."""
    if equation is None or equation.primitive.name not in (*ELEMENTWISE, *REDUCTIONS):
        return False
    return not any(map(is_complex, (*equation.invars, *equation.outvars)))


def _each(equation: Operation, sources: Sequence[Pending | Stored], form: Kind) -> Pending:
    """The array of an operation on each number of some arrays."""
    # JAX repeats what has length one along an axis, and single numbers.
    parts = [x if isinstance(x, Pending) else x.spread(form.shape, range(len(x.shape))) for x in sources]
    sizes = [len(x.sources) if isinstance(x, Pending) else 1 for x in parts]

    def number(inner: Block, numbers: list[Node]) -> Operand:
        groups = [[numbers[k] for k in places] for places in _in_turn(*sizes)]
        pairs = zip(parts, groups, strict=True)
        args = [x.number(inner, own) if isinstance(x, Pending) else own[0] for x, own in pairs]
        cells = [fill((), [x]) for x in args]
        return inner.number(inner.elementwise(_OneNumber(equation, form.dtype), cells, Kind((), form.dtype)))

    leaves = [y for x in parts for y in (x.sources if isinstance(x, Pending) else [x])]
    return Pending(form.shape, form.dtype, tuple(leaves), number)


class _OneNumber:
    """An operation on each number of arrays, for one number."""

    def __init__(self, equation: Operation, dtype: np.dtype):
        self.primitive, self.params, self.invars = equation.primitive, equation.params, equation.invars
        self.outvars = [_Variable(np.dtype(dtype))]


class _Variable:
    def __init__(self, dtype: np.dtype):
        self.aval = self
        self.shape, self.dtype = (), dtype


def _fill(block: Block, target: Stored, number: Any):
    """Writes the same number everywhere."""
    value = block.code.constant(np.asarray(number, target.dtype))
    block.loop([target], lambda _, places: block.code.store(value, places[0]))


def _accumulated(block: Block, places: list[Place], primitive: Primitive, value: Node, empty: Any):
    """What stands at the last of the places ← primitive(that, value), for every value where several are computed at
    once; `empty` is that of none."""
    place, dtype = places[-1], places[-1].memory.dtype
    is_of_several = any(x.along for x in places) and not place.along
    values = _lanes(block, value, empty) if is_of_several else [value]
    while len(values) > 1:
        values = [block.apply(primitive, dtype, x, y) for x, y in zip(values[::2], values[1::2], strict=True)]
    total = block.apply(primitive, dtype, block.given(place), values[0])
    block.code.store(block.operand(total), place)


def _lanes(block: Block, value: Node, empty: Any) -> list[Node]:
    """The numbers that are computed at once, one by one."""
    code, numbers = block.code, block.operand(value)
    full = code.select(block.mask, numbers, code.constant(np.asarray(empty, numbers.dtype)))
    return [block.given(code.lane(full, k)) for k in range(code.width)]


def _reduced(block: Block, equation: Operation, x: Stored | Pending, target: Stored):
    name, axes = equation.primitive.name, equation.params["axes"]
    limits = np.finfo(x.dtype) if x.dtype.kind == "f" else None if x.dtype == BOOL else np.iinfo(x.dtype)
    if name in ("reduce_max", "reduce_min") and limits is not None:
        infinite = {"reduce_max": -np.inf, "reduce_min": np.inf}
        empty = infinite[name] if x.dtype.kind == "f" else limits.min if name == "reduce_max" else limits.max
    else:
        empty = EMPTY.get(name, name == "reduce_min")
    _fill(block, target, empty)
    kept = [k for k in range(len(x.shape)) if k not in axes]

    def one(inner: Block, places: Sequence[Place]):
        numbers = [inner.given(place) for place in places[:-1]]
        value = x.number(inner, numbers) if isinstance(x, Pending) else numbers[0]
        _accumulated(inner, places, REDUCTIONS[name], value, empty)

    sources = x.sources if isinstance(x, Pending) else [x]
    block.loop([*sources, target.spread(x.shape, kept)], one)


def _dot(block: Block, equation: Operation, target: Stored, a: Stored, b: Stored):
    (over_a, over_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    own_a = [k for k in range(len(a.shape)) if k not in (*over_a, *batch_a)]
    own_b = [k for k in range(len(b.shape)) if k not in (*over_b, *batch_b)]
    a, b = _permuted(a, (*batch_a, *own_a, *over_a)), _permuted(b, (*batch_b, *over_b, *own_b))
    shape = (*a.shape, *b.shape[len(b.shape) - len(own_b) :])
    batch, own, over, others = _in_turn(len(batch_a), len(own_a), len(over_a), len(own_b))
    _fill(block, target, 0)

    def one(inner: Block, places: Sequence[Place]):
        x, y = (inner.graph.convert(inner.given(place), target.dtype) for place in places[:2])
        _accumulated(inner, places, lax.add_p, inner.graph.multiply(x, y), 0)

    axes = [(*batch, *own, *over), (*batch, *over, *others), (*batch, *own, *others)]
    block.loop([x.spread(shape, places) for x, places in zip((a, b, target), axes, strict=True)], one)


def _in_turn(*counts: int) -> list[range]:
    """Numbers that follow each other, so many in each group."""
    ends = np.cumsum(counts)
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _permuted(x: Stored, axes: Sequence[int]) -> Stored:
    return x._replace(shape=tuple(x.shape[k] for k in axes), strides=tuple(x.strides[k] for k in axes))


def _concatenated(block: Block, equation: Operation, target: Stored, *sources: Stored):
    axis, begin = equation.params["dimension"], 0
    for x in sources:
        slices = [(begin if k == axis else 0, n, 1) for k, n in enumerate(x.shape)]
        if x.size:
            block.copied(x, target.taken(slices))
        begin += x.shape[axis]


def _row(x: Stored, axis: int, k: int) -> Stored:
    """The part of an array at the place k along an axis, which it does not have."""
    part = x.taken([(k, 1, 1) if i == axis else (0, n, 1) for i, n in enumerate(x.shape)])
    kept = [i for i in range(len(x.shape)) if i != axis]
    return _permuted(part, kept)


def _stacked(block: Block, equation: Operation, target: Stored, *sources: Stored):
    for k, x in enumerate(sources):
        if x.size:
            block.copied(x, _row(target, equation.params["axis"], k))


def _tiled(block: Block, equation: Operation, target: Stored, x: Stored):
    shape = [n for pair in zip(equation.params["reps"], x.shape, strict=True) for n in pair]
    block.copied(x.spread(shape, range(1, len(shape), 2)), whole(target.memory, shape))


def _padded(block: Block, equation: Operation, target: Stored, x: Stored, value: Stored):
    config = equation.params["padding_config"]
    left = [left_by_padding(*axis) for axis in zip(config, x.shape, target.shape, strict=True)]
    block.copied(value.spread(target.shape, ()), target)
    if all(count for _, count, _, _ in left):
        part = x.taken([(begin, count, 1) for begin, count, _, _ in left])
        block.copied(part, target.taken([(first, count, step) for _, count, first, step in left]))


def _counted(block: Block, equation: Operation, target: Stored):
    axis = equation.params["dimension"]
    index, end = block.turns(target.shape)
    inner = block.inner()
    counter = inner.given(index[axis] if index[axis] is not None else block.code.constant(np.int64(0)))
    block.code.store(inner.operand(inner.graph.convert(counter, target.dtype)), inner.at(target, index))
    end()


def _cumulated(block: Block, equation: Operation, target: Stored, x: Stored):
    """Each row along an axis is joined to what the rows before it have given."""
    axis, is_backward = equation.params["axis"], equation.params["reverse"]
    if is_backward:
        x, target = (_backward(y, [axis]) for y in (x, target))
    count, join = x.shape[axis], RUNNING[equation.primitive.name]
    block.copied(_row(x, axis, 0), _row(target, axis, 0))
    if count == 1:
        return
    k, end = block.code.counted(count - 1)
    starts = [_row(x, axis, 1), _row(target, axis, 0), _row(target, axis, 1)]
    distances = [block.code.times(k, str(y.strides[axis])) for y in (x, target, target)]
    rows = [row._replace(moved=block.sum(row.moved, by)) for row, by in zip(starts, distances, strict=True)]

    def one(inner: Block, places: Sequence[Place]):
        own, before = map(inner.given, places[:2])
        block.code.store(inner.operand(inner.apply(join, target.dtype, before, own)), places[2])

    block.loop(rows, one)
    end()


FILLS = {
    **dict.fromkeys(RUNNING, _cumulated),
    "dot_general": _dot,
    "concatenate": _concatenated,
    "stack": _stacked,
    "tile": _tiled,
    "pad": _padded,
    "iota": _counted,
}


def _reshaped(block: Block, equation: Operation, x: Stored) -> Stored:
    form = kind(equation.outvars[0].aval)
    if not x.is_dense:
        x = block.copied(x, whole(block.local(Kind(x.shape, x.dtype), x.is_wide), x.shape))
    return whole(x.memory, form.shape, x.moved)._replace(first=x.first, version=x.version)


def _sliced(block: Block, equation: Operation, x: Stored) -> Stored:
    p = equation.params
    steps = p["strides"] or (1,) * len(x.shape)
    pairs = zip(p["start_indices"], p["limit_indices"], steps, strict=True)
    return x.taken([(a, -(-(b - a) // step), step) for a, b, step in pairs])


def _turned(block: Block, equation: Operation, x: Stored) -> Stored:
    return _backward(x, equation.params["dimensions"])


def _backward(x: Stored, axes: Sequence[int]) -> Stored:
    """The array with the opposite order along these axes."""
    return x.taken([(n - 1, n, -1) if k in axes else (0, n, 1) for k, n in enumerate(x.shape)])


def _split(equation: Operation, x: Stored) -> list:
    axis, begin, found = equation.params["axis"], 0, []
    for size in equation.params["sizes"]:
        found.append(x.taken([(begin, size, 1) if k == axis else (0, n, 1) for k, n in enumerate(x.shape)]))
        begin += size
    return found


VIEWS = dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshaped)
VIEWS |= dict.fromkeys(("copy", "copy_p", "stop_gradient"), lambda block, equation, x: x)
VIEWS |= {
    "broadcast_in_dim": lambda block, equation, x: x.spread(
        equation.params["shape"], equation.params["broadcast_dimensions"]
    ),
    "transpose": lambda block, equation, x: _permuted(x, equation.params["permutation"]),
    "slice": _sliced,
    "rev": _turned,
}
