"""Programs of one member as one operation of JAX, which batches, differentiates and transposes them.

A batch has the axes of its members behind an array's own axes: of their number, or of length one if all members share
the values. Where our compiler can (`program/`), an operation becomes machine code that computes each member as if it
were alone; elsewhere it is `jax.vmap` of the program as it was written. The parts of JAX that this needs are in
`internals.py`.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec, get_abstract_mesh, use_abstract_mesh

from geodyn._engine import internals, plain
from geodyn._engine.batches import NATIVE, Program, Summed, Transposed, evaluate, over_last, summed_over, trace
from geodyn._engine.internals import ClosedJaxpr, ShapedArray
from geodyn._engine.program import members
from geodyn._foundations.typing import Array, PyTree

# Whether a program is traced for our compiler. A context of JAX's own, so that no program that was traced for the one
# compiler is used for the other.
FOR_US = jax.make_user_context(False)
# Points with so few numbers are computed one beside the other, without a loop.
FEW_NUMBERS = 64


def native(function: Callable, *args: PyTree) -> PyTree:
    """`function(*args)` on arrays, by machine code of our own where that can be."""
    return _call(function, args, args)


def native_of(function: Callable, *args: PyTree) -> PyTree:
    """`native` for arguments that are not only arrays."""
    dynamic, static = eqx.partition(args, eqx.is_array)
    return native(lambda dynamic: function(*eqx.combine(dynamic, static)), dynamic)


def native_linear(function: Callable, known: PyTree, t: PyTree) -> PyTree:
    """`function(known, t)`, linear in the arrays t, as `native`, also when it is differentiated in either mode."""
    return _call(function, (known, t), (known,))


def _call(function: Callable, args: tuple, nonlinear: tuple) -> PyTree:
    return _bound(function, args, nonlinear) if is_usable() else function(*args)


def _bound(function: Callable, args: tuple, nonlinear: tuple) -> PyTree:
    leaves, structure = jax.tree.flatten(args)
    leaves = [np.asarray(x, jnp.result_type(x)) if isinstance(x, bool | int | float | complex) else x for x in leaves]
    forms = []

    def flat(*x: Array) -> list:
        values, form = jax.tree.flatten(function(*structure.unflatten(x)))
        forms.append(form)
        return values

    with _for_us():
        program, consts = closure_converted(trace(flat, leaves))
    if internals.is_high(program.jaxpr):
        values = internals.eval_jaxpr(program.jaxpr, program.consts, *consts, *leaves)
    else:
        first = len(consts) + len(jax.tree.leaves(nonlinear))
        summed = ((),) * len(program.out_avals)
        values = program_p.bind(*consts, *leaves, program=program, nonlinear=first, batch=(), summed=summed)
    return forms[0].unflatten(values)


def native_rows(function: Callable, *arrays: Array) -> PyTree:
    """`jax.vmap(function)(*arrays)`: the rows are members of a batch, which `native` computes several at a time."""
    return jax.vmap(lambda *row: native(function, *row))(*arrays)


def by_xla(function: Callable) -> Callable:
    """The function of arrays, as one that XLA computes faster, such as one with products and factors of matrices of a
    hundred rows: programs that contain it are computed as JAX computes them."""

    def run(*args: Array) -> PyTree:
        return function(*args)

    run.__name__ = members.BY_XLA
    return jax.jit(run)


def for_each(function: Callable, *args: Array) -> PyTree:
    """The function of every row of some arrays: a loop that our compiler takes as it likes; without it `jax.vmap`."""
    if members.llvm is None or not is_usable():
        return jax.vmap(function)(*args)
    return jax.lax.map(lambda row: function(*row), args)


def _for_us() -> contextlib.AbstractContextManager:
    """The context in which programs for our compiler are traced, where there is one."""
    return FOR_US(True) if members.llvm is not None else contextlib.nullcontext()


def for_points(function: Callable, *args: Array) -> PyTree:
    """The function of every row of some arrays, such as the points of a body: `jax.vmap`, and a loop in programs for
    our compiler where there are many numbers. Such a program is as long for a thousand points as for one, and what is
    computed for a point need not be kept for all of them."""
    numbers = sum(x.size for x in args)
    if not FOR_US.value or numbers <= FEW_NUMBERS:
        return jax.vmap(function)(*args)
    return for_each(function, *args)


def closure_converted(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list]:
    """(program, constants): the program with its traced constants as further first arguments, and these constants."""
    jaxpr, traced = closed.jaxpr, [isinstance(x, Tracer) for x in closed.consts]
    given = [v for v, moved in zip(jaxpr.constvars, traced, strict=True) if moved]
    kept = [v for v, moved in zip(jaxpr.constvars, traced, strict=True) if not moved]
    consts = [x for x, moved in zip(closed.consts, traced, strict=True) if not moved]
    names = jaxpr.debug_info.with_unknown_names()
    program = jaxpr.replace(constvars=kept, invars=[*given, *jaxpr.invars], debug_info=names)
    return ClosedJaxpr(program, consts), [x for x, moved in zip(closed.consts, traced, strict=True) if moved]


def _sizes(batch: tuple[int, ...], summed: tuple[bool, ...]) -> tuple[int, ...]:
    """The axes of the members of a result that is summed over some of them."""
    return tuple(1 if is_sum else size for size, is_sum in zip(batch, summed, strict=True))


def _abstract(*args: ShapedArray, program: Program, batch: tuple[int, ...], summed: Summed, **_: Any) -> list:
    return [
        internals.ShapedArray((*x.shape, *_sizes(batch, sums)), x.dtype)
        for x, sums in zip(program.out_avals, summed, strict=True)
    ]


def _run(*args: Array, **params: Any) -> list[Array]:
    """The results outside of any program, as under `jax.disable_jit`, where the program is traced all the same."""
    with jax.disable_jit(False):
        return jax.jit(partial(program_p.bind, **params))(*args)


def _batch(
    args: Sequence[Array], axes: Sequence[int | None], *, batch: tuple[int, ...], summed: Summed, **params: Any
) -> tuple[list, list[int]]:
    (size,) = {x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None}
    pairs = zip(args, axes, strict=True)
    args = [x[..., None] if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in pairs]
    summed = tuple((*sums, False) for sums in summed)
    values = program_p.bind(*args, batch=(*batch, size), summed=summed, **params)
    return values, [x.ndim - 1 for x in values]


def _pushed_forward(
    primals: Sequence,
    tangents: Sequence,
    *,
    program: Program,
    nonlinear: int,
    batch: tuple[int, ...],
    summed: Summed,
) -> tuple[list, list]:
    bind = partial(program_p.bind, program=program, nonlinear=nonlinear, batch=batch, summed=summed)
    values, known = bind(*primals), primals[:nonlinear]
    rates = []
    moving = tuple(k for k in range(nonlinear) if not internals.is_zero(tangents[k]))
    if moving:
        rates.append(_rates(primals, [tangents[k] for k in moving], program, moving, batch, summed))
    if any(not internals.is_zero(x) for x in tangents[nonlinear:]):
        # Zeros of numpy, since those of JAX may be programs of their own, which are compiled.
        changes = [_zeros(x.aval) if internals.is_zero(x) else x for x in tangents[nonlinear:]]
        rates.append(bind(*known, *changes))
    return values, rates[0] if len(rates) == 1 else [jax.lax.add(x, y) for x, y in zip(*rates, strict=True)]


def _rates(
    primals: Sequence,
    changes: Sequence,
    program: Program,
    moving: tuple[int, ...],
    batch: tuple[int, ...],
    summed: Summed,
) -> list:
    """The changes of the results with those arguments of a program that are `moving`, by a program that is linear in
    their changes. Whole numbers have none."""

    def rate(*args: Array) -> list:
        primals, changes = args[: len(program.in_avals)], args[len(program.in_avals) :]

        def at(*moved: Array) -> list:
            full = dict(enumerate(primals)) | dict(zip(moving, moved, strict=True))
            found = evaluate(program, *full.values(), batch=())
            return [found[k] for k in changing]

        return jax.jvp(at, [primals[k] for k in moving], list(changes))[1]

    changing = [k for k, x in enumerate(program.out_avals) if jnp.issubdtype(x.dtype, jnp.inexact)]
    of_one = trace(rate, [*program.in_avals, *(program.in_avals[k] for k in moving)])
    of_one = ClosedJaxpr(of_one.jaxpr.replace(eqns=internals.needed_operations(of_one.jaxpr)), of_one.consts)
    linear = {"program": of_one, "nonlinear": len(primals), "summed": tuple(summed[k] for k in changing)}
    found = dict(zip(changing, program_p.bind(*primals, *changes, batch=batch, **linear), strict=True))
    shapes = [x.shape for x in _abstract(program=program, batch=batch, summed=summed)]
    return [found[k] if k in found else np.zeros(shape, jax.dtypes.float0) for k, shape in enumerate(shapes)]


def _zeros(like: Any) -> np.ndarray:
    return np.broadcast_to(np.zeros((), like.dtype), like.shape)


def _pulled_back(
    cts: Sequence, *args: Any, program: Program, nonlinear: int, batch: tuple[int, ...], summed: Summed
) -> list:
    known = args[:nonlinear]
    unknown = list(map(internals.is_unknown, args[nonlinear:]))
    t = [x.aval if u else jax.typeof(x) for x, u in zip(args[nonlinear:], unknown, strict=True)]
    full = _abstract(program=program, batch=batch, summed=summed)
    cts = [jnp.zeros(y.shape, y.dtype) if internals.is_zero(x) else x for x, y in zip(cts, full, strict=True)]
    # The cotangent of an argument that all members share is a sum over the members.
    sums = tuple(tuple(a != b for a, b in zip(x.shape[x.ndim - len(batch) :], batch, strict=True)) for x in t)
    pulling = program.program if isinstance(program, Transposed) else Transposed(program, nonlinear)
    pulled = program_p.bind(*known, *cts, program=pulling, nonlinear=nonlinear, batch=batch, summed=sums)
    return [None] * nonlinear + [x if u else None for x, u in zip(pulled, unknown, strict=True)]


def _lower(*args: Array, platform: str | None, batch: tuple[int, ...], alone: bool, **params: Any) -> list[Array]:
    """The results on devices of this platform; None stands for any other."""
    if batch and math.prod(batch) == 1:  # A batch of one is one.
        return _of_one(*args, platform=platform, batch=batch, alone=alone, **params)
    if _is_by_itself(alone, batch):
        return _on_one_device(*args, platform=platform, batch=batch, **params)
    return _on_devices(*args, platform=platform, batch=batch, **params)


def _of_one(*args: Array, batch: tuple[int, ...], summed: Summed, **params: Any) -> list[Array]:
    one = [x.reshape(x.shape[: x.ndim - len(batch)]) for x in args]
    values = _lower(*one, batch=(), summed=((),) * len(summed), **params)
    return [x.reshape(*x.shape, *(1 for _ in batch)) for x in values]


def _on_one_device(
    *args: Array,
    platform: str | None,
    program: Program,
    batch: tuple[int, ...],
    summed: Summed,
    **_: Any,
) -> list[Array]:
    values = _natively(platform, program, args, batch, summed) if platform else None
    return _by_xla(program, *args, batch=batch, summed=summed) if values is None else values


def _by_xla(program: Program, *args: Array, batch: tuple[int, ...], summed: Summed) -> list:
    """The results by `jax.vmap` of the plain program."""
    closed = program.closed_jaxpr() if isinstance(program, Transposed) else program
    one = partial(plain.evaluate, closed.jaxpr, closed.consts)
    return summed_over(over_last(one, batch)(*args), batch, summed) if batch else one(*args)


def _is_by_itself(alone: bool, batch: tuple[int, ...]) -> bool:
    """Whether one device computes all members."""
    return alone or not batch or internals.for_devices is None


def _natively(
    platform: str, program: Program, args: Sequence[Array], batch: tuple[int, ...], summed: Summed
) -> list | None:
    """The results by machine code of our own; None where that cannot be."""
    closed = program.closed_jaxpr() if isinstance(program, Transposed) else program
    full = []
    for x, aval in zip(args, closed.in_avals, strict=True):
        is_shared = math.prod(x.shape[len(aval.shape) :]) == 1
        full.append(x.reshape(aval.shape) if is_shared else jnp.broadcast_to(x, (*aval.shape, *batch)))
    values = members.natively(closed, full, batch, platform)
    return None if values is None else summed_over(values, batch, summed)


def _on_devices(
    *args: Array,
    platform: str | None,
    program: Program,
    batch: tuple[int, ...],
    summed: Summed,
    **_: Any,
) -> list[Array]:
    """The results, by each device for its own members of a batch. If all devices ran one loop, each iteration would
    have to wait until all of them have said whether they go on."""

    def partition(mesh: Mesh, given: Any, wanted: Any) -> tuple:
        given, wanted = jax.tree.map(lambda x: x.sharding, (given, wanted))
        places = [_axes_of_mesh(k - len(batch), batch[k], args, given[1]) for k in range(len(batch))]
        shares = [math.prod(mesh.shape[name] for name in names) for names in places]
        if any(size % share for size, share in zip(batch, shares, strict=True)):  # Then each device computes all.
            given, wanted = jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec()), (given, wanted))
            places, shares = [() for _ in batch], [1 for _ in batch]
        sizes = tuple(size // share for size, share in zip(batch, shares, strict=True))

        def on_one_device(_: Any, parts: Sequence[Array]) -> list[Array]:
            on_mesh = contextlib.nullcontext() if get_abstract_mesh().empty else use_abstract_mesh(mesh.abstract_mesh)
            with on_mesh:
                values = _on_one_device(*parts, platform=platform, program=program, batch=sizes, summed=summed)
                return [_over_devices(x, sums, places) for x, sums in zip(values, summed, strict=True)]

        return mesh, on_one_device, wanted, given

    whole = jax.make_jaxpr(partial(evaluate, program, batch=batch, summed=summed))(*args)
    shared = internals.custom_partitioning(lambda consts, args: internals.eval_jaxpr(whole.jaxpr, consts, *args))
    terms = [
        *(_names_of_axes(x.shape, (), f"c{i}") for i, x in enumerate(whole.consts)),
        *(_names_of_axes(x.shape, batch, f"x{i}") for i, x in enumerate(args)),
    ]
    outs = _abstract(program=program, batch=batch, summed=summed)
    results = [_names_of_axes(x.shape, batch, f"y{i}") for i, x in enumerate(outs)]
    own = dict.fromkeys(name for term in (*terms, *results) for name in term if name[0] != "b")
    rule = ", ".join(map(" ".join, terms)) + " -> " + ", ".join(map(" ".join, results))
    shared.def_partition(partition, sharding_rule=rule, need_replication_factors=tuple(own))
    return shared(whole.consts, args)


def _names_of_axes(shape: tuple[int, ...], batch: tuple[int, ...], own: str) -> list[str]:
    """A name for each axis of an array: b0, b1, … for those of the batch."""
    first = len(shape) - len(batch)
    return [
        f"b{i - first}" if i >= first and size == batch[i - first] else f"{own}_{i}" for i, size in enumerate(shape)
    ]


def _axes_of_mesh(place: int, size: int, args: Sequence[Array], shardings: Sequence[NamedSharding]) -> tuple[str, ...]:
    """The axes of the mesh over which this axis of the batch is spread."""
    for x, sharding in zip(args, shardings, strict=True):
        if x.shape[place] == size and len(sharding.spec) == x.ndim and sharding.spec[place]:
            names = sharding.spec[place]
            return names if isinstance(names, tuple) else (names,)
    return ()


def _over_devices(x: Array, sums: tuple[bool, ...], places: Sequence[tuple[str, ...]]) -> Array:
    """A result that is a sum over the members of one device, summed over the devices."""
    names = tuple(name for is_sum, names in zip(sums, places, strict=True) if is_sum for name in names)
    return jax.lax.psum(x, names) if names else x


# One primitive of JAX, so that every transformation traces the program once, and so that its batching and its transpose
# can be defined: a `custom_linear_solve` with these rules was traced six times and more.
program_p = internals.new_operation(
    NATIVE,
    run=_run,
    abstract=_abstract,
    batched=_batch,
    pushed_forward=_pushed_forward,
    pulled_back=_pulled_back,
    lowered=_lower,
)


@functools.cache
def is_usable() -> bool:
    """Whether this version of JAX allows programs to be transformed and compiled in this way."""
    return internals.passes(_trial)


def engine(platform: str) -> str:
    """What computes on the devices of this platform, in words."""
    ours = {"cpu": "cpu", "gpu": "cuda"}.get(platform)
    if ours is None or not (is_usable() and members.is_usable(ours)):
        return "XLA alone"
    return f"the compiler of geodyn, for {members.processor_of(ours)}"


def _trial() -> bool:
    """Whether a batch of transposes has the right shapes. Nothing is compiled."""

    def twice(known: Array, t: Array) -> list[Array]:
        return [known * t]

    def of(x: Array) -> Array:
        return _bound(twice, (x, x), (x,))[0]

    x = np.zeros((2, 3))
    program = jax.make_jaxpr(jax.vmap(lambda x: jax.vjp(of, x)[1](x)[0]))(x)
    return [v.shape for v in program.out_avals] == [x.shape]
