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
# Points with so few numbers are written out one after the other: that is a short program, of whose operations the
# processor has several under way at a time.
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
    return _bind(function, args, nonlinear) if is_usable() else function(*args)


def _bind(function: Callable, args: tuple, nonlinear: tuple) -> PyTree:
    """The results by one operation of JAX. The arguments `nonlinear` are the first of `args`: in the others the
    function is linear."""
    given, structure = jax.tree.flatten(args)
    leaves = [_as_array(x) for x in given]
    forms = []

    def flat(*x: Array) -> list:
        values, form = jax.tree.flatten(function(*structure.unflatten(x)))
        forms.append(form)
        return values

    with _for_us():
        program, consts = _convert_closure(trace(flat, leaves))
    if internals.is_high(program.jaxpr):
        values = internals.eval_jaxpr(program.jaxpr, program.consts, *consts, *leaves)
    else:
        first = len(consts) + len(jax.tree.leaves(nonlinear))
        summed = ((),) * len(program.out_avals)
        values = program_p.bind(*consts, *leaves, program=program, nonlinear=first, batch=(), summed=summed)
    return forms[0].unflatten(values)


def _as_array(x: Any) -> Any:
    """A number of Python as an array, of the precision that JAX gives it; arrays as they are."""
    return np.asarray(x, jnp.result_type(x)) if isinstance(x, bool | int | float | complex) else x


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


def _convert_closure(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list]:
    """(program, constants): the program with its traced constants as further first arguments, and these constants."""
    jaxpr = closed.jaxpr
    constants = list(zip(jaxpr.constvars, closed.consts, strict=True))
    traced = [(variable, value) for variable, value in constants if isinstance(value, Tracer)]
    known = [(variable, value) for variable, value in constants if not isinstance(value, Tracer)]
    program = jaxpr.replace(
        constvars=[variable for variable, _ in known],
        invars=[*(variable for variable, _ in traced), *jaxpr.invars],
        # The names of the arguments are those of the function, which has fewer.
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    return ClosedJaxpr(program, [value for _, value in known]), [value for _, value in traced]


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
    pairs = list(zip(args, axes, strict=True))
    (size,) = {x.shape[axis] for x, axis in pairs if axis is not None}
    members_last = [x[..., None] if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in pairs]
    # Nothing is summed over the new axis: it is the members of the caller, who wants a result for each.
    summed = tuple((*sums, False) for sums in summed)
    values = program_p.bind(*members_last, batch=(*batch, size), summed=summed, **params)
    return values, [x.ndim - 1 for x in values]


def _push_forward(
    primals: Sequence,
    tangents: Sequence,
    *,
    program: Program,
    nonlinear: int,
    batch: tuple[int, ...],
    summed: Summed,
) -> tuple[list, list]:
    """(the results, their changes). A change has two parts: that with the arguments in which the program is not linear
    (`_rates`), and that with the others, which is the program itself with their changes in their place."""
    bind = partial(program_p.bind, program=program, nonlinear=nonlinear, batch=batch, summed=summed)
    values = bind(*primals)
    rates = []
    moving = tuple(k for k in range(nonlinear) if not internals.is_zero(tangents[k]))
    if moving:
        rates.append(_rates(primals, [tangents[k] for k in moving], program, moving, batch, summed))
    if any(not internals.is_zero(x) for x in tangents[nonlinear:]):
        # Zeros of numpy, since those of JAX may be programs of their own, which are compiled.
        changes = [_zeros(x.aval) if internals.is_zero(x) else x for x in tangents[nonlinear:]]
        known = primals[:nonlinear]
        rates.append(bind(*known, *changes))
    if len(rates) == 1:
        return values, rates[0]
    return values, [jax.lax.add(x, y) for x, y in zip(*rates, strict=True)]


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

    changing = [k for k, x in enumerate(program.out_avals) if jnp.issubdtype(x.dtype, jnp.inexact)]

    def rates_of_one(*args: Array) -> list:
        """The changes for one member, from the arguments of the program and the changes of those that are moving."""
        count = len(program.in_avals)
        at = args[:count]
        directions = args[count:]

        def results(*moved: Array) -> list:
            full = dict(enumerate(at)) | dict(zip(moving, moved, strict=True))
            found = evaluate(program, *full.values(), batch=())
            return [found[k] for k in changing]

        _, rates = jax.jvp(results, [at[k] for k in moving], list(directions))
        return rates

    traced = trace(rates_of_one, [*program.in_avals, *(program.in_avals[k] for k in moving)])
    # Without the operations of the program that only its own results need.
    needed = traced.jaxpr.replace(eqns=internals.needed_operations(traced.jaxpr))
    rates = program_p.bind(
        *primals,
        *changes,
        program=ClosedJaxpr(needed, traced.consts),
        nonlinear=len(primals),
        batch=batch,
        summed=tuple(summed[k] for k in changing),
    )
    found = dict(zip(changing, rates, strict=True))
    shapes = [x.shape for x in _abstract(program=program, batch=batch, summed=summed)]
    # `float0` is JAX's type of the changes of whole numbers.
    return [found[k] if k in found else np.zeros(shape, jax.dtypes.float0) for k, shape in enumerate(shapes)]


def _zeros(like: Any) -> np.ndarray:
    return np.broadcast_to(np.zeros((), like.dtype), like.shape)


def _pull_back(
    cts: Sequence, *args: Any, program: Program, nonlinear: int, batch: tuple[int, ...], summed: Summed
) -> list:
    """The cotangents of those linear arguments that JAX asks for (they are `unknown`), from those of the results."""
    known = args[:nonlinear]
    linear = args[nonlinear:]
    unknown = [internals.is_unknown(x) for x in linear]
    results = _abstract(program=program, batch=batch, summed=summed)
    cts = [jnp.zeros(y.shape, y.dtype) if internals.is_zero(x) else x for x, y in zip(cts, results, strict=True)]
    types = [x.aval if asked else jax.typeof(x) for x, asked in zip(linear, unknown, strict=True)]
    sums = tuple(_shared_axes(x.shape, batch) for x in types)
    # The transpose of a transpose is the program itself.
    transpose = program.program if isinstance(program, Transposed) else Transposed(program, nonlinear)
    pulled = program_p.bind(*known, *cts, program=transpose, nonlinear=nonlinear, batch=batch, summed=sums)
    of_linear = [x if asked else None for x, asked in zip(pulled, unknown, strict=True)]
    return [None] * nonlinear + of_linear


def _shared_axes(shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[bool, ...]:
    """For each axis of the batch, whether its members share an argument of this shape: its cotangent is the sum of
    those of the members."""
    of_members = shape[len(shape) - len(batch) :]
    return tuple(size != members for size, members in zip(of_members, batch, strict=True))


def _lower(*args: Array, platform: str | None, batch: tuple[int, ...], alone: bool, **params: Any) -> list[Array]:
    """The results on devices of this platform; None stands for any other."""
    if batch and math.prod(batch) == 1:
        return _of_one(*args, platform=platform, batch=batch, alone=alone, **params)
    if _is_by_itself(alone, batch):
        return _on_one_device(*args, platform=platform, batch=batch, **params)
    return _on_devices(*args, platform=platform, batch=batch, **params)


def _of_one(*args: Array, batch: tuple[int, ...], summed: Summed, **params: Any) -> list[Array]:
    """The results for a batch of one member, as those of this member."""
    alone = [x.reshape(x.shape[: x.ndim - len(batch)]) for x in args]
    no_sums = ((),) * len(summed)
    values = _lower(*alone, batch=(), summed=no_sums, **params)
    ones = (1,) * len(batch)
    return [x.reshape(*x.shape, *ones) for x in values]


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
        """How the work is divided, as `custom_partitioning` wants it: the mesh, the function that each device computes,
        and the shardings of the results and of the arguments."""
        given, wanted = jax.tree.map(lambda x: x.sharding, (given, wanted))
        _, of_args = given
        places = [_axes_of_mesh(k - len(batch), batch[k], args, of_args) for k in range(len(batch))]
        shares = [math.prod(mesh.shape[name] for name in names) for names in places]
        # Where the members cannot be divided evenly, each device computes all of them.
        if any(size % share for size, share in zip(batch, shares, strict=True)):
            given, wanted = jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec()), (given, wanted))
            places = [() for _ in batch]
            shares = [1 for _ in batch]
        sizes = tuple(size // share for size, share in zip(batch, shares, strict=True))

        def on_one_device(_: Any, parts: Sequence[Array]) -> list[Array]:
            on_mesh = contextlib.nullcontext() if get_abstract_mesh().empty else use_abstract_mesh(mesh.abstract_mesh)
            with on_mesh:
                values = _on_one_device(*parts, platform=platform, program=program, batch=sizes, summed=summed)
                return [_over_devices(x, sums, places) for x, sums in zip(values, summed, strict=True)]

        return mesh, on_one_device, wanted, given

    whole = jax.make_jaxpr(partial(evaluate, program, batch=batch, summed=summed))(*args)
    shared = internals.custom_partitioning(lambda consts, args: internals.eval_jaxpr(whole.jaxpr, consts, *args))
    of_consts = [_names_of_axes(x.shape, (), f"c{i}") for i, x in enumerate(whole.consts)]
    of_args = [_names_of_axes(x.shape, batch, f"x{i}") for i, x in enumerate(args)]
    outs = _abstract(program=program, batch=batch, summed=summed)
    of_results = [_names_of_axes(x.shape, batch, f"y{i}") for i, x in enumerate(outs)]
    # "c0_0, x0_0 b0 -> y0_0 b0": axes of one name are divided in the same way, as only those of the batch may be.
    before = ", ".join(" ".join(names) for names in (*of_consts, *of_args))
    after = ", ".join(" ".join(names) for names in of_results)
    undivided = [name for names in (*of_consts, *of_args, *of_results) for name in names if name[0] != "b"]
    shared.def_partition(partition, sharding_rule=f"{before} -> {after}", need_replication_factors=tuple(undivided))
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
    summed_places = [place for is_sum, place in zip(sums, places, strict=True) if is_sum]
    names = tuple(name for place in summed_places for name in place)
    return jax.lax.psum(x, names) if names else x


# One primitive of JAX, so that every transformation traces the program once, and so that its batching and its transpose
# can be defined: a `custom_linear_solve` with these rules was traced six times and more.
program_p = internals.new_operation(
    NATIVE,
    run=_run,
    abstract=_abstract,
    batched=_batch,
    pushed_forward=_push_forward,
    pulled_back=_pull_back,
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
        return _bind(twice, (x, x), (x,))[0]

    def pulled_back(x: Array) -> Array:
        _, pull = jax.vjp(of, x)
        (cotangent,) = pull(x)
        return cotangent

    x = np.zeros((2, 3))
    program = jax.make_jaxpr(jax.vmap(pulled_back))(x)
    return [v.shape for v in program.out_avals] == [x.shape]
