"""The instructions of each operation on numbers, with JAX's meaning of it where the processor has another."""

from collections.abc import Callable

import numpy as np
from jax import lax

from geodyn._engine.llvm.code import BOOL, Code, Value

# Contraction alone is allowed: a product and a sum with one rounding.
FUSED = "contract"
FLOAT = {"add": f"fadd {FUSED}", "sub": f"fsub {FUSED}", "mul": f"fmul {FUSED}", "div": "fdiv", "rem": "frem"}
WHOLE = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
# Of floats: a NaN is equal to nothing, and neither less nor greater (o, ordered); it differs from all (u, unordered).
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
    zero = _number(code, 0, b)
    one = _number(code, 1, b)
    by_zero = _compare(code, "eq", b, zero)
    has_no_quotient = by_zero
    if a.dtype.kind == "i":
        is_least = _compare(code, "eq", a, _number(code, np.iinfo(a.dtype).min, a))
        overflows = code.both(is_least, _compare(code, "eq", b, _number(code, -1, b)))
        has_no_quotient = _binary(code, "or", by_zero, overflows)
    # Divided by 1 the smallest number gives itself, with the remainder 0.
    safe = code.select(has_no_quotient, one, b)
    sign = "s" if a.dtype.kind == "i" else "u"
    value = _binary(code, f"{sign}{name}", a, safe)
    return code.select(by_zero, _result_of_division_by_zero(code, name, a), value)


def _result_of_division_by_zero(code: Code, name: str, a: Value) -> Value:
    """The quotient, all of whose bits are set, or the remainder of a division of whole numbers by zero."""
    if name == "rem":
        return a
    return code.constant(_all_bits(a.dtype))


def _shift(code: Code, name: str, a: Value, by: Value) -> Value:
    """A shift by as many bits as the number has, or more, leaves nothing but the sign."""
    last = _number(code, 8 * a.dtype.itemsize - 1, by)
    limit = code.widen(last) if by.wide else last
    # Compared without signs, so that a negative number is too far too.
    too_far = code.new(f"icmp ugt {code.with_type(by)}, {limit.text}", BOOL, by.wide)
    value = _binary(code, SHIFTS[name], a, code.select(too_far, last, by))
    if name == "shift_right_arithmetic":
        return value
    return code.select(too_far, _number(code, 0, a), value)


def _negative(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    if dtype.kind == "f":
        return code.new(f"fneg {code.with_type(a)}", dtype, a.wide)
    return _binary(code, "sub", _number(code, 0, a), a)


def _absolute_value(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    if dtype.kind == "f":
        return code.intrinsic("fabs", dtype, a)
    if dtype.kind == "u":
        return a
    is_negative = _compare(code, "lt", a, _number(code, 0, a))
    return code.select(is_negative, _negative(code, dtype, {}, a), a)


def _sign(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    zero = _number(code, 0, a)
    one = _number(code, 1, a)
    if dtype.kind == "f":
        # A zero keeps its sign, and a NaN is its own.
        unchanged = _binary(code, "or", _compare(code, "eq", a, zero), _compare(code, "ne", a, a))
        return code.select(unchanged, a, code.intrinsic("copysign", dtype, one, a))
    if dtype.kind == "u":
        return code.select(_compare(code, "eq", a, zero), zero, one)
    signed = code.select(_compare(code, "lt", a, zero), _number(code, -1, a), one)
    return code.select(_compare(code, "eq", a, zero), zero, signed)


def _extreme(name: str) -> Callable[..., Value]:
    def rule(code: Code, dtype: np.dtype, params: dict, a: Value, b: Value) -> Value:
        first = _compare(code, name, a, b)
        if dtype.kind == "f":
            # A NaN in either is the result: if it is b, no comparison chooses a.
            first = _binary(code, "or", first, _compare(code, "ne", a, a))
        return code.select(first, a, b)

    return rule


def _clamp(code: Code, dtype: np.dtype, params: dict, least: Value, x: Value, most: Value) -> Value:
    at_least = RULES["max"](code, dtype, params, least, x)
    return RULES["min"](code, dtype, params, at_least, most)


def _complement(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    return _binary(code, "xor", a, code.constant(_all_bits(dtype)))


def _all_bits(dtype: np.dtype) -> np.ndarray:
    """The whole number, or the truth value, all of whose bits are set."""
    if dtype == BOOL:
        return np.asarray(True)
    return np.asarray(-1 if dtype.kind == "i" else np.iinfo(dtype).max, dtype)


def _is_finite(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    return _compare(code, "lt", code.intrinsic("fabs", a.dtype, a), _number(code, np.inf, a))


def _round(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    even = params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN
    return code.intrinsic("rint" if even else "round", dtype, a)


def _select(code: Code, dtype: np.dtype, params: dict, which: Value, *cases: Value) -> Value:
    if which.dtype == BOOL:
        return code.select(which, cases[1], cases[0])
    value = cases[-1]
    for k in reversed(range(len(cases) - 1)):
        case = cases[k]
        value = code.select(_compare(code, "eq", which, _number(code, k, which)), case, value)
    return value


def _same_bits(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    if a.dtype.itemsize != dtype.itemsize or BOOL in (a.dtype, dtype):
        raise KeyError("bitcast")
    if a.dtype.kind in "iu" and dtype.kind in "iu":
        return Value(a.text, dtype, a.wide)
    return code.new(f"bitcast {code.with_type(a)} to {code.type(dtype, a.wide)}", dtype, a.wide)


def _convert(code: Code, dtype: np.dtype, params: dict, a: Value) -> Value:
    kind = a.dtype.kind
    new_kind = dtype.kind
    if dtype == BOOL:
        return _compare(code, "ne", a, _number(code, 0, a))
    if kind == "f" and new_kind == "f":
        instruction = "fpext" if dtype.itemsize > a.dtype.itemsize else "fptrunc"
    elif kind == "f":
        # Beyond the range it is the nearest number, and of a NaN 0.
        signed = "s" if new_kind == "i" else "u"
        name = f"llvm.fpto{signed}i.sat.{code.suffix(dtype, a.wide)}.{code.suffix(a.dtype, a.wide)}"
        return code.call_external(name, dtype, a.wide, code.with_type(a))
    elif new_kind == "f":
        instruction = "sitofp" if kind == "i" else "uitofp"
    elif a.dtype != BOOL and dtype.itemsize == a.dtype.itemsize:
        return Value(a.text, dtype, a.wide)
    elif a.dtype != BOOL and dtype.itemsize < a.dtype.itemsize:
        instruction = "trunc"
    else:
        instruction = "sext" if kind == "i" else "zext"
    return code.new(f"{instruction} {code.with_type(a)} to {code.type(dtype, a.wide)}", dtype, a.wide)


def _is_less(code: Code, dtype: np.dtype, params: dict, a: Value, b: Value) -> Value:
    """Whether a < b, where a NaN comes last."""
    less = _compare(code, "lt", a, b)
    if a.dtype.kind != "f":
        return less
    a_is_number = _compare(code, "eq", a, a)
    b_is_nan = _compare(code, "ne", b, b)
    return _binary(code, "or", less, code.both(a_is_number, b_is_nan))


def _is_not_greater(code: Code, dtype: np.dtype, params: dict, a: Value, b: Value) -> Value:
    """Whether a ≤ b, where a NaN comes last."""
    return _complement(code, BOOL, params, _is_less(code, dtype, params, b, a))


# Each rule is given the code, the type of the result, the parameters of JAX's operation, and its numbers.
RULES = {
    "lt_to": _is_less,
    "le_to": _is_not_greater,
    "neg": _negative,
    "abs": _absolute_value,
    "sign": _sign,
    "max": _extreme("gt"),
    "min": _extreme("lt"),
    "clamp": _clamp,
    "not": _complement,
    "is_finite": _is_finite,
    "round": _round,
    "select_n": _select,
    "bitcast_convert_type": _same_bits,
    "convert": _convert,
}
