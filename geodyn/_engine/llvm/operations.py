"""The instructions of each operation on numbers, with JAX's meaning of it where the processor has another."""

from collections.abc import Callable

import numpy as np
from jax import lax

from geodyn._engine.llvm.code import BOOL, Code, Value

# Contraction alone is allowed: a product and a sum with one rounding.
FUSED = "contract"
FLOAT = {"add": f"fadd {FUSED}", "sub": f"fsub {FUSED}", "mul": f"fmul {FUSED}", "div": "fdiv", "rem": "frem"}
WHOLE = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
ROUNDED = {"floor": "floor", "ceil": "ceil", "sqrt": "sqrt"}
SHIFTS = {"shift_left": "shl", "shift_right_arithmetic": "ashr", "shift_right_logical": "lshr"}


def emit(code: Code, name: str, params: dict, dtype: np.dtype, args: list[Value]) -> Value:
    """The value of the operation on these numbers; KeyError if it has no instructions here."""
    if name in RULES:
        return RULES[name](code, dtype, params, *args)
    kind = args[0].dtype.kind
    if name in COMPARE:
        return _compare(code, name, *args)
    if name in FLOAT and kind == "f":
        return _binary(code, FLOAT[name], *args)
    if name in WHOLE and kind != "f":
        return _binary(code, WHOLE[name], *args)
    if name in ("div", "rem"):
        return _divide_whole(code, name, *args)
    if name in SHIFTS:
        return _shift(code, name, *args)
    return code.intrinsic(ROUNDED[name], dtype, *args)


def _binary(code: Code, instruction: str, a: Value, b: Value) -> Value:
    (a, b), wide = code.alike((a, b))
    return code.new(f"{instruction} {code.with_type(a)}, {b.text}", a.dtype, wide)


def _compare(code: Code, name: str, a: Value, b: Value) -> Value:
    (a, b), wide = code.alike((a, b))
    if a.dtype.kind == "f":
        return code.new(f"fcmp {COMPARE[name]} {code.with_type(a)}, {b.text}", BOOL, wide)
    sign = "s" if a.dtype.kind == "i" else "u"
    how = name if name in ("eq", "ne") else sign + name
    return code.new(f"icmp {how} {code.with_type(a)}, {b.text}", BOOL, wide)


def _number(code: Code, x: np.typing.ArrayLike, like: Value) -> Value:
    return code.constant(np.asarray(x, like.dtype))


def _divide_whole(code: Code, name: str, a: Value, b: Value) -> Value:
    """Division of whole numbers, for which the processor stops the process where there is no quotient: by zero JAX
    gives −1 (all bits), with the remainder a; the smallest number by −1 gives itself, with the remainder 0."""
    zero, one = _number(code, 0, b), _number(code, 1, b)
    by_zero = _compare(code, "eq", b, zero)
    bad = by_zero
    if a.dtype.kind == "i":
        least = _compare(code, "eq", a, _number(code, np.iinfo(a.dtype).min, a))
        overflows = code.both(least, _compare(code, "eq", b, _number(code, -1, b)))
        bad = _binary(code, "or", bad, overflows)
    safe = code.select(bad, one, b)
    sign = "s" if a.dtype.kind == "i" else "u"
    value = _binary(code, f"{sign}{name}", a, safe)
    return code.select(by_zero, _result_by_zero(code, name, a), value)


def _result_by_zero(code: Code, name: str, a: Value) -> Value:
    """The quotient, all of whose bits are set, or the remainder of a division of whole numbers by zero."""
    if name == "rem":
        return a
    all_bits = -1 if a.dtype.kind == "i" else np.iinfo(a.dtype).max
    return _number(code, all_bits, a)


def _shift(code: Code, name: str, a: Value, by: Value) -> Value:
    """A shift by as many bits as the number has, or more, leaves nothing but the sign."""
    last = _number(code, 8 * a.dtype.itemsize - 1, by)
    too_far = code.new(f"icmp ugt {code.with_type(by)}, {(code.widen(last) if by.wide else last).text}", BOOL, by.wide)
    value = _binary(code, SHIFTS[name], a, code.select(too_far, last, by))
    return value if name == "shift_right_arithmetic" else code.select(too_far, _number(code, 0, a), value)


def _negative(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    if dtype.kind == "f":
        return code.new(f"fneg {code.with_type(a)}", dtype, a.wide)
    return _binary(code, "sub", _number(code, 0, a), a)


def _size(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    if dtype.kind == "f":
        return code.intrinsic("fabs", dtype, a)
    return (
        a
        if dtype.kind == "u"
        else code.select(_compare(code, "lt", a, _number(code, 0, a)), _negative(code, dtype, {}, a), a)
    )


def _sign(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    zero, one = _number(code, 0, a), _number(code, 1, a)
    if dtype.kind == "f":
        unchanged = _binary(code, "or", _compare(code, "eq", a, zero), _compare(code, "ne", a, a))
        return code.select(unchanged, a, code.intrinsic("copysign", dtype, one, a))
    if dtype.kind == "u":
        return code.select(_compare(code, "eq", a, zero), zero, one)
    signed = code.select(_compare(code, "lt", a, zero), _number(code, -1, a), one)
    return code.select(_compare(code, "eq", a, zero), zero, signed)


def _extreme(name: str) -> Callable[..., Value]:
    def rule(code: Code, dtype: np.dtype, params: dict, a: Value, b: Value) -> Value:
        first = _compare(code, name, a, b)
        if dtype.kind == "f":  # A NaN in either is the result.
            first = _binary(code, "or", first, _compare(code, "ne", a, a))
        return code.select(first, a, b)

    return rule


def _clamp(code: Code, dtype: np.dtype, params: dict, least: Value, x: Value, most: Value) -> Value:
    return RULES["min"](code, dtype, params, RULES["max"](code, dtype, params, least, x), most)


def _opposite(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    return _binary(
        code,
        "xor",
        a,
        code.constant(np.asarray(True if dtype == BOOL else -1 if dtype.kind == "i" else np.iinfo(dtype).max, dtype)),
    )


def _finite(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    return _compare(code, "lt", code.intrinsic("fabs", a.dtype, a), _number(code, np.inf, a))


def _round(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    even = params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN
    return code.intrinsic("rint" if even else "round", dtype, a)


def _select(code: Code, dtype: np.dtype, params: dict, which: Value, *cases: Value) -> Value:
    if which.dtype == BOOL:
        return code.select(which, cases[1], cases[0])
    value = cases[-1]
    for k, case in reversed(list(enumerate(cases[:-1]))):
        value = code.select(_compare(code, "eq", which, _number(code, k, which)), case, value)
    return value


def _same_bits(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    if a.dtype.itemsize != dtype.itemsize or BOOL in (a.dtype, dtype):
        raise KeyError("bitcast")
    if a.dtype.kind in "iu" and dtype.kind in "iu":
        return Value(a.text, dtype, a.wide)
    return code.new(f"bitcast {code.with_type(a)} to {code.type(dtype, a.wide)}", dtype, a.wide)


def _convert(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    to, kinds = code.type(dtype, a.wide), (a.dtype.kind, dtype.kind)
    if dtype == BOOL:
        return _compare(code, "ne", a, _number(code, 0, a))
    if kinds == ("f", "f"):
        instruction = "fpext" if dtype.itemsize > a.dtype.itemsize else "fptrunc"
    elif kinds[0] == "f":  # Beyond the range it is the nearest number, and of a NaN 0.
        signed = "s" if kinds[1] == "i" else "u"
        name = f"llvm.fpto{signed}i.sat.{code.suffix(dtype, a.wide)}.{code.suffix(a.dtype, a.wide)}"
        return code.call_external(name, dtype, a.wide, code.with_type(a))
    elif kinds[1] == "f":
        instruction = "sitofp" if kinds[0] == "i" else "uitofp"
    elif a.dtype != BOOL and dtype.itemsize == a.dtype.itemsize:
        return Value(a.text, dtype, a.wide)
    elif a.dtype != BOOL and dtype.itemsize < a.dtype.itemsize:
        instruction = "trunc"
    else:
        instruction = "sext" if kinds[0] == "i" else "zext"
    return code.new(f"{instruction} {code.with_type(a)} to {to}", dtype, a.wide)


def _in_order(code: Code, dtype: np.dtype, params: dict, a: Value, b: Value) -> Value:
    """Whether a < b, where a NaN comes last."""
    less = _compare(code, "lt", a, b)
    if a.dtype.kind != "f":
        return less
    return _binary(code, "or", less, code.both(_compare(code, "eq", a, a), _compare(code, "ne", b, b)))


RULES = {
    "lt_to": _in_order,
    "le_to": lambda code, dtype, params, a, b: _opposite(code, BOOL, params, _in_order(code, dtype, params, b, a)),
    "neg": _negative,
    "abs": _size,
    "sign": _sign,
    "max": _extreme("gt"),
    "min": _extreme("lt"),
    "clamp": _clamp,
    "not": _opposite,
    "is_finite": _finite,
    "round": _round,
    "select_n": _select,
    "bitcast_convert_type": _same_bits,
    "convert": _convert,
}
