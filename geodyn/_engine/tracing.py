"""What keeps tracing short: loops that `jax.vmap` batches at little cost, and nothing that disturbs it meanwhile."""

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from geodyn._foundations.typing import Array, Bool, PyTree


def once(wanted: Bool[Array, ""], function: Callable, *args: PyTree) -> tuple:
    """`function(*args)` if `wanted`, else `args`. It is a loop of at most one turn instead of a `cond`, since `vmap`
    would compute both branches of a `cond` for every member."""

    def turn(state: tuple) -> tuple:
        return (jnp.zeros_like(wanted), *function(*state[1:]))

    return jax.lax.while_loop(lambda state: state[0], turn, (wanted, *args))[1:]


def batched_as(given: PyTree, start: PyTree) -> PyTree:
    """The arrays `start` of a loop, with the same values, but as if they were computed from those in `given`: under
    `vmap` they are batched if any of these is. JAX traces the body of a loop again whenever it finds that one more of
    its values is batched after a turn, and with it all loops inside."""
    traced = [x for x in jax.tree.leaves(given) if isinstance(x, Tracer) and x.size]
    differs = [x != x for x in map(_first, traced)]
    if not differs:
        return start
    either = functools.reduce(jnp.logical_or, differs)
    return jax.tree.map(lambda x: jax.lax.select_n(either, x, x) if eqx.is_array(x) else x, start)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """While a program is traced, lowered and run, without what would slow or stop that.

    Many objects are made and kept. Python's collector would go through all of them again and again to find next to
    nothing, which takes a tenth of a first call. And some of JAX's switches refuse what is meant: a NaN stands here for
    what is not known and an infinity for what is without bound, counts of steps are multiplied by lengths, and programs
    keep what they were made from. So the switches do not see into functions of the user that are called from here
    either: what goes wrong there is told by a status."""
    enabled = gc.isenabled()
    try:
        gc.disable()
        switches = _strict_switches()
        if not switches:
            yield
            return
        with contextlib.ExitStack() as stack:
            for switch in switches:
                stack.enter_context(switch)
            yield
    finally:
        if enabled:
            gc.enable()


def setting(name: str) -> Any:
    """A setting of JAX, as the user has it here."""
    return getattr(jax.config, name)


def _strict_switches() -> list:
    """What sets aside those of JAX's switches that are on."""
    switches = []
    if setting("jax_debug_nans"):
        switches.append(jax.debug_nans(False))
    if setting("jax_debug_infs"):
        switches.append(jax.debug_infs(False))
    if setting("jax_numpy_dtype_promotion") != "standard":
        switches.append(jax.numpy_dtype_promotion("standard"))
    if setting("jax_check_tracer_leaks"):
        switches.append(jax.check_tracer_leaks(False))
    return switches


def _first(x: Array) -> Array:
    return jax.lax.slice(x, (0,) * x.ndim, (1,) * x.ndim).reshape(()) if x.ndim else x
