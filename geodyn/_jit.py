"""The one jit boundary: what is traced and what is static in what a user hands in."""

import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def jit(function):
    """`jax.jit` for pytrees of arrays, numbers and functions: numbers are traced (a new value does not recompile),
    functions and shapes are static, and so are counts, numpy's too."""
    compiled = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        return compiled(*traced_numbers(args), **traced_numbers(kwargs))

    return call


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
