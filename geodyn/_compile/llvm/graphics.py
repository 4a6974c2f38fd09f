"""The same text for a graphics processor of NVIDIA's: PTX, of which each thread computes one member.

LLVM makes it on any machine; XLA hands it to the driver, which makes machine code of it. So there is nothing to
register, and what is lowered on one machine can be exported to another.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.llvm.code import Code
from geodyn._compile.llvm.processor import llvm

TRIPLE = "nvptx64-nvidia-cuda"
# What a graphics processor that is not known, as that of an export, has at least.
OLDEST = "sm_75"
# Programs of bodies need most of the registers there are, and small blocks leave none of the processors idle.
THREADS = 32
TARGET = "__gpu$xla.gpu.ptx"


class Kernel(NamedTuple):
    """The text of a kernel in LLVM's language, and how many bytes of scratch memory each member needs."""

    text: str
    scratch: int


def kernel(code: Code, given: list[str], returned: list[str]) -> Kernel:
    """The kernel that is given the size of the batch and arrays, and returns its scratch memory and arrays, by their
    names. The thread %i computes the member %i."""
    names = ["%size", *given, *(["%scratch"] if code.scratch else []), *returned]
    params = ", ".join(f"ptr addrspace(1) noalias {name}.global" for name in names)
    casts = [f"  {name} = addrspacecast ptr addrspace(1) {name}.global to ptr" for name in names]
    lines = [
        *sorted(code.outside.values()),
        *SPECIAL,
        *code.texts,
        f"define ptx_kernel void @run({params}) {{",
        "entry:",
        *casts,
    ]
    lines += ["  %B.short = load i32, ptr %size", "  %B = sext i32 %B.short to i64", *PLACE, *code.begin]
    lines += ["  br i1 %is.inside, label %start, label %outside", "outside:", "  ret void", "start:"]
    return Kernel("\n".join([*lines, *code.lines, "  ret void", "}"]), code.scratch)


SPECIAL = [f"declare i32 @llvm.nvvm.read.ptx.sreg.{name}.x()" for name in ("tid", "ntid", "ctaid")]
PLACE = """
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %threads = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %before = mul i32 %block, %threads
  %i.short = add i32 %before, %thread
  %i = sext i32 %i.short to i64
  %is.inside = icmp slt i64 %i, %B
""".strip("\n").split("\n")


def called(kernel: Kernel, size: int, args: list, results: list) -> list:
    """The results of a kernel for a batch of this size; `results` are their types."""
    full = [x for x in args if x.size]
    scratch = [jax.ShapeDtypeStruct((size * kernel.scratch,), np.uint8)] if kernel.scratch else []
    types = [*scratch, *(x for x in results if x.size)]
    options = {"name": "run", "kernel_type": "ptx", "kernel_data": translated(kernel.text, processor())}
    options |= {f"grid_{axis}": np.int32(1) for axis in "yz"} | {f"block_{axis}": np.int32(1) for axis in "yz"}
    options |= {"grid_x": np.int32(-(-size // THREADS)), "block_x": np.int32(THREADS)}
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
def translated(text: str, processor: str) -> str:
    """The PTX of a kernel for this kind of graphics processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=2)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    return machine.emit_assembly(module)
