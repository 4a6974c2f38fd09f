"""Loops and branches. All members take the turns of a loop together for as long as one of them goes on; those that do
not go on keep what they have."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jax import lax

from geodyn._engine.batches import NATIVE, traced
from geodyn._engine.cells import each, fill
from geodyn._engine.expressions import Node, Operand
from geodyn._engine.internals import ClosedJaxpr, Jaxpr, Operation, ShapedArray, inner_program, scan_counts
from geodyn._engine.internals import length as programs_length
from geodyn._engine.llvm.code import BOOL, WORD, Memory, Place, Value
from geodyn._engine.plain import stages
from geodyn._engine.program.arrays import (
    Complex,
    Kind,
    RealArray,
    Stored,
    flat,
    forms,
    joined,
    kinds,
    whole,
)
from geodyn._engine.program.block import MOST_CELLS, Block, Held
from geodyn._engine.program.varying import spread

# So few turns are computed at once where none needs another, or written out where they have few operations.
FEW_TURNS, SHORT_TURN = 4, 600
# Branches with fewer operations are computed whether they are taken or not.
SHORT = 6


class Home(NamedTuple):
    """Where a loop keeps one of the arrays that it carries."""

    memory: Memory
    kind: Kind

    @property
    def is_large(self) -> bool:
        return self.kind.size > MOST_CELLS

    def carried(self, block: Block) -> RealArray:
        """The array at the begin of a turn, or after the last one."""
        array = whole(self.memory, self.kind.shape)
        return array if self.is_large else block.cells(array)


def _homes(
    block: Block,
    carry: Sequence,
    form: list[Kind],
    wides: Sequence[bool],
    wanted: Sequence[Memory | None],
    others: Sequence,
) -> list[Home]:
    """Memory for what a loop carries, with what it begins with; the loop uses the arrays `others` as well."""
    homes = []
    for k, (x, kind, wide, memory) in enumerate(zip(carry, form, wides, wanted, strict=True)):
        rest = [*others, *carry[:k], *carry[k + 1 :]]
        taken = None if memory is not None else block.takes_over(x, kind, wide, rest)
        if taken is None:
            taken = memory if memory is not None and memory.wide == wide else block.local(kind, wide)
            block.copied(x, whole(taken, kind.shape))
        homes.append(Home(taken, kind))
    return homes


def _store_back(block: Block, homes: list[Home], old: list, new: list):
    """Keeps what a turn of a loop has made, for the members that take it. The `block` is that of the turn."""
    code, stores = block.code, []
    for home, before, after in zip(homes, old, new, strict=True):
        memory = home.memory
        mask = block.mask_of(memory)
        if home.is_large:
            if not (isinstance(after, Stored) and after.memory is memory and after.is_whole):
                if _reads(after, homes):
                    after = block.copied(after, whole(block.local(home.kind, memory.wide), home.kind.shape))
                stores.append((after, memory, mask))
            continue
        for k, (a, b) in enumerate(zip(before.reshape(-1), block.cells(after).reshape(-1), strict=True)):
            here = Place(memory, k, None, memory.version)
            if not (isinstance(b, Node) and block.places.get(b.index) == here):
                value = block.operand(b)
                value = value if mask is None else code.select(mask, value, block.now(a, memory, k))
                stores.append((value, here, None))
    for x, target, _ in stores:
        if isinstance(x, Value):
            code.store(x, target)
    for x, target, mask in stores:
        if not isinstance(x, Value):
            block.copied(x, whole(target, x.shape), mask)


def _reads(x: RealArray, homes: list[Home]) -> bool:
    """Whether an array may be computed from what stands in these memories."""
    if isinstance(x, Stored):
        return any(x.memory is home.memory for home in homes)
    return any(isinstance(y, Node) for y in x.reshape(-1))


def _lend(homes: list[Home], block: Block):
    """Lets this block change what a loop carries."""
    for home in homes:
        home.memory.owner = block


def _of_parts(avals: Sequence[ShapedArray], each_array: Sequence) -> list:
    """What belongs to each array, for each of its parts."""
    return [x for aval, x in zip(avals, each_array, strict=True) for _ in kinds(aval)]


def _memories(avals: Sequence[ShapedArray], wanted: Sequence[Memory | None]) -> list:
    """The memories that are wanted, for each part of each array."""
    real = [memory if len(kinds(aval)) == 1 else None for aval, memory in zip(avals, wanted, strict=True)]
    return _of_parts(avals, real)


def while_loop(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    code, p = block.code, equation.params
    first, second = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    of_test, of_body, carry = args[:first], args[first:second], args[second:]
    avals = [v.aval for v in equation.outvars]
    code.has_loops = True
    flags, together = spread(equation, [block.is_wide(x) for x in args])
    others = flat([*of_test, *of_body])
    homes = _homes(block, flat(carry), forms(avals), _of_parts(avals, flags), _memories(avals, wanted), others)
    test, inner = block.inner(), block.inner()
    lent_test = [block.lent(x, test) for x in of_test]
    lent_body = [block.lent(x, inner) for x in of_body]
    # JAX batches a loop whose condition differs along an axis by letting the condition have this axis.
    is_batched = bool(p["cond_jaxpr"].out_avals[0].shape)
    lent_again = [block.lent(x, inner) for x in of_test] if is_batched else []
    head, body, end = (code.fresh(name) for name in ("while", "body", "end"))
    code.jump(head)
    code.start(head)
    carried = joined(avals, [home.carried(test) for home in homes])
    with code.scope():
        (going,) = test.run(p["cond_jaxpr"], [*lent_test, *carried])
        goes = test.operand(_either(test, test.cells(going)))
    active = goes if together else code.both(goes, block.mask)
    code.branch(code.any(active), body, end)
    code.start(body)
    inner.mask = block.mask if together else active
    _lend(homes, inner)
    old = [home.carried(inner) for home in homes]
    with code.scope():
        if is_batched:
            (goes_on,) = inner.run(p["cond_jaxpr"], [*lent_again, *joined(avals, old)])
            inner.frames.append(Held([*old, goes_on]))
        new = inner.run(p["body_jaxpr"], [*lent_body, *joined(avals, old)])
        if is_batched:
            new = [_chosen(inner, goes_on, x, y) for x, y in zip(old, flat(new), strict=True)]
        _store_back(inner, homes, old, flat(new))
    code.jump(head)
    code.start(end)
    _lend(homes, block)
    return joined(avals, [home.carried(block) for home in homes])


def _either(block: Block, cells: np.ndarray) -> Operand:
    """Whether any of these truth values holds."""
    if not cells.size:
        return np.False_
    return functools.reduce(lambda a, b: block.apply(lax.or_p, BOOL, a, b), cells.reshape(-1))


def _chosen(block: Block, which: RealArray, no: RealArray, yes: RealArray) -> RealArray:
    """`yes` in the rows where `which` holds, else `no`."""
    if isinstance(no, Stored) or isinstance(yes, Stored):
        return _chosen_in_memory(block, which, no, yes)
    which, no, yes = (block.cells(x) for x in (which, no, yes))
    rows = np.broadcast_to(which.reshape(which.shape + (1,) * (no.ndim - which.ndim)), no.shape)
    return each(no.shape, block.graph.select, rows, no, yes)


def _chosen_in_memory(block: Block, which: RealArray, no: RealArray, yes: RealArray) -> Stored:
    shape, dtype = no.shape, no.dtype if isinstance(no, Stored) else yes.dtype
    wide = any(map(block.is_wide, (which, no, yes)))
    target = whole(block.local(Kind(shape, dtype), wide), shape)
    rows = block.stored(which, Kind(which.shape, BOOL)).spread(shape, range(len(which.shape)))
    no, yes = (block.stored(x, Kind(shape, dtype)) for x in (no, yes))

    def one(inner: Block, places: Sequence[Place]):
        value = inner.graph.select(*map(inner.given, places[:-1]))
        block.code.store(inner.operand(value), places[-1])

    block.loop([rows, no, yes, target], one)
    return target


def scan(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    code, p = block.code, equation.params
    (nk, nc), length, program = scan_counts(equation), p["length"], p["jaxpr"]
    consts, carry, xs = args[:nk], args[nk : nk + nc], args[nk + nc :]
    avals = [v.aval for v in equation.outvars]
    if length == 0:
        return [*carry, *joined(avals[nc:], [fill(k.shape, []) for k in forms(avals[nc:])])]
    if length <= FEW_TURNS and nc == 0 and _pays_together(block, equation, xs):
        return _turns_together(block, equation, args)
    if length <= FEW_TURNS and programs_length(program.jaxpr) <= SHORT_TURN:
        many = block.mask.wide or code.is_graphics
        alike = nc == 0 and many and _length(program.jaxpr) < math.inf
        written = (_turns_side_by_side if alike else _turns_written_out)(block, equation, args)
        if written is not None:
            return written
    code.has_loops = True
    flags, _ = spread(equation, [block.is_wide(x) for x in args])
    wide, memories = _of_parts(avals, flags), _memories(avals, wanted)
    count = len(forms(avals[:nc]))
    others = flat([*consts, *xs])
    homes = _homes(block, flat(carry), forms(avals[:nc]), wide[:count], memories[:count], others)
    given = zip(flat(xs), forms([v.aval for v in equation.invars[nk + nc :]]), strict=True)
    sources = [block.stored(x, kind) for x, kind in given]
    results = []
    for kind, is_wide, memory in zip(forms(avals[nc:]), wide[count:], memories[count:], strict=True):
        fits = memory is not None and memory.wide >= is_wide
        results.append(memory if fits else block.local(kind, is_wide))
    inner = block.inner()
    lent = [block.lent(x, inner) for x in consts]
    k, end = code.counted(length)
    if p["reverse"]:
        k = code.new(f"sub i64 {length - 1}, {k.text}", WORD, False)
    rows = []
    for x in sources:
        moved = block.sum(x.moved, code.times(k, str(x.strides[0])))
        rows.append(x._replace(moved=moved, shape=x.shape[1:], strides=x.strides[1:]))
    _lend(homes, inner)
    old = [home.carried(inner) for home in homes]
    row_avals = [v.aval for v in program.jaxpr.invars[nk + nc :]]
    with code.scope():
        outs = inner.run(program, [*lent, *joined(avals[:nc], old), *joined(row_avals, rows)])
        for x, memory in zip(flat(outs[nc:]), results, strict=True):
            inner.copied(x, whole(memory, x.shape, code.times(k, str(x.size))))
        # All members take every turn: those of which an outer loop has no more need keep what they have there.
        _store_back(inner, homes, old, flat(outs[:nc]))
    end()
    _lend(homes, block)
    after = [home.carried(block) for home in homes]
    stacked = [whole(memory, kind.shape) for memory, kind in zip(results, forms(avals[nc:]), strict=True)]
    return joined(avals, [*after, *stacked])


def _pays_together(block: Block, equation: Operation, xs: Sequence) -> bool:
    """Whether the turns of a scan that carries nothing are computed at once: in a program of one member, where they
    compute more than they read: what each reads is gathered number by number."""
    code, row = block.code, sum(x.size // equation.params["length"] for x in xs)
    if block.mask.wide or code.is_graphics or code.width < equation.params["length"]:
        return False
    return 2 * row < programs_length(equation.params["jaxpr"].jaxpr)


def _turns_together(block: Block, equation: Operation, args: Sequence) -> list:
    """The results of a scan that carries nothing, in a program of one member: the turns are computed at once, like the
    members of a batch."""
    code, program, length = block.code, equation.params["jaxpr"], equation.params["length"]
    count, _ = scan_counts(equation)
    consts, xs, avals = args[:count], args[count:], [v.aval for v in equation.outvars]
    bits = f"<{code.width} x i64>"
    lanes, splat = Value("%lanes", WORD, True), f"splat (i64 {length})"
    mask = code.new(f"icmp slt {bits} %lanes, {splat}", BOOL, True)
    inner = block.inner(mask)
    pairs = zip(flat(xs), forms([v.aval for v in equation.invars[count:]]), strict=True)
    rows = [_rows_at_once(block, inner, x, form, lanes) for x, form in pairs]
    lent = [block.lent(x, inner) for x in consts]
    row_avals = [v.aval for v in program.jaxpr.invars[count:]]
    outside, code.inside = code.inside, mask.text
    results = [block.local(form, False) if form.size > MOST_CELLS else None for form in forms(avals)]
    with code.scope():
        outs = flat(inner.run(program, [*lent, *joined(row_avals, rows)]))
        for k, (x, form) in enumerate(zip(outs, forms(avals), strict=True)):
            if form.size > MOST_CELLS:
                inner.copied(x, whole(results[k], x.shape, code.times(lanes, str(x.size))))
                results[k] = whole(results[k], form.shape)
            else:
                results[k] = _each_turn(block, inner, x, length)
    code.inside = outside
    return joined(avals, results)


def _rows_at_once(block: Block, inner: Block, x: RealArray, form: Kind, lanes: Value) -> RealArray:
    """The row of an array that each turn has, if the turns are the lanes."""
    if isinstance(x, Stored) or x.size > MOST_CELLS:
        x = block.stored(x, form)
        moved = block.sum(x.moved, block.code.times(lanes, str(x.strides[0])))
        return x._replace(moved=moved, shape=x.shape[1:], strides=x.strides[1:])
    columns = x.reshape(len(x), -1).T
    return fill(x.shape[1:], [inner.given(block.code.packed([block.operand(y) for y in rows])) for rows in columns])


def _each_turn(block: Block, inner: Block, x: RealArray, length: int) -> np.ndarray:
    """The array of the rows that the turns have given, which are the lanes."""
    values = [inner.operand(y) for y in inner.cells(x).reshape(-1)]
    rows = [[block.given(block.code.lane(value, k)) for value in values] for k in range(length)]
    return fill((length, *x.shape), [y for row in rows for y in row])


def _turns_side_by_side(block: Block, equation: Operation, args: Sequence) -> list | None:
    """The results of a short scan that carries nothing, each operation for all turns before the next one: so the
    processor need not wait for the result of one before it begins another. None if an array in it is large."""
    if not _are_small(equation, args):
        return None
    together = traced(lambda *args: stages(equation, args), [v.aval for v in equation.invars])
    results = [block.cells(x) for x in block.run(together, args)]
    block.compute(results)
    return results


def _are_small(equation: Operation, args: Sequence) -> bool:
    """Whether the arrays of a scan are small, and none is complex."""
    made = forms(equation.params["jaxpr"].out_avals)
    if len(made) > len(equation.outvars) or any(isinstance(x, Complex) for x in args):
        return False
    return all(x.size <= MOST_CELLS for x in [*args, *made])


def _turns_written_out(block: Block, equation: Operation, args: Sequence) -> list | None:
    """The results of a short scan of few turns, one after the other; None if an array in it is large."""
    program, length = equation.params["jaxpr"], equation.params["length"]
    nk, nc = scan_counts(equation)
    if not _are_small(equation, args):
        return None
    consts, carry, xs = args[:nk], args[nk : nk + nc], [block.cells(x) for x in args[nk + nc :]]
    turns = range(length - 1, -1, -1) if equation.params["reverse"] else range(length)
    stacks = [None] * length
    for k in turns:
        block.frames.append(Held([*consts, *xs, *(y for row in stacks if row for y in row)]))
        outs = [
            block.cells(x)
            for x in block.run(program, [*consts, *carry, *(x[k : k + 1].reshape(x.shape[1:]) for x in xs)])
        ]
        block.frames.pop()
        carry, stacks[k] = outs[:nc], outs[nc:]
    shapes = [v.aval.shape for v in equation.outvars[nc:]]
    pairs = zip(shapes, zip(*stacks, strict=True), strict=True)
    return [*carry, *(fill(shape, [y for row in rows for y in row.reshape(-1)]) for shape, rows in pairs)]


def cond(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    code, (index, *args) = block.code, args
    branches, avals = equation.params["branches"], [v.aval for v in equation.outvars]
    which, last = block.number(index), len(branches) - 1
    if not isinstance(which, Node):
        return block.run(branches[min(max(int(which), 0), last)], args)

    def number(k: int) -> np.generic:
        return np.asarray(k, which.dtype)[()]

    if which.dtype != BOOL:
        least = block.apply(lax.max_p, which.dtype, which, number(0))
        which = block.apply(lax.min_p, which.dtype, least, number(last))

    def chosen(k: int) -> Operand:
        if which.dtype == BOOL:
            return which if k else block.apply(lax.not_p, BOOL, which)
        return block.apply(lax.eq_p, BOOL, which, number(k))

    form = forms(avals)
    if sum(_length(b.jaxpr) for b in branches) <= SHORT and all(kind.size <= MOST_CELLS for kind in form):
        return _all_branches(block, branches, args, avals, chosen)
    flags, _ = spread(equation, [block.is_wide(x) for x in (index, *args)])
    memories = [block.local(kind, wide) for kind, wide in zip(form, _of_parts(avals, flags), strict=True)]
    for k, branch in enumerate(branches):
        here = block.operand(chosen(k))
        active = code.both(here, block.mask) if here.wide else here
        inner = block.inner(active if here.wide else None)
        lent = [block.lent(x, inner) for x in args]
        yes, no = code.fresh("branch"), code.fresh("after")
        code.branch(code.any(active), yes, no)
        code.start(yes)
        with code.scope():
            outs = flat(inner.run(branch, lent))
            for x, memory, kind in zip(outs, memories, form, strict=True):
                inner.copied(x, whole(memory, kind.shape), active if here.wide else None)
        code.jump(no)
        code.start(no)
    return joined(avals, [Home(memory, kind).carried(block) for memory, kind in zip(memories, form, strict=True)])


def _all_branches(
    block: Block, branches: Sequence[ClosedJaxpr], args: Sequence, avals: Sequence[ShapedArray], chosen: Callable
) -> list:
    values = []
    for branch in branches:
        block.frames.append(Held([*args, *itertools.chain(*values)]))
        values.append([block.cells(x) for x in flat(block.run(branch, args))])
        block.frames.pop()
    found = values[-1]
    for k in range(len(branches) - 2, -1, -1):
        which = chosen(k)
        pairs = zip(found, values[k], strict=True)
        found = [each(b.shape, lambda x, y, which=which: block.graph.select(which, x, y), a, b) for a, b in pairs]
    return joined(avals, found)


def _length(jaxpr: Jaxpr) -> float:
    """The number of operations of a program; without bound if it has loops, branches or programs of their own."""
    total = 0.0
    for equation in jaxpr.eqns:
        inner = inner_program(equation)
        own = math.inf if equation.primitive.name in (*CONTROL, NATIVE) else 1
        total += own if inner is None else _length(inner.jaxpr)
    return total


CONTROL = {"while": while_loop, "scan": scan, "cond": cond}
