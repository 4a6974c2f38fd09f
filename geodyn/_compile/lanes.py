"""Batching along the last axes: programs that under `vmap` keep the members of a batch last in all arrays.

XLA:CPU vectorises along the last axis. So a state [n] of B members is held as [n, B]. How functions are evaluated at
the members stands in `split.py`.
"""

import contextlib
import functools
import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, get_abstract_mesh, use_abstract_mesh

from geodyn._compile import internals, native
from geodyn._compile.program import members
from geodyn._compile.split import Target, current_target, lowered_for, over_last

# On other devices than CPUs computing by scalars means more kernels, which take longer to start than to run, unless the
# batch has many members. On a GPU (H100) 100 steps of 10⁵ rods take 0.45 s by scalars and 1.06 s by arrays, their
# gradients 1.6 and 2.7 s; those of 1000 rods 250 and 40 ms.
MANY = 30_000


def lanes(run: Callable, args, outs, *, plain: Callable, nonlinear: int | None = None, transposed=None):
    """The list of arrays `run((), kept, *args)`, with the shapes of `outs`, as a primitive that batches along the last
    axes.

    For a batch it is `run(batch, kept, *args)`, in which every array has one more trailing axis for each of the sizes
    `batch`: of that length, or of length 1 if all members share the values. For each result and each of these axes
    `kept` says whether the axis stays or may be summed over.

    If `nonlinear` is given, run is linear in the arguments from that place on, and `transposed` is its transpose: it
    takes the cotangents of the results in place of these arguments, and gives the cotangents of these arguments.
    `plain(*args)` computes the same for one member, in a form that JAX can differentiate."""
    outs = tuple((tuple(x.shape), np.dtype(x.dtype), ()) for x in outs)
    options = {"plain": plain, "nonlinear": nonlinear, "transposed": transposed}
    return lanes_p.bind(*args, run=run, outs=outs, batch=(), **options)


def _abstract(*args, outs, batch, **_):
    def sizes(kept):
        return tuple(b if k else 1 for b, k in zip(batch, kept, strict=True))

    return [internals.ShapedArray((*shape, *sizes(kept)), dtype) for shape, dtype, kept in outs]


def _evaluated(*args, run, batch, outs, **_):
    with jax.numpy_rank_promotion("allow"):  # A scalar such as the time has fewer axes than arrays.
        values = run(batch, [kept for *_, kept in outs], *args)
    return [_for_members(x, shape, kept, batch) for x, (shape, _, kept) in zip(values, outs, strict=True)]


def _for_members(x, shape, kept, batch):
    """The result x for each member, summed over the axes that are not kept."""
    axes = [len(shape) + i for i, k in enumerate(kept) if not k and x.shape[len(shape) + i] != 1]
    x = jnp.sum(x, axes, keepdims=True) if axes else x
    return jnp.broadcast_to(x, (*shape, *(b if k else 1 for b, k in zip(batch, kept, strict=True))))


def _on_processor(*args, batch, alone, outs, run, **params):
    if batch and math.prod(batch) == 1:  # A batch of one is one.
        one = [x.reshape(x.shape[: x.ndim - len(batch)]) for x in args]
        own = tuple((shape, dtype, ()) for shape, dtype, _ in outs)
        values = _on_processor(*one, batch=(), alone=alone, outs=own, run=run, **params)
        return [x.reshape(*x.shape, *batch) for x in values]
    if _is_by_itself(alone, batch):
        values = _natively(*args, batch=batch, outs=outs, run=run)
        if values is not None:
            return values
    with lowered_for(Target(by_scalars=True, is_processor=True)):
        return _on_devices(*args, alone=alone, batch=batch, outs=outs, run=run, **params)


def _is_by_itself(alone: bool, batch) -> bool:
    """Whether one device computes all members."""
    return alone or not batch or internals.for_devices is None


def _natively(*args, run, batch, outs) -> list | None:
    """`_evaluated` by machine code of our own, for one member at a time; None where that cannot be."""
    own = [x.shape[: x.ndim - len(batch)] for x in args]
    likes = [jax.ShapeDtypeStruct(shape, x.dtype) for shape, x in zip(own, args, strict=True)]
    with lowered_for(Target()), jax.numpy_rank_promotion("allow"):
        closed = jax.make_jaxpr(lambda *x: run((), [()] * len(outs), *x))(*likes)
    full = []
    for x, shape in zip(args, own, strict=True):
        shared = math.prod(x.shape[len(shape) :]) == 1
        full.append(x.reshape(shape) if shared else jnp.broadcast_to(x, (*shape, *batch)))
    values = members.natively(closed, full, batch)
    if values is None:
        return None
    return [_for_members(x, shape, kept, batch) for x, (shape, _, kept) in zip(values, outs, strict=True)]


def _on_accelerator(*args, batch, **params):
    with lowered_for(_accelerator(batch)):
        return _on_devices(*args, batch=batch, **params)


def _accelerator(batch) -> Target:
    return Target(by_scalars=math.prod(batch) >= MANY)


def _on_devices(*args, run, batch, outs, alone, **_):
    """`_evaluated`, by each device for its own members of a batch. If all devices ran one loop, each iteration would
    have to wait until all of them have said whether they go on."""
    evaluate = partial(_evaluated, run=run, outs=outs)
    if _is_by_itself(alone, batch):
        return evaluate(*args, batch=batch)
    target = current_target()

    def partition(mesh, given, wanted):
        given, wanted = jax.tree.map(lambda x: x.sharding, (given, wanted))
        places = [_axes_of_mesh(k - len(batch), batch[k], args, given[1]) for k in range(len(batch))]
        shares = [math.prod(mesh.shape[name] for name in names) for names in places]
        if any(size % share for size, share in zip(batch, shares, strict=True)):  # Then each device computes all.
            given, wanted = jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec()), (given, wanted))
            places, shares = [() for _ in batch], [1 for _ in batch]
        sizes = tuple(size // share for size, share in zip(batch, shares, strict=True))

        def on_one_device(_, parts):
            on_mesh = contextlib.nullcontext() if get_abstract_mesh().empty else use_abstract_mesh(mesh.abstract_mesh)
            with on_mesh, lowered_for(target if target.is_processor else _accelerator(sizes)):
                values = _natively(*parts, batch=sizes, outs=outs, run=run) if target.is_processor else None
                values = evaluate(*parts, batch=sizes) if values is None else values
                return [_summed(x, kept, places) for x, (*_, kept) in zip(values, outs, strict=True)]

        return mesh, on_one_device, wanted, given

    whole = jax.make_jaxpr(partial(evaluate, batch=batch))(*args)
    shared = internals.custom_partitioning(lambda consts, args: internals.eval_jaxpr(whole.jaxpr, consts, *args))
    terms = [
        *(_named(x.shape, (), f"c{i}") for i, x in enumerate(whole.consts)),
        *(_named(x.shape, batch, f"x{i}") for i, x in enumerate(args)),
    ]
    results = [_named(x.shape, batch, f"y{i}") for i, x in enumerate(_abstract(outs=outs, batch=batch))]
    own = dict.fromkeys(name for term in (*terms, *results) for name in term if name[0] != "b")
    rule = ", ".join(map(" ".join, terms)) + " -> " + ", ".join(map(" ".join, results))
    shared.def_partition(partition, sharding_rule=rule, need_replication_factors=tuple(own))
    return shared(whole.consts, args)


def _named(shape, batch, own: str):
    """A name for each axis of an array: b0, b1, … for those of the batch."""
    first = len(shape) - len(batch)
    return [
        f"b{i - first}" if i >= first and size == batch[i - first] else f"{own}_{i}" for i, size in enumerate(shape)
    ]


def _axes_of_mesh(place: int, size: int, args, shardings) -> tuple[str, ...]:
    """The axes of the mesh over which this axis of the batch is spread."""
    for x, sharding in zip(args, shardings, strict=True):
        if x.shape[place] == size and len(sharding.spec) == x.ndim and sharding.spec[place]:
            names = sharding.spec[place]
            return names if isinstance(names, tuple) else (names,)
    return ()


def _summed(x, kept, places):
    """A result that is a sum over the members of one device, summed over the devices."""
    names = tuple(name for k, names in zip(kept, places, strict=True) if not k for name in names)
    return jax.lax.psum(x, names) if names else x


def _batched(args, axes, *, outs, batch, **params):
    (size,) = {x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None}
    pairs = zip(args, axes, strict=True)
    args = [x[..., None] if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in pairs]
    outs = tuple((shape, dtype, (*kept, True)) for shape, dtype, kept in outs)
    values = lanes_p.bind(*args, outs=outs, batch=(*batch, size), **params)
    return values, [x.ndim - 1 for x in values]


def _of_members(plain, args, outs, batch):
    """`plain` for every member, batched by `jax.vmap`."""
    values = over_last(plain, len(batch), batch)(*args)
    sums = [tuple(x.ndim - len(batch) + i for i, k in enumerate(kept) if not k) for x, (*_, kept) in zip(values, outs)]
    return [jnp.sum(x, axes, keepdims=True) if axes else x for x, axes in zip(values, sums, strict=True)]


def _pushed_forward(primals, tangents, *, plain, nonlinear, outs, batch, **params):
    params |= {"plain": plain, "nonlinear": nonlinear, "outs": outs, "batch": batch}
    first = len(primals) if nonlinear is None else nonlinear

    def members(*args):
        return _of_members(plain, args, outs, batch)

    return native.pushed_forward(partial(lanes_p.bind, **params), members, first, primals, tangents)


def _pulled_back(cts, *args, run, transposed, plain, nonlinear, outs, batch):
    unknown = list(map(internals.is_unknown, args[nonlinear:]))
    known, t = (
        args[:nonlinear],
        [x.aval if u else jax.typeof(x) for x, u in zip(args[nonlinear:], unknown, strict=True)],
    )
    own = [x.shape[: x.ndim - len(batch)] for x in t]
    sizes = [x.shape[x.ndim - len(batch) :] for x in t]
    like = tuple(
        (shape, x.dtype, tuple(a == b for a, b in zip(size, batch, strict=True)))
        for shape, size, x in zip(own, sizes, t, strict=True)
    )
    full = _abstract(outs=outs, batch=batch)
    cts = [jnp.zeros(y.shape, y.dtype) if internals.is_zero(x) else x for x, y in zip(cts, full, strict=True)]

    def backwards(*args):
        known, cts = args[:nonlinear], args[nonlinear:]
        shapes = [jax.ShapeDtypeStruct(shape, x.dtype) for shape, x in zip(own, t, strict=True)]
        return jax.linear_transpose(lambda *t: plain(*known, *t), *shapes)(list(cts))

    params = {"run": transposed, "transposed": run, "plain": backwards, "nonlinear": nonlinear}
    pulled = lanes_p.bind(*known, *cts, outs=like, batch=batch, **params)
    return [None] * nonlinear + [x if u else None for x, u in zip(pulled, unknown, strict=True)]


lanes_p = internals.new_operation(
    "lanes",
    run=_evaluated,
    abstract=_abstract,
    batched=_batched,
    pushed_forward=_pushed_forward,
    pulled_back=_pulled_back,
    lowered=_on_accelerator,
    lowered_on_cpu=_on_processor,
)


@functools.cache
def is_usable() -> bool:
    """Whether this version of JAX supports the primitive of this file."""
    return native.is_usable() and internals.passes(_trial)


def _trial() -> bool:
    """Whether batches and transposes of the primitive have the right shapes. Nothing is compiled."""

    def twice(batch, kept, x):
        return [2 * x]

    def plain(x):
        return [2 * x]

    def of(x):
        return lanes(twice, (x,), [x], plain=plain, nonlinear=0, transposed=twice)[0]

    x = np.zeros((2, 3))
    program = jax.make_jaxpr(jax.vmap(lambda x: jax.vjp(of, x)[1](x)[0]))(x)
    return [v.shape for v in program.out_avals] == [x.shape]
