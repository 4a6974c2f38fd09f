"""Instructions that run one after the other, and the numbers that they compute."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from geodyn._engine.cells import apply, fill, spread
from geodyn._engine.elementary.formulas import FORMULAS, FORMULAS_OF_GRAPHICS
from geodyn._engine.expressions import Graph, Node, Operand
from geodyn._engine.internals import (
    ClosedJaxpr,
    Jaxpr,
    Literal,
    Operation,
    Primitive,
    ShapedArray,
    Var,
    double_precision,
    needed_operations,
)
from geodyn._engine.llvm.code import BOOL, WORD, Code, Memory, NotUnderstood, Place, Value
from geodyn._engine.llvm.operations import emit
from geodyn._engine.program.arrays import (
    Complex,
    Kind,
    Pending,
    ProgramArray,
    RealArray,
    Stored,
    constant,
    flat,
    merge_axes,
    whole,
)

# Arrays with more numbers stay in memory.
MOST_CELLS = 128
# More numbers are copied by a loop.
FEW = 16
# Where an array is to be changed in its place, so many of its numbers are kept for what comes later.
MOST_KEPT = 8


class Frame:
    """A program that is being compiled: the arrays of its variables, the last operation that uses each, and the
    memories of its results."""

    def __init__(self, jaxpr: Jaxpr, equations: list, results: Sequence[Memory | None]):
        self.equations = equations
        self.results = results
        self.env: dict[Var, ProgramArray | Pending] = {}
        # The place of the present operation, that of the last one that uses a variable, and how many uses it has.
        self.now = 0
        self.last: dict[Var, int] = {}
        self.times: Counter[Var] = Counter()
        for k, equation in enumerate(equations):
            self._use(equation.invars, k)
        self._use(jaxpr.outvars, len(equations))

    def _use(self, variables: Sequence[Var | Literal], k: int):
        used = [v for v in variables if not isinstance(v, Literal)]
        self.last |= dict.fromkeys(used, k)
        self.times.update(used)

    def read(self, x: Var | Literal) -> Any:
        """The array of a variable, or of a number in the program."""
        if isinstance(x, Literal):
            return constant(x.val, cast(ShapedArray, x.aval))
        return self.env[x]

    def user(self, variable: Var) -> Operation | None:
        """The operation that uses a variable, if it is used only once; else None."""
        k = self.last.get(variable, len(self.equations))
        is_result = k == len(self.equations)
        if is_result or self.times[variable] != 1:
            return None
        return self.equations[k]

    def later(self) -> list[ProgramArray]:
        """The arrays that are used after the present operation."""
        arrays = [x for v, x in self.env.items() if self.last.get(v, -1) > self.now]
        return [y for x in arrays for y in (x.sources if isinstance(x, Pending) else [x])]


class Held(NamedTuple):
    """Arrays that are used later, though by no operation of the programs that are being compiled."""

    arrays: list[ProgramArray]
    results: tuple = ()

    def later(self) -> list[ProgramArray]:
        return self.arrays


class Block:
    """Instructions for the members in `mask`. A number is computed when it is asked for, if ever. `rule(block,
    equation, args, wanted)` gives the results of an operation, where possible in the memories `wanted`."""

    def __init__(self, code: Code, mask: Value, rule: Callable):
        self.code = code
        self.mask = mask
        self.rule = rule
        self.graph = Graph()
        # By the index of a node: where its number stands in memory, its value, whether members may differ in it.
        self.places: dict[int, Place] = {}
        self.known: dict[int, Value] = {}
        self.wide: list[bool] = []
        # By what it holds: memory into which numbers have been written.
        self.copies: dict[tuple, Stored] = {}
        # The elementary functions that are programs of arithmetic.
        self.formulas = FORMULAS_OF_GRAPHICS if code.is_graphics else FORMULAS
        # What functions of the same number share.
        self.shared: dict[tuple, list[Value]] = {}
        # The programs in which this block is, from the outermost.
        self.frames: list[Frame | Held] = []

    def inner(self, mask: Value | None = None) -> "Block":
        """A block of instructions inside of this one."""
        return Block(self.code, self.mask if mask is None else mask, self.rule)

    # Programs

    def run(self, closed: ClosedJaxpr, args: Sequence, wanted: Sequence[Memory | None] = ()) -> list:
        """The results of a program. `wanted` are memories where results should stand, or None."""
        jaxpr = closed.jaxpr
        if jaxpr.effects:
            raise NotUnderstood(f"effects {jaxpr.effects}")
        equations = needed_operations(jaxpr)
        frame = Frame(jaxpr, equations, wanted)
        frame.env = {v: constant(x, v.aval) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)}
        frame.env |= dict(zip(jaxpr.invars, args, strict=True))
        targets = _targets(jaxpr, wanted)
        self.frames.append(frame)
        with np.errstate(all="ignore"):
            for frame.now, equation in enumerate(equations):
                given = [frame.read(x) for x in equation.invars]
                memories = [targets.get(v) for v in equation.outvars]
                outs = self.rule(self, equation, given, memories)
                frame.env |= dict(zip(equation.outvars, outs, strict=True))
        self.frames.pop()
        return [frame.read(x) for x in jaxpr.outvars]

    # Numbers

    def node_of(self, source: Value | Place) -> Node:
        """The node of a number that is known, or that stands in memory."""
        self._find_wide()
        if isinstance(source, Value):
            node = self.graph.input(source)
            self.known[node.index] = source
            self.wide.append(source.wide)
        else:
            node = self.graph.input(source.memory)
            self.places[node.index] = source
            self.wide.append(source.is_wide)
        return node

    def _find_wide(self):
        for node in self.graph.order[len(self.wide) :]:
            self.wide.append(any(isinstance(x, Node) and self.wide[x.index] for x in node.args))

    def is_wide(self, x: ProgramArray) -> bool:
        """Whether an array may have other numbers for each member."""
        if isinstance(x, Complex):
            return self.is_wide(x.real) or self.is_wide(x.imag)
        if isinstance(x, Stored):
            return x.is_wide
        self._find_wide()
        return any(isinstance(y, Node) and self.wide[y.index] for y in x.reshape(-1))

    def operand(self, x: Operand) -> Value:
        """The value of a number, which is computed if it is not yet known."""
        if not isinstance(x, Node):
            return self.code.constant(x)
        if x.index in self.known:
            return self.known[x.index]
        stack = [x]
        while stack:
            node = stack[-1]
            if node.index in self.known:
                stack.pop()
                continue
            missing = [a for a in node.args if isinstance(a, Node) and a.index not in self.known]
            if missing:
                stack += reversed(missing)
            else:
                self.known[node.index] = self._value(stack.pop())
        return self.known[x.index]

    def compute(self, arrays: Iterable[np.ndarray]):
        """Computes the numbers of these arrays now, and all that they need in the order in which programs have it."""
        missing: set[int] = set()
        stack = [x for cells in arrays for x in cells.reshape(-1)]
        while stack:
            node = stack.pop()
            if isinstance(node, Node) and node.index not in self.known and node.index not in missing:
                missing.add(node.index)
                stack += node.args
        for index in sorted(missing):
            self.operand(self.graph.order[index])

    def _value(self, node: Node) -> Value:
        if node.index in self.places:
            return self.code.load(self.places[node.index])
        args = [self.operand(x) for x in node.args]
        return self.emit(node.name, node.params or {}, np.dtype(node.dtype), args)

    def emit(self, name: str, params: dict, dtype: np.dtype, args: list[Value]) -> Value:
        """The value of an operation on numbers."""
        try:
            return emit(self.code, name, params, dtype, args)
        except KeyError:
            raise NotUnderstood(f"{name} of {args[0].dtype}") from None

    def number(self, x: RealArray) -> Any:
        """The number of an array that has only one."""
        return self.cells(x).reshape(-1)[0]

    def apply(self, primitive: Primitive, dtype: np.dtype, *args: Operand) -> Operand:
        """The number of an operation of JAX's without parameters."""
        return self.graph.apply(primitive, {}, args, np.dtype(dtype))

    def elementwise(self, equation: Operation, cells: list, kind: Kind) -> np.ndarray:
        """The numbers of an operation on each number of arrays of this kind."""
        name = equation.primitive.name
        if name not in self.formulas or kind.dtype.kind != "f" or not kind.size:
            (values,) = apply(self.graph, equation, cells)
            return values
        shape = equation.outvars[0].aval.shape
        rows = spread(cells, shape)
        types = tuple(str(row[0].dtype) for row in rows)
        (values,) = self.run(formula(name, kind.size, str(kind.dtype), types), rows)
        return values.reshape(kind.shape)

    # Arrays

    def cells(self, x: RealArray) -> np.ndarray:
        """The numbers of an array."""
        if not isinstance(x, Stored):
            return x
        if x.size > 4 * MOST_CELLS:
            raise NotUnderstood(f"all numbers of an array of {x.shape}")
        return fill(x.shape, [self.node_of(x.place(index)) for index in np.ndindex(*x.shape)])

    def local(self, kind: Kind, wide: bool) -> Memory:
        """New memory for an array."""
        return self.claim(self.code.local(kind.size, kind.dtype, wide))

    def claim(self, memory: Memory) -> Memory:
        """The memory, which this block may change."""
        memory.owner = self
        memory.mask = self.mask
        return memory

    def mask_of(self, memory: Memory) -> Value | None:
        """The mask with which this block has to change a memory, if any: of other members it is not its own."""
        is_for_all = memory.mask is self.mask or not memory.wide or not self.mask.wide
        return None if is_for_all else self.mask

    def in_memory(self, x: RealArray | Pending, kind: Kind) -> Stored:
        """The array in memory."""
        if isinstance(x, Stored):
            return x
        if isinstance(x, Pending):
            return self.evaluate(x, whole(self.local(kind, x.is_wide), x.shape))
        return self.where(x) or self.table(x, kind) or self._copy(x, kind)

    def _copy(self, cells: np.ndarray, kind: Kind) -> Stored:
        """The numbers, written into memory; where they have been, that of before, which nothing else may change."""
        numbers = tuple(x.index if isinstance(x, Node) else x.tobytes() for x in cells.reshape(-1))
        if (kind, numbers) not in self.copies:
            copy = self.copy_to(cells, whole(self.local(kind, self.is_wide(cells)), kind.shape))
            copy.memory.owner = None
            self.copies[kind, numbers] = copy
        return self.copies[kind, numbers]

    def where(self, cells: np.ndarray) -> Stored | None:
        """Where the numbers stand in memory, if they do so at one distance along each axis."""
        if not cells.size or not all(isinstance(x, Node) and x.index in self.places for x in cells.reshape(-1)):
            return None
        places = fill(cells.shape, [self.places[x.index] for x in cells.reshape(-1)])
        first: Place = places[(0,) * cells.ndim]
        if first.version != first.memory.version:
            return None
        strides = []
        for axis, size in enumerate(cells.shape):
            # The next number along the axis; along one of length one it is the first, and the distance is zero.
            second: Place = places[tuple(int(k == axis and size > 1) for k in range(cells.ndim))]
            strides.append(second.fixed - first.fixed)
        array = Stored(first.memory, first.fixed, first.moved, first.version, cells.shape, tuple(strides))
        is_regular = all(array.place(index) == places[index] for index in np.ndindex(*cells.shape))
        return array if is_regular else None

    def table(self, cells: np.ndarray, kind: Kind) -> Stored | None:
        """Where the numbers stand, if all of them are known now and they are many."""
        if cells.size <= FEW or any(isinstance(x, Node) for x in cells.reshape(-1)):
            return None
        return whole(self.code.table(np.array(list(cells.reshape(-1)), kind.dtype)), cells.shape)

    def copy_to(self, x: RealArray, target: Stored, mask: Value | None = None) -> Stored:
        """The target, into which the array is written; with a mask only where it holds."""
        if not isinstance(x, Stored):
            x = self.table(x, Kind(x.shape, target.dtype)) or x
        if isinstance(x, Stored) and x.size > FEW:

            def one(_: Block, places: Sequence[Place]):
                source, place = places
                self.code.store(self.code.load(source), place, mask)

            self.loop([x, target], one)
            return target
        # All are read before the first is written, since they may stand in the same memory.
        values = [self.operand(y) for y in self.cells(x).reshape(-1)]
        for index, value in zip(np.ndindex(*target.shape), values, strict=True):
            self.code.store(value, target.place(index), mask)
        return target

    def evaluate(self, x: Pending, target: Stored) -> Stored:
        """The target, into which the array is written."""

        def one(inner: Block, places: Sequence[Place]):
            *sources, place = places
            value = x.number(inner, [inner.node_of(source) for source in sources])
            self.code.store(inner.operand(value), place)

        self.loop([*x.sources, target], one)
        return target

    def loop(self, arrays: list[Stored], function: Callable):
        """Runs `function(inner, places)` for the places of each number of these arrays, which have one shape."""
        arrays = merge_axes(*arrays)
        if 0 in arrays[0].shape:
            return
        axis = self._axis_at_once(arrays)
        if axis is not None:
            self._loop_at_once([_last(x, axis) for x in arrays], function)
            return
        axis = _axis_of_targets(arrays[-1])
        if axis is not None:
            arrays = [_last(x, axis) for x in arrays]
        index, end = self.turns(arrays[0].shape)
        inner = self.inner()
        function(inner, [inner.at(x, index) for x in arrays])
        end()

    def _axis_at_once(self, arrays: list[Stored]) -> int | None:
        """The axis along which several numbers are computed at once, in a program of one member: along it those of each
        array stand one after the other, or are one number, but not of all. One along which those of the last array
        differ is better."""
        code, shape = self.code, arrays[0].shape
        if self.mask.wide or code.is_graphics or any(x.is_wide for x in arrays):
            return None
        fits = []
        for k, size in enumerate(shape):
            strides = {x.strides[k] for x in arrays}
            if size >= code.width and strides in ({1}, {0, 1}):
                fits.append(k)
        return max(fits, key=lambda k: (arrays[-1].strides[k], shape[k]), default=None)

    def _loop_at_once(self, arrays: list[Stored], function: Callable):
        """The same for as many numbers at once as there are lanes."""
        code = self.code
        *outer, size = arrays[0].shape
        index, end = self.turns(outer)
        turn, end_turn = code.begin_loop(-(-size // code.width))
        first = code.times(turn, str(code.width))
        # In the last turn there may be fewer numbers than lanes.
        left = code.new(f"sub i64 {size}, {first.text}", WORD, False)
        lanes, left = code.alike([Value("%lanes", WORD, True), left])[0]
        mask = code.new(f"icmp slt {code.with_type(lanes)}, {left.text}", BOOL, True)
        inner = self.inner(mask)
        places = []
        for x in arrays:
            row = x._replace(shape=x.shape[:-1], strides=x.strides[:-1])
            place = self.at(row, index)
            if x.strides[-1] == 1:
                place = place._replace(moved=self.sum(place.moved, first), along=True)
            places.append(place)
        outside, code.inside = code.inside, mask.text
        function(inner, places)
        code.inside = outside
        end_turn()
        end()

    def turns(self, shape: Sequence[int]) -> tuple[list[Value | None], Callable[[], None]]:
        """(the index, the function that ends them) of loops over all numbers of an array."""
        index: list[Value | None] = []
        ends: list[Callable[[], None]] = []
        for size in shape:
            if size == 1:
                index.append(None)
                continue
            k, end = self.code.begin_loop(size)
            index.append(k)
            ends.append(end)

        def end_all():
            for end in reversed(ends):
                end()

        return index, end_all

    def at(self, x: Stored, index: Sequence[Value | None]) -> Place:
        """The place of the number at the index of such loops."""
        moved = x.moved
        for k, stride in zip(index, x.strides, strict=True):
            if k is not None and stride:
                moved = self.sum(moved, self.code.times(k, str(stride)))
        return Place(x.memory, x.first, moved, x.version)

    def sum(self, a: Value | None, b: Value) -> Value:
        """The sum of two places."""
        return b if a is None else self.emit("add", {}, WORD, [a, b])

    def lent(self, x: ProgramArray, inner: "Block") -> Any:
        """An array of this block in one inside of it, whose instructions have not begun yet."""
        if isinstance(x, Complex):
            return Complex(*(self.lent(part, inner) for part in x))
        if isinstance(x, Stored):
            return x

        def one(y: Operand) -> Operand:
            if not isinstance(y, Node):
                return y
            in_memory = y.index in self.places and y.index not in self.known
            return inner.node_of(self.places[y.index] if in_memory else self.operand(y))

        return fill(x.shape, [one(y) for y in x.reshape(-1)])

    def now(self, x: Node, memory: Memory, k: int) -> Value:
        """What the memory holds at the place k, which x was at first."""
        if memory.version == self.places[x.index].version:
            return self.operand(x)
        return self.code.load(Place(memory, k, None, memory.version))

    # Arrays that are changed in their place

    def still_read(self, memory: Memory, others: Iterable) -> list[int] | None:
        """The numbers in a memory that are read after the present operation: by what is computed later, which may be
        asked for only then, and by the `others`. None if a whole array there is."""
        arrays = flat(x for frame in self.frames for x in frame.later()) + flat(others)
        if any(isinstance(x, Stored) and x.memory is memory and x.is_current for x in arrays):
            return None
        seen: set[int] = set()
        found = []
        stack = [y for x in arrays if not isinstance(x, Stored) for y in x.reshape(-1)]
        while stack:
            node = stack.pop()
            if not isinstance(node, Node) or node.index in seen or node.index in self.known:
                continue
            seen.add(node.index)
            stack += node.args
            place = self.places.get(node.index)
            if place is not None and place.memory is memory:
                found.append(node.index)
        return found

    def takes_over(self, x: RealArray, kind: Kind, wide: bool, others: Iterable) -> Memory | None:
        """The memory of an array, where it may be changed: the array fills it, and is used no more. (That of a
        result is written once more at the end.)"""
        array = x if isinstance(x, Stored) else self.where(x)
        if array is None or not array.is_whole:
            return None
        memory = array.memory
        if memory.owner is not self or memory.wide != wide:
            return None
        if any(memory is result for frame in self.frames for result in frame.results):
            return None
        waiting = self.still_read(memory, others)
        if waiting is None or len(waiting) > MOST_KEPT:
            return None
        for i in waiting:
            self.known[i] = self.code.load(self.places[i])
        memory.version += 1
        return memory


@functools.cache
def formula(name: str, size: int, dtype: str, given: tuple[str, ...]) -> ClosedJaxpr:
    """The program of an elementary function of `size` numbers, computed in double precision."""

    def values(*args: jax.Array) -> list:
        doubles = [x.astype(np.float64) for x in args]
        return [FORMULAS_OF_GRAPHICS[name](*doubles).astype(dtype)]

    likes = [jax.ShapeDtypeStruct((size,), np.dtype(x)) for x in given]
    with double_precision(), jax.numpy_rank_promotion("allow"):
        return jax.make_jaxpr(values)(*likes)


def _axis_of_targets(target: Stored) -> int | None:
    """The longest axis along which numbers have places of their own, where they have one place along the last axis: the
    inmost turns should write to different places, so that one sum need not wait for the one before it."""
    if not target.strides or target.strides[-1] or not any(target.strides):
        return None
    axes = [k for k, stride in enumerate(target.strides) if stride]
    return max(axes, key=lambda k: target.shape[k])


def _last(x: Stored, axis: int) -> Stored:
    """The array with this axis as the last one."""
    order = [k for k in range(len(x.shape)) if k != axis] + [axis]
    shape = tuple(x.shape[k] for k in order)
    strides = tuple(x.strides[k] for k in order)
    return x._replace(shape=shape, strides=strides)


def _targets(jaxpr: Jaxpr, wanted: Sequence[Memory | None]) -> dict[Var, Memory]:
    """The memory, if any, where each variable should stand: that of a result, or of another shape of one."""
    targets = {}
    for variable, memory in zip(jaxpr.outvars, wanted, strict=True) if wanted else ():
        if memory is not None and not isinstance(variable, Literal):
            targets[variable] = memory
    for equation in reversed(jaxpr.eqns):
        if equation.primitive.name in ("reshape", "squeeze", "expand_dims", "copy", "copy_p"):
            memory = targets.get(equation.outvars[0])
            source = equation.invars[0]
            if memory is not None and not isinstance(source, Literal):
                targets.setdefault(source, memory)
    return targets
