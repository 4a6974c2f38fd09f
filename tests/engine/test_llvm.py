"""What the compiler makes of a program of one member, against JAX: each operation on the numbers where processors and
JAX differ, arrays that are changed in their place, and random programs (`random_programs.py`), each round of which runs
in a process of its own, for a wrong program can be a segmentation fault."""

import os
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.graphics import on_host
from jax import lax
from random_programs import evaluated

from geodyn._engine.llvm.processor import width
from geodyn._engine.native import native
from geodyn._engine.program import functions, members, rules

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


COMPLEX = {"abs": lambda x, y: abs(x), "square": lambda x, y: lax.square(x), "equal": lambda x, y: x == y}
COMPLEX |= {"unequal": lambda x, y: x != y, "product": lambda x, y: x * y, "quotient": lambda x, y: x / y}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    """Complex numbers to a few roundings; NaN and infinities alike, but in products and quotients, where C has rules of
    its own."""
    sizes = [0.0, -0.0, 1.0, -2.5, 3.0, 1e30, 1e-20]
    sizes += [] if name in ("product", "quotient") else [np.inf, -np.inf, np.nan]
    parts = np.array([*product(np.array(sizes, jnp.result_type(float)), repeat=4)]).T
    if name == "quotient":
        parts = parts[:, (parts[2] != 0) | (parts[3] != 0)]

    def function(a, b, c, d):
        z = COMPLEX[name](lax.complex(a, b), lax.complex(c, d))
        return [jnp.real(z), jnp.imag(z)] if jnp.iscomplexobj(z) else [z]

    closed = jax.make_jaxpr(function)(*parts[:, 0])
    got = jax.jit(lambda *args: members.natively(closed, args, args[0].shape))(*parts)
    want = np.asarray(jax.jit(function)(*parts))
    sizes = [abs(want).sum(0)] * 2 if name in ("product", "quotient") else abs(want)
    # Versions of XLA differ in the size of a number of which one part is infinite and the other one not a number.
    unknown = np.isinf(parts[:2]).any(0) & np.isnan(parts[:2]).any(0) if name == "abs" else False
    for g, w, size in zip(np.asarray(got), want, sizes, strict=False):
        limits = np.finfo(parts.dtype)
        with np.errstate(all="ignore"):
            near = abs(g.astype(parts.dtype) - w) <= 8 * limits.eps * size + 8 * limits.tiny
        wrong = ~(near | (g == w) | (np.isnan(g) & np.isnan(w)) | unknown)
        assert not wrong.any(), (parts[:, wrong][:, :5], g[wrong][:5], w[wrong][:5])


def compared(name, got, want, *args):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    off = got != want
    if want.dtype.kind == "f":
        limits = np.finfo(want.dtype)
        eps = limits.eps if "power" in name else 0
        with np.errstate(all="ignore"):
            off &= ~(np.isnan(got) & np.isnan(want)) & ~(abs(got - want) <= 2 * eps * abs(want) + limits.tiny)
    if name.startswith(
        ("rem", "mod")
    ):  # Versions of XLA differ in whether a divisor below the smallest normal number is zero.
        off &= ~((args[1] != 0) & (abs(args[1]) < np.finfo(want.dtype).tiny)) if want.dtype.kind == "f" else True
    cases = [tuple(x[k] for x in (*args, got, want)) for k in np.flatnonzero(off)[:8]]
    assert not off.any(), f"{name}: {off.sum()} differ: {cases}"


def small(x):
    """An array that the program has computed, and so may change in its place."""
    return lax.fori_loop(0, 2, lambda k, s: s * 2, x)


def put(x, n):
    return lax.dynamic_update_slice(x, jnp.full(1, 77, x.dtype), (n,))


def turns(function, *carry):
    return lax.fori_loop(0, 3, lambda k, carry: function(*carry), carry)


IN_PLACE = {
    "large arrays change places": lambda x, y, n: turns(lambda a, b: (b, a), y, y + 1),
    "a large one is reversed": lambda x, y, n: turns(lambda a: (a[::-1],), y),
    "a large one from a small one": lambda x, y, n: turns(
        lambda a, b: (a + 1, jnp.broadcast_to(a[:, None], (3, 100))), x, y.reshape(3, 100)
    ),
    "one that has changed and another": lambda x, y, n: turns(lambda a, b: (put(b, n), a), y, y),
    "what it was is kept": lambda x, y, n: turns(lambda a, b: (a[None][0], b + put(a, n).sum()), x, x.dtype.type(0)),
    "a result that is changed": lambda x, y, n: (lambda a: (a, put(a, n)))(small(x)),
    "before and after": lambda x, y, n: (lambda a: (put(a, n), a[::-1][:3], a[n]))(y + 1),
    "a branch that changes": lambda x, y, n: lax.switch(
        n, [lambda a, k: put(a, k).max(), lambda a, k: a.max()], y + 1, n.astype(jnp.uint32)
    ),
    "only some members": lambda x, y, n: lax.fori_loop(0, n, lambda k, a: turns(lambda a: (put(a, k),), a)[0], x),
    "a loop of each row": lambda x, y, n: jax.vmap(
        lambda a, k: lax.while_loop(lambda s: s[0] < k, lambda s: (s[0] + 1, s[1] * 2 + 1), (0, a))
    )(x, n + jnp.array([1, 3, 0])),
    "a loop that changes each row": lambda x, y, n: jax.vmap(
        lambda a, k: lax.while_loop(lambda s: s[0] < k, lambda s: (s[0] + 1, put(s[1], n)), (0, a))
    )(y.reshape(3, 100), n + jnp.array([1, 3, 0])),
    "a loop of no rows": lambda x, y, n: jax.vmap(
        lambda a: lax.while_loop(lambda s: s[0] < a, lambda s: (s[0] + 1, s[1] * 2), (0, a))
    )(x[:0]),
    "rows before a change": lambda x, y, n: lax.scan(lambda a, _: (put(a, n), a[::-1]), y, None, 3),
    "sums of nothing": lambda x, y, n: (y[:, None][:, :0].sum(1), y[:, None][:, :0] @ x[:0, None], jnp.sin(x[:0])),
    "nothing is the largest": lambda x, y, n: (x[:0].sum(), jnp.any(x[:0] > 0), jnp.all(x[:0] > 0)),
    "rows from beyond the end": lambda x, y, n: [
        a.at[jnp.array([1, k, 3])].get(mode="fill") for a in (y[None], y.reshape(3, 100)) for k in (n, 0)
    ],
    "padding that takes away": lambda x, y, n: [lax.pad(a, a[0], [(-4, 1, 2)]) for a in (y, x)],
    "computed after a change of what it needs": lambda x, y, n: (
        lambda a: (lambda z, b: (b, (z - 1).sum()))(a * a + 1, put(a, n))
    )(y + 1),
    "computed for each row": lambda x, y, n: ((y[None] * 2) + x[:, None]).sum(0),
    "sums of what is repeated": lambda x, y, n: [
        jnp.broadcast_to(x[:, None], (3, 300)).sum(1),
        lax.integer_pow(y, 0).sum() + jnp.broadcast_to(x[0], (300,)).sum(),
        jnp.broadcast_to(y[None], (5, 300)).sum(0),
    ],
    "one number for each row": lambda x, y, n: y.reshape(3, 100) * 2 - x[:, None],
    "computed for sums along axes": lambda x, y, n: [
        (y.reshape(3, 2, 50) * 2 + x[:, None, None]).sum(axes) for axes in (1, (0, 2), (), (0, 1, 2))
    ],
    "an elementary function of some numbers": lambda x, y, n: jnp.exp(0 * y[:40]) + y[:40],
    "sums so far": lambda x, y, n: [
        f(y.reshape(shape) % 3, axis, reverse)
        for f in (lax.cumsum, lax.cummax, lax.cummin, lax.cumprod)
        for shape, axis in (((300,), 0), ((3, 10, 10), 1), ((1, 300), 0))
        for reverse in (False, True)
    ],
    "computed for the real part": lambda x, y, n: jnp.real(lax.complex(y * 2, y - 1) * (1 + 2j)),
    "one of three complex": lambda x, y, n: jnp.real(lax.select_n(jnp.full(3, n % 3), x + 1j, x + 2j, x * 1j + 3)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_arrays_in_place(name):
    """Arrays that are changed where they stand, and read before and after it; and arrays of no numbers."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, (size, 5)).astype(float) for size in (3, 300))
    x, y, n = jnp.asarray(x), jnp.asarray(y), jnp.asarray(rng.integers(0, 3, 5), jnp.int32)
    closed = jax.make_jaxpr(lambda *args: jax.tree.leaves(IN_PLACE[name](*args)))(x[:, 0], y[:, 0], n[0])
    together = jax.jit(lambda *args: members.natively(closed, args, (5,)))(x, y, n)
    for k in range(5):
        own = np.asarray(x[:, k]), np.asarray(y[:, k]), np.asarray(n[k])
        want = evaluated(closed, own)
        alone = jax.jit(lambda *args: members.natively(closed, args, ()))(*own)
        for w, g, a in zip(want, together, alone, strict=True):
            np.testing.assert_array_equal(g[..., k], w)
            np.testing.assert_array_equal(a, w)


def test_what_stands_twice_is_one_function(monkeypatch):
    """A program in a program, with arrays in memory and a loop whose length is each member's own; once more in another
    order of its results, and with a number that is known."""
    monkeypatch.setattr(functions, "LONG", 3)
    monkeypatch.setattr(functions, "LONG_ON_GRAPHICS", 3)
    table = jnp.asarray(np.arange(40.0).reshape(4, 10))

    def longer(x, y):
        z = jax.lax.while_loop(lambda z: z[0] < 9, lambda z: 1.5 * z + x[0], 1 + jnp.abs(y))
        return table.T @ z, z

    first = jax.jit(lambda x, y: longer(x, y))
    second = jax.jit(lambda x, y: longer(x, y)[::-1])

    def program(x, y):
        a, b = first(x, y)
        c, d = second(y, b)
        e = jax.lax.fori_loop(0, 3, lambda _, z: first(0.1 * z, x)[1] - x, c)
        return [a, b, c, d, e, *(first(x, np.full(4, known))[0] for known in (2.0, 3.0))]

    x, y = np.linspace(0.5, 2, 28).reshape(4, 7), np.cos(np.arange(28.0)).reshape(4, 7)
    closed = jax.make_jaxpr(program)(x[:, 0], y[:, 0])
    text, _ = members.text_of(closed, (False, False), 4)
    assert text.count("define internal void @part") == 3  # One more for each number that is known.
    got = jax.jit(lambda x, y: members.natively(closed, (x, y), (7,)))(x, y)
    for g, want in zip(got, jax.vmap(program, -1, -1)(x, y), strict=True):
        np.testing.assert_allclose(g, want, rtol=1e-14)
    alone = jax.jit(lambda x, y: members.natively(closed, (x, y), ()))(x[:, 2], y[:, 2])
    kernel = members.kernel_of(closed, (False, False))
    assert kernel.text.count("define internal void @part") == 3
    types = [(g.shape, g.dtype) for g in got]
    for a, k, g in zip(alone, on_host(kernel, 7, [x, y], types, 3), got, strict=True):
        np.testing.assert_allclose(a, g[..., 2], rtol=1e-14)
        np.testing.assert_allclose(k, g, rtol=1e-14)


def test_what_stands_in_several_programs_is_compiled_once(monkeypatch):
    """A program of its own inside of others: in a loop, for a batch that each member has, with a number that is known,
    and inside of another one of its own; its text stands in none of them."""
    monkeypatch.setattr(rules, "LONG", 3)
    compiled = []
    load = functions.load_library
    monkeypatch.setattr(functions, "load_library", lambda name, text: compiled.append(name) or load(name, text))
    table = jnp.asarray(np.arange(40.0).reshape(4, 10) / 9)

    def inner(x, y):
        z = jax.lax.while_loop(lambda z: z[0] < 9, lambda z: 1.5 * z + jnp.abs(x[0]), 1 + jnp.abs(y))
        return table.T @ z, z

    def outer(x, y):
        a, b = native(inner, x, y)
        return a[:4] * b + jnp.tanh(x)

    def first(x, y):
        a, b = native(inner, x, y)
        rows = jax.vmap(lambda row: native(inner, row + y, y)[1])(jnp.stack([x, y, b]))
        c = jax.lax.fori_loop(0, 3, lambda _, z: native(inner, 0.1 * z, x)[1] - x, b)
        return [a, b, c, rows, native(outer, x, y), *(native(inner, x, np.full(4, k))[0] for k in (2.0, 3.0))]

    def second(x, y):
        return [native(inner, y, x)[1], native(outer, x, y)]

    x, y = np.linspace(0.5, 2, 28).reshape(4, 7), np.cos(np.arange(28.0)).reshape(4, 7)
    for program, new in ((first, 4), (second, 0)):
        closed = jax.make_jaxpr(program)(x[:, 0], y[:, 0])
        got = jax.jit(lambda x, y, closed=closed: members.natively(closed, (x, y), (7,)))(x, y)
        assert len(compiled) == len(set(compiled)) == new  # Both, and one for each number that is known.
        compiled.clear()
        for g, want in zip(got, jax.vmap(program, -1, -1)(x, y), strict=True):
            np.testing.assert_allclose(g, want, rtol=1e-14)
        text, _ = members.text_of(closed, (False, False), width())
        assert "declare void @geodyn_library_" in text and "@table." not in text
        alone = jax.jit(lambda x, y, closed=closed: members.natively(closed, (x, y), ()))(x[:, 2], y[:, 2])
        compiled.clear()
        for a, g in zip(alone, got, strict=True):
            np.testing.assert_allclose(a, g[..., 2], rtol=1e-14)


@pytest.mark.parametrize("batch", [(5,), (2, 3)])
def test_a_batch_in_a_program_is_a_loop(batch):
    """Of programs of their own, with an argument that all share and one that some share, and with sums over them: of
    twice as many members it is as long."""

    def longer(y):
        for _ in range(20):
            y = y + 0.01 * y * y
        return y

    def inner(x, factor, rows):
        y = jax.lax.while_loop(lambda y: jnp.sum(y) < 30, longer, jax.lax.stop_gradient(1 + jnp.abs(x)))
        return factor * y @ rows

    def program(x, factor, rows):
        one = partial(native, inner)
        for axis in range(len(batch)):
            one = jax.vmap(one, (0, None, 0 if axis == 0 else None))
        value, pull = jax.vjp(lambda factor: jnp.sum(one(x, factor, rows)), factor)
        return [one(x, factor, rows), value, pull(1.0)[0]]

    def lines(size):
        x, rows = (jnp.ones((*batch[:-1], size, 3)), jnp.ones((size, 3, 2)))
        return members.text_of(jax.make_jaxpr(program)(x, 2.0, rows), (True,) * 3, 4)[0].count("\n")

    x, rows = np.cos(np.arange(3.0 * np.prod(batch))).reshape(*batch, 3), np.ones((batch[-1], 3, 2))
    factor, closed = jnp.asarray(2.0), jax.make_jaxpr(program)(x, 2.0, rows)
    got = jax.jit(lambda *args: members.natively(closed, args, ()))(x, factor, rows)
    for a, want in zip(got, program(x, factor, rows), strict=True):
        np.testing.assert_allclose(a, want, rtol=1e-13)
    assert lines(40) < 1.5 * lines(20)


@pytest.mark.parametrize("rows", [3, 4, 5, 18])
def test_rows_are_computed_at_once(rows):
    """Of a scan that carries nothing: by one member alone as if they were members of a batch, with branches and loops
    of their own, in groups where there are many; in a batch one after the other."""
    table = jnp.asarray(np.arange(12.0).reshape(4, 3))

    def row(x, k):
        y = jax.lax.cond(x[0] > 0, lambda x: jnp.sin(x) @ table[:3].T, lambda x: 2 * jnp.exp(x), x)
        z = jax.lax.while_loop(lambda z: jnp.sum(z) < 20, lambda z: 2 * z + 1, jnp.abs(y))
        return z[k], jnp.concatenate([z, table[k]]), k + 1

    def program(x, k):
        return jax.lax.map(lambda at: row(*at), (x, k))

    x = np.resize([[0.3, -1.0, 2.0], [-0.5, 0.2, 1.0], [1.0, 1.0, -3.0]], (rows, 3)) + np.arange(rows)[:, None] / 9
    k = np.resize([2, 0, 1, 1], rows)
    closed = jax.make_jaxpr(program)(x, k)
    alone = jax.jit(lambda *args: members.natively(closed, args, ()))(x, k)
    for got, want in zip(alone, program(x, k), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    many = np.stack([x, -x, 0.1 * x], -1), np.stack([k, k[::-1], k], -1)
    together = jax.jit(lambda *args: members.natively(closed, args, (3,)))(*many)
    for got, want in zip(together, jax.vmap(program, -1, -1)(*many), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_a_row_is_written_once():
    """The program of many rows is as long as that of few, and computes four of them at once."""
    dtype = jnp.result_type(float)

    def row(y):
        z = jnp.sin(y) * jnp.cos(y) + jnp.tanh(y)
        return jnp.exp(z) / jnp.sum(jnp.sqrt(z * z + 1))

    def text(rows):
        closed = jax.make_jaxpr(lambda x: jax.lax.map(row, x))(np.ones((rows, 3), dtype))
        return members.text_of(closed, (True,), 4)[0]

    assert len(text(1000)) < 1.01 * len(text(100))
    number = {4: "float", 8: "double"}[dtype.itemsize]
    assert f"fdiv <4 x {number}>" in text(100)


FAR = np.array([[1e-10, 1e22, -2.0], [1e22, -5e7, 8e30], [3.0, -0.7, 1e-3]])


@pytest.mark.parametrize("x", [*FAR, FAR.T, 1e7 * FAR.T], ids=["some far", "all far", "none far", "many", "many far"])
def test_far_angles_beside_near_ones(x):
    """What only far angles need is called where there is one, and all others keep theirs."""

    def program(x):
        turned = jax.lax.map(lambda y: jnp.sin(y) + jnp.cos(y), x)
        return jnp.sin(x), jnp.tan(2 * x[:1]), turned

    x = x.astype(jnp.result_type(float))
    closed, batch = jax.make_jaxpr(program)(x[..., 0] if x.ndim > 1 else x), x.shape[1:]
    got = jax.jit(lambda x: members.natively(closed, [x], batch))(x)
    exact = np.asarray(x, float)
    wanted = np.sin(exact), np.tan(2 * exact[:1]), np.sin(exact) + np.cos(exact)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=8 * np.finfo(x.dtype).eps)


def random_programs(first: int, count: int, x64: bool, **environment: str):
    script = Path(__file__).with_name("random_programs.py")
    environment = {**os.environ, "JAX_ENABLE_X64": str(int(x64)), **environment}
    command = [sys.executable, str(script), str(first), str(count)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{run.stdout[-3000:]}\n{run.stderr[-3000:]}"


@pytest.mark.long
def test_random_programs(tmp_path):
    """Random programs: together, in another order and number, and alone; on vectors of two, four and eight. A second
    process finds the machine code on the disk."""
    for count in (3, 1):
        random_programs(0, count, True, JAX_COMPILATION_CACHE_DIR=str(tmp_path))
    assert list(tmp_path.glob("geodyn/*"))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("x64", [True, False])
@pytest.mark.parametrize("first", [1000, 2000])
def test_many_random_programs(first, x64):
    random_programs(first, 100, x64)


def test_few_rows_of_complex_numbers():
    """Alone and in a batch, with what is carried and without."""

    def program(x):
        rows = jax.lax.map(lambda r: (r[0] + 1j * r[1]) ** 2, x)
        total, sums = jax.lax.scan(lambda c, r: (c + r[1], c * (r[0] + 1j)), x[0, 0], x)
        return [jnp.real(rows), jnp.imag(rows), total, jnp.real(sums), jnp.imag(sums)]

    x = np.arange(12.0).reshape(3, 2, 2) - 5
    closed = jax.make_jaxpr(program)(x[..., 0])
    together = jax.jit(lambda x: members.natively(closed, (x,), (2,)))(x)
    alone = jax.jit(lambda x: members.natively(closed, (x,), ()))(x[..., 1])
    for many, one, want in zip(together, alone, program(x[..., 1]), strict=True):
        np.testing.assert_allclose(many[..., 1], want, rtol=1e-14)
        np.testing.assert_allclose(one, want, rtol=1e-14)
