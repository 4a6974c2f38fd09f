"""Loops and branches. All members take the turns of a loop together for as long as one of them goes on; those that do
not go on keep what they have."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jax import lax

from geodyn._engine.batches import NATIVE, trace
from geodyn._engine.cells import each, fill
from geodyn._engine.expressions import Node, Operand
from geodyn._engine.internals import (
    ClosedJaxpr,
    Jaxpr,
    Operation,
    ShapedArray,
    each_program,
    inner_program,
    scan_counts,
)
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
    join_parts,
    kinds,
    whole,
)
from geodyn._engine.program.block import MOST_CELLS, Block, Held
from geodyn._engine.program.varying import spread

# So few turns, such as the stages of a step, are computed at once where none needs another, or written out where each
# has few operations (`SHORT_TURN`): with more of them the program would become long, and compile slowly.
FEW_TURNS = 4
SHORT_TURN = 600
# Of more turns several are computed at once where they are short. Those of a long one, such as the column of a matrix,
# are no faster so, since it has numbers enough that do not need each other, and it takes longer to compile.
MOST_NUMBERS = 4000
# Branches with no more operations, all of them together, are computed whether they are taken or not: that costs less
# than a jump.
SHORT_BRANCHES = 6


class Home(NamedTuple):
    """Where a loop keeps one of the arrays that it carries."""

    memory: Memory
    kind: Kind

    @property
    def is_large(self) -> bool:
        return self.kind.size > MOST_CELLS

    def array(self, block: Block) -> RealArray:
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
        # What is not used beside this array need not be kept: its own memory may then be changed in its place.
        used_too = [*others, *carry[:k], *carry[k + 1 :]]
        own = block.takes_over(x, kind, wide, used_too) if memory is None else None
        if own is not None:
            homes.append(Home(own, kind))
            continue
        target = memory if memory is not None and memory.wide == wide else block.local(kind, wide)
        block.copy_to(x, whole(target, kind.shape))
        homes.append(Home(target, kind))
    return homes


def _store_back(block: Block, homes: list[Home], old: list, new: list):
    """Keeps what a turn of a loop has made, for the members that take it. The `block` is that of the turn."""
    numbers: list[tuple[Value, Place]] = []
    arrays: list[tuple[RealArray, Home]] = []
    for home, before, after in zip(homes, old, new, strict=True):
        if not home.is_large:
            numbers += _changed_numbers(block, home, before, block.cells(after))
        elif not (isinstance(after, Stored) and after.memory is home.memory and after.is_whole):
            if _reads(after, homes):
                temporary = block.local(home.kind, home.memory.wide)
                after = block.copy_to(after, whole(temporary, home.kind.shape))
            arrays.append((after, home))
    # Nothing is written before all that is written is known: a number may be computed from what another one replaces.
    for value, place in numbers:
        block.code.store(value, place)
    for x, home in arrays:
        block.copy_to(x, whole(home.memory, x.shape), block.mask_of(home.memory))


def _changed_numbers(block: Block, home: Home, before: np.ndarray, after: np.ndarray) -> list[tuple[Value, Place]]:
    """The numbers of a small array that a turn has changed, each with its place."""
    memory = home.memory
    mask = block.mask_of(memory)
    changed = []
    for k, (old, new) in enumerate(zip(before.reshape(-1), after.reshape(-1), strict=True)):
        place = Place(memory, k, None, memory.version)
        stands_there = isinstance(new, Node) and block.places.get(new.index) == place
        if stands_there:
            continue
        value = block.operand(new)
        if mask is not None:
            value = block.code.select(mask, value, block.now(old, memory, k))
        changed.append((value, place))
    return changed


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
    """The results of a loop that goes on while a condition holds."""
    code = block.code
    params = equation.params
    # First stands what the test is given beside what is carried, then what the body is given, then what is carried.
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    of_test = args[:first]
    of_body = args[first:second]
    carry = args[second:]
    avals = [v.aval for v in equation.outvars]
    flags, together = spread(equation, [block.is_wide(x) for x in args])
    others = flat([*of_test, *of_body])
    wides = _of_parts(avals, flags)
    homes = _homes(block, flat(carry), forms(avals), wides, _memories(avals, wanted), others)
    test = block.inner()
    inner = block.inner()
    lent_test = [block.lent(x, test) for x in of_test]
    lent_body = [block.lent(x, inner) for x in of_body]
    # JAX batches a loop whose condition differs along an axis by letting the condition have this axis: each row of what
    # is carried then goes on for as long as its own condition holds.
    is_batched = bool(params["cond_jaxpr"].out_avals[0].shape)
    lent_again = [block.lent(x, inner) for x in of_test] if is_batched else []
    head = code.fresh("while")
    body = code.fresh("body")
    end = code.fresh("end")
    code.jump(head)
    code.start(head)
    carried = join_parts(avals, [home.array(test) for home in homes])
    with code.scope():
        (going,) = test.run(params["cond_jaxpr"], [*lent_test, *carried])
        goes = test.operand(_either(test, test.cells(going)))
    # Where all members take the same turns, one condition is that of all; else those of this block count.
    active = goes if together else code.both(goes, block.mask)
    code.branch(code.any(active), body, end)
    code.start(body)
    inner.mask = block.mask if together else active
    _lend(homes, inner)
    old = [home.array(inner) for home in homes]
    with code.scope():
        if is_batched:
            (goes_on,) = inner.run(params["cond_jaxpr"], [*lent_again, *join_parts(avals, old)])
            inner.frames.append(Held([*old, goes_on]))
            new = flat(inner.run(params["body_jaxpr"], [*lent_body, *join_parts(avals, old)]))
            new = [_choose(inner, goes_on, x, y) for x, y in zip(old, new, strict=True)]
        else:
            new = flat(inner.run(params["body_jaxpr"], [*lent_body, *join_parts(avals, old)]))
        _store_back(inner, homes, old, new)
    code.jump(head)
    code.start(end)
    _lend(homes, block)
    return join_parts(avals, [home.array(block) for home in homes])


def _either(block: Block, cells: np.ndarray) -> Operand:
    """Whether any of these truth values holds."""
    if not cells.size:
        return np.False_
    return functools.reduce(lambda a, b: block.apply(lax.or_p, BOOL, a, b), cells.reshape(-1))


def _choose(block: Block, which: RealArray, no: RealArray, yes: RealArray) -> RealArray:
    """`yes` in the rows where `which` holds, else `no`."""
    if isinstance(no, Stored) or isinstance(yes, Stored):
        return _choose_in_memory(block, which, no, yes)
    which, no, yes = (block.cells(x) for x in (which, no, yes))
    further_axes = (1,) * (no.ndim - which.ndim)
    rows = np.broadcast_to(which.reshape(which.shape + further_axes), no.shape)
    return each(no.shape, block.graph.select, rows, no, yes)


def _choose_in_memory(block: Block, which: RealArray, no: RealArray, yes: RealArray) -> Stored:
    """`_choose` where an array is large: a loop over its numbers."""
    shape = no.shape
    # An array in memory says of what type its numbers are. One of the two is there, and the other has the same type.
    dtype = no.dtype if isinstance(no, Stored) else yes.dtype
    kind = Kind(shape, dtype)
    wide = any(block.is_wide(x) for x in (which, no, yes))
    target = whole(block.local(kind, wide), shape)
    rows = block.in_memory(which, Kind(which.shape, BOOL)).spread(shape, range(len(which.shape)))
    if_not = block.in_memory(no, kind)
    if_so = block.in_memory(yes, kind)

    def one(inner: Block, places: Sequence[Place]):
        chosen, no_here, yes_here, target_here = places
        nodes = [inner.node_of(place) for place in (chosen, no_here, yes_here)]
        value = inner.graph.select(*nodes)
        block.code.store(inner.operand(value), target_here)

    block.loop([rows, if_not, if_so, target], one)
    return target


def scan(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    """The results of a loop with a fixed number of turns."""
    _, carried = scan_counts(equation)
    parts = _parts_of_scan(equation, args)
    length = equation.params["length"]
    if length == 0:
        row_avals = [v.aval for v in equation.outvars[carried:]]
        no_rows = [fill(kind.shape, []) for kind in forms(row_avals)]
        return [*parts.carry, *join_parts(row_avals, no_rows)]
    if length <= FEW_TURNS:
        results = _few_turns(block, equation, args)
        if results is not None:
            return results
    is_short = _numbers(equation.params["jaxpr"].jaxpr) <= MOST_NUMBERS
    if carried == 0 and is_short and _pays_together(block, equation, parts.xs):
        return _turns_in_groups(block, equation, args, wanted)
    return _many_turns(block, equation, args, wanted)


class Scanned(NamedTuple):
    """The arguments of a scan: what is the same in every turn, what the first turn is given of the one before it, and
    the arrays of which each turn has a row."""

    consts: Sequence
    carry: Sequence
    xs: Sequence


def _parts_of_scan(equation: Operation, args: Sequence) -> Scanned:
    given, carried = scan_counts(equation)
    first_row = given + carried
    return Scanned(args[:given], args[given:first_row], args[first_row:])


def _few_turns(block: Block, equation: Operation, args: Sequence) -> list | None:
    """The results of a scan of few turns without a loop, where that is faster."""
    program = equation.params["jaxpr"].jaxpr
    carries = scan_counts(equation)[1] > 0
    fits = equation.params["length"] <= block.code.width
    if not carries and fits and _pays_together(block, equation, _parts_of_scan(equation, args).xs):
        return _turns_together(block, equation, args)
    if programs_length(program) > SHORT_TURN:
        return None
    has_many_members = block.mask.wide or block.code.is_graphics
    if not carries and has_many_members and _length(program) < math.inf:
        return _turns_side_by_side(block, equation, args)
    return _turns_written_out(block, equation, args)


def _many_turns(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    """The results of a scan by a loop."""
    code = block.code
    length = equation.params["length"]
    program = equation.params["jaxpr"]
    given, carried = scan_counts(equation)
    consts, carry, xs = _parts_of_scan(equation, args)

    # What is carried comes first among the results, and its parts first among theirs.
    avals = [v.aval for v in equation.outvars]
    carry_avals = avals[:carried]
    kinds_of_carry = forms(carry_avals)
    kinds_of_rows = forms(avals[carried:])
    count = len(kinds_of_carry)
    flags, _ = spread(equation, [block.is_wide(x) for x in args])
    wides = _of_parts(avals, flags)
    memories = _memories(avals, wanted)
    others = flat([*consts, *xs])
    homes = _homes(block, flat(carry), kinds_of_carry, wides[:count], memories[:count], others)
    kinds_of_xs = forms([v.aval for v in equation.invars[given + carried :]])
    sources = [block.in_memory(x, kind) for x, kind in zip(flat(xs), kinds_of_xs, strict=True)]
    results = []
    for kind, is_wide, memory in zip(kinds_of_rows, wides[count:], memories[count:], strict=True):
        fits = memory is not None and memory.wide >= is_wide
        results.append(memory if fits else block.local(kind, is_wide))

    inner = block.inner()
    lent = [block.lent(x, inner) for x in consts]
    turn, end = code.begin_loop(length)
    if equation.params["reverse"]:
        turn = code.new(f"sub i64 {length - 1}, {turn.text}", WORD, False)
    rows = [_row_of_turn(block, x, turn) for x in sources]
    _lend(homes, inner)
    old = [home.array(inner) for home in homes]
    row_avals = [v.aval for v in program.jaxpr.invars[given + carried :]]
    with code.scope():
        outs = inner.run(program, [*lent, *join_parts(carry_avals, old), *join_parts(row_avals, rows)])
        for x, memory in zip(flat(outs[carried:]), results, strict=True):
            inner.copy_to(x, whole(memory, x.shape, code.times(turn, str(x.size))))
        # All members take every turn: those of which an outer loop has no more need keep what they have there.
        _store_back(inner, homes, old, flat(outs[:carried]))
    end()

    _lend(homes, block)
    after = [home.array(block) for home in homes]
    stacked = [whole(memory, kind.shape) for memory, kind in zip(results, kinds_of_rows, strict=True)]
    return join_parts(avals, [*after, *stacked])


def _row_of_turn(block: Block, x: Stored, turn: Value) -> Stored:
    """The row of an array that a turn has."""
    moved = block.sum(x.moved, block.code.times(turn, str(x.strides[0])))
    return x._replace(moved=moved, shape=x.shape[1:], strides=x.strides[1:])


def _pays_together(block: Block, equation: Operation, xs: Sequence) -> bool:
    """Whether several turns of a scan that carries nothing are computed at once, like members of a batch: in a program
    of one member, where they compute more than they read, since what each reads is gathered number by number."""
    code = block.code
    length = equation.params["length"]
    program = equation.params["jaxpr"].jaxpr
    if block.mask.wide or code.is_graphics or code.width == 1:
        return False
    # The turns of a loop inside, of which there are more, fill the lanes better.
    if _most_rows(program) > max(length, code.width):
        return False
    size_of_row = sum(x.size // length for x in xs)
    # Each number of a row costs two operations: a load, and its insertion into a vector.
    return 2 * size_of_row < programs_length(program)


def _most_rows(jaxpr: Jaxpr) -> int:
    """The most turns of a loop in a program that carries nothing from turn to turn."""
    most = 0
    for program in each_program(jaxpr):
        for equation in program.eqns:
            if equation.primitive.name == "scan" and scan_counts(equation)[1] == 0:
                most = max(most, equation.params["length"])
    return most


def _numbers(jaxpr: Jaxpr) -> int:
    """How many numbers a program computes, if each of its loops takes one turn."""
    equations = [equation for program in each_program(jaxpr) for equation in program.eqns]
    results = [v for equation in equations for v in equation.outvars]
    return sum(math.prod(v.aval.shape) for v in results)


def _turns_in_groups(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    """The results of a scan that carries nothing, in a program of one member, by a loop each of whose turns computes as
    many of those of the scan as there are lanes."""
    code = block.code
    program = equation.params["jaxpr"]
    length = equation.params["length"]
    consts, _, xs = _parts_of_scan(equation, args)
    avals = [v.aval for v in equation.outvars]
    row_avals = [v.aval for v in program.jaxpr.invars[len(consts) :]]
    kinds_of_xs = forms([v.aval for v in equation.invars[len(consts) :]])
    sources = [block.in_memory(x, kind) for x, kind in zip(flat(xs), kinds_of_xs, strict=True)]
    memories = []
    for kind, memory in zip(forms(avals), _memories(avals, wanted), strict=True):
        memories.append(block.local(kind, False) if memory is None else memory)
    inner = block.inner()
    lent = [block.lent(x, inner) for x in consts]
    groups = -(-length // code.width)
    group, end = code.begin_loop(groups)
    first = code.widen(code.times(group, str(code.width)))
    turn = code.new(f"add {code.with_type(first)}, %lanes", WORD, True)
    # In the last group there may be fewer turns than lanes.
    inner.mask = code.new(f"icmp slt {code.with_type(turn)}, splat (i64 {length})", BOOL, True)
    outside = code.inside
    code.inside = inner.mask.text
    with code.scope():
        rows = [_row_of_turn(inner, x, turn) for x in sources]
        outs = flat(inner.run(program, [*lent, *join_parts(row_avals, rows)]))
        for x, memory in zip(outs, memories, strict=True):
            inner.copy_to(x, whole(memory, x.shape, code.times(turn, str(x.size))))
    code.inside = outside
    end()
    stacked = [whole(memory, kind.shape) for memory, kind in zip(memories, forms(avals), strict=True)]
    return join_parts(avals, stacked)


def _turns_together(block: Block, equation: Operation, args: Sequence) -> list:
    """The results of a scan that carries nothing, in a program of one member: the turns are computed at once, like the
    members of a batch."""
    code = block.code
    program = equation.params["jaxpr"]
    length = equation.params["length"]
    consts, _, xs = _parts_of_scan(equation, args)
    avals = [v.aval for v in equation.outvars]
    # There may be fewer turns than lanes.
    lanes = Value("%lanes", WORD, True)
    mask = code.new(f"icmp slt {code.with_type(lanes)}, splat (i64 {length})", BOOL, True)
    inner = block.inner(mask)
    kinds_of_xs = forms([v.aval for v in equation.invars[len(consts) :]])
    rows = [_rows_at_once(block, inner, x, kind, lanes) for x, kind in zip(flat(xs), kinds_of_xs, strict=True)]
    lent = [block.lent(x, inner) for x in consts]
    row_avals = [v.aval for v in program.jaxpr.invars[len(consts) :]]
    outside = code.inside
    code.inside = mask.text
    # A large array is outside of the scope in which what the turns need is free again.
    memories = [block.local(kind, False) if kind.size > MOST_CELLS else None for kind in forms(avals)]
    results = []
    with code.scope():
        outs = flat(inner.run(program, [*lent, *join_parts(row_avals, rows)]))
        for x, kind, memory in zip(outs, forms(avals), memories, strict=True):
            if memory is None:
                results.append(_each_turn(block, inner, x, length))
            else:
                inner.copy_to(x, whole(memory, x.shape, code.times(lanes, str(x.size))))
                results.append(whole(memory, kind.shape))
    code.inside = outside
    return join_parts(avals, results)


def _rows_at_once(block: Block, inner: Block, x: RealArray, form: Kind, lanes: Value) -> RealArray:
    """The row of an array that each turn has, if the turns are the lanes."""
    if isinstance(x, Stored) or x.size > MOST_CELLS:
        return _row_of_turn(block, block.in_memory(x, form), lanes)
    # Each number of a row becomes a vector of those of all turns.
    packed = []
    for of_turns in x.reshape(len(x), -1).T:
        vector = block.code.pack([block.operand(y) for y in of_turns])
        packed.append(inner.node_of(vector))
    return fill(x.shape[1:], packed)


def _each_turn(block: Block, inner: Block, x: RealArray, length: int) -> np.ndarray:
    """The array of the rows that the turns have given, which are the lanes."""
    values = [inner.operand(y) for y in inner.cells(x).reshape(-1)]
    rows = [[block.node_of(block.code.lane(value, k)) for value in values] for k in range(length)]
    return fill((length, *x.shape), itertools.chain(*rows))


def _turns_side_by_side(block: Block, equation: Operation, args: Sequence) -> list | None:
    """The results of a short scan that carries nothing, each operation for all turns before the next one: so the
    processor need not wait for the result of one before it begins another. None if an array in it is large."""
    if not _are_small(equation, args):
        return None
    together = trace(lambda *args: stages(equation, args), [v.aval for v in equation.invars])
    results = [block.cells(x) for x in block.run(together, args)]
    block.compute(results)
    return results


def _are_small(equation: Operation, args: Sequence) -> bool:
    """Whether the arrays of a scan are small, and none is complex."""
    made = forms(equation.params["jaxpr"].out_avals)
    # A complex result has two parts.
    if len(made) > len(equation.outvars) or any(isinstance(x, Complex) for x in args):
        return False
    return all(x.size <= MOST_CELLS for x in [*args, *made])


def _turns_written_out(block: Block, equation: Operation, args: Sequence) -> list | None:
    """The results of a short scan of few turns, one after the other; None if an array in it is large."""
    if not _are_small(equation, args):
        return None
    program = equation.params["jaxpr"]
    length = equation.params["length"]
    _, carried = scan_counts(equation)
    consts, carry, xs = _parts_of_scan(equation, args)
    arrays = [block.cells(x) for x in xs]
    turns = range(length)
    # The rows that each turn gives.
    given: dict[int, list[np.ndarray]] = {}
    for k in reversed(turns) if equation.params["reverse"] else turns:
        # A turn must not change in its place what later ones need.
        block.frames.append(Held([*consts, *arrays, *itertools.chain(*given.values())]))
        # A slice of one row, since of an array of rows without axes an index would take a number and no array.
        row = [x[k : k + 1].reshape(x.shape[1:]) for x in arrays]
        outs = [block.cells(x) for x in block.run(program, [*consts, *carry, *row])]
        block.frames.pop()
        carry = outs[:carried]
        given[k] = outs[carried:]
    stacks = []
    for i, variable in enumerate(equation.outvars[carried:]):
        numbers = [y for k in turns for y in given[k][i].reshape(-1)]
        stacks.append(fill(variable.aval.shape, numbers))
    return [*carry, *stacks]


def cond(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    """The results of one of several programs."""
    index, *args = args
    branches = equation.params["branches"]
    which = block.number(index)
    if not isinstance(which, Node):
        # The index is a known number. One beyond the branches means the nearest of them.
        taken = min(max(int(which), 0), len(branches) - 1)
        return block.run(branches[taken], args)
    is_taken = _test_of_branch(block, which, len(branches) - 1)
    avals = [v.aval for v in equation.outvars]
    has_small_results = all(kind.size <= MOST_CELLS for kind in forms(avals))
    if has_small_results and sum(_length(b.jaxpr) for b in branches) <= SHORT_BRANCHES:
        return _all_branches(block, branches, args, avals, is_taken)
    flags, _ = spread(equation, [block.is_wide(x) for x in (index, *args)])
    wides = _of_parts(avals, flags)
    kinds_of_results = forms(avals)
    homes = [Home(block.local(kind, wide), kind) for kind, wide in zip(kinds_of_results, wides, strict=True)]
    for k, branch in enumerate(branches):
        _branch(block, branch, args, homes, block.operand(is_taken(k)))
    return join_parts(avals, [home.array(block) for home in homes])


def _test_of_branch(block: Block, which: Node, last: int) -> Callable[[int], Operand]:
    """The function that says whether a branch is the one with this index, or the nearest to it."""
    if which.dtype == BOOL:
        # Two branches: number 0 for false, 1 for true.
        return lambda k: which if k else block.apply(lax.not_p, BOOL, which)

    def number(k: int) -> np.generic:
        return np.asarray(k, which.dtype)[()]

    least = block.apply(lax.max_p, which.dtype, which, number(0))
    nearest = block.apply(lax.min_p, which.dtype, least, number(last))
    return lambda k: block.apply(lax.eq_p, BOOL, nearest, number(k))


def _branch(block: Block, branch: ClosedJaxpr, args: Sequence, homes: Sequence[Home], here: Value):
    """Computes a branch for the members that take it, if there are any."""
    code = block.code
    active = code.both(here, block.mask) if here.wide else here
    mask = active if here.wide else None
    inner = block.inner(mask)
    lent = [block.lent(x, inner) for x in args]
    taken = code.fresh("branch")
    after = code.fresh("after")
    code.branch(code.any(active), taken, after)
    code.start(taken)
    with code.scope():
        outs = flat(inner.run(branch, lent))
        for x, home in zip(outs, homes, strict=True):
            inner.copy_to(x, whole(home.memory, home.kind.shape), mask)
    code.jump(after)
    code.start(after)


def _all_branches(
    block: Block,
    branches: Sequence[ClosedJaxpr],
    args: Sequence,
    avals: Sequence[ShapedArray],
    is_taken: Callable[[int], Operand],
) -> list:
    """The results of one of several short programs, all of which are computed."""
    values: list[list[np.ndarray]] = []
    for branch in branches:
        # A branch must not change in its place what the next ones need, or what earlier ones gave.
        block.frames.append(Held([*args, *itertools.chain(*values)]))
        values.append([block.cells(x) for x in flat(block.run(branch, args))])
        block.frames.pop()
    # The last branch unless an earlier one is taken.
    found = values[-1]
    for k in range(len(branches) - 2, -1, -1):
        select = functools.partial(block.graph.select, is_taken(k))
        found = [each(own.shape, select, other, own) for other, own in zip(found, values[k], strict=True)]
    return join_parts(avals, found)


def _length(jaxpr: Jaxpr) -> float:
    """The number of operations of a program; infinite if it has loops, branches or programs of their own."""
    total = 0.0
    for equation in jaxpr.eqns:
        inner = inner_program(equation)
        own = math.inf if equation.primitive.name in (*CONTROL, NATIVE) else 1
        total += own if inner is None else _length(inner.jaxpr)
    return total


CONTROL = {"while": while_loop, "scan": scan, "cond": cond}
