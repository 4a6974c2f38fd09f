"""Kernels for graphics processors, run by this processor: one thread after the other."""

import ctypes
import functools

import llvmlite.binding as llvm
import numpy as np

# What a kernel reads of its thread, in the registers of a graphics processor and here.
REGISTERS = {"tid": "0", "ntid": "1", "ctaid": "%thread.index", "nctaid": "%threads"}


@functools.lru_cache(4)
def _compiled(text: str):
    lines = [line for line in text.split("\n") if "declare i32 @llvm.nvvm" not in line]
    text = "\n".join(lines).replace(
        "define ptx_kernel void @run(", "define void @run(i32 %thread.index, i32 %threads, "
    )
    for name, value in REGISTERS.items():
        text = text.replace(f"call i32 @llvm.nvvm.read.ptx.sreg.{name}.x()", f"add i32 {value}, 0")
    text = text.replace("addrspacecast", "bitcast").replace(" addrspace(1)", "")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine


def on_host(kernel, size: int, args, types, threads: int) -> list[np.ndarray]:
    """The results, of these (shape, data type), of a kernel for a batch of this size by so many threads."""
    engine = _compiled(kernel.text)
    given = [np.array([size], np.int32), *(np.ascontiguousarray(x) for x in args if np.size(x))]
    results = [np.zeros(shape, dtype) for shape, dtype in types]
    scratch = [np.zeros(threads * kernel.scratch, np.uint8)] if kernel.scratch else []
    written = [np.zeros(x.size, bool) for x in scratch]
    arrays = [*given, *scratch, *(x for x in results if x.size)]
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in arrays]
    run = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, *[ctypes.c_void_p] * len(arrays))(
        engine.get_function_address("run")
    )
    for k in range(threads):
        for x in scratch:
            x.fill(0x55)
        run(k, threads, *pointers)
        for x, of_others in zip(scratch, written, strict=True):
            # Threads that run at once would take from each other what they write to one place.
            assert not np.any((x != 0x55) & of_others)
            of_others |= x != 0x55
    return results
