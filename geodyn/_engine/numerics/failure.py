"""The derivative of what failed: NaN, where that of a constant NaN would be 0."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.devices import placed_anywhere
from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool, PyTree


def no_derivative_where(failed: Bool[Array, "*B"] | Callable, values: PyTree, sources: PyTree) -> PyTree:
    """`values` as they are, whose derivatives of any order with respect to every number in `sources`, from which they
    were computed, are NaN where they `failed`.

    `failed` has the first axes of each value. It may be a `jax.tree_util.Partial` that returns such a mask, which is
    computed for derivatives only; `vmap` must then batch the values as it does the mask. In reverse mode a failed value
    that the result does not depend on, whose cotangent is 0, leaves the first derivative of the result as it is."""
    # JAX cannot differentiate a batch of a function within jit whose derivative is batched and whose value is not.
    return _spoilt_where(failed, values if callable(failed) else batched_as(failed, values), sources)


@eqx.filter_custom_jvp
def _spoilt_where(failed: Array | Callable, values: PyTree, sources: PyTree) -> PyTree:
    return values


@_spoilt_where.def_jvp
def _(primals: tuple, tangents: tuple) -> tuple[PyTree, PyTree]:
    failed, values, sources = primals
    moving = [x for x in map(jnp.asarray, jax.tree.leaves(tangents[2])) if jnp.issubdtype(x.dtype, jnp.inexact)]
    if not moving:
        return values, tangents[1]
    bad: Array = failed() if callable(failed) else failed

    def spoilt(value: Array, tangent: Array | None) -> Array | None:
        if not jnp.issubdtype(value.dtype, jnp.inexact):
            return tangent
        rate = sum(jnp.sum(x).astype(value.dtype) for x in moving)
        # One, for the value; without a derivative, so that those of higher order are NaN too.
        one = no_derivative_where(bad, jnp.ones(bad.shape, value.dtype), sources)
        wide = bad.shape + (1,) * (value.ndim - bad.ndim)
        rates = jnp.broadcast_to((one * rate).reshape(wide), value.shape)
        spoil = _nan_where(jnp.broadcast_to(bad.reshape(wide), value.shape), rates)
        return spoil if tangent is None else tangent + spoil

    leaves, form = jax.tree.flatten(values)
    changes = form.flatten_up_to(tangents[1])
    return values, form.unflatten([spoilt(x, dx) for x, dx in zip(leaves, changes, strict=True)])


def nan_unless(good: Bool[Array, "*B"], values: PyTree, sources: PyTree) -> PyTree:
    """`values` where they are `good`, else NaN, with NaN derivatives with respect to `sources`, from which they were
    computed. `good` has the first axes of each value."""

    def kept(value: Array) -> Array:
        return jnp.where(good.reshape(good.shape + (1,) * (value.ndim - good.ndim)), value, jnp.nan)

    return no_derivative_where(~good, jax.tree.map(kept, values), sources)


@placed_anywhere
def in_range_or_nan(x: Array, least: float, most: float, closed: bool) -> Array:
    """The numbers of x that are in (`least`, `most`), or in [`least`, `most`] and finite if `closed`; NaN, derivatives
    included, for the others."""
    valid = (x >= least) & (x <= most) & (x < jnp.inf) if closed else (x > least) & (x < most)
    return x * jnp.where(valid, 1.0, jnp.nan).astype(x.dtype)


def _nan_where(failed: Bool[Array, "*B"], rate: Array) -> Array:
    """NaN where `failed`, else 0, as a linear function of `rate`. Its transpose is NaN where a failed value has a
    cotangent. JAX takes the solution of a linear equation for linear, whatever the solver returns."""

    def forwards(_: Callable, rate: Array) -> Array:
        return jnp.where(failed, jnp.nan, jnp.zeros_like(rate))

    def backwards(_: Callable, cotangent: Array) -> Array:
        return jnp.where(failed & (cotangent != 0), jnp.nan, jnp.zeros_like(cotangent))

    return jax.lax.custom_linear_solve(lambda x: x, rate, forwards, backwards)
