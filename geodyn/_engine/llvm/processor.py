"""Machine code for the processor at hand, as a function that XLA calls.

LLVM (by llvmlite) compiles the text in memory. XLA hands a function the frame of its call (its typed foreign-function
interface); a few instructions here read the addresses of the arrays from it, so that no C++ compiler is needed.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from geodyn._engine.llvm.disk import keep, kept

try:
    import llvmlite.binding as llvm
except ImportError:  # There is no wheel for this processor or this Python.
    llvm: Any = None

# XLA keeps the address of a function for ever, and so its code must stay.
_loaded: dict[str, Any] = {}
_lock = threading.Lock()

# XLA calls `entry` in several stages, of which only the third runs the program, and first to ask which version of the
# interface it speaks. Where the frame of a call is not as it is read here, nothing runs, and the trial of `members.py`
# notices. A batch is shared by several threads: each takes the next part of it until none is left.
ENTRY = """
%job = type { ptr, i64, i64 }
define ptr @entry(ptr %frame) #0 {
  %of.extension = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %of.extension
  %is.plain = icmp eq ptr %extension, null
  br i1 %is.plain, label %call, label %look
look:
  %of.kind = getelementptr i8, ptr %extension, i64 8
  %kind = load i32, ptr %of.kind
  %asks = icmp eq i32 %kind, 1
  br i1 %asks, label %answer, label %call
answer:
  %of.metadata = getelementptr i8, ptr %extension, i64 24
  %metadata = load ptr, ptr %of.metadata
  %its.version = getelementptr i8, ptr %metadata, i64 24
  store i64 VERSION, ptr %its.version
  %its.traits = getelementptr i8, ptr %metadata, i64 32
  store i32 0, ptr %its.traits
  ret ptr null
call:
  %of.stage = getelementptr i8, ptr %frame, i64 32
  %stage = load i32, ptr %of.stage
  %runs = icmp eq i32 %stage, 3
  %of.given = getelementptr i8, ptr %frame, i64 56
  %given = load i64, ptr %of.given
  %is.given = icmp eq i64 %given, GIVEN
  %of.returned = getelementptr i8, ptr %frame, i64 96
  %returned = load i64, ptr %of.returned
  %is.returned = icmp eq i64 %returned, RETURNED
  %is.known = and i1 %is.given, %is.returned
  %goes = and i1 %runs, %is.known
  br i1 %goes, label %begin, label %done
done:
  ret ptr null
begin:
  %job = alloca %job
  %job.frame = getelementptr %job, ptr %job, i64 0, i32 0
  store ptr %frame, ptr %job.frame
  %job.next = getelementptr %job, ptr %job, i64 0, i32 1
  store i64 0, ptr %job.next
  %job.threads = getelementptr %job, ptr %job, i64 0, i32 2
  store i64 0, ptr %job.threads
  %of.args = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %of.args
  %size.buffer = load ptr, ptr %args
  %size.at = getelementptr i8, ptr %size.buffer, i64 24
  %size = load ptr, ptr %size.at
  %of.count = getelementptr i32, ptr %size, i64 1
  %count = load i32, ptr %of.count
  %helpers = sub i32 %count, 1
  %started = alloca i32
  store i32 0, ptr %started
  %threads = alloca i64, i32 %count
  br label %start
start:
  %k = phi i32 [ 0, %begin ], [ %k.next, %next ]
  %more = icmp slt i32 %k, %helpers
  br i1 %more, label %another, label %own
another:
  %thread = getelementptr i64, ptr %threads, i32 %k
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @parts, ptr %job)
  %k.next = add i32 %k, 1
  %is.running = icmp eq i32 %failed, 0
  br i1 %is.running, label %next, label %own
next:
  store i32 %k.next, ptr %started
  br label %start
own:
  %nothing = call ptr @parts(ptr %job)
  %running = load i32, ptr %started
  br label %wait
wait:
  %j = phi i32 [ 0, %own ], [ %j.next, %join ]
  %waits = icmp slt i32 %j, %running
  br i1 %waits, label %join, label %done
join:
  %of.thread = getelementptr i64, ptr %threads, i32 %j
  %id = load i64, ptr %of.thread
  %joined = call i32 @pthread_join(i64 %id, ptr null)
  %j.next = add i32 %j, 1
  br label %wait
}
STARTS
define ptr @parts(ptr %job) #0 {
  %job.frame = getelementptr %job, ptr %job, i64 0, i32 0
  %frame = load ptr, ptr %job.frame
  %job.next = getelementptr %job, ptr %job, i64 0, i32 1
  %job.threads = getelementptr %job, ptr %job, i64 0, i32 2
  %me = atomicrmw add ptr %job.threads, i64 1 seq_cst
  %of.args = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %of.args
  %of.results = getelementptr i8, ptr %frame, i64 112
  %results = load ptr, ptr %of.results
READS
  %B.short = load i32, ptr %size
  %B = sext i32 %B.short to i64
  %of.part = getelementptr i32, ptr %size, i64 2
  %part.short = load i32, ptr %of.part
  %part = sext i32 %part.short to i64
  %offset = mul i64 %me, SCRATCH
  %scratch = getelementptr i8, ptr %scratches, i64 %offset
  br label %take
take:
  %from = atomicrmw add ptr %job.next, i64 %part seq_cst
  %is.left = icmp slt i64 %from, %B
  br i1 %is.left, label %work, label %done
work:
  %sum = add i64 %from, %part
  %is.last = icmp sgt i64 %sum, %B
  %to = select i1 %is.last, i64 %B, i64 %sum
  call void @run(i64 %from, i64 %to, i64 %B, ptr %scratch POINTERS)
  br label %take
done:
  ret ptr null
}
"""


# How threads are started and awaited; a system that has no such functions starts none.
THREADS = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
"""
NO_THREADS = """
define i32 @pthread_create(ptr %thread, ptr %options, ptr %function, ptr %argument) {
  ret i32 1
}
define i32 @pthread_join(i64 %thread, ptr %result) {
  ret i32 0
}
"""


def entry(given: int, returned: int, scratch: int) -> str:
    """The function that XLA calls. Its first argument is (members, threads, members in a part), its first result the
    scratch memory of all threads."""
    lines = []

    def read(array: str, k: int, name: str):
        lines.append(f"  %{name}.of = getelementptr ptr, ptr %{array}, i64 {k}")
        lines.append(f"  %{name}.buffer = load ptr, ptr %{name}.of")
        lines.append(f"  %{name}.at = getelementptr i8, ptr %{name}.buffer, i64 24")
        lines.append(f"  %{name} = load ptr, ptr %{name}.at")

    read("args", 0, "size")
    read("results", 0, "scratches")
    for k in range(given):
        read("args", k + 1, f"x{k}")
    for k in range(returned):
        read("results", k + 1, f"y{k}")
    pointers = [f"ptr %x{k}" for k in range(given)] + [f"ptr %y{k}" for k in range(returned)]
    text = ENTRY.replace("READS", "\n".join(lines)).replace("SCRATCH", str(scratch))
    text = text.replace("STARTS", THREADS if os.name == "posix" else NO_THREADS)
    text = text.replace("VERSION", str(interface_version()))
    text = text.replace("GIVEN", str(given + 1)).replace("RETURNED", str(returned + 1))
    return text.replace("POINTERS", "".join(f", {pointer}" for pointer in pointers))


@functools.cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@functools.cache
def _machine() -> Any:
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return _target().create_target_machine(
        cpu=name, features=features, opt=1, jit=True, reloc="pic", codemodel="jitdefault"
    )


@functools.cache
def width() -> int:
    """How many numbers of double precision this processor computes at once."""
    features = llvm.get_host_cpu_features()
    return 8 if features.get("avx512f") else 4 if features.get("avx2") else 2


def cores() -> int:
    """On how many cores this process may run."""
    if os.name != "posix":
        return 1
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@functools.cache
def interface_version() -> int:
    """The version of the interface that this XLA speaks, as its header says: the minor number above the major one."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    major, minor = (int(re.findall(rf"#define XLA_FFI_API_{x} (\d+)", header)[0]) for x in ("MAJOR", "MINOR"))
    return minor << 32 | major


@functools.cache
def attributes() -> str:
    """What LLVM should know of each function."""
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    bits = str(64 * width())
    pairs = {"target-cpu": name, "target-features": features, "prefer-vector-width": bits}
    pairs |= {"min-legal-vector-width": bits, "no-trapping-math": "true"}
    return "attributes #0 = { nounwind " + " ".join(f'"{k}"="{v}"' for k, v in pairs.items()) + " }"


def register(text: str) -> str:
    """The name under which XLA finds the compiled function of this text."""
    name = _name_of(text)
    with _lock:
        if name not in _loaded:
            engine = _link(_machine_code(name, text))
            jax.ffi.register_ffi_target(name, _capsule(engine.get_function_address("entry")), platform="cpu")
            _loaded[name] = engine
    return name


def load_library(symbol: str, text: str):
    """Compiles the module of this text, and tells all modules that come later of its function with this name."""
    with _lock:
        if symbol not in _loaded:
            engine = _link(_machine_code(_name_of(text), text))
            llvm.add_symbol(symbol, engine.get_function_address(symbol))
            _loaded[symbol] = engine


def _name_of(text: str) -> str:
    """The name of a module: a digest of all that its machine code depends on beside the processor."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return "geodyn_" + hashlib.sha256(f"{version}\n{text}".encode()).hexdigest()[:40]


def _machine_code(name: str, text: str) -> bytes:
    """The machine code of the text, from the disk if an earlier process has left it beside JAX's cache."""
    stored = kept(name)
    if stored is not None:
        return stored
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    with _order_of_the_text():
        code = machine.emit_object(module)
    keep(name, code)
    return code


@contextlib.contextmanager
def _order_of_the_text() -> Iterator[None]:
    """LLVM leaves instructions in the order in which the text has them. To put long blocks into another order took it
    up to half of its time, and the code was not faster: the processor takes them as their operands are there."""
    llvm.set_option("geodyn", "-enable-misched=false")
    try:
        yield
    finally:  # The option is one of the process, in which others may compile, too.
        llvm.set_option("geodyn", "-enable-misched=true")


def _link(code: bytes) -> Any:
    """What holds the machine code, ready to run."""
    machine = _target().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _capsule(address: int) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, b"xla._CUSTOM_CALL_TARGET", None)
