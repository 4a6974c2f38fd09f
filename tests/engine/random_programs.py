"""Random programs of one member, by the compiler and by JAX operation by operation.

`python tests/engine/random_programs.py SEED COUNT` runs COUNT of them and says how many differ and how many are not
understood. A wrong program can be a segmentation fault, so the number of each stands in the output before it runs.

Floats are small whole numbers, NaN and infinities, so that sums and products are exact in any order.
"""

import logging
import os
import sys
import traceback
from collections import Counter
from pathlib import Path

os.environ.setdefault("JAX_ENABLE_X64", "1")
if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import jax
import jax.numpy as jnp
import numpy as np
from helpers.graphics import on_host
from jax import lax
from jax.extend.core import Literal

from geodyn._engine.internals import inner_program, scan_counts
from geodyn._engine.llvm import processor
from geodyn._engine.program import members

SMALL = [(), (1,), (3,), (2, 3), (3, 1), (5,), (4, 4), (2, 1, 3), (9,), (0,), (2, 0)]
LARGE = [(300,), (17, 17), (3, 100), (1, 260), (2, 3, 50), (16, 17), (16, 16), (258, 1)]
BATCHES = [(1,), (2,), (7,), (8,), (9,), (16,), (19,), (2, 3), (3, 5), (1, 4)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -5.0, 8.0, np.inf, -np.inf, np.nan]
LOOPS, WRITES = ["do_loop", "do_until", "do_scan", "do_branch", "do_map"], ["do_write", "do_scatter", "do_binary"]
MODES = ["clip", "drop", "fill", "promise_in_bounds"]


# --------------------------------------------------------------------------------------------- what is right


def evaluated(closed, args) -> list:
    """The results of a program: loops and branches are Python's, each operation is one of JAX's on its own."""
    jaxpr = closed.jaxpr
    env = dict(zip(jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    env |= dict(zip(jaxpr.invars, args, strict=True))

    def read(x):
        return np.asarray(x.val, x.aval.dtype) if isinstance(x, Literal) else env[x]

    for equation in jaxpr.eqns:
        given = [read(x) for x in equation.invars]
        env |= dict(zip(equation.outvars, operation(equation, given), strict=True))
    return [read(x) for x in jaxpr.outvars]


def operation(equation, given) -> list:
    name, p = equation.primitive.name, equation.params
    inner = inner_program(equation)
    if inner is not None:
        return evaluated(inner, given)
    if name == "while":
        first, second = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        carry = given[second:]
        while True:  # Under vmap there is one answer for each row, and a row that does not go on stays as it is.
            goes = np.asarray(evaluated(p["cond_jaxpr"], [*given[:first], *carry])[0])
            if not goes.any():
                return carry
            new = evaluated(p["body_jaxpr"], [*given[first:second], *carry])
            which = [goes.reshape(goes.shape + (1,) * (np.ndim(x) - goes.ndim)) for x in new]
            carry = [np.where(*x) for x in zip(which, new, carry, strict=True)] if goes.ndim else new
    if name == "scan":
        nk, nc = scan_counts(equation)
        consts, carry, xs = given[:nk], given[nk : nk + nc], given[nk + nc :]
        turns = range(p["length"])
        rows = {}
        for k in reversed(turns) if p["reverse"] else turns:
            outs = evaluated(p["jaxpr"], [*consts, *carry, *(x[k] for x in xs)])
            carry, rows[k] = outs[:nc], outs[nc:]
        stacked = [
            np.array([rows[k][j] for k in turns], v.aval.dtype).reshape(v.aval.shape)
            for j, v in enumerate(equation.outvars[nc:])
        ]
        return [*carry, *stacked]
    if name == "cond":
        branch = min(max(int(given[0]), 0), len(p["branches"]) - 1)
        return evaluated(p["branches"][branch], given[1:])
    out = equation.outvars[0].aval
    from_float = given and given[0].dtype.kind == "f" and out.dtype.kind in "iu"
    if name in IN_NUMPY and given and not (name == "convert_element_type" and from_float):
        return [np.asarray(IN_NUMPY[name](p, *given)).astype(out.dtype).reshape(out.shape)]
    found = equation.primitive.bind(*given, **p)
    return [np.asarray(x) for x in (found if equation.primitive.multiple_results else [found])]


def _pair(x, y):
    z = np.empty(x.shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    z.real, z.imag = x, y
    return z


def _broadcast(p, x):
    shape = [1] * len(p["shape"])
    for axis, size in zip(p["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), p["shape"])


def _part(x, starts, sizes):
    ends = zip(starts, x.shape, sizes, strict=True)
    begins = [(min(max(int(k), 0), n - size), size) for k, n, size in ends]
    return tuple(slice(k, k + size) for k, size in begins)


def _updated(p, x, new, *starts):
    out = np.array(x)
    out[_part(x, starts, new.shape)] = new
    return out


def _sliced(p, x):
    axes = zip(p["start_indices"], p["limit_indices"], p["strides"] or (1,) * x.ndim, strict=True)
    return x[tuple(slice(*axis) for axis in axes)]


def _by(function):
    return lambda p, *x: function(*x)


# What NumPy computes as JAX does, and without a compiler.
NAMES = """add add, sub subtract, mul multiply, neg negative, max maximum, min minimum, eq equal, ne not_equal, lt less,
    le less_equal, gt greater, ge greater_equal, and bitwise_and, or bitwise_or, xor bitwise_xor, not bitwise_not,
    floor floor, ceil ceil, is_finite isfinite, copy array, square square"""
IN_NUMPY = {name: _by(getattr(np, function)) for name, function in (pair.split() for pair in NAMES.split(","))}
IN_NUMPY |= dict.fromkeys(("reshape", "squeeze", "expand_dims"), lambda p, x: x)
IN_NUMPY |= {
    "convert_element_type": lambda p, x: x,
    "real": lambda p, x: x.real,
    "imag": lambda p, x: x.imag,
    "complex": lambda p, x, y: _pair(*np.broadcast_arrays(x, y)),
    "broadcast_in_dim": _broadcast,
    "slice": _sliced,
    "rev": lambda p, x: np.flip(x, p["dimensions"]),
    "transpose": lambda p, x: x.transpose(p["permutation"]),
    "concatenate": lambda p, *x: np.concatenate(x, p["dimension"]),
    "select_n": lambda p, which, *x: np.choose(np.broadcast_to(which, x[0].shape).astype(int), x),
    "clamp": lambda p, a, x, b: np.minimum(np.maximum(a, x), b),
    "dynamic_slice": lambda p, x, *starts: x[_part(x, starts, p["slice_sizes"])],
    "dynamic_update_slice": _updated,
    "reduce_sum": lambda p, x: np.sum(x, p["axes"], dtype=x.dtype),
    "reduce_prod": lambda p, x: np.prod(x, p["axes"], dtype=x.dtype),
    "reduce_and": lambda p, x: np.all(x, p["axes"]),
    "reduce_or": lambda p, x: np.any(x, p["axes"]),
}


# ----------------------------------------------------------------------------------------------- the programs


def tame(x):
    """A float kept small, so that all sums and products of it are exact."""
    return lax.clamp(x.dtype.type(-9), x, x.dtype.type(9)) if x.dtype.kind == "f" else x


def cast(x, dtype):
    return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def fit(x, shape):
    """The numbers of an array, repeated or cut, in another shape."""
    size, flat = int(np.prod(shape)), x.reshape(-1)
    if x.shape == shape:
        return x
    if x.size == 0:
        return jnp.zeros(shape, x.dtype)
    if x.size < size:
        flat = jnp.concatenate([flat] * (-(-size // x.size)))
    return flat[:size].reshape(shape)


class Maker:
    """The choices of one program. Each function that JAX traces makes its own from a seed, since it may trace twice."""

    def __init__(self, seed, types, shapes, depth):
        self.seed, self.types, self.shapes, self.depth = seed, types, shapes, depth
        self.rng = np.random.default_rng(seed)
        # Each program has a taste of its own: some operations never, some often.
        taste = np.random.default_rng([self.seed[0], 1])
        names = [name for name in dir(self) if name.startswith("do_")]
        chosen = list(taste.permutation(names)[: taste.integers(3, len(names))])
        self.steps = [*chosen, *LOOPS, *WRITES, *taste.choice([*LOOPS, *WRITES, *names], 6)]

    def one_of(self, xs):
        return xs[self.rng.integers(len(xs))]

    def chance(self, p):
        return self.rng.random() < p

    def inner(self):
        return Maker([*self.seed, int(self.rng.integers(2**31))], self.types, self.shapes, self.depth + 1)

    def pick(self, env, kinds="fiub", least=0):
        """One of the arrays, sooner a late one, of one of these kinds and with so many axes."""
        found = [x for x in env if x.dtype.kind in kinds and x.ndim >= least]
        if not found:
            x = self.one_of(env)
            dtype = {"f": self.types[0], "i": self.types[1], "u": self.types[2], "b": np.dtype(bool)}[kinds[0]]
            x = cast(x, dtype)
            return x if x.ndim >= least else x.reshape((1,) * (least - x.ndim) + x.shape)
        late = found[-4:] if self.chance(0.5) else found
        return self.one_of(late)

    def like(self, env, x):
        """An array of the same shape and type."""
        same = [y for y in env if y.shape == x.shape and y.dtype == x.dtype]
        if same and self.chance(0.7):
            return self.one_of(same)
        return fit(cast(self.pick(env), x.dtype), x.shape)

    def whole(self, env, most):
        """An index: known, or computed, perhaps beyond the end."""
        if self.chance(0.3):
            return np.int32(self.rng.integers(-1, most + 2))
        x = self.pick(env, "iu")
        if x.size == 0:
            return np.int32(0)
        flat = x.reshape(-1)
        number = flat[int(self.rng.integers(x.size))]
        return (
            lax.rem(number, number.dtype.type(min(max(most, 1), np.iinfo(number.dtype).max)))
            if self.chance(0.6)
            else number
        )

    def flag(self, env):
        x = self.pick(env, "b")
        x = x if x.size and self.chance(0.7) else self.pick(env, "fi") > 0
        return x.reshape(-1)[0] if x.size and self.chance(0.6) else jnp.any(x)

    def block(self, env, count):
        """The arrays, and `count` more that are computed from them."""
        env = list(env)
        for _ in range(count):
            name = self.one_of(self.steps)
            env += [x for x in getattr(self, name)(env) if x.size < 2000]
        return env

    # Operations on numbers

    def do_unary(self, env):
        x = self.pick(env, "fi")
        ops = [lambda x: -x, lax.abs, lax.sign, lambda x: tame(x * x), lambda x: tame(lax.integer_pow(x, 3))]
        if x.dtype.kind == "f":
            ops += [lambda x: lax.floor(x / 2), lambda x: lax.ceil(x / 2), lambda x: lax.round(x / 2), jnp.isfinite]
            ops += [lambda x: lax.round(x / 2, lax.RoundingMethod.TO_NEAREST_EVEN), jnp.isnan]
        else:
            ops += [lambda x: ~x]
        return [self.one_of(ops)(x)]

    do_unary_again = do_unary

    def do_binary(self, env):
        x = self.pick(env, "fiu")
        y = self.like(env, x)
        if self.chance(0.2):
            y = jnp.full(x.shape, self.one_of([0, 1, 2, 3]), x.dtype)
        ops = [lambda x, y: tame(x + y), lambda x, y: tame(x - y), lambda x, y: tame(x * y), lax.max, lax.min, lax.rem]
        ops += [lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge]
        if x.dtype.kind != "f":
            ops += [lax.div, lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.shift_left]
            ops += [lax.shift_right_logical, lax.shift_right_arithmetic]
        else:
            ops += [lambda x, y: lax.floor(tame(x / y))]
        return [self.one_of(ops)(x, y)]

    do_binary_again = do_binary

    def do_logic(self, env):
        x = self.pick(env, "b")
        y = self.like(env, x)
        return [self.one_of([lambda x, y: x & y, lambda x, y: x | ~y, lambda x, y: x ^ y, lax.lt, lax.max])(x, y)]

    def do_where(self, env):
        x = self.pick(env)
        which = fit(self.pick(env, "b"), x.shape)
        return [lax.select(which if self.chance(0.7) else self.flag(env), x, self.like(env, x))]

    def do_choose(self, env):
        x = self.pick(env)
        cases = [x, self.like(env, x), self.like(env, x)]
        which = lax.rem(fit(cast(self.pick(env, "iu"), np.dtype(np.int32)), x.shape), np.int32(3))
        return [lax.select_n(lax.clamp(np.int32(0), which, np.int32(2)), *cases)]

    def do_clamp(self, env):
        x = self.pick(env, "fi", 1)
        return [lax.clamp(self.like(env, x), x, self.like(env, x))]

    def do_convert(self, env):
        x = self.pick(env)
        return [cast(x, self.one_of([*self.types, np.dtype(bool)]))]

    def do_bits(self, env):
        x = self.pick(env, "iu")
        return [lax.bitcast_convert_type(x, np.dtype(f"{'u' if x.dtype.kind == 'i' else ''}int{8 * x.dtype.itemsize}"))]

    def do_complex(self, env):
        x = self.pick(env, "f")
        a, b = lax.complex(x, self.like(env, x)), lax.complex(self.like(env, x), self.like(env, x))
        c = self.one_of([lambda: a * b, lambda: a + b, lambda: a - jnp.conj(b), lambda: -a])()
        if self.chance(0.3):
            turns = self.one_of([1, 2, 3])
            c = lax.fori_loop(0, turns, lambda k, s: lax.complex(tame(jnp.imag(s)), tame(jnp.real(s))) + b, c)
        if self.chance(0.3):
            c = lax.select(jnp.real(a) > 0, c, b)
        return [tame(jnp.real(c)), tame(jnp.imag(c)), a == b]

    # Operations on arrays

    def axes(self, x):
        return tuple(k for k in range(x.ndim) if self.chance(0.5))

    def do_reduce(self, env):
        x, axes = self.pick(env), None
        axes = self.axes(x)
        if x.dtype.kind == "b":
            return [self.one_of([lax.reduce_and, lax.reduce_or])(x, axes)]
        ops = [lambda x, a: tame(jnp.sum(x, a, dtype=x.dtype)), lax.reduce_max, lax.reduce_min]
        ops += [lambda x, a: jnp.prod(lax.clamp(x.dtype.type(0), x, x.dtype.type(1)), a, dtype=x.dtype)]
        return [self.one_of(ops)(x, axes)]

    def do_running(self, env):
        x = self.pick(env, "fi", 1)
        if x.size > 256 or x.size == 0:
            return []
        how = self.one_of([lax.cumsum, lax.cummax, lax.cummin])
        return [tame(how(x, int(self.rng.integers(x.ndim)), self.chance(0.5)))]

    def do_extreme(self, env):
        x = self.pick(env, "fiub", 1)
        axis = int(self.rng.integers(x.ndim))
        if x.shape[axis] == 0:
            return []
        return [self.one_of([lax.argmax, lax.argmin])(x, axis, self.types[1])]

    def do_sort(self, env):
        x = self.pick(env, "fiub", 1)
        axis = int(self.rng.integers(x.ndim))
        if x.size == 0 or x.size > 64:
            return []
        if self.chance(0.3):
            return list(lax.top_k(x, int(self.rng.integers(1, x.shape[-1] + 1)))) if x.dtype != bool else []
        with_it = [x, *(fit(self.pick(env), x.shape) for _ in range(self.rng.integers(0, 3)))]
        return list(lax.sort(with_it, dimension=axis, num_keys=int(self.rng.integers(1, len(with_it) + 1))))

    def do_move(self, env):
        x = self.pick(env, least=1)
        shape = self.one_of(self.shapes)
        ops = [lambda: lax.rev(x, self.axes(x)), lambda: x.T, lambda: x.reshape(-1), lambda: fit(x, shape)]
        ops += [lambda: lax.transpose(x, [int(k) for k in self.rng.permutation(x.ndim)])]
        ops += [lambda: lax.expand_dims(x, [int(self.rng.integers(x.ndim + 1))]), lambda: jnp.squeeze(x)]
        ops += [lambda: jnp.broadcast_to(x[..., :1], x.shape) if x.size else x]
        ops += [lambda: lax.broadcast_in_dim(x, (2, *x.shape), range(1, x.ndim + 1))]
        y = self.one_of(ops)()
        return [y, y.reshape(-1)] if self.chance(0.3) else [y]

    do_move_again = do_move

    def do_slice(self, env):
        x = self.pick(env, least=1)
        starts = [int(self.rng.integers(n + 1)) for n in x.shape]
        limits = [int(self.rng.integers(a, n + 1)) for a, n in zip(starts, x.shape, strict=True)]
        return [lax.slice(x, starts, limits, [int(self.rng.integers(1, 4)) for _ in starts])]

    def do_pad(self, env):
        x = self.pick(env, least=1)
        least = -1 if x.size < 200 and min(x.shape) > 2 else 0
        config = [tuple(int(k) for k in self.rng.integers(least, 3, 2)) for _ in x.shape]
        return [lax.pad(x, self.like(env, x.reshape(-1)[:1].reshape(()) if x.size else jnp.zeros((), x.dtype)),
                        [(lo, hi, int(self.rng.integers(3))) for lo, hi in config])]  # fmt: skip

    def do_join(self, env):
        x = self.pick(env, least=1)
        parts = [x, self.like(env, x), lax.rev(x, [0])][: self.rng.integers(1, 4)]
        return [lax.concatenate(parts, int(self.rng.integers(x.ndim)))]

    def do_split(self, env):
        x = self.pick(env, least=1)
        n = x.shape[0]
        if n < 2:
            return []
        k = int(self.rng.integers(1, n))
        return list(lax.split(x, [k, n - k]))

    def do_count(self, env):
        shape = self.one_of([s for s in self.shapes if s] or [(3,)])
        x = lax.broadcasted_iota(self.types[1], shape, int(self.rng.integers(len(shape))))
        return [x if self.chance(0.5) else tame(cast(x, self.types[0]))]

    def do_product(self, env):
        x = tame(self.pick(env, "fi", 1))
        if self.chance(0.4) and x.ndim > 1:
            y = self.like(env, x)
            batch = lax.dot_general(x, tame(y), (((x.ndim - 1,), (x.ndim - 1,)), ((0,), (0,))))
            return [tame(batch)]
        y = tame(self.like(env, x))
        axis = int(self.rng.integers(x.ndim))
        if (x.size // max(x.shape[axis], 1)) ** 2 > 2000:
            return []
        return [tame(lax.dot_general(x, y, (((axis,), (axis,)), ((), ()))))]

    def do_constant(self, env):
        x = self.pick(env)
        value = self.rng.integers(0, 3, x.shape)
        return [jnp.asarray(value.astype(x.dtype))]

    def do_call(self, env):
        m = self.inner()
        return list(jax.jit(lambda xs: m.block(xs, 2)[len(xs) :][-2:])(env[-4:])) if self.depth < 3 else []

    def do_map(self, env):
        x = self.pick(env, least=1)
        if self.depth >= 2 or not 0 < x.shape[0] <= 5:
            return []
        m, outer = self.inner(), env[-3:]

        def of_row(row):
            fresh = Maker(m.seed, m.types, m.shapes, m.depth + 1)
            return fresh.block([*outer, row], 3)[len(outer) :][-2:]

        return jax.lax.map(of_row, x) if m.seed[-1] % 2 else jax.vmap(of_row)(x)

    # Places that are computed

    def do_read(self, env):
        x = self.pick(env, least=1)
        if x.size == 0:
            return []
        sizes = [int(self.rng.integers(1, n + 1)) for n in x.shape]
        return [lax.dynamic_slice(x, [self.index32(env, n) for n in x.shape], sizes)]

    def index32(self, env, n):
        return cast(jnp.asarray(self.whole(env, n)), np.dtype(np.int32))

    def do_write(self, env):
        x = self.pick(env, least=1)
        if x.size == 0:
            return []
        new = self.like(env, x)
        new = new[tuple(slice(0, int(self.rng.integers(1, n + 1))) for n in x.shape)]
        y = lax.dynamic_update_slice(x, new, [self.index32(env, n) for n in x.shape])
        return [y, x] if self.chance(0.5) else [y]

    do_write_again = do_write

    def indices(self, env, n):
        if self.chance(0.3):
            return jnp.asarray(self.rng.integers(-1, n + 1, self.one_of([(1,), (3,), (2, 2)])))
        if self.chance(0.5):
            return jnp.stack([self.index32(env, n) for _ in range(self.rng.integers(1, 4))])
        return self.index32(env, n)

    def do_gather(self, env):
        x = self.pick(env, least=1)
        if x.shape[0] == 0:
            return []
        i = self.indices(env, x.shape[0])
        mode = self.one_of(MODES[:3])
        if x.ndim > 1 and x.shape[1] and self.chance(0.4):
            return [x.at[i, self.index32(env, x.shape[1])].get(mode=mode)]
        return [x.at[i].get(mode=mode)]

    def do_gather_along(self, env):
        x = self.pick(env, least=1)
        if x.size == 0 or x.size > 256:
            return []
        i = lax.rem(fit(cast(self.pick(env, "iu"), np.dtype(np.int32)), x.shape), np.int32(x.shape[-1]))
        return [jnp.take_along_axis(x, lax.abs(i), -1)]

    def do_scatter(self, env):
        x = self.pick(env, "fi", least=1)
        if x.shape[0] == 0:
            return []
        i = self.indices(env, x.shape[0])
        how = self.one_of(["set", "add", "mul", "min", "max"])
        if how == "set" and jnp.ndim(i):  # Of several numbers at one place, any may stay.
            i = i.reshape(-1)[0]
        mode = self.one_of(MODES[:3])
        at = x.at[i] if x.ndim == 1 or not x.shape[1] or self.chance(0.6) else x.at[i, self.index32(env, x.shape[1])]
        shape = jax.eval_shape(lambda: at.get()).shape
        new = fit(cast(self.pick(env), x.dtype), shape)
        y = getattr(at, "multiply" if how == "mul" else how)(tame(new), mode=mode)
        return [tame(y), x] if self.chance(0.4) else [tame(y)]

    do_scatter_again = do_scatter

    # Loops and branches

    def carry(self, env):
        """What a loop begins with, perhaps twice the same."""
        found = [self.pick(env) for _ in range(self.rng.integers(1, 4))]
        for _ in range(self.rng.integers(0, 3)):
            x = self.one_of(found)
            more = [x, self.like(env, x), tame(x + x) if x.dtype.kind in "fi" else x, jnp.ones(x.shape, x.dtype)]
            found.append(self.one_of(more))
        return found

    def turned(self, env, carry, count):
        """What a turn makes of the arrays that it is given."""
        env = self.block([*env, *carry], count)
        made = env[len(env) - count :]
        new = []
        for x in carry:
            same = [y for y in carry if y.shape == x.shape and y.dtype == x.dtype]
            choice = self.rng.random()
            if choice < 0.1:
                new.append(x)
            elif choice < 0.35:
                new.append(self.one_of(same))
            elif choice < 0.45 and x.ndim:
                new.append(lax.rev(self.one_of(same), [0]))
            elif choice < 0.65 and x.ndim and x.size:
                y, starts = self.one_of(same), [self.index32(env, n) for n in x.shape]
                new.append(lax.dynamic_update_slice(y, self.like(env, x)[:1], starts))
            elif choice < 0.85 and made:
                new.append(fit(cast(self.one_of(made), x.dtype), x.shape))
            else:
                new.append(self.like(env, x))
        return new, env

    def do_loop(self, env):
        if self.depth >= 3:
            return []
        carry, m = self.carry(env), self.inner()
        outer, count, steps = env[-5:], self.whole(env, 4), int(self.rng.integers(0, 4))
        count = lax.rem(jnp.asarray(count), jnp.asarray(count).dtype.type(4))
        if self.chance(0.4):
            count = int(self.rng.integers(0, 4))

        def body(k, carry):
            fresh = Maker(m.seed, m.types, m.shapes, m.depth)
            return fresh.turned([*outer, cast(jnp.asarray(k), self.types[1])], carry, steps)[0]

        return list(lax.fori_loop(count * 0, count, body, carry))

    do_loop_again = do_loop

    def do_until(self, env):
        if self.depth >= 3:
            return []
        carry, m = self.carry(env), self.inner()
        outer, steps = env[-5:], int(self.rng.integers(0, 4))

        def test(state):
            k, carry = state
            fresh = Maker([*m.seed, 1], m.types, m.shapes, m.depth + 3)
            return (k < 4) & fresh.flag(fresh.block([*outer, *carry], 1))

        def body(state):
            k, carry = state
            fresh = Maker(m.seed, m.types, m.shapes, m.depth)
            return k + 1, fresh.turned(outer, carry, steps)[0]

        return list(lax.while_loop(test, body, (0, carry))[1])

    do_until_again = do_until

    def do_scan(self, env):
        if self.depth >= 3:
            return []
        carry, m = self.carry(env), self.inner()
        outer, steps = env[-5:], int(self.rng.integers(0, 4))
        length = self.one_of([0, 1, 2, 3, 4])
        xs = [fit(x, (length, *x.shape[1:])) for x in (self.pick(env, least=1) for _ in range(self.rng.integers(0, 3)))]

        def body(carry, rows):
            fresh = Maker(m.seed, m.types, m.shapes, m.depth)
            new, env = fresh.turned([*outer, *rows], carry, steps)
            ys = [fresh.one_of([*env[-3:], *new, *carry, *rows]) for _ in range(fresh.rng.integers(0, 3))]
            return new, ys

        carry, ys = lax.scan(body, carry, xs, length=length, reverse=self.chance(0.4))
        return [*carry, *ys]

    do_scan_again = do_scan

    def do_branch(self, env):
        if self.depth >= 3:
            return []
        carry, ms = self.carry(env), [self.inner() for _ in range(self.rng.integers(2, 4))]
        outer, steps = env[-5:], int(self.rng.integers(0, 4))

        def branch(m):
            return lambda carry: Maker(m.seed, m.types, m.shapes, m.depth).turned(outer, carry, steps)[0]

        if len(ms) == 2:
            return list(lax.cond(self.flag(env), branch(ms[0]), branch(ms[1]), carry))
        return list(lax.switch(self.whole(env, len(ms)), [branch(m) for m in ms], carry))

    do_branch_again = do_branch


class Case:
    """A program, its arguments, and which of them all members share."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        x64 = jax.config.jax_enable_x64
        self.types = [
            np.dtype(x) for x in (rng.choice(["f8", "f4"]), rng.choice(["i8", "i4"]), rng.choice(["u4", "u1"]))
        ]
        self.types = self.types if x64 else [np.dtype("f4"), np.dtype("i4"), self.types[2]]
        shapes = [SMALL[k] for k in rng.integers(len(SMALL) if rng.random() < 0.2 else len(SMALL) - 2, size=3)]
        shapes = shapes[: rng.integers(1, 4)]
        if rng.random() < 0.4:
            shapes = [*shapes[: rng.integers(0, 3)], LARGE[rng.integers(len(LARGE))]]
        forms = [(shapes[rng.integers(len(shapes))], self.types[k]) for k in (0, 0, 1, 1, 2)[: rng.integers(3, 6)]]
        forms += [((), self.types[1])]
        self.shared = [bool(rng.random() < 0.35) for _ in forms]
        self.shared[rng.integers(len(forms))] = False
        self.batch = BATCHES[rng.integers(len(BATCHES))]
        self.width = int(rng.choice([2, 4, 8]))
        self.args = [
            self.numbers(rng, (*s, *(() if one else self.batch)), t)
            for (s, t), one in zip(forms, self.shared, strict=True)
        ]
        self.steps, self.results = int(rng.integers(2, 14)), int(rng.integers(1, 9))
        seed_of_program = [seed, 7]

        def program(*args):
            maker = Maker(seed_of_program, self.types, shapes, 0)
            env = maker.block(map(jnp.asarray, args), self.steps)
            late = env[len(args) :] or env
            return [maker.one_of(late if maker.chance(0.8) else env) for _ in range(self.results)]

        self.closed = jax.make_jaxpr(program)(*(jax.ShapeDtypeStruct(s, t) for s, t in forms))
        self.again = rng

    def numbers(self, rng, shape, dtype):
        if dtype.kind == "f":
            usual = rng.integers(-9, 10, shape).astype(dtype)
            odd = np.array(FLOATS)[rng.integers(len(FLOATS), size=shape)]
            return np.asarray(np.where(rng.random(shape) < 0.05, odd, usual)).astype(dtype)
        limits = np.iinfo(dtype)
        usual = rng.integers(-3 if dtype.kind == "i" else 0, 7, shape)
        odd = np.array([limits.min, limits.max, limits.max - 1], dtype)[rng.integers(3, size=shape)]
        return np.asarray(np.where(rng.random(shape) < 0.05, odd, usual.astype(dtype))).astype(dtype)

    def member(self, k):
        """The arguments of one member."""
        at = np.unravel_index(k, self.batch)
        return [x if one else x[(..., *at)] for x, one in zip(self.args, self.shared, strict=True)]


def run_natively(case, args, batch):
    """The results as numpy arrays; None if the program is not understood."""
    found = []

    def function(*args):
        values = members.natively(case.closed, args, batch)
        found.append(values is not None)
        return values or []

    values = [np.asarray(x) for x in jax.jit(function)(*args)]
    return values if found[0] else None


def same(got, want) -> bool:
    return (
        got.dtype == want.dtype
        and got.shape == want.shape
        and np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
    )


def check(seed: int) -> str | None:
    """None if the program with this number is right; else what is not. Raises LookupError where not understood."""
    case = Case(seed)
    with_width(case.width)
    size = int(np.prod(case.batch))
    got = run_natively(case, case.args, case.batch)
    if got is None:
        raise LookupError(REASONS.last)
    rng = case.again
    chosen = sorted({0, size - 1, int(rng.integers(size))})
    with np.errstate(all="ignore"):
        wants = {k: evaluated(case.closed, case.member(k)) for k in chosen}
    for k, want in wants.items():
        at = np.unravel_index(k, case.batch)
        for j, (g, w) in enumerate(zip(got, want, strict=True)):
            if not same(g[(..., *at)], np.asarray(w)):
                return f"result {j} of member {k}: {g[(..., *at)]} for {np.asarray(w)}"
    order = rng.permutation(size)[: rng.integers(1, size + 1)]
    others = [
        np.stack([case.member(k)[j] for k in order], -1) if not one else x
        for j, (x, one) in enumerate(zip(case.args, case.shared, strict=True))
    ]
    again = run_natively(case, others, (len(order),))
    for j, (g, a) in enumerate(zip(got, again, strict=True)):
        flat = g.reshape(*a.shape[:-1], size)[..., order]
        if flat.tobytes() != a.tobytes():
            return f"result {j} depends on the batch"
    alone = run_natively(case, case.member(size - 1), ())
    if alone is None:
        return f"alone it is not understood: {REASONS.last}"
    for j, (g, w) in enumerate(zip(alone, wants[size - 1], strict=True)):
        if not same(g, np.asarray(w)):
            return f"result {j} alone: {g} for {np.asarray(w)}"
    return as_kernel(case, got)


def as_kernel(case, wants) -> str | None:
    """None if the kernel for a graphics processor gives the same; else what does not."""
    size = int(np.prod(case.batch))
    args = [
        x if one else x.reshape(*x.shape[: x.ndim - len(case.batch)], size) for x, one in zip(case.args, case.shared)
    ]
    try:
        kernel = members.kernel_of(case.closed, tuple(case.shared))
    except members.NotUnderstood:
        return None
    threads = int(case.again.integers(1, size + 4))
    types = [((*v.shape, size), v.dtype) for v in case.closed.out_avals]
    for j, (g, w) in enumerate(zip(on_host(kernel, size, args, types, threads), wants, strict=True)):
        if not same(g.reshape(w.shape), w):
            return f"result {j} of the kernel: {g.reshape(w.shape)} for {w}"
    return None


class Reasons(logging.Handler):
    """The last message of the compiler."""

    last = ""

    def emit(self, record):
        self.last = record.getMessage()


REASONS = Reasons()


def with_width(lanes: int):
    members.width = processor.width = lambda: lanes
    processor.attributes.cache_clear()


def main(first: int, count: int) -> int:
    members.LOG.addHandler(REASONS)
    members.LOG.setLevel(logging.DEBUG)
    members.LOG.propagate = False
    members.MOST_PRODUCTS = sys.maxsize  # Large products of one member are tested as well.
    assert members.is_usable(), REASONS.last
    missing, wrong = Counter(), 0
    for seed in range(first, first + count):
        print(f"program {seed}", flush=True)
        try:
            failure = check(seed)
        except LookupError as reason:
            if type(reason) is not LookupError:
                failure = traceback.format_exc(limit=-4)
            else:
                missing[str(reason).removeprefix("a program is compiled by XLA: ")] += 1
                failure = None
        except Exception:
            failure = traceback.format_exc(limit=-4)
        if failure:
            wrong += 1
            print(f"WRONG {seed}: {failure[:1500]}", flush=True)
    for reason, times in missing.most_common():
        print(f"not understood {times} times: {reason}")
    print(f"{count} programs from {first}: {wrong} differ, {missing.total()} not understood")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:3])), 100))
