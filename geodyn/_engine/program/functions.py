"""Programs that stand more than once in another: each is a function, which is compiled once and called."""

import functools
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from geodyn._engine.cells import fill
from geodyn._engine.elementary.formulas import SELDOM
from geodyn._engine.expressions import Node
from geodyn._engine.internals import (
    ClosedJaxpr,
    Jaxpr,
    Literal,
    Operation,
    Var,
    called_program,
    double_precision,
    inner_program,
    length,
    programs_in,
)
from geodyn._engine.llvm.code import BOOL, Memory, NotUnderstood, Value
from geodyn._engine.llvm.processor import attributes, load_library
from geodyn._engine.program.arrays import Kind, ProgramArray, RealArray, Stored, flat, forms, join_parts, kinds, whole
from geodyn._engine.program.block import MOST_CELLS, Block
from geodyn._engine.program.varying import results

# A program of fewer operations is written out wherever it stands: on a graphics processor, whose functions take their
# arguments from memory, a longer one too.
LONG = 400
LONG_ON_GRAPHICS = 1000
NAMED = {"jit", "pjit"}
# What does not change what a program computes.
OTHERS = {"name", "ctx_mesh", "debug_info", "compiler_options_kvs", "inline", "keep_unused", "jvp_jaxpr_fun"}


class Description(NamedTuple):
    """A text that says what a program computes, whatever its variables are called and in whichever order it returns its
    results, and the `order` of these: the first of the text is result order[0] of the program."""

    text: str
    order: list[int]


def repeated_programs(closed: ClosedJaxpr, is_graphics: bool) -> dict[int, Description]:
    """The long programs that stand more than once in a program, by their `id`."""
    shortest = LONG_ON_GRAPHICS if is_graphics else LONG
    times: Counter[str] = Counter()
    found: dict[int, Description] = {}

    def look(jaxpr: Jaxpr):
        for equation in jaxpr.eqns:
            inner = inner_program(equation)
            if inner is not None and equation.primitive.name in NAMED and length(inner.jaxpr) >= shortest:
                known = id(inner.jaxpr) in found
                if not known:
                    found[id(inner.jaxpr)] = description(inner)
                times[found[id(inner.jaxpr)].text] += 1
                if known:  # What stands in it was counted when it was met first.
                    continue
            for program in programs_in(equation.params):
                look(program)

    look(closed.jaxpr)
    return {program: said for program, said in found.items() if times[said.text] > 1}


def description(closed: ClosedJaxpr, ordered: bool = False) -> Description:
    """The description of a program; with `ordered` the results are taken in the order in which they are."""
    jaxpr = closed.jaxpr
    # A variable is called by the place where it is met first, whatever its own name is.
    numbers: dict[Var, int] = {}

    def name(x: Any) -> str:
        if isinstance(x, Literal):
            of_literal: Any = x.aval
            return f"{of_literal.dtype}{np.asarray(x.val).tobytes()}"
        return f"{numbers.setdefault(x, len(numbers))}:{x.aval.str_short()}"

    lines: list[Any] = [[name(x) for x in (*jaxpr.constvars, *jaxpr.invars)]]
    lines.append([hashlib.sha256(np.asarray(x).tobytes()).digest() for x in closed.consts])
    for equation in jaxpr.eqns:
        params = [(key, _describe(x)) for key, x in equation.params.items() if key not in OTHERS]
        given = [name(x) for x in equation.invars]
        returned = [name(x) for x in equation.outvars]
        lines.append([equation.primitive.name, params, *given, *returned])
    returned = [name(x) for x in jaxpr.outvars]
    order = list(range(len(returned)))
    if not ordered:
        order.sort(key=lambda k: returned[k])
    lines.append([returned[k] for k in order])
    return Description(hashlib.sha256(repr(lines).encode()).hexdigest(), order)


def _describe(param: Any) -> str | list:
    """What a parameter of an operation says of what it computes."""
    if isinstance(param, ClosedJaxpr):
        return description(param, True).text
    if getattr(param, "eqns", None) is not None:
        return description(ClosedJaxpr(param, ()), True).text
    if isinstance(param, tuple | list):
        return [_describe(x) for x in param]
    # A function is a rule of JAX's for derivatives, whose text would hold its address.
    is_function = callable(param) and not isinstance(param, type | np.dtype)
    return "" if is_function else repr(param)


class Argument(NamedTuple):
    """An array as a function is given it: the address of its numbers, whether they are one for each member, and whether
    those of the members stand in rows."""

    pointer: str
    wide: bool
    rows: bool


class Function(NamedTuple):
    """A function of the module, or of a library: its name, whether each of its results has other numbers for each
    member, and how many bytes of scratch memory it needs."""

    name: str
    wide: list[bool]
    scratch: int


class Given(NamedTuple):
    """The arguments of a function: the numbers that are `known` now (None for an array that is not), which stand in
    it, and how it is given each of the others."""

    known: list[np.ndarray | None]
    others: list[Argument]

    @property
    def layout(self) -> tuple[tuple[bool, bool], ...]:
        """What the text of the function depends on, of the others."""
        return tuple((x.wide, x.rows) for x in self.others)

    @property
    def texts(self) -> tuple[str | None, ...]:
        """The numbers that are known, as a text."""
        return tuple(None if x is None else repr([y.tobytes() for y in x.reshape(-1)]) for x in self.known)


def call(block: Block, equation: Operation, args: Sequence[ProgramArray]) -> list[ProgramArray]:
    """The results of a program that is repeated, by a call of its function. Numbers that are known stand in it."""
    code = block.code
    program = called_program(equation)
    text, order = code.repeated[id(program.jaxpr)]
    # Two programs that differ only in the order of their results are one function.
    outvars = [program.jaxpr.outvars[k] for k in order]
    closed = ClosedJaxpr(program.jaxpr.replace(outvars=outvars), program.consts)
    given = _arguments(block, closed, args)
    key = (text, given.texts, given.layout, block.mask.wide)
    if key not in code.functions:
        code.functions[key] = None  # The functions that it calls count as well: their names are numbers.
        code.functions[key] = _add_function(block, closed, given)
    values = _results(block, code.functions[key], closed, given)
    back = sorted(range(len(order)), key=lambda k: order[k])
    return [values[k] for k in back]


# The functions that stand in libraries, by the digest of all that their texts depend on.
_libraries: dict[str, Function] = {}


def call_library(block: Block, closed: ClosedJaxpr, args: Sequence[ProgramArray]) -> list[ProgramArray]:
    """The results of a program, by a call of its function in a library: a module of its own, which is compiled once for
    all programs that contain it."""
    code = block.code
    given = _arguments(block, closed, args)
    key = (description(closed, True).text, given.texts, given.layout, block.mask.wide, code.width)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:40]
    if digest not in _libraries:
        _libraries[digest] = _add_library(block, f"geodyn_library_{digest}", closed, given)
    function = _libraries[digest]
    code.declare_function(function.name, len(function.wide) + len(given.others), block.mask)
    return _results(block, function, closed, given)


def _arguments(block: Block, closed: ClosedJaxpr, args: Sequence[ProgramArray]) -> Given:
    """The arguments of a function of the module that computes this program."""
    known: list[np.ndarray | None] = []
    others = []
    for x, form in zip(flat(args), forms(closed.in_avals), strict=True):
        if _is_computed(x):
            known.append(None)
            others.append(_argument(block, x, form))
        else:
            known.append(x)
    return Given(known, others)


def _results(block: Block, function: Function, closed: ClosedJaxpr, given: Given) -> list[ProgramArray]:
    """The results of the function that computes this program."""
    parts = forms(closed.out_avals)
    targets = [block.local(form, wide) for form, wide in zip(parts, function.wide, strict=True)]
    pointers = [x.pointer for x in given.others] + [memory.pointer for memory in targets]
    block.code.call(function.name, pointers, function.scratch, block.mask)
    found = []
    for memory, form in zip(targets, parts, strict=True):
        array = whole(memory, form.shape)
        found.append(array if form.size > MOST_CELLS else block.cells(array))
    return join_parts(closed.out_avals, found)


def seldom(block: Block, equation: Operation, args: Sequence[RealArray]) -> list[np.ndarray]:
    """What an elementary function has of a long computation that only few numbers need: a function of the module, which
    is called where there is such a number. Functions of the same numbers share it."""
    name = equation.params["name"]
    which, x, *usual = ([block.operand(y) for y in block.cells(array).reshape(-1)] for array in args)
    keys = [(name, *pair) for pair in zip(which, x, strict=True)]
    missing = [k for k, key in enumerate(keys) if key not in block.shared]
    if missing:
        rows = [[row[k] for k in missing] for row in (which, x, *usual)]
        found = _where_needed(block, name, *rows)
        block.shared |= zip([keys[k] for k in missing], found, strict=True)
    results = zip(*(block.shared[key] for key in keys), strict=True)
    shapes = [v.aval.shape for v in equation.outvars]
    return [fill(shape, map(block.node_of, row)) for shape, row in zip(shapes, results, strict=True)]


def _where_needed(
    block: Block, name: str, which: list[Value], x: list[Value], *usual: list[Value]
) -> list[list[Value]]:
    """For each x the results of the function where `which` holds, else the usual ones."""
    code = block.code
    rows = []
    for at, *row in zip(x, *usual, strict=True):
        rows.append([code.widen(y) if at.wide else y for y in row])
    some = functools.reduce(lambda a, b: block.emit("or", {}, BOOL, [a, b]), which)
    before, there, after = code.label, code.fresh("seldom"), code.fresh("after")
    code.branch(code.any(some), there, after)
    code.start(there)
    new = []
    for here, at, row in zip(which, x, rows, strict=True):
        found = _call_of_number(block, name, at)
        new.append([code.select(here, y, old) for y, old in zip(found, row, strict=True)])
    code.jump(after)
    code.start(after)
    results = []
    for found, row in zip(new, rows, strict=True):
        results.append([code.either({there: y, before: old}) for y, old in zip(found, row, strict=True)])
    return results


def _call_of_number(block: Block, name: str, x: Value) -> list[Value]:
    """The results of the function of this name, of one number."""
    code = block.code
    own = f"{name}.{'many' if x.wide else 'one'}"
    if own not in code.functions:
        inner = Block(code.inner(), Value("true", BOOL, False), block.rule)
        given = inner.node_of(Value("%x", x.dtype, x.wide))
        outs = inner.run(_program(name), [fill((), [given])])
        values = [inner.operand(inner.number(y)) for y in outs]
        code.functions[own] = code.add_of_number(own, x, inner.code, values)
    return code.results(own, x, code.functions[own])


@functools.cache
def _program(name: str) -> ClosedJaxpr:
    """The program of such a function, of one number."""
    with double_precision():
        return jax.make_jaxpr(SELDOM[name])(jax.ShapeDtypeStruct((), np.float64))


def _is_computed(x: RealArray) -> bool:
    return isinstance(x, Stored) or any(isinstance(y, Node) for y in x.reshape(-1))


def _argument(block: Block, x: RealArray, form: Kind) -> Argument:
    """How a function is given an array: where it stands, or as a copy whose numbers stand one after the other."""
    x = block.in_memory(x, form)
    if not x.is_current:
        raise NotUnderstood("an array that is changed and then given as it was")
    memory = x.memory
    if memory.rows and not memory.of_threads and x.is_whole and x.size > MOST_CELLS:
        return Argument(memory.pointer, memory.wide, True)
    moves_by_member = x.moved is not None and x.moved.wide
    if memory.rows or not x.is_dense or moves_by_member:
        x = block.copy_to(x, whole(block.local(form, x.is_wide), form.shape))
    address = block.code.address(x.place((0,) * len(x.shape)))
    return Argument(address.text, x.memory.wide, False)


def _add_function(block: Block, closed: ClosedJaxpr, given: Given) -> Function:
    """A new function of the module."""
    outer = block.code
    name = f"part{len(outer.functions)}"
    code = outer.inner()
    mask = _mask_of(block)
    pointers, varying = _body(Block(code, mask, block.rule), closed, given)
    outer.add(name, pointers, code, mask)
    return Function(name, varying, code.most_scratch)


def _add_library(block: Block, name: str, closed: ClosedJaxpr, given: Given) -> Function:
    """A new function in a library of its own."""
    code = block.code.of_library()
    code.repeated = repeated_programs(closed, code.is_graphics)
    mask = _mask_of(block)
    pointers, varying = _body(Block(code, mask, block.rule), closed, given)
    text = code.function_text(name, pointers, code, mask, "")
    module = "\n".join([*sorted(code.outside.values()), *code.texts, text, attributes()])
    load_library(name, module)
    return Function(name, varying, code.most_scratch)


def _mask_of(block: Block) -> Value:
    """The members that a function computes for this block."""
    return Value("%mask", BOOL, True) if block.mask.wide else Value("true", BOOL, False)


def _body(inner: Block, closed: ClosedJaxpr, given: Given) -> tuple[list[str], list[bool]]:
    """Writes the instructions of a function; (the addresses that it is given, whether each of its results has other
    numbers for each member)."""
    names, args = _parameters(inner, closed, given)
    varying = _varying_results(inner, closed, args)
    targets = []
    for k, (form, wide) in enumerate(zip(forms(closed.out_avals), varying, strict=True)):
        targets.append(inner.claim(Memory(f"%y{k}", form.size, form.dtype, wide)))
    outs = flat(inner.run(closed, args))
    for x, target in zip(outs, targets, strict=True):
        inner.copy_to(x, whole(target, x.shape))
    return [*names, *(memory.pointer for memory in targets)], varying


def _parameters(inner: Block, closed: ClosedJaxpr, given: Given) -> tuple[list[str], list[ProgramArray]]:
    """(the addresses that a function is given, its arguments)."""
    names, args = [], []
    layouts = iter(given.layout)
    for k, (x, form) in enumerate(zip(given.known, forms(closed.in_avals), strict=True)):
        if x is not None:
            args.append(x)
            continue
        wide, rows = next(layouts)
        name = f"%x{k}"
        names.append(name)
        array = whole(Memory(name, form.size, form.dtype, wide, rows), form.shape)
        args.append(array if form.size > MOST_CELLS else inner.cells(array))
    return names, join_parts(closed.in_avals, args)


def _varying_results(inner: Block, closed: ClosedJaxpr, args: Sequence[ProgramArray]) -> list[bool]:
    """Whether each part of the results of a program has other numbers for each member."""
    flags = [inner.is_wide(x) for x in args]
    varying = []
    for aval, is_wide in zip(closed.out_avals, results(closed.jaxpr, flags), strict=True):
        varying += [is_wide] * len(kinds(aval))
    return varying
