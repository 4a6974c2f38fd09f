"""Instructions that run one after the other, and the numbers that they compute."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from geodyn._engine.cells import apply, fill
from geodyn._engine.elementary import FORMULAS, FORMULAS_OF_GRAPHICS
from geodyn._engine.expressions import Graph, Node, Operand
from geodyn._engine.internals import ClosedJaxpr, Jaxpr, Literal, Operation, Primitive, Var, double_precision, needed
from geodyn._engine.llvm.code import BOOL, WORD, Code, Memory, NotUnderstood, Place, Value
from geodyn._engine.llvm.operations import written
from geodyn._engine.program.arrays import (
    Complex,
    Kind,
    Pending,
    ProgramArray,
    RealArray,
    Stored,
    constant,
    flat,
    merged,
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
        self.env, self.now, self.last = {}, 0, {}
        self.equations, self.results, self.times = equations, results, Counter()
        for k, equation in enumerate(equations):
            self._use(equation.invars, k)
        self._use(jaxpr.outvars, len(equations))

    def _use(self, variables: Sequence, k: int):
        variables = [v for v in variables if not isinstance(v, Literal)]
        self.last |= dict.fromkeys(variables, k)
        self.times.update(variables)

    def read(self, x: Var | Literal) -> ProgramArray:
        """The array of a variable, or of a number in the program."""
        return constant(x.val, x.aval) if isinstance(x, Literal) else self.env[x]

    def user(self, variable: Var) -> Operation | None:
        """The operation that uses a variable, if it is used only once; else None."""
        k = self.last.get(variable, len(self.equations))
        return self.equations[k] if self.times[variable] == 1 and k < len(self.equations) else None

    def later(self) -> list:
        """The arrays that are used after the present operation."""
        arrays = [x for v, x in self.env.items() if self.last.get(v, -1) > self.now]
        return [y for x in arrays for y in (x.sources if isinstance(x, Pending) else [x])]


class Held(NamedTuple):
    """Arrays that are used later, though by no operation of the programs that are being compiled."""

    arrays: list
    results: tuple = ()

    def later(self) -> list:
        return self.arrays


class Block:
    """Instructions for the members in `mask`. A number is computed when it is asked for, if ever. `rule(block,
    equation, args, wanted)` gives the results of an operation, where possible in the memories `wanted`."""

    def __init__(self, code: Code, mask: Value, rule: Callable):
        self.code, self.mask, self.rule, self.graph = code, mask, rule, Graph()
        self.places: dict[int, Place] = {}
        self.known: dict[int, Value] = {}
        self.copies: dict[tuple, Stored] = {}
        # The elementary functions that are programs of arithmetic.
        self.formulas = FORMULAS_OF_GRAPHICS if code.is_graphics else FORMULAS
        # What functions of the same number share.
        self.shared: dict[tuple, list[Value]] = {}
        self.wide: list[bool] = []
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
        equations = needed(jaxpr)
        frame = Frame(jaxpr, equations, wanted)
        frame.env = {v: constant(x, v.aval) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)}
        frame.env |= dict(zip(jaxpr.invars, args, strict=True))
        targets = _targets(jaxpr, wanted)
        self.frames.append(frame)
        with np.errstate(all="ignore"):
            for frame.now, equation in enumerate(equations):
                given = [frame.read(x) for x in equation.invars]
                outs = self.rule(self, equation, given, [targets.get(v) for v in equation.outvars])
                frame.env |= dict(zip(equation.outvars, outs, strict=True))
        self.frames.pop()
        return [frame.read(x) for x in jaxpr.outvars]

    # Numbers

    def given(self, source: Value | Place) -> Node:
        """The node of a number that is known, or that stands in memory."""
        self._find_wide()
        if isinstance(source, Value):
            node = self.graph.given(source)
            self.known[node.index] = source
            self.wide.append(source.wide)
        else:
            node = self.graph.given(source.memory)
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
        missing, stack = set(), [x for cells in arrays for x in cells.reshape(-1)]
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
        return self.written(node.name, node.params or {}, np.dtype(node.dtype), [self.operand(x) for x in node.args])

    def written(self, name: str, params: dict, dtype: np.dtype, args: list[Value]) -> Value:
        """The value of an operation on numbers."""
        try:
            return written(self.code, name, params, dtype, args)
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
        given = tuple(str(x.reshape(-1)[0].dtype) for x in cells)
        (values,) = self.run(formula(name, kind.size, str(kind.dtype), given), [x.reshape(-1) for x in cells])
        return values.reshape(kind.shape)

    # Arrays

    def cells(self, x: RealArray) -> np.ndarray:
        """The numbers of an array."""
        if not isinstance(x, Stored):
            return x
        if x.size > 4 * MOST_CELLS:
            raise NotUnderstood(f"all numbers of an array of {x.shape}")
        return fill(x.shape, [self.given(x.place(index)) for index in np.ndindex(*x.shape)])

    def local(self, kind: Kind, wide: bool) -> Memory:
        """New memory for an array."""
        return self.owned(self.code.local(kind.size, kind.dtype, wide))

    def owned(self, memory: Memory) -> Memory:
        """The memory, which this block may change."""
        memory.owner, memory.mask = self, self.mask
        return memory

    def mask_of(self, memory: Memory) -> Value | None:
        """The mask with which this block has to change a memory, if any: of other members it is not its own."""
        return None if memory.mask is self.mask or not memory.wide or not self.mask.wide else self.mask

    def stored(self, x: RealArray | Pending, kind: Kind) -> Stored:
        """The array in memory."""
        if isinstance(x, Stored):
            return x
        if isinstance(x, Pending):
            return self.evaluated(x, whole(self.local(kind, x.is_wide), x.shape))
        return self.where(x) or self.table(x, kind) or self._copy(x, kind)

    def _copy(self, cells: np.ndarray, kind: Kind) -> Stored:
        """The numbers, written into memory; where they have been, that of before, which nothing else may change."""
        numbers = tuple(x.index if isinstance(x, Node) else x.tobytes() for x in cells.reshape(-1))
        if (kind, numbers) not in self.copies:
            copy = self.copied(cells, whole(self.local(kind, self.is_wide(cells)), kind.shape))
            copy.memory.owner = None
            self.copies[kind, numbers] = copy
        return self.copies[kind, numbers]

    def where(self, cells: np.ndarray) -> Stored | None:
        """Where the numbers stand in memory, if they do so at one distance along each axis."""
        if not cells.size or not all(isinstance(x, Node) and x.index in self.places for x in cells.reshape(-1)):
            return None
        places = np.vectorize(lambda x: self.places[x.index], otypes=[object])(cells)
        first = places[(0,) * cells.ndim]
        if first.version != first.memory.version:
            return None
        strides = []
        for axis, size in enumerate(cells.shape):
            second = places[tuple(int(k == axis and size > 1) for k in range(cells.ndim))]
            strides.append(second.fixed - first.fixed)
        array = Stored(first.memory, first.fixed, first.moved, first.version, cells.shape, tuple(strides))
        return array if all(array.place(index) == places[index] for index in np.ndindex(*cells.shape)) else None

    def table(self, cells: np.ndarray, kind: Kind) -> Stored | None:
        """Where the numbers stand, if all of them are known now and they are many."""
        if cells.size <= FEW or any(isinstance(x, Node) for x in cells.reshape(-1)):
            return None
        return whole(self.code.table(np.array(list(cells.reshape(-1)), kind.dtype)), cells.shape)

    def copied(self, x: RealArray, target: Stored, mask: Value | None = None) -> Stored:
        """The target, into which the array is written; with a mask only where it holds."""
        if not isinstance(x, Stored):
            x = self.table(x, Kind(x.shape, target.dtype)) or x
        if isinstance(x, Stored) and x.size > FEW:
            self.loop([x, target], lambda _, places: self.code.store(self.code.load(places[0]), places[1], mask))
        else:
            values = [self.operand(y) for y in self.cells(x).reshape(-1)]
            for index, value in zip(np.ndindex(*target.shape), values, strict=True):
                self.code.store(value, target.place(index), mask)
        return target

    def evaluated(self, x: Pending, target: Stored) -> Stored:
        """The target, into which the array is written."""

        def one(inner: Block, places: Sequence[Place]):
            value = x.number(inner, [inner.given(place) for place in places[:-1]])
            self.code.store(inner.operand(value), places[-1])

        self.loop([*x.sources, target], one)
        return target

    def loop(self, arrays: list[Stored], function: Callable):
        """Runs `function(inner, places)` for the places of each number of these arrays, which have one shape."""
        arrays = merged(*arrays)
        if 0 in arrays[0].shape:
            return
        axis = self._axis_at_once(arrays)
        if axis is not None:
            self._loop_at_once([_last(x, axis) for x in arrays], function)
            return
        *_, target = arrays
        if target.strides and not target.strides[-1] and any(target.strides):
            # The inmost turns should write to different places: so one sum need not wait for the one before it.
            axis = max((k for k, stride in enumerate(target.strides) if stride), key=lambda k: target.shape[k])
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
        strides = [{x.strides[k] for x in arrays} for k in range(len(shape))]
        fits = [k for k, size in enumerate(shape) if size >= code.width and strides[k] in ({1}, {0, 1})]
        return max(fits, key=lambda k: (arrays[-1].strides[k], shape[k]), default=None)

    def _loop_at_once(self, arrays: list[Stored], function: Callable):
        """The same for as many numbers at once as there are lanes."""
        code, *outer, size = self.code, *arrays[0].shape
        rest = [x._replace(shape=x.shape[:-1], strides=x.strides[:-1]) for x in arrays]
        index, end = self.turns(outer)
        turn, end_turn = code.counted(-(-size // code.width))
        first = code.times(turn, str(code.width))
        left = code.new(f"sub i64 {size}, {first.text}", WORD, False)
        lanes, left = code.alike([Value("%lanes", WORD, True), left])[0]
        mask = code.new(f"icmp slt {code.typed(lanes)}, {left.text}", BOOL, True)
        inner, places = self.inner(mask), []
        for x, part in zip(arrays, rest, strict=True):
            place = self.at(part, index)
            is_along = x.strides[-1] == 1
            places.append(place._replace(moved=self.sum(place.moved, first), along=True) if is_along else place)
        outside, code.inside = code.inside, mask.text
        function(inner, places)
        code.inside = outside
        end_turn()
        end()

    def turns(self, shape: Sequence[int]) -> tuple[list[Value | None], Callable[[], None]]:
        """(the index, the function that ends them) of loops over all numbers of an array."""
        loops = [self.code.counted(size) if size != 1 else (None, lambda: None) for size in shape]

        def end():
            for _, close in reversed(loops):
                close()

        return [k for k, _ in loops], end

    def at(self, x: Stored, index: Sequence[Value | None]) -> Place:
        """The place of the number at the index of such loops."""
        moved = x.moved
        for k, stride in zip(index, x.strides, strict=True):
            if k is not None and stride:
                moved = self.sum(moved, self.code.times(k, str(stride)))
        return Place(x.memory, x.first, moved, x.version)

    def sum(self, a: Value | None, b: Value) -> Value:
        """The sum of two places."""
        return b if a is None else self.written("add", {}, WORD, [a, b])

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
            return inner.given(self.places[y.index] if in_memory else self.operand(y))

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
        seen, found = set(), []
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
        if array is None or not array.is_whole or array.memory.owner is not self or array.memory.wide != wide:
            return None
        memory = array.memory
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

    with double_precision(), jax.numpy_rank_promotion("allow"):
        return jax.make_jaxpr(values)(*(jax.ShapeDtypeStruct((size,), x) for x in given))


def _last(x: Stored, axis: int) -> Stored:
    """The array with this axis as the last one."""
    order = [*(k for k in range(len(x.shape)) if k != axis), axis]
    return x._replace(shape=tuple(x.shape[k] for k in order), strides=tuple(x.strides[k] for k in order))


def _targets(jaxpr: Jaxpr, wanted: Sequence[Memory | None]) -> dict:
    """The memory, if any, where each variable should stand: that of a result, or of another shape of one."""
    pairs = zip(jaxpr.outvars, wanted, strict=True) if wanted else ()
    targets = {v: memory for v, memory in pairs if memory is not None and not isinstance(v, Literal)}
    for equation in reversed(jaxpr.eqns):
        if equation.primitive.name in ("reshape", "squeeze", "expand_dims", "copy", "copy_p"):
            memory = targets.get(equation.outvars[0])
            if memory is not None and not isinstance(equation.invars[0], Literal):
                targets.setdefault(equation.invars[0], memory)
    return targets
