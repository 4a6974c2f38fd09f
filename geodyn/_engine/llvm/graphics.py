"""The same text for a graphics processor of NVIDIA's: PTX, of which each thread computes one member.

LLVM makes it on any machine; XLA hands it to the driver, which makes machine code of it. So there is nothing to
register, and what is lowered on one machine can be exported to another.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.llvm.code import Code
from geodyn._engine.llvm.processor import llvm

TRIPLE = "nvptx64-nvidia-cuda"
# What a graphics processor that is not known, as that of an export, has at least.
OLDEST = "sm_75"
# Programs of bodies need most of the registers there are, and small blocks leave none of the processors idle.
THREADS = 32
# More threads than there can be at a time would need more memory for nothing; it has so many bytes at most.
MOST_BLOCKS, MOST_SCRATCH = 2**12, 2**32
TARGET = "__gpu$xla.gpu.ptx"


class Kernel(NamedTuple):
    """The text of a kernel in LLVM's language, and how many bytes of scratch memory each thread needs."""

    text: str
    scratch: int


def kernel(code: Code, given: list[str], returned: list[str]) -> Kernel:
    """The kernel that is given the size of the batch and arrays, and returns its scratch memory and arrays, by their
    names. The thread %t of %T computes the members %i = %t, %t + %T, …"""
    names = ["%size", *given, *(["%scratch"] if code.most_scratch else []), *returned]
    params = ", ".join(f"ptr addrspace(1) noalias {name}.global" for name in names)
    casts = [f"  {name} = addrspacecast ptr addrspace(1) {name}.global to ptr" for name in names]
    lines = [*sorted(code.outside.values()), *SPECIAL, *code.texts]
    lines += [f"define ptx_kernel void @run({params}) {{", "entry:", *casts, *BEGIN, *code.opening(), *MEMBERS]
    return Kernel("\n".join([*lines, *code.lines, *END, "}", *NOT_UNROLLED]), code.most_scratch)


NOT_UNROLLED = ["!0 = distinct !{!0, !1}", '!1 = !{!"llvm.loop.unroll.disable"}']
SPECIAL = [f"declare i32 @llvm.nvvm.read.ptx.sreg.{name}.x()" for name in ("tid", "ntid", "ctaid", "nctaid")]
BEGIN = """
  %B.short = load i32, ptr %size
  %B = sext i32 %B.short to i64
  %of.block = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %in.block = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %blocks = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %before = mul i32 %block, %in.block
  %t.short = add i32 %before, %of.block
  %t = sext i32 %t.short to i64
  %T.short = mul i32 %blocks, %in.block
  %T = sext i32 %T.short to i64
""".strip("\n").split("\n")
MEMBERS = """
  br label %members
members:
  %i = phi i64 [ %t, %entry ], [ %i.next, %next ]
  %is.inside = icmp slt i64 %i, %B
  br i1 %is.inside, label %start, label %finish
start:
""".strip("\n").split("\n")
END = """
  br label %next
next:
  %i.next = add i64 %i, %T
  br label %members
finish:
  ret void
""".strip("\n").split("\n")


def call(ptx: str, scratch_of_one: int, size: int, args: list, results: list) -> list:
    """The results of a translated kernel, of which each thread needs so many bytes of scratch memory, for a batch of
    this size; `results` are their types."""
    full = [x for x in args if x.size]
    most_blocks = min(MOST_BLOCKS, MOST_SCRATCH // max(THREADS * scratch_of_one, 1))
    blocks = max(min(-(-size // THREADS), most_blocks), 1)
    scratch = [jax.ShapeDtypeStruct((blocks * THREADS * scratch_of_one,), np.uint8)] if scratch_of_one else []
    types = [*scratch, *(x for x in results if x.size)]
    options = {"name": "run", "kernel_type": "ptx", "kernel_data": ptx}
    options |= {f"grid_{axis}": np.int32(1) for axis in "yz"} | {f"block_{axis}": np.int32(1) for axis in "yz"}
    options |= {"grid_x": np.int32(blocks), "block_x": np.int32(THREADS)}
    options |= {"shared_mem_bytes": np.int32(0)}
    options |= {"output_indices": tuple(np.int32(1 + len(full) + k) for k in range(len(types)))}
    values = jax.ffi.ffi_call(TARGET, types)(np.array([size], np.int32), *full, **options)
    found = iter(values[len(scratch) :])
    return [next(found) if x.size else jnp.zeros(x.shape, x.dtype) for x in results]


def is_there() -> bool:
    """Whether there is such a graphics processor."""
    return bool(_devices())


def _devices() -> list:
    try:
        return jax.devices("cuda")
    except RuntimeError:
        return []


def processor() -> str:
    """LLVM's name of the graphics processor at hand."""
    devices = _devices()
    return "sm_" + devices[0].compute_capability.replace(".", "") if devices else OLDEST


@functools.lru_cache(64)
def translate(text: str, processor: str) -> str:
    """The PTX of a kernel for this kind of graphics processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=1)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    return machine.emit_assembly(module)
