"""The text of one function in LLVM's language.

Its values are numbers that all members share, or vectors of one number for each of W members (`wide`).
"""

import contextlib
import functools
import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

BOOL = np.dtype(bool)
WORD = np.dtype(np.int64)
# The most bytes on the stack, of one array and of all arrays together; other arrays are in scratch memory. A thread has
# a stack of some megabytes.
MOST_OF_ONE = 2**14
MOST_ON_STACK = 2**19
# The same on a graphics processor, which has a stack for each of a hundred thousand threads and more.
MOST_OF_THREAD_ONE = 2**10
MOST_OF_THREAD = 2**14
# In the scratch memory of a graphics processor every number takes so many bytes, whatever its type. So it does not
# depend on the type to which thread a place belongs, and one array can take the memory that another one leaves.
SLOT = 8
# In a program of one member its number %i is 0.
ALONE = "  %i = add i64 0, 0"


class NotUnderstood(Exception):
    """The program contains what this compiler has no rule for."""


# LLVM compiles some thirty thousand instructions in a second.
MOST_LINES = 300_000


class Value(NamedTuple):
    """A value of the function: its name or its constant, its type, and whether it is one number for each member."""

    text: str
    dtype: np.dtype
    wide: bool


class Memory:
    """Consecutive numbers in memory, or consecutive vectors (`wide`).

    `rows` says how the numbers of the members lie in arrays that the function is given or returns: the first number of
    all members of the batch, side by side in one row, then the second number of all, and so on.

    Only its `owner`, a block of instructions, may change the memory. What it holds for members outside of `mask` is of
    no use to anyone, so that the owner may overwrite that too. Each change of the whole makes a new `version`:
    a `Place` of an older one can no longer be read.
    """

    def __init__(
        self,
        pointer: str,
        size: int,
        dtype: np.typing.DTypeLike,
        wide: bool,
        rows: bool = False,
        of_threads: bool = False,
    ):
        self.pointer = pointer
        self.size = size
        self.dtype = np.dtype(dtype)
        self.wide = wide
        self.rows = rows
        # On a graphics processor: a row has a number for each thread, not for each member.
        self.of_threads = of_threads
        self.version = 0
        self.owner: Any = None
        self.mask: Value | None = None


class Place(NamedTuple):
    """The place of a number in memory, at the index `fixed`, plus a number that is computed as the program runs
    (`moved`). With `along` it is the place of several numbers, one after the other: as many as are computed at once."""

    memory: Memory
    fixed: int
    moved: Value | None
    version: int
    along: bool = False

    @property
    def is_wide(self) -> bool:
        return self.along or self.memory.wide or (self.moved is not None and self.moved.wide)


class Code:
    """The text of a function while it is being written: for a processor that computes `width` members at once, or, if
    `width` is None, for a graphics processor, each of whose threads computes one member."""

    def __init__(self, width: int | None):
        self.is_graphics = width is None
        self.width = width or 1
        # The instructions so far, and those that run before them, at the start of the function.
        self.lines = []
        self.begin = []
        # The declarations of functions and tables outside of this function, by their names.
        self.outside = {}
        # How many names have been given, and the label of the block that is being written.
        self.count = 0
        self.label = "start"
        # A mask of the members that are computed at once: at the end of a batch some of them do not exist.
        self.inside = "%inside"
        # The function has memory on its stack, and scratch memory that its caller provides. Of both: the bytes in use
        # now, and the most that were in use.
        self.stack = 0
        self.most_on_stack = 0
        self.scratch = 0
        self.most_scratch = 0
        # The bytes that the functions that call this one have on the same stack.
        self.below = 0
        # On a graphics processor: the pieces of the stack that are in use (bytes, name), and the names of those that
        # are free again, by their bytes.
        self.taken: list[tuple[int, str]] = []
        self.free: dict[int, list[str]] = {}
        # The functions of the module that this one may call, and their texts.
        self.functions = {}
        self.texts = []
        # The programs that stand in this one more than once: each becomes a function.
        self.repeated = {}

    # Functions of the module

    def inner(self) -> "Code":
        """The code of a function that this one calls."""
        code = Code(None if self.is_graphics else self.width)
        # They are parts of one module, and know what it has.
        code.outside = self.outside
        code.functions = self.functions
        code.texts = self.texts
        code.repeated = self.repeated
        code.below = self.below + self.stack
        return code

    def of_library(self) -> "Code":
        """The code of a function that stands in a library, which does not know how much of the stack is in use."""
        code = Code(self.width)
        # So it takes at most half of the stack.
        code.below = MOST_ON_STACK // 2
        return code

    def add(self, name: str, pointers: list[str], code: "Code", mask: Value):
        """Adds a function to the module, whose arguments are these addresses and those of `_context`."""
        self.texts.append(self.function_text(name, pointers, code, mask, "internal "))

    def function_text(self, name: str, pointers: list[str], code: "Code", mask: Value, linkage: str) -> str:
        """The text of such a function."""
        name_of_mask = "%mask" if mask.wide else ""
        params = [*(f"ptr noalias {pointer}" for pointer in pointers), *self._context("%scratch", name_of_mask)]
        attributes = "" if self.is_graphics else " #0"
        head = f"define {linkage}void @{name}({', '.join(params)}){attributes} {{\nentry:"
        alone = [] if mask.wide or self.is_graphics else [ALONE]
        lines = [head, *code.opening(), *self.lanes(), *alone, "  br label %start", "start:", *code.lines]
        return "\n".join([*lines, "  ret void", "}"])

    def declare_function(self, name: str, pointers: int, mask: Value):
        """Tells LLVM of such a function of a library, which is given so many addresses."""
        context = self._context("%scratch", "%mask" if mask.wide else "")
        given = ["ptr"] * pointers + [_type_of(x) for x in context]
        self.outside[name] = f"declare void @{name}({', '.join(given)})"

    def call(self, name: str, pointers: list[str], scratch: int, mask: Value):
        """Calls a function of the module, which needs so much scratch memory, for the members in the mask."""
        self.reserve(scratch)
        its_scratch = f"%{self.fresh('s')}" if scratch else "null"
        if scratch:
            self.lines += self._of_scratch(its_scratch)
        given = [
            *(f"ptr {pointer}" for pointer in pointers),
            *self._context(its_scratch, mask.text if mask.wide else "", self.inside),
        ]
        self.lines.append(f"  call void @{name}({', '.join(given)})")

    def add_of_number(self, name: str, x: Value, code: "Code", values: list[Value]) -> list[Value]:
        """Adds a function, which is seldom called, of a number x, or of one for each member. It returns all `values`
        together; what is returned here says of what kind each of them is."""
        values = [code.widen(y) if x.wide else y for y in values]
        whole = self._struct(values)
        attributes = "noinline cold" if self.is_graphics else "noinline cold #0"
        head = f"define internal {whole} @{name}({self.with_type(x._replace(text='%x'))}) {attributes} {{"
        lines = [head, "entry:", "  br label %start", "start:", *code.lines]
        last = "poison"
        for k, y in enumerate(values):
            filled = f"%whole{k}"
            lines.append(f"  {filled} = insertvalue {whole} {last}, {self.with_type(y)}, {k}")
            last = filled
        self.texts.append("\n".join([*lines, f"  ret {whole} {last}", "}"]))
        return values

    def results(self, name: str, x: Value, kinds: list[Value]) -> list[Value]:
        """The results of a function of `add_of_number`."""
        whole = self._struct(kinds)
        all_of_them = self.new(f"call {whole} @{name}({self.with_type(x)})", x.dtype, x.wide)
        values = []
        for k, y in enumerate(kinds):
            values.append(self.new(f"extractvalue {whole} {all_of_them.text}, {k}", y.dtype, y.wide))
        return values

    def _struct(self, values: list[Value]) -> str:
        """The type of these values together."""
        return f"{{ {', '.join(self.type(y.dtype, y.wide) for y in values)} }}"

    def _context(self, scratch: str, mask: str, inside: str = "%inside") -> list[str]:
        """What every function is given of the batch: scratch memory, the size of the batch, the first member, and which
        of the members exist and are computed."""
        given = [f"ptr {scratch}", "i64 %B"]
        if self.is_graphics:
            return [*given, "i64 %i", "i64 %T", "i64 %t"]
        bits = f"<{self.width} x i1>"
        return [*given, "i64 %i", f"{bits} {inside}", f"{bits} {mask}"] if mask else given

    def lanes(self) -> list[str]:
        """The instruction for the numbers of the members that are computed at once."""
        numbers = ", ".join(f"i64 {k}" for k in range(self.width))
        return [f"  %lanes = add <{self.width} x i64> zeroinitializer, <{numbers}>"]

    # Types and constants

    def type(self, dtype: np.typing.DTypeLike, wide: bool) -> str:
        """LLVM's name of a type."""
        one = _type_of_one(np.dtype(dtype))
        return f"<{self.width} x {one}>" if wide else one

    def suffix(self, dtype: np.typing.DTypeLike, wide: bool) -> str:
        """The name of a type in the names of LLVM's intrinsic functions."""
        dtype = np.dtype(dtype)
        letter = "f" if dtype.kind == "f" else "i"
        bits = 1 if dtype == BOOL else 8 * dtype.itemsize
        one = f"{letter}{bits}"
        return f"v{self.width}{one}" if wide else one

    def constant(self, x: np.typing.ArrayLike) -> Value:
        """A number that is known now."""
        x = np.asarray(x)
        if x.dtype.kind == "f":
            # As the bits of a double, in which form LLVM takes a number of single precision too.
            (bits,) = struct.unpack("<Q", struct.pack("<d", float(x)))
            text = f"0x{bits:016X}"
        elif x.dtype == BOOL:
            text = "true" if x else "false"
        else:
            text = str(int(x))
        return Value(text, x.dtype, False)

    # Instructions

    def fresh(self, kind: str = "v") -> str:
        """A name that is not used yet."""
        self.count += 1
        return f"{kind}{self.count}"

    def new(self, instruction: str, dtype: np.typing.DTypeLike, wide: bool) -> Value:
        """The value of an instruction."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {instruction}")
        if len(self.lines) > MOST_LINES:
            raise NotUnderstood(f"a program of more than {MOST_LINES} instructions")
        return Value(name, np.dtype(dtype), wide)

    def widen(self, x: Value) -> Value:
        """One number for each member, all the same where x is a single one."""
        if x.wide:
            return x
        one, many = self.type(x.dtype, False), self.type(x.dtype, True)
        if not x.text.startswith("%"):
            return Value(f"splat ({one} {x.text})", x.dtype, True)
        first = self.new(f"insertelement {many} poison, {one} {x.text}, i64 0", x.dtype, True)
        return self.new(
            f"shufflevector {many} {first.text}, {many} poison, <{self.width} x i32> zeroinitializer", x.dtype, True
        )

    def pack(self, values: list[Value]) -> Value:
        """The vector of these numbers, with the first one in all lanes that are left over; no vector but the value
        itself where all are the same."""
        if all(x == values[0] for x in values):
            return values[0]
        vector = self.widen(values[0])
        for k, x in enumerate(values[1:], 1):
            vector = self.new(f"insertelement {self.with_type(vector)}, {self.with_type(x)}, i64 {k}", x.dtype, True)
        return vector

    def lane(self, x: Value, k: int) -> Value:
        """The number of the vector with this index."""
        return self.new(f"extractelement {self.with_type(x)}, i64 {k}", x.dtype, False) if x.wide else x

    def alike(self, values: Iterable[Value]) -> tuple[list[Value], bool]:
        """(the values, all of them wide if any is; whether they are)."""
        wide = any(x.wide for x in values)
        return [self.widen(x) if wide else x for x in values], wide

    def with_type(self, x: Value) -> str:
        """A value with its type, as instructions take it."""
        return f"{self.type(x.dtype, x.wide)} {x.text}"

    def intrinsic(self, name: str, dtype: np.typing.DTypeLike, *args: Value) -> Value:
        """The value of a function of LLVM's, on values of one type."""
        args, wide = self.alike(args)
        full = f"llvm.{name}.{self.suffix(dtype, wide)}"
        return self.call_external(full, dtype, wide, *map(self.with_type, args))

    def call_external(self, name: str, dtype: np.typing.DTypeLike, wide: bool, *args: str) -> Value:
        """The value of the function `name` of these arguments with their types."""
        result = self.type(dtype, wide)
        self.declare(name, result, args)
        return self.new(f"call {result} @{name}({', '.join(args)})", dtype, wide)

    def declare(self, name: str, result: str, args: Iterable[str]):
        """Tells LLVM of a function that it provides."""
        self.outside[name] = f"declare {result} @{name}({', '.join(_type_of(x) for x in args)})"

    def select(self, which: Value, yes: Value, no: Value) -> Value:
        """`yes` where `which` holds, else `no`."""
        (which, yes, no), wide = self.alike((which, yes, no))
        return self.new(f"select {self.with_type(which)}, {self.with_type(yes)}, {self.with_type(no)}", yes.dtype, wide)

    def either(self, by_label: dict[str, Value]) -> Value:
        """At the start of a block: the value that belongs to the block from which it was entered."""
        first = next(iter(by_label.values()))
        pairs = ", ".join(f"[ {x.text}, %{label} ]" for label, x in by_label.items())
        return self.new(f"phi {self.type(first.dtype, first.wide)} {pairs}", first.dtype, first.wide)

    def both(self, a: Value, b: Value) -> Value:
        """Whether a and b hold."""
        if "true" in (a.text, b.text):
            return b if a.text == "true" else a
        (a, b), wide = self.alike((a, b))
        return self.new(f"and {self.with_type(a)}, {b.text}", BOOL, wide)

    def any(self, x: Value) -> Value:
        """Whether x holds for some member."""
        if not x.wide:
            return x
        bits = self.new(f"bitcast {self.with_type(x)} to i{self.width}", WORD, False)
        return self.new(f"icmp ne i{self.width} {bits.text}, 0", BOOL, False)

    # Blocks and loops

    def jump(self, label: str):
        """Goes on at a label."""
        self.lines.append(f"  br label %{label}")

    def branch(self, which: Value, yes: str, no: str):
        """Goes on at the label `yes` where `which` holds, else at `no`."""
        self.lines.append(f"  br i1 {which.text}, label %{yes}, label %{no}")

    def start(self, label: str):
        """Begins the block of this label."""
        self.lines.append(f"{label}:")
        self.label = label

    def begin_loop(self, count: int) -> tuple[Value, Callable[[], None]]:
        """(counter, what ends the loop) of a loop that is begun here and makes `count` turns."""
        before = self.label
        head = self.fresh("turn")
        self.jump(head)
        self.start(head)
        k = self.new(f"phi i64 [ 0, %{before} ], [ %{head}.next, %{head}.last ]", WORD, False)

        def end():
            self.jump(f"{head}.last")
            self.start(f"{head}.last")
            self.lines.append(f"  %{head}.next = add i64 {k.text}, 1")
            self.lines.append(f"  %{head}.more = icmp slt i64 %{head}.next, {count}")
            # Else the driver of a graphics processor would unroll the loop.
            as_a_loop = ", !llvm.loop !0" if self.is_graphics else ""
            self.lines.append(f"  br i1 %{head}.more, label %{head}, label %{head}.end{as_a_loop}")
            self.start(f"{head}.end")

        return k, end

    # Memory

    def local(self, size: int, dtype: np.typing.DTypeLike, wide: bool) -> Memory:
        """New memory of the function's own: on the stack, or, where that might be too small, in an array that the
        caller provides; on a graphics processor the numbers of all threads stand there side by side."""
        numbers = size * self.width if wide else size
        count = _padded(numbers * np.dtype(dtype).itemsize)
        name = f"%{self.fresh('m')}"
        most_of_one = MOST_OF_THREAD_ONE if self.is_graphics else MOST_OF_ONE
        most_of_all = MOST_OF_THREAD if self.is_graphics else MOST_ON_STACK
        if count <= most_of_one and self.below + self.stack + count <= most_of_all:
            return Memory(self._of_stack(name, count), size, dtype, wide)
        if self.is_graphics:
            count = _padded(size * SLOT)  # for each thread
        self.begin += self._of_scratch(name)
        self.reserve(count)
        self.scratch += count
        return Memory(name, size, dtype, wide, rows=self.is_graphics, of_threads=self.is_graphics)

    def _of_stack(self, name: str, count: int) -> str:
        """The address of so many bytes of the stack that are not in use, by default under this name. On a graphics
        processor each piece is one of its own, which LLVM keeps in registers where that can be."""
        start = self.stack
        self.stack += count
        self.most_on_stack = max(self.most_on_stack, self.stack)
        if not self.is_graphics:
            self.begin.append(f"  {name} = getelementptr i8, ptr %stack, i64 {start}")
            return name
        if self.free.get(count):
            name = self.free[count].pop()
        else:
            self.begin.append(f"  {name} = alloca [{count} x i8], align {SLOT}")
        self.taken.append((count, name))
        return name

    def _of_scratch(self, name: str) -> list[str]:
        """The instructions for the address of the scratch memory that is not in use, under this name."""
        if not self.is_graphics:
            return [f"  {name} = getelementptr i8, ptr %scratch, i64 {self.scratch}"]
        place = f"  {name}.place = mul i64 %T, {self.scratch}"
        return [place, f"  {name} = getelementptr i8, ptr %scratch, i64 {name}.place"]

    def reserve(self, count: int):
        """Says that so many bytes of scratch memory are needed beside those that are in use."""
        self.most_scratch = max(self.most_scratch, self.scratch + count)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """What memory is taken within it is free again afterwards."""
        stack = self.stack
        scratch = self.scratch
        taken_before = len(self.taken)
        yield
        self.stack = stack
        self.scratch = scratch
        for count, name in self.taken[taken_before:]:
            self.free.setdefault(count, []).append(name)
        del self.taken[taken_before:]

    def opening(self) -> list[str]:
        """The instructions at the start of the function."""
        if self.is_graphics:
            return self.begin
        return [f"  %stack = alloca [{max(self.most_on_stack, 1)} x i8], align 64", *self.begin]

    def table(self, numbers: np.ndarray) -> Memory:
        """Memory in which these numbers stand before the program begins."""
        stored = self._type_in_memory(numbers.dtype)
        one = self.type(stored, False)
        # The same numbers are one table, wherever they stand in the module.
        digest = hashlib.sha256(numbers.tobytes()).hexdigest()[:16]
        name = f"@table.{digest}.{one}.{numbers.size}"
        values = ", ".join(f"{one} {self.constant(x).text}" for x in numbers.astype(stored))
        self.outside[name] = f"{name} = private unnamed_addr constant [{numbers.size} x {one}] [{values}], align 64"
        return Memory(name, numbers.size, numbers.dtype, False)

    def _type_in_memory(self, dtype: np.typing.DTypeLike) -> np.dtype:
        """How numbers are stored: truth values in a byte each."""
        return np.dtype(np.int8) if dtype == BOOL else np.dtype(dtype)

    def address(self, place: Place) -> Value:
        """The address of a number, of the vector of all members' numbers, or of each member's number."""
        memory = place.memory
        index = self._sum(place.moved, place.fixed)
        if memory.rows:
            # A row is as long as the batch, and the member %i is in its column %i; likewise for threads.
            length, column = ("%T", "%t") if memory.of_threads else ("%B", "%i")
            row_start = self.times(index, length)
            index = self._sum(row_start, 0, Value(column, WORD, False))
        elif memory.wide:
            index = self.times(index, str(self.width))
        # What is scaled by the index: SLOT bytes in the memory of threads.
        one = "i64" if memory.of_threads else self.type(self._type_in_memory(memory.dtype), False)
        if not index.wide:
            return self.new(f"getelementptr inbounds {one}, ptr {memory.pointer}, i64 {index.text}", WORD, False)
        # Each member has an index of its own, and in a vector its own lane.
        if memory.wide:
            index = self._sum(index, 0, Value("%lanes", WORD, True))
        address = f"getelementptr {one}, ptr {memory.pointer}, {self.with_type(index)}"
        return self.new(address, WORD, True)

    def _sum(self, moved: Value | None, fixed: int, other: Value | None = None) -> Value:
        """moved + fixed + other, without instructions for what is zero."""
        total = Value(str(fixed), WORD, False)
        for x in (moved, other):
            if x is not None and total.text == "0":
                total = x
            elif x is not None:
                (total, x), wide = self.alike((total, x))
                total = self.new(f"add {self.with_type(total)}, {x.text}", WORD, wide)
        return total

    def times(self, index: Value, count: str) -> Value:
        """index · count, without an instruction where both are known now."""
        if index.text == "0":
            return index
        if count.isdecimal() and index.text.isdecimal():
            return Value(str(int(index.text) * int(count)), WORD, False)
        (index, other), wide = self.alike((index, Value(count, WORD, False)))
        return self.new(f"mul {self.with_type(index)}, {other.text}", WORD, wide)

    def load(self, place: Place) -> Value:
        """The number at a place."""
        if place.version != place.memory.version:
            raise NotUnderstood("an array that is changed and then used as it was")
        memory = place.memory
        stored = self._type_in_memory(memory.dtype)
        address = self.address(place)
        wide = place.is_wide
        kind = self.type(stored, wide)
        align = stored.itemsize
        if address.wide:
            # Each member reads at an address of its own.
            pointers = f"<{self.width} x ptr> {address.text}"
            none = f"{kind} zeroinitializer"
            name = f"llvm.masked.gather.{self.suffix(stored, True)}.v{self.width}p0"
            args = (pointers, f"i32 {align}", f"<{self.width} x i1> {self.inside}", none)
            value = self.call_external(name, stored, True, *args)
        elif place.along or (memory.rows and wide):
            name = f"llvm.masked.load.{self.suffix(stored, True)}.p0"
            # Members that do not exist get a 1, with which no instruction fails.
            ones = self.widen(self.constant(np.ones((), stored))).text
            args = (f"ptr {address.text}", f"i32 {align}", f"<{self.width} x i1> {self.inside}", f"{kind} {ones}")
            value = self.call_external(name, stored, True, *args)
        else:
            # A vector is aligned at its length, up to that of the widest ones.
            align = min(64, align * (self.width if wide else 1))
            value = self.new(f"load {kind}, ptr {address.text}, align {align}", stored, wide)
        if memory.dtype == BOOL:
            return self.new(f"icmp ne {self.with_type(value)}, {self._zero(value)}", BOOL, wide)
        return value

    def _zero(self, x: Value) -> str:
        return "zeroinitializer" if x.wide else "0"

    def store(self, value: Value, place: Place, mask: Value | None = None):
        """Writes a number to a place; with a mask only where it holds."""
        memory = place.memory
        stored = self._type_in_memory(memory.dtype)
        # If members have places of their own, the mask is given to the scatter below. Else the whole vector is written,
        # with the old numbers outside of the mask.
        has_own_places = place.moved is not None and place.moved.wide
        assert place.is_wide or not value.wide
        value = self.widen(value) if place.is_wide else value
        if mask is not None and not has_own_places:
            value = self.select(mask, value, self.load(place))
        if memory.dtype == BOOL:
            value = self.new(f"zext {self.with_type(value)} to {self.type(stored, value.wide)}", stored, value.wide)
        address = self.address(place)
        align = stored.itemsize
        if address.wide:
            inside = Value(self.inside, BOOL, True)
            which = self.widen(inside if mask is None else self.both(mask, inside))
            name = f"llvm.masked.scatter.{self.suffix(stored, True)}.v{self.width}p0"
            pointers = f"<{self.width} x ptr> {address.text}"
            self._perform(name, self.with_type(value), pointers, f"i32 {align}", self.with_type(which))
        elif place.along or (memory.rows and memory.wide):
            name = f"llvm.masked.store.{self.suffix(stored, True)}.p0"
            which = f"<{self.width} x i1> {self.inside}"
            self._perform(name, self.with_type(value), f"ptr {address.text}", f"i32 {align}", which)
        else:
            align = min(64, align * (self.width if memory.wide else 1))
            self.lines.append(f"  store {self.with_type(value)}, ptr {address.text}, align {align}")

    def _perform(self, name: str, *args: str):
        """Calls a function of LLVM's that returns nothing."""
        self.declare(name, "void", args)
        self.lines.append(f"  call void @{name}({', '.join(args)})")


def _padded(count: int) -> int:
    """So many bytes, rounded up to a multiple of 64, at which the widest vectors are aligned."""
    return -(-count // 64) * 64


@functools.cache  # It is asked for in every line of a program.
def _type_of_one(dtype: np.dtype) -> str:
    """LLVM's name of the type of a number."""
    size = 8 * dtype.itemsize
    floating = {32: "float", 64: "double"}.get(size)
    return {"f": floating, "b": "i1"}.get(dtype.kind, f"i{size}")


def _type_of(typed: str) -> str:
    """The type in '<8 x double> %x' or 'ptr %y'."""
    return typed[: typed.index(">") + 1] if typed.startswith("<") else typed.split()[0]
