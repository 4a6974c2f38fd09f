"""One function of XLA's for the program of one member and a batch of any size."""

import functools
import logging
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile import internals
from geodyn._compile.llvm.code import BOOL, WORD, Code, Memory, NotUnderstood, Value
from geodyn._compile.llvm.processor import attributes, cores, entry, llvm, registered, width
from geodyn._compile.program.arrays import Stored, kind, whole
from geodyn._compile.program.block import MOST_CELLS, Block
from geodyn._compile.program.rules import ruled

LOG = logging.getLogger("geodyn")
# So many parts for each thread: members take different times.
PARTS = 4


class Compiled(NamedTuple):
    """The name of the compiled function, how many bytes of scratch memory it needs, and whether it has loops."""

    name: str
    scratch: int
    has_loops: bool


def compiled(closed, shared: tuple[bool, ...]) -> Compiled:
    """The program of one member (a closed jaxpr), compiled for batches in which all members share some arguments.

    Raises NotUnderstood where it contains what cannot be compiled."""
    text, code = text_of(closed, shared, width())
    return Compiled(registered(text), code.scratch, code.has_loops)


def text_of(closed, shared, lanes: int) -> tuple[str, Code]:
    """(the text of the module, the code of its main function)."""
    many = not all(shared)
    code = Code(lanes)
    mask = Value("%inside", BOOL, True) if many else Value("true", BOOL, False)
    if many:
        _begin_batch(code)
    block = Block(code, mask, ruled)
    args = []
    for k, (aval, is_shared) in enumerate(zip(closed.in_avals, shared, strict=True)):
        form = kind(aval)
        memory = Memory(f"%x{k}", form.size, form.dtype, not is_shared, rows=not is_shared)
        array = whole(memory, form.shape)
        args.append(array if form.size > MOST_CELLS else block.cells(array))
    targets = []
    for k, aval in enumerate(closed.out_avals):
        form = kind(aval)
        targets.append(block.owned(Memory(f"%y{k}", form.size, form.dtype, many, rows=many)))
    outs = block.run(closed, args, targets)
    for x, target in zip(outs, targets, strict=True):
        if not (isinstance(x, Stored) and x.memory is target):
            block.copied(x, whole(target, x.shape))
    if many:
        _end_batch(code)
    pointers = [f"ptr noalias %x{k}" for k in range(len(args))] + [f"ptr noalias %y{k}" for k in range(len(targets))]
    params = ["i64 %from", "i64 %to", "i64 %B", "ptr noalias %scratch", *pointers]
    head = f"define void @run({', '.join(params)}) #0 {{"
    lines = [*sorted(code.outside.values()), head, "entry:", *code.begin]
    lines += [f"  %lanes = add <{lanes} x i64> zeroinitializer, <{', '.join(f'i64 {k}' for k in range(lanes))}>"]
    lines += ["  br label %start"]
    lines += ["start:"] if not many else []
    lines += [*code.lines, "  ret void\n}", entry(len(args), len(targets), code.scratch), attributes()]
    return "\n".join(lines), code


def _begin_batch(code: Code):
    """The loop over blocks of as many members as there are lanes."""
    lanes, vector = code.width, f"<{code.width} x i64>"
    code.start("start")
    code.jump("members")
    code.start("members")
    code.lines.append("  %i = phi i64 [ %from, %start ], [ %i.next, %block.end ]")
    left = code.new("sub i64 %to, %i", WORD, False)
    left = code.widened(left)
    code.lines.append(f"  %inside = icmp slt {vector} %lanes, {left.text}")
    code.lines.append(f"  %i.next = add i64 %i, {lanes}")


def _end_batch(code: Code):
    code.jump("block.end")
    code.start("block.end")
    code.lines.append("  %i.more = icmp slt i64 %i.next, %to")
    code.lines.append("  br i1 %i.more, label %members, label %finish")
    code.start("finish")


def natively(closed, args, batch: tuple[int, ...]) -> list | None:
    """The results [*own, *batch] of the program for every member of a batch, by machine code of its own; None where
    that cannot be. An argument has its own axes only, or those of the batch behind them."""
    shared = tuple(jnp.ndim(x) == len(aval.shape) for x, aval in zip(args, closed.in_avals, strict=True))
    if (batch and all(shared)) or not is_usable():
        return None
    try:
        program = compiled(closed, shared if batch else (True,) * len(shared))
    except NotUnderstood as reason:
        LOG.debug("a program is compiled by XLA: %s", reason)
        return None
    except Exception as failure:  # A fault of ours, or of an LLVM yet to come, which the user need not suffer.
        LOG.warning("a program is compiled by XLA, since our compiler failed: %r", failure)
        return None
    return called(program, closed, args, batch)


def called(program: Compiled, closed, args, batch: tuple[int, ...]) -> list:
    """The results of the compiled program."""
    size = math.prod(batch)
    threads, part = _shared_by_threads(size, program.has_loops)
    flat = []
    for x, aval in zip(args, closed.in_avals, strict=True):
        x = jnp.asarray(x, aval.dtype)
        flat.append(x.reshape(*aval.shape, size) if batch and x.ndim > len(aval.shape) else x)
    tail = (size,) if batch else ()
    results = [jax.ShapeDtypeStruct((*aval.shape, *tail), aval.dtype) for aval in closed.out_avals]
    scratch = jax.ShapeDtypeStruct((threads * program.scratch,), np.uint8)
    sizes = np.array([size, threads, part], np.int32)
    _, *values = jax.ffi.ffi_call(program.name, [scratch, *results])(sizes, *flat)
    return [x.reshape(*aval.shape, *batch) for x, aval in zip(values, closed.out_avals, strict=True)]


def _shared_by_threads(size: int, has_loops: bool) -> tuple[int, int]:
    """(the number of threads, how many members each takes at a time). What has no loops takes less time than to start
    a thread."""
    blocks = -(-size // width())
    threads = min(cores(), blocks) if has_loops else 1
    part = -(-blocks // (PARTS * threads)) if threads > 1 else blocks
    return threads, part * width()


@functools.cache
def is_usable() -> bool:
    """Whether programs compiled here run in this version of JAX on this processor, which a trial tells."""
    if llvm is None:
        LOG.warning("llvmlite is not installed: small programs run slower than they could")
    return llvm is not None and internals.passes(_trial)


def _trial() -> bool:
    """Whether a small program gives the right numbers, for one member and for more than are computed at once."""

    def moved(x, n):
        _, y = jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + s[0]), (np.int32(0), x))
        return [y]

    with internals.double_precision():
        x, n = np.arange(3.0)[:, None] + np.arange(9.0), np.arange(9, dtype=np.int32)
        closed = jax.make_jaxpr(moved)(x[:, 0], n[0])
        together, alone = compiled(closed, (False, False)), compiled(closed, (True, True))

        @jax.jit
        def both(x, n):
            (many,) = called(together, closed, (x, n), (9,))
            (one,) = called(alone, closed, (x[:, 5], n[5]), ())
            return many, one

        many, one = both(x, n)
    wanted = x
    for k in range(9):
        wanted = np.where(k < n, wanted * 0.5 + k, wanted)
    return np.array_equal(many, wanted) and np.array_equal(one, wanted[:, 5])
