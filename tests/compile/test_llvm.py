"""What the compiler makes of a program of one member, against JAX: each operation on the numbers where processors and
JAX differ, arrays that are changed in their place, and random programs (`random_programs.py`), each round of which runs
in a process of its own, for a wrong program can be a segmentation fault."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from random_programs import evaluated

from geodyn._compile.llvm import members

pytestmark = [pytest.mark.float32, pytest.mark.newest, pytest.mark.skipif(members.llvm is None, reason="no llvmlite")]

TYPES = ["float64", "float32", "int64", "int32", "uint32", "uint8", "bool"]
SIZES = [0.0, 5e-324, 1e-40, 1e-310, 1e-20, 0.5, 1.0, 1.5, 2.5, 3.7, 200.0, 255.7, 2.0**31 - 1, 2.0**31, 2.0**32, 1e15]
SIZES += [2.0**63, 2.0**64, 3e38, 1e300, np.inf, np.nan]
AWAY = lax.RoundingMethod.AWAY_FROM_ZERO
EVEN = lax.RoundingMethod.TO_NEAREST_EVEN


def numbers(dtype) -> np.ndarray:
    """Those of a type with which something can go wrong."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array([*SIZES, *(-x for x in SIZES)]).astype(dtype)
    limits = np.iinfo(dtype)
    usual = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, limits.max - 1, limits.max, limits.min]
    return np.array([*usual, *([-1, -2, -7, -64, limits.min + 1] if dtype.kind == "i" else [])], dtype)


def is_here(dtype) -> bool:
    return jax.dtypes.canonicalize_dtype(dtype) == dtype


def operations(dtype) -> dict:
    """Functions of three numbers of a type."""
    found = {name: getattr(lax, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "max", "min")}
    found |= {"where": lambda x, y, z: lax.select(z > y, x, y)}
    found |= {"one of three": lambda x, y, z: lax.select_n((x > y).astype(jnp.int32) + (y > z), x, y, z)}
    found |= {"largest at": lambda *x: lax.argmax(jnp.stack(x), 0, jnp.int32)}
    found |= {"smallest at": lambda *x: lax.argmin(jnp.stack(x), 0, jnp.int32)}
    found |= {f"to {to}": lambda x, y, z, to=to: x.astype(to) for to in TYPES if is_here(np.dtype(to))}
    if dtype.kind != "b":
        found |= {name: getattr(lax, name) for name in ("add", "sub", "mul", "div", "rem", "sign", "square")}
        found |= {"clamp": lambda x, y, z: lax.clamp(y, x, z)}
        found |= {"neg": lambda x, y, z: -x, "abs": lambda x, y, z: abs(x)}
        found |= {f"to the power {n}": lambda x, y, z, n=n: lax.integer_pow(x, n) for n in (0, 1, 2, 3, 7)}
        found |= {"largest": lambda *x: lax.reduce_max(jnp.stack(x), (0,)), "mod": lambda x, y, z: jnp.mod(x, y)}
        found |= {"smallest": lambda *x: lax.reduce_min(jnp.stack(x), (0,))}
    if dtype.kind in "iub":
        names = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
        found |= {name: getattr(lax, name) for name in names}
    if dtype.kind in "iu":
        found |= {name: getattr(lax, name) for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")}
    if dtype.kind == "f":
        found |= {f"to the power {n}": lambda x, y, z, n=n: lax.integer_pow(x, n) for n in (-1, -2, -3)}
        found |= {name: getattr(lax, name) for name in ("floor", "ceil", "sqrt", "is_finite")}
        found |= {"round": lambda x, y, z: lax.round(x, AWAY), "round to even": lambda x, y, z: lax.round(x, EVEN)}
    if dtype.kind != "b":
        alike = [to for to in ("float64", "float32", "int64", "int32", "uint32", "uint8") if is_here(np.dtype(to))]
        alike = [to for to in alike if np.dtype(to).itemsize == dtype.itemsize]
        found |= {f"bits as {to}": lambda x, y, z, to=to: lax.bitcast_convert_type(x, to) for to in alike}
    return found


def arity(function) -> int:
    """How many numbers an operation of JAX's takes."""
    one = ("sign", "square", "bitwise_not", "floor", "ceil", "sqrt", "is_finite")
    return 1 if getattr(function, "__name__", "") in one else 2


@pytest.mark.parametrize("dtype", TYPES)
def test_each_operation(dtype):
    """The numbers of JAX: integers and booleans exactly, floats to a rounding, NaN and infinities alike; of one member
    in a batch, and of numbers that the compiler knows."""
    dtype = np.dtype(dtype)
    if not is_here(dtype):
        return
    pairs = np.array([*product(numbers(dtype), repeat=2)], dtype)
    x, y = pairs.T
    z = np.roll(x, 5)
    functions = operations(dtype)

    def all_of(x, y, z):
        return [f(*(x, y, z)[: arity(f)]) if f.__module__ != __name__ else f(x, y, z) for f in functions.values()]

    number = jax.ShapeDtypeStruct((), dtype)
    closed = jax.make_jaxpr(all_of)(number, number, number)
    want = jax.jit(all_of)(x, y, z)
    got = jax.jit(lambda *xs: members.natively(closed, xs, x.shape))(x, y, z)
    # Known numbers are compared as they are; at run time XLA takes those below the smallest normal one as zeros.
    normal = np.all(
        [(v == 0) | ~(abs(v) < np.finfo(dtype).tiny) for v in (x, y, z)] if dtype.kind == "f" else [x == x], 0
    )
    some = np.random.default_rng(0).permutation(np.flatnonzero(normal))[:60]
    known = jax.make_jaxpr(lambda k: jax.jit(all_of)(x[some], y[some], z[some]))(0)
    of_known = jax.jit(lambda k: members.natively(known, (k,), (3,)))(np.arange(3))
    for name, g, w, k in zip(functions, got, want, of_known, strict=True):
        compared(name, g, w, x, y, z)
        for member in range(3):
            compared(f"{name} of known numbers", k[:, member], w[some], x[some], y[some], z[some])


def compared(name, got, want, *args):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    off = got != want
    if want.dtype.kind == "f":
        limits = np.finfo(want.dtype)
        eps = limits.eps if "power" in name else 0
        with np.errstate(all="ignore"):
            off &= ~(np.isnan(got) & np.isnan(want)) & ~(abs(got - want) <= 2 * eps * abs(want) + limits.tiny)
    cases = [tuple(x[k] for x in (*args, got, want)) for k in np.flatnonzero(off)[:8]]
    assert not off.any(), f"{name}: {off.sum()} differ: {cases}"
