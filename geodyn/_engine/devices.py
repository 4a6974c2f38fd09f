"""Arrays that several devices share.

JAX writes into the type of an array how devices share it: on a mesh with explicit axes the sharding, and inside of
`jax.shard_map` the axes along which it varies. A loop then refuses a start that is typed otherwise than what its body
returns, and programs that are traced once and evaluated later lose these types. So the functions of geodyn are computed
without them: the arrays are stripped of these types on the way in and get them again on the way out. Where the numbers
lie does not change.
"""

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
from jax.core import Tracer
from jax.sharding import AbstractMesh, PartitionSpec, auto_axes, get_abstract_mesh, use_abstract_mesh

from geodyn._engine import internals
from geodyn._engine.internals import ShapedArray
from geodyn._foundations.typing import Array, PyTree


def placed_anywhere(function: Callable) -> Callable:
    """A function of pytrees that takes arrays on any mesh of devices, with explicit, automatic or manual axes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        types = [jax.typeof(x) for x in jax.tree.leaves((args, kwargs)) if may_be_shared(x)]
        if not types:
            return function(*args, **kwargs)
        run = function
        if retyped_p is not None and (varying := frozenset().union(*map(internals.varying, types))):
            run = partial(_with_one_type, run, varying)
        mesh = next((x.sharding.mesh for x in types if x.sharding.mesh.explicit_axes), None)
        return run(*args, **kwargs) if mesh is None else _on_auto_axes(run, mesh, args, kwargs)

    return call


def may_be_shared(x: Any) -> bool:
    """Whether several devices may share x: whether it is traced, or lies on several."""
    if isinstance(x, Tracer):
        return True
    return isinstance(x, jax.Array) and not isinstance(x.sharding, jax.sharding.SingleDeviceSharding)


def _with_one_type(function: Callable, varying: frozenset, *args: Any, **kwargs: Any) -> PyTree:
    """The values of the function, whose arrays vary over these axes of the mesh; inside they have no such type."""
    arrays, rest = eqx.partition((args, kwargs), eqx.is_array)
    arrays = jax.tree.map(partial(internals.varying_over, axes=varying), arrays)
    like = jax.tree.leaves(arrays)[0]
    args, kwargs = eqx.combine(jax.tree.map(partial(_retype, typed=False, like=like), arrays), rest)
    values, rest = eqx.partition(function(*args, **kwargs), eqx.is_array)
    return eqx.combine(jax.tree.map(partial(_retype, typed=True, like=like), values), rest)


def _retype(x: Array, *, typed: bool, like: Array) -> Array:
    """The array x, whose type says that it varies as `like` does (`typed`), or says nothing."""
    return retyped_p.bind(x, like, typed=typed)[0]


def _abstract(x: ShapedArray, like: ShapedArray, *, typed: bool) -> list[ShapedArray]:
    return [internals.varying_type(x, like) if typed else internals.plain_type(x)]


def _batch(args: Sequence[Array], axes: Sequence[int | None], *, typed: bool) -> tuple[list, list]:
    (x, like), (axis, _) = args, axes
    return [_retype(x, typed=typed, like=like)], [axis]


def _pushed_forward(primals: Sequence[Array], tangents: Sequence, *, typed: bool) -> tuple[list, list]:
    (x, like), (t, _) = primals, tangents
    return [_retype(x, typed=typed, like=like)], [t if internals.is_zero(t) else _retype(t, typed=typed, like=like)]


def _pulled_back(cts: Sequence, x: Any, like: Array, *, typed: bool) -> list:
    (ct,) = cts
    return [ct if internals.is_zero(ct) else _retype(ct, typed=not typed, like=like), None]


def _same(x: Array, like: Array, **_: Any) -> list[Array]:
    return [x]


# What JAX's own casts cannot say: that an array which varies is to be typed as if it did not.
retyped_p = internals.new_operation(
    "retyped",
    run=_same,
    abstract=_abstract,
    batched=_batch,
    pushed_forward=_pushed_forward,
    pulled_back=_pulled_back,
    lowered=_same,
)


def _on_auto_axes(function: Callable, mesh: AbstractMesh, args: tuple, kwargs: dict) -> PyTree:
    """The values of the function on a mesh that JAX shards as it sees fit. The mesh stands in the types of the arrays,
    and need not have been set."""
    arrays, rest = eqx.partition((args, kwargs), eqx.is_array)
    others = []

    def on_arrays(arrays: PyTree) -> PyTree:
        args, kwargs = eqx.combine(arrays, rest)
        values, other = eqx.partition(function(*args, **kwargs), eqx.is_array)
        others.append(other)
        return values

    with use_abstract_mesh(mesh if get_abstract_mesh().empty else get_abstract_mesh()):
        values = auto_axes(on_arrays, out_sharding=PartitionSpec())(arrays)
    return eqx.combine(values, others[0])
