"""The one jit boundary: what is traced and what is static in what a user hands in."""

import functools
import inspect
import os
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# A processor may count more cores than it lends: parts stay long enough to gain from being batches.
_FEWEST_MEMBERS = 8


def jit(function):
    """`jax.jit` for pytrees of arrays, numbers and functions: numbers are traced (a new value does not recompile),
    functions and shapes are static, and so are counts, numpy's too."""
    compiled = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        return compiled(*traced_numbers(args), **traced_numbers(kwargs))

    return call


def jit_over_cores(function):
    """`jit` of a function whose last argument is a batch of independent members: on a processor equal parts of the
    batch run side by side, since XLA leaves the loops of a program to one core."""
    compiled = eqx.filter_jit(lambda part, batch, *args: function(*args, batch[part]))

    @functools.wraps(function)
    def call(*args):
        *args, batch = traced_numbers(args)
        count = max(1, min(_cores(), len(batch) // _FEWEST_MEMBERS))
        size = -(-len(batch) // count)
        parts = [jnp.asarray(part) for part in np.arange(count * size).reshape(count, size) % len(batch)]
        if count == 1:
            return compiled(parts[0], batch, *args)
        # Compiled before the threads start, or each of them would.
        run = compiled.lower(parts[0], batch, *args).compile()
        with ThreadPoolExecutor(count) as pool:
            done = list(pool.map(lambda part: jax.block_until_ready(run(part, batch, *args)), parts))
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[: len(batch)], *done)

    return call


def _cores() -> int:
    return (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1


def traced_numbers(tree):
    """The tree with every Python or numpy float in it an array, so that it is traced and not a part of the code, and
    every whole number of numpy's a Python int, which is static."""

    def traced(x):
        if isinstance(x, np.integer):
            return int(x)
        return jnp.asarray(x) if isinstance(x, float | complex | np.ndarray | np.generic) else x

    return jax.tree.map(traced, tree)


def static_count(name: str, count) -> int:
    """`count` as an int: numpy's would be traced. Raises ValueError unless it is a positive whole number."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count <= 0:
        raise ValueError(f"{name} must be a positive whole number, got {count!r}")
    return int(count)


def as_pytree(function):
    """The function as a pytree, which passes through any jax transformation: a plain one becomes static."""
    return jax.tree_util.Partial(function) if jax.tree_util.all_leaves([function]) else function


def with_time(function, count: int):
    """`function` of `count` arguments and, if it names a parameter `t`, the time, as a function of (t, *arguments)."""
    if "t" in _parameters(function):
        return lambda t, *args: function(*args[:count], t=t)
    return lambda t, *args: function(*args[:count])


def _parameters(function):
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
