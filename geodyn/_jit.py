"""The one jit boundary, and the one place that knows how the compiled code is laid out."""

import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata


def jit(function):
    """`jax.jit` for pytrees of arrays, numbers and functions: numbers are traced (a new value does not recompile),
    functions and shapes are static."""
    compiled = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        return compiled(*traced_numbers(args), **kwargs)

    return call


def traced_numbers(tree):
    """The tree with every Python or numpy float in it an array, so that it is traced and not a part of the code."""
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float | complex | np.ndarray | np.generic) else x, tree)


def as_pytree(function):
    """The function as a pytree, which passes through any jax transformation: a plain one becomes static."""
    return jax.tree_util.Partial(function) if jax.tree_util.all_leaves([function]) else function


def native(function, *args):
    """`function(*args)` on arrays, compiled by XLA:CPU as one native function instead of one kernel per operation.

    A step of a small system is thousands of tiny operations, whose dispatch costs more than their arithmetic. The
    attribute is XLA's own (its pass for small while loops sets it) but undocumented; elsewhere than on the CPU, and
    where it is unknown, it does nothing. The function may not contain custom calls (LAPACK, callbacks).
    """
    leaves, structure = jax.tree.flatten(args)
    closed, out = jax.make_jaxpr(jax.jit(lambda *x: function(*structure.unflatten(x))), return_shape=True)(*leaves)
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        flat = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *leaves)
    return jax.tree.unflatten(jax.tree.structure(out), flat)


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
