"""Operations on arrays that stay in memory: another view of them, or loops over their numbers."""

from collections.abc import Callable

import numpy as np
from jax import lax

from geodyn._compile.cells import ELEMENTWISE, REDUCTIONS, fill, left_by_padding
from geodyn._compile.llvm.code import BOOL, NotUnderstood
from geodyn._compile.program.arrays import Kind, Stored, kind, whole
from geodyn._compile.program.block import Block

# What a sum, a product, … of no numbers is.
EMPTY = {"reduce_sum": 0, "reduce_prod": 1, "reduce_and": True, "reduce_or": False}


def on_large(block: Block, equation, args, wanted) -> list:
    """The results of an operation on large arrays."""
    name = equation.primitive.name
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
    memory = wanted[0]
    wide = any(x.is_wide for x in sources)
    if memory is None or memory.wide < wide:
        memory = block.local(form, wide)
    target = whole(memory, form.shape)
    if name in ELEMENTWISE:
        _each(block, equation, sources, target)
    elif name in REDUCTIONS:
        _reduced(block, equation, *sources, target)
    elif name in FILLS:
        FILLS[name](block, equation, target, *sources)
    else:
        raise NotUnderstood(f"{name} of {[str(v.aval) for v in equation.invars]}")
    return [target]


def _looped(block: Block, shape, function: Callable):
    """Runs `function(inner, index)` for every index of an array of this shape."""
    if 0 in shape:
        return
    index, end = block.turns(shape)
    function(block.inner(), index)
    end()


def _each(block: Block, equation, sources, target: Stored):
    # JAX repeats what has length one along an axis, and single numbers.
    sources = [x.spread(target.shape, range(len(x.shape))) for x in sources]

    def one(inner: Block, index):
        cells = [fill((), [inner.given(inner.at(x, index))]) for x in sources]
        scalar = _OneNumber(equation, target.dtype)
        value = inner.number(inner.elementwise(scalar, cells, Kind((), target.dtype)))
        block.code.store(inner.operand(value), inner.at(target, index))

    _looped(block, target.shape, one)


class _OneNumber:
    """An operation on each number of arrays, for one number."""

    def __init__(self, equation, dtype):
        self.primitive, self.params, self.invars = equation.primitive, equation.params, equation.invars
        self.outvars = [_Variable(np.dtype(dtype))]


class _Variable:
    def __init__(self, dtype):
        self.aval = self
        self.shape, self.dtype = (), dtype


def _fill(block: Block, target: Stored, number):
    """Writes the same number everywhere."""
    value = block.code.constant(np.asarray(number, target.dtype))
    _looped(block, target.shape, lambda inner, index: block.code.store(value, inner.at(target, index)))


def _accumulated(block: Block, target: Stored, index, primitive, value: Callable):
    """target[index] ← primitive(target[index], value)."""
    place = block.at(target, index)
    total = block.apply(primitive, target.dtype, block.given(place), value)
    block.code.store(block.operand(total), place)


def _reduced(block: Block, equation, x: Stored, target: Stored):
    name, axes = equation.primitive.name, equation.params["axes"]
    limits = np.finfo(x.dtype) if x.dtype.kind == "f" else None if x.dtype == BOOL else np.iinfo(x.dtype)
    if name in ("reduce_max", "reduce_min") and limits is not None:
        infinite = {"reduce_max": -np.inf, "reduce_min": np.inf}
        empty = infinite[name] if x.dtype.kind == "f" else limits.min if name == "reduce_max" else limits.max
    else:
        empty = EMPTY.get(name, name == "reduce_min")
    _fill(block, target, empty)
    kept = [k for k in range(len(x.shape)) if k not in axes]

    def one(inner: Block, index):
        value = inner.given(inner.at(x, index))
        _accumulated(inner, target, [index[k] for k in kept], REDUCTIONS[name], value)

    _looped(block, x.shape, one)


def _dot(block: Block, equation, target: Stored, a: Stored, b: Stored):
    (over_a, over_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    free_a = [k for k in range(len(a.shape)) if k not in (*over_a, *batch_a)]
    free_b = [k for k in range(len(b.shape)) if k not in (*over_b, *batch_b)]
    first, second = len(batch_a), len(batch_a) + len(free_a)
    # The contracted axes are not the last ones: so one sum need not wait for the one before it.
    shape = [*(a.shape[k] for k in (*batch_a, *free_a, *over_a)), *(b.shape[k] for k in free_b)]
    _fill(block, target, 0)

    def one(inner: Block, index):
        batch, own = index[:first], index[first:second]
        over, others = index[second : second + len(over_a)], index[second + len(over_a) :]
        x = inner.given(inner.at(_permuted(a, (*batch_a, *free_a, *over_a)), [*batch, *own, *over]))
        y = inner.given(inner.at(_permuted(b, (*batch_b, *over_b, *free_b)), [*batch, *over, *others]))
        product = inner.graph.multiply(inner.graph.convert(x, target.dtype), inner.graph.convert(y, target.dtype))
        _accumulated(inner, target, [*batch, *own, *others], lax.add_p, product)

    _looped(block, shape, one)


def _permuted(x: Stored, axes) -> Stored:
    return x._replace(shape=tuple(x.shape[k] for k in axes), strides=tuple(x.strides[k] for k in axes))


def _concatenated(block: Block, equation, target: Stored, *sources: Stored):
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


def _stacked(block: Block, equation, target: Stored, *sources: Stored):
    for k, x in enumerate(sources):
        if x.size:
            block.copied(x, _row(target, equation.params["axis"], k))


def _tiled(block: Block, equation, target: Stored, x: Stored):
    shape = [n for pair in zip(equation.params["reps"], x.shape, strict=True) for n in pair]
    block.copied(x.spread(shape, range(1, len(shape), 2)), whole(target.memory, shape))


def _padded(block: Block, equation, target: Stored, x: Stored, value: Stored):
    config = equation.params["padding_config"]
    left = [left_by_padding(*axis) for axis in zip(config, x.shape, target.shape, strict=True)]
    block.copied(value.spread(target.shape, ()), target)
    if all(count for _, count, _, _ in left):
        part = x.taken([(begin, count, 1) for begin, count, _, _ in left])
        block.copied(part, target.taken([(first, count, step) for _, count, first, step in left]))


def _counted(block: Block, equation, target: Stored):
    axis = equation.params["dimension"]

    def one(inner: Block, index):
        counter = inner.given(index[axis] if index[axis] is not None else block.code.constant(np.int64(0)))
        block.code.store(inner.operand(inner.graph.convert(counter, target.dtype)), inner.at(target, index))

    _looped(block, target.shape, one)


FILLS = {
    "dot_general": _dot,
    "concatenate": _concatenated,
    "stack": _stacked,
    "tile": _tiled,
    "pad": _padded,
    "iota": _counted,
}


def _reshaped(block: Block, equation, x: Stored) -> Stored:
    form = kind(equation.outvars[0].aval)
    if not x.is_dense:
        x = block.copied(x, whole(block.local(Kind(x.shape, x.dtype), x.is_wide), x.shape))
    return whole(x.memory, form.shape, x.moved)._replace(first=x.first, version=x.version)


def _sliced(block: Block, equation, x: Stored) -> Stored:
    p = equation.params
    steps = p["strides"] or (1,) * len(x.shape)
    pairs = zip(p["start_indices"], p["limit_indices"], steps, strict=True)
    return x.taken([(a, -(-(b - a) // step), step) for a, b, step in pairs])


def _turned(block: Block, equation, x: Stored) -> Stored:
    axes = equation.params["dimensions"]
    return x.taken([(n - 1, n, -1) if k in axes else (0, n, 1) for k, n in enumerate(x.shape)])


def _split(equation, x: Stored) -> list:
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
