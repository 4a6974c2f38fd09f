"""One function of XLA's for the program of one member and a batch of any size."""

import functools
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine import internals
from geodyn._engine.batches import NATIVE, Program, Transposed
from geodyn._engine.internals import ClosedJaxpr, Jaxpr, Operation, ShapedArray, each_program, length, programs_in
from geodyn._engine.llvm import graphics
from geodyn._engine.llvm.code import ALONE, BOOL, WORD, Code, Memory, NotUnderstood, Value
from geodyn._engine.llvm.processor import attributes, cores, entry, llvm, register, width
from geodyn._engine.program.arrays import Stored, kind, whole
from geodyn._engine.program.block import MOST_CELLS, Block
from geodyn._engine.program.functions import repeated_programs
from geodyn._engine.program.loops import FEW_TURNS
from geodyn._engine.program.rules import results_of

LOG = logging.getLogger("geodyn")
# Of one member XLA computes large products faster: it has programs where more multiplications belong to an operation.
MOST_PRODUCTS = 200
# The name of functions of which it is known that XLA computes them faster.
BY_XLA = "by_xla"
# A thread takes some 50 µs to start, and longer where other programs run. A core computes so many numbers, each for as
# many members as there are lanes, in some 200 µs; with fewer, a thread of its own would gain little and may lose much.
WORK_OF_THREAD = 200_000
# So many parts for each thread: members take different times.
PARTS = 4


class Compiled(NamedTuple):
    """The name of the compiled function, how many bytes of scratch memory it needs, and the work of one member."""

    name: str
    scratch: int
    work: float


def compile_program(closed: ClosedJaxpr, shared: tuple[bool, ...]) -> Compiled:
    """The program of one member (a closed jaxpr), compiled for batches in which all members share some arguments.

    Raises NotUnderstood where it contains what cannot be compiled."""
    # One member alone has few stages, of which fewer are computed at once.
    lanes = min(width(), FEW_TURNS) if all(shared) else width()
    text, code = text_of(closed, shared, lanes)
    return Compiled(register(text), code.most_scratch, work(closed.jaxpr))


def text_of(closed: ClosedJaxpr, shared: tuple[bool, ...], lanes: int) -> tuple[str, Code]:
    """(the text of the module, the code of its main function)."""
    many = not all(shared)
    code = Code(lanes)
    if many:
        _begin_batch(code)
    mask = Value("%inside", BOOL, True) if many else Value("true", BOOL, False)
    given, returned = _write(Block(code, mask, results_of), closed, shared, many)
    if many:
        _end_batch(code)
    pointers = [f"ptr noalias {name}" for name in (*given, *returned)]
    params = ["i64 %from", "i64 %to", "i64 %B", "ptr noalias %scratch", *pointers]
    head = f"define void @run({', '.join(params)}) #0 {{"
    before_start = ["  br label %start"] if many else [ALONE, "  br label %start", "start:"]
    text = [
        *sorted(code.outside.values()),
        *code.texts,
        head,
        "entry:",
        *code.opening(),
        *code.lanes(),
        *before_start,
        *code.lines,
        "  ret void\n}",
        entry(len(given), len(returned), code.most_scratch),
        attributes(),
    ]
    return "\n".join(text), code


def kernel_of(closed: ClosedJaxpr, shared: tuple[bool, ...]) -> graphics.Kernel:
    """The kernel of such a program for a graphics processor. What is empty it is not given."""
    code = Code(None)
    given, returned = _write(Block(code, Value("true", BOOL, False), results_of), closed, shared, True)
    full = [name for name, aval in zip(given, closed.in_avals, strict=True) if kind(aval).size]
    results = [name for name, aval in zip(returned, closed.out_avals, strict=True) if kind(aval).size]
    return graphics.kernel(code, full, results)


def _write(block: Block, closed: ClosedJaxpr, shared: tuple[bool, ...], many: bool) -> tuple[list[str], list[str]]:
    """Writes the instructions of the program of one member, or of as many as are computed at once; (the names of the
    arrays that it is given, of those that it returns)."""
    wide = block.mask.wide
    block.code.repeated = repeated_programs(closed, block.code.is_graphics)
    args = []
    for k, (aval, is_shared) in enumerate(zip(closed.in_avals, shared, strict=True)):
        form = kind(aval)
        memory = Memory(f"%x{k}", form.size, form.dtype, wide and not is_shared, rows=not is_shared)
        array = whole(memory, form.shape)
        args.append(array if form.size > MOST_CELLS else block.cells(array))
    targets = []
    for k, aval in enumerate(closed.out_avals):
        form = kind(aval)
        targets.append(block.claim(Memory(f"%y{k}", form.size, form.dtype, wide, rows=many)))
    outs = block.run(closed, args, targets)
    for x, target in zip(outs, targets, strict=True):
        is_there = isinstance(x, Stored) and x.memory is target
        if not is_there:
            block.copy_to(x, whole(target, x.shape))
    return [f"%x{k}" for k in range(len(args))], [memory.pointer for memory in targets]


def _begin_batch(code: Code):
    """The loop over blocks of as many members as there are lanes."""
    lanes = code.width
    vector = f"<{lanes} x i64>"
    code.start("start")
    code.jump("members")
    code.start("members")
    code.lines.append("  %i = phi i64 [ %from, %start ], [ %i.next, %block.end ]")
    left = code.new("sub i64 %to, %i", WORD, False)
    left = code.widen(left)
    code.lines.append(f"  %inside = icmp slt {vector} %lanes, {left.text}")
    code.lines.append(f"  %i.next = add i64 %i, {lanes}")


def _end_batch(code: Code):
    code.jump("block.end")
    code.start("block.end")
    code.lines.append("  %i.more = icmp slt i64 %i.next, %to")
    code.lines.append("  br i1 %i.more, label %members, label %finish")
    code.start("finish")


def natively(closed: ClosedJaxpr, args: Sequence, batch: tuple[int, ...], platform: str = "cpu") -> list | None:
    """The results [*own, *batch] of the program for every member of a batch, by machine code of its own for this
    platform; None where that cannot be. An argument has its own axes only, or those of the batch behind them."""
    shared = tuple(jnp.ndim(x) == len(aval.shape) for x, aval in zip(args, closed.in_avals, strict=True))
    if (batch and all(shared)) or not is_usable(platform):
        return None
    try:
        if _is_for_xla(closed.jaxpr):
            raise NotUnderstood("a function that XLA computes faster")
        run = _compiler_for(platform)(closed, shared, batch)
    except NotUnderstood as reason:
        LOG.debug("a program is compiled by XLA: %s", reason)
        return None
    except Exception as failure:  # A fault of ours, or of an LLVM yet to come, which the user need not suffer.
        LOG.warning("a program is compiled by XLA, since our compiler failed: %r", failure)
        return None
    size = math.prod(batch)
    flat = []
    for x, aval, is_shared in zip(args, closed.in_avals, shared, strict=True):
        x = jnp.asarray(x, aval.dtype)
        flat.append(x if is_shared else x.reshape(*aval.shape, size))
    tail = (size,) if batch else ()
    results = [jax.ShapeDtypeStruct((*aval.shape, *tail), aval.dtype) for aval in closed.out_avals]
    values = run(size, flat, results)
    return [x.reshape(*aval.shape, *batch) for x, aval in zip(values, closed.out_avals, strict=True)]


def _is_for_xla(jaxpr: Jaxpr) -> bool:
    """Whether a program contains a function that is named BY_XLA, or a derivative of one."""
    return any(BY_XLA in str(e.params.get("name", "")) for program in each_program(jaxpr) for e in program.eqns)


def _on_processor(closed: ClosedJaxpr, shared: tuple[bool, ...], batch: tuple[int, ...]) -> Callable:
    """The function (size of the batch, arrays, types of the results) -> results."""
    if not batch and products(closed.jaxpr) > MOST_PRODUCTS * length(closed.jaxpr):
        raise NotUnderstood("large products of one member, which XLA computes faster")
    program = compile_program(closed, shared if batch else (True,) * len(shared))

    def run(size: int, args: list, results: list) -> list:
        threads, part = _shared_by_threads(size, program.work)
        scratch = jax.ShapeDtypeStruct((threads * program.scratch,), np.uint8)
        sizes = np.array([size, threads, part], np.int32)
        return jax.ffi.ffi_call(program.name, [scratch, *results])(sizes, *args)[1:]

    return run


def products(jaxpr: Jaxpr) -> int:
    """How many multiplications the products of arrays in a program take, if each of its loops takes one turn; that of
    the few stages of a step takes all of its turns."""
    total = 0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        total += _products(equation)
        is_of_stages = name == "scan" and params["length"] <= FEW_TURNS
        turns = params["length"] if is_of_stages else 1
        total += turns * sum(map(products, programs_in(params)))
    return total


def _products(equation: Operation) -> int:
    """How many multiplications a product of arrays takes; none for another operation."""
    if equation.primitive.name != "dot_general":
        return 0
    (contracted, _), _ = equation.params["dimension_numbers"]
    left: ShapedArray = equation.invars[0].aval
    result: ShapedArray = equation.outvars[0].aval
    return result.size * math.prod(left.shape[k] for k in contracted)


def work(jaxpr: Jaxpr) -> float:
    """How many numbers a program computes for one member; infinite where only its run tells how many turns a loop
    takes."""
    total = 0.0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        inner = sum(map(work, programs_in(params)))
        if name == "while":
            return math.inf
        if name == "scan":
            total += params["length"] * inner
        elif name == NATIVE:
            total += math.prod(params["batch"]) * work(_untransposed(params["program"]).jaxpr)
        else:
            results: list[ShapedArray] = [v.aval for v in equation.outvars]
            total += inner or _products(equation) or sum(x.size for x in results)
    return total


def _untransposed(program: Program) -> ClosedJaxpr:
    return _untransposed(program.program) if isinstance(program, Transposed) else program


def _shared_by_threads(size: int, of_member: float) -> tuple[int, int]:
    """(the number of threads, how many members each takes at a time), for so many members with so much work each."""
    blocks = -(-size // width())
    most = min(cores(), blocks)
    threads = int(min(most, 1 + blocks * of_member // WORK_OF_THREAD))
    part = -(-blocks // (PARTS * threads)) if threads > 1 else blocks
    return threads, part * width()


def _on_graphics(closed: ClosedJaxpr, shared: tuple[bool, ...], batch: tuple[int, ...]) -> Callable:
    """The same by a kernel of a graphics processor."""
    kernel = kernel_of(closed, shared)
    ptx = graphics.translate(kernel.text, graphics.processor())
    return partial(graphics.call, ptx, kernel.scratch)


def _compiler_for(platform: str) -> Callable:
    """What compiles a program for this platform."""
    return {"cpu": _on_processor, "cuda": _on_graphics}[platform]


def processor_of(platform: str) -> str:
    """LLVM's name of the processor for which programs are compiled here."""
    return graphics.processor() if platform == "cuda" else llvm.get_host_cpu_name()


@functools.cache
def is_usable(platform: str = "cpu") -> bool:
    """Whether programs compiled here run in this version of JAX on this platform, which a trial tells."""
    if llvm is None:
        LOG.warning("llvmlite is not installed: small programs run slower than they could")
        return False
    if platform == "cuda" and not graphics.is_there():
        return False
    return internals.passes(partial(_trial, platform))


def _trial(platform: str) -> bool:
    """Whether a small program gives the right numbers, for one member and for more than are computed at once."""

    def halve_and_add(x: jax.Array, n: jax.Array) -> list:
        """x ← x/2 + k for k = 0 … n − 1."""

        def turn(state: tuple) -> tuple:
            k, x = state
            return k + 1, x * 0.5 + k

        _, y = jax.lax.while_loop(lambda state: state[0] < n, turn, (np.int32(0), x))
        return [y]

    compile_for = _compiler_for(platform)
    with internals.double_precision(), jax.default_device(jax.devices(platform)[0]):
        x = np.arange(3.0)[:, None] + np.arange(9.0)
        n = np.arange(9, dtype=np.int32)
        closed = jax.make_jaxpr(halve_and_add)(x[:, 0], n[0])
        (like,) = closed.out_avals
        together = compile_for(closed, (False, False), (9,))
        alone = compile_for(closed, (True, True), ())

        @jax.jit
        def both(x: jax.Array, n: jax.Array) -> tuple:
            (many,) = together(9, [x, n], [jax.ShapeDtypeStruct(x.shape, x.dtype)])
            (one,) = alone(1, [x[:, 5], n[5]], [jax.ShapeDtypeStruct(like.shape, like.dtype)])
            return many, one

        many, one = both(x, n)
    wanted = x
    for k in range(9):
        wanted = np.where(k < n, wanted * 0.5 + k, wanted)
    return np.array_equal(many, wanted) and np.array_equal(one, wanted[:, 5])
