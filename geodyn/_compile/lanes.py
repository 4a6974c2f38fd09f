"""Batching along the last axes: programs that under `vmap` keep the members of a batch last in all arrays.

XLA:CPU vectorises along the last axis. So a state [n] of B members is held as [n, B]. If a function is arithmetic on
few numbers, it is computed scalar by scalar (`Split`), and each scalar is one contiguous array over the members.
"""

import contextlib
import functools
import math
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec, get_abstract_mesh, use_abstract_mesh

from geodyn._compile import internals, native
from geodyn._compile.cells import fill, has_rule
from geodyn._compile.expressions import COST, WORTH_SHARING, Graph, Node
from geodyn._compile.scalars import LARGEST_ARRAY, Cells, Interpreter, inner_program

# On other devices than CPUs computing by scalars means more kernels, which take longer to start than to run, unless the
# batch has many members. On a GPU (H100) 100 steps of 10⁵ rods take 0.45 s by scalars and 1.06 s by arrays, their
# gradients 1.6 and 2.7 s; those of 1000 rods 250 and 40 ms.
MANY = 30_000
# With more scalars than this, arrays run as fast, and compile in less time.
MOST_SCALARS = 4000
# With more scalars than this for each operation on arrays, arrays take half as long to compile, and up to a third
# longer to run.
MOST_LONGER = 3
# Products of matrices with more entries, as in a neural network, take ten times as long to compile scalar by scalar.
LARGEST_PRODUCT = 128
# So few members of a batch are computed one after the other: together they take longer, since XLA starts each of
# thousands of short loops by a call of its own.
FEW = 16


class _Target(NamedTuple):
    """What a program is lowered for."""

    by_scalars: bool = False  # Arithmetic on few numbers is computed scalar by scalar.
    is_processor: bool = False
    is_one_function: bool = False  # A native function: twice as long, it takes more than twice as long to compile.


_UNKNOWN = _Target()
_target = ContextVar("target", default=_UNKNOWN)


def lanes(run: Callable, args, outs, *, plain: Callable, small: bool, nonlinear: int | None = None, transposed=None):
    """The list of arrays `run((), kept, *args)`, with the shapes of `outs`, as a primitive that batches along the last
    axes.

    For a batch it is `run(batch, kept, *args)`, in which every array has one more trailing axis for each of the sizes
    `batch`: of that length, or of length 1 if all members share the values. For each result and each of these axes
    `kept` says whether the axis stays or may be summed over.

    If `nonlinear` is given, run is linear in the arguments from that place on, and `transposed` is its transpose: it
    takes the cotangents of the results in place of these arguments, and gives the cotangents of these arguments.
    `plain(*args)` computes the same for one member, in a form that JAX can differentiate. `small` says that run is
    arithmetic on few numbers, which is faster as one native function."""
    outs = tuple((tuple(x.shape), np.dtype(x.dtype), ()) for x in outs)
    options = {"plain": plain, "nonlinear": nonlinear, "transposed": transposed, "small": small}
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


def _on_processor(*args, small, batch, alone, outs, **params):
    if batch and math.prod(batch) == 1:  # A batch of one is one.
        one = [x.reshape(x.shape[: x.ndim - len(batch)]) for x in args]
        own = tuple((shape, dtype, ()) for shape, dtype, _ in outs)
        values = _on_processor(*one, small=small, batch=(), alone=alone, outs=own, **params)
        return [x.reshape(*x.shape, *batch) for x in values]
    is_one = small and alone and math.prod(batch) <= FEW
    is_small = is_one and internals.HAS_SMALL_CALLS
    with _lowered_for(_Target(by_scalars=True, is_processor=True, is_one_function=is_small)):
        evaluate = _one_by_one if is_one and batch else _on_devices
        evaluate = partial(evaluate, alone=alone, batch=batch, outs=outs, **params)
        return native.small_call(evaluate, native.MOST_OF_SCALARS, *args) if is_small else evaluate(*args)


def _on_accelerator(*args, batch, **params):
    with _lowered_for(_accelerator(batch)):
        return _on_devices(*args, batch=batch, **params)


def _accelerator(batch) -> _Target:
    return _Target(by_scalars=math.prod(batch) >= MANY)


@contextlib.contextmanager
def _lowered_for(target: _Target):
    token = _target.set(target)
    try:
        yield
    finally:
        _target.reset(token)


def _one_by_one(*args, batch, outs, run, **_):
    """`_evaluated`, for one member of the batch after the other."""

    def members(x):
        own = x.shape[: x.ndim - len(batch)]
        return jnp.moveaxis(jnp.broadcast_to(x, (*own, *batch)).reshape(*own, math.prod(batch)), -1, 0)

    def one(args):
        return _evaluated(*args, run=run, batch=(), outs=[(shape, dtype, ()) for shape, dtype, _ in outs])

    values = jax.lax.map(one, list(map(members, args)))
    values = [jnp.moveaxis(x, 0, -1).reshape(*x.shape[1:], *batch) for x in values]
    return [_for_members(x, shape, kept, batch) for x, (shape, _, kept) in zip(values, outs, strict=True)]


def _on_devices(*args, run, batch, outs, alone, **_):
    """`_evaluated`, by each device for its own members of a batch. If all devices ran one loop, each iteration would
    have to wait until all of them have said whether they go on."""
    evaluate = partial(_evaluated, run=run, outs=outs)
    if alone or not batch or internals.for_devices is None:
        return evaluate(*args, batch=batch)
    target = _target.get()

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
            with on_mesh, _lowered_for(target if target.is_processor else _accelerator(sizes)):
                values = evaluate(*parts, batch=sizes)
                return [_summed(x, kept, places) for x, (*_, kept) in zip(values, outs, strict=True)]

        return mesh, on_one_device, wanted, given

    whole = jax.make_jaxpr(partial(evaluate, batch=batch))(*args)
    shared = custom_partitioning(lambda consts, args: internals.eval_jaxpr(whole.jaxpr, consts, *args))
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


def _pulled_back(cts, *args, run, transposed, plain, nonlinear, outs, batch, small):
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

    params = {"run": transposed, "transposed": run, "plain": backwards, "nonlinear": nonlinear, "small": small}
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
        return lanes(twice, (x,), [x], plain=plain, small=False, nonlinear=0, transposed=twice)[0]

    x = np.zeros((2, 3))
    program = jax.make_jaxpr(jax.vmap(lambda x: jax.vjp(of, x)[1](x)[0]))(x)
    return [v.shape for v in program.out_avals] == [x.shape]


def over_last(function: Callable, count: int, sizes=None) -> Callable:
    """A function of arrays, mapped over the `count` last axes of its arguments. An argument of length 1 along one of
    these axes, along which others are longer, is shared."""

    def over(*args):
        trail = [x.shape[x.ndim - count :] for x in args]
        full = sizes or tuple(map(max, zip(*trail, strict=True)))
        mapped = function
        for i in range(count):
            axes = [None if t[i] == 1 and full[i] != 1 else -1 for t in trail]
            # The innermost `vmap` is that of the first of these axes, which is the last one that is left there.
            mapped = jax.vmap(mapped, axes, -1, axis_size=full[i])
        args = [
            x.reshape(*x.shape[: x.ndim - count], *_without_ones(t, full)) for x, t in zip(args, trail, strict=True)
        ]
        return mapped(*args)

    return over


def _without_ones(trail, full):
    return [a for a, b in zip(trail, full, strict=True) if not (a == 1 and b != 1)]


class Split:
    """A function of small arrays at many points, evaluated in two parts. The arguments from the place `first` on are
    known later than the others: `begin(*early)` computes what does not depend on them, and `end(begun, *late)` the
    rest. All arrays have the axes of the points behind their own.

    With `scalar` it is computed scalar by scalar if it is arithmetic on few numbers; that pays if all of a larger
    program is. If it `is_long` so, it is computed with arrays nevertheless where it is a `derivative` in one native
    function, and where it is called without `often`. With `often` a program by scalars takes twice as long to compile,
    and half as long to run."""

    def __init__(self, function: Callable, likes, first: int = 0, scalar: bool = True, derivative: bool = False):
        self.given, self.likes, self.first, self.scalar = function, likes, first, scalar
        self.derivative = derivative

    # It is traced when it is first used: of a tangent and its transpose a program uses only one.
    @functools.cached_property
    def closed(self):
        """The program of the function."""
        return jax.make_jaxpr(lambda *x: list(self.given(*x)))(*self.likes)

    @functools.cached_property
    def function(self):
        """The traced program as a function: tracing the user's functions takes long."""
        return jaxpr_as_fun(self.closed)

    @functools.cached_property
    def is_arithmetic(self) -> bool:
        """Whether the function is arithmetic on few numbers."""
        return _is_arithmetic(self.closed.jaxpr)

    @functools.cached_property
    def scalars(self):
        """The evaluation scalar by scalar, or None."""
        found = _Scalars(self.closed, self.first) if self.scalar and self.is_arithmetic else None
        return None if found is None or len(found.order) > MOST_SCALARS else found

    @property
    def by_scalars(self) -> bool:
        """Whether the function is computed scalar by scalar."""
        return self._used is not None

    @property
    def _used(self):
        target = _target.get()
        if not target.by_scalars or (self.derivative and target.is_one_function and self.is_long):
            return None
        return self.scalars

    @functools.cached_property
    def is_long(self) -> bool:
        """Whether scalar by scalar the program would be much longer than with arrays."""
        return self.scalars is not None and len(self.scalars.order) > MOST_LONGER * native.length(self.closed.jaxpr)

    @functools.cached_property
    def _arrays(self):
        return _Arrays(self.closed, self.first)

    def begin(self, *early, often: bool = True):
        """The values that do not depend on the late arguments, which `end` takes."""
        if self._used is not None:
            return self._used.begin(early, often)
        return self._arrays.begin(early) if self.first else []

    def end(self, begun, *late, wanted=None, often: bool = True):
        """The values of the function, or only those at the places `wanted`. Late arguments on which these do not depend
        may be None."""
        if self._used is not None:
            return self._used.end(begun, late, wanted, often)
        rank = next(x.ndim - len(y.shape) for x, y in zip(late, self.likes[self.first :], strict=True) if x is not None)
        pairs = zip(late, self.likes[self.first :], strict=True)
        late = [jnp.zeros((*y.shape, *[1] * rank), y.dtype) if x is None else x for x, y in pairs]
        function = partial(self._arrays.end, wanted=wanted) if self.first else self.function
        return over_last(function, rank)(*begun, *late)

    def __call__(self, *args, often: bool = True):
        if not often and self.by_scalars and self.is_long:
            return over_last(self.function, args[-1].ndim - len(self.likes[-1].shape))(*args)
        return self.end(self.begin(*args[: self.first], often=often), *args[self.first :], often=often)


def _is_arithmetic(jaxpr) -> bool:
    """Whether every operation of the program has a rule for single numbers, and none has a large array."""
    for equation in jaxpr.eqns:
        inner = inner_program(equation)
        if inner is not None:
            if not _is_arithmetic(inner.jaxpr):
                return False
        else:
            sizes = [math.prod(v.aval.shape) for v in (*equation.invars, *equation.outvars)]
            largest = LARGEST_PRODUCT if equation.primitive.name == "dot_general" else LARGEST_ARRAY
            if not has_rule(equation) or max(sizes) > largest:
                return False
    return True


class _Arrays:
    """The evaluation of a `Split` with arrays: its program in two parts, the first of which does not depend on the late
    arguments."""

    def __init__(self, closed, first: int):
        self.jaxpr, self.first, self.consts = closed.jaxpr, first, closed.consts
        late, self.early, self.late = set(self.jaxpr.invars[first:]), [], []
        for equation in self.jaxpr.eqns:
            is_late = not late.isdisjoint(_variables(equation.invars))
            late.update(equation.outvars if is_late else ())
            (self.late if is_late else self.early).append(equation)
        used = _variables([*(v for equation in self.late for v in equation.invars), *self.jaxpr.outvars])
        self.begun = [v for v in dict.fromkeys(used) if v not in late]
        self.uses = {v: {i} for i, v in enumerate(self.jaxpr.invars)}
        for equation in self.early:
            known = set().union(*(self.uses.get(v, ()) for v in _variables(equation.invars)))
            self.uses |= dict.fromkeys(equation.outvars, known)

    def begin(self, early):
        """The values that the second part takes from the first. Each is computed only at as many points as the
        arguments that it depends on have: once, if it depends only on values that all points share."""
        rank = early[0].ndim - self.jaxpr.invars[0].aval.ndim
        trails, groups, found = [x.shape[x.ndim - rank :] for x in early], defaultdict(list), {}
        for v in self.begun:
            groups[jnp.broadcast_shapes((1,) * rank, *(trails[i] for i in self.uses.get(v, ())))].append(v)
        for size, group in groups.items():
            part = self._part(self.early, self.jaxpr.constvars, self.jaxpr.invars[: self.first], group)
            evaluate = partial(internals.eval_jaxpr, part, self.consts)
            values = over_last(evaluate, rank, size)(*(_at_first(x, rank, size) for x in early))
            found |= dict(zip(group, values, strict=True))
        return [found[v] for v in self.begun]

    def end(self, *args, wanted):
        """The values of the function at one point, or those of them at the places `wanted`."""
        outs = self.jaxpr.outvars if wanted is None else [self.jaxpr.outvars[i] for i in wanted]
        part = self._part(self.late, [], [*self.begun, *self.jaxpr.invars[self.first :]], outs)
        return internals.eval_jaxpr(part, [], *args)

    def _part(self, equations, constvars, invars, outvars):
        """The program of those `equations` on which the outvars depend."""
        needed, kept = set(_variables(outvars)), []
        for equation in reversed(equations):
            if not needed.isdisjoint(equation.outvars):
                kept.append(equation)
                needed.update(_variables(equation.invars))
        names = self.jaxpr.debug_info.with_unknown_names()
        return self.jaxpr.replace(
            constvars=constvars, invars=invars, outvars=outvars, eqns=kept[::-1], debug_info=names
        )


def _variables(atoms):
    return [v for v in atoms if not isinstance(v, internals.Literal)]


def _at_first(x, rank: int, size):
    """x, restricted to the first point along those of its `rank` last axes that are longer than in `size`."""
    trail = zip(x.shape[x.ndim - rank :], size, strict=True)
    return x[(..., *(slice(None) if n in (1, wanted) else slice(1) for n, wanted in trail))]


class _Scalars:
    """The evaluation of a `Split` scalar by scalar, by a graph of its scalars."""

    def __init__(self, closed, first: int):
        graph, interpreter = Graph(), Interpreter()
        interpreter.graph = graph
        # An argument that is not used has no scalars: a large array would be many.
        atoms = [*closed.jaxpr.outvars, *(v for equation in closed.jaxpr.eqns for v in equation.invars)]
        used = {v for v in atoms if not isinstance(v, internals.Literal)}
        shapes = [v.aval.shape if v in used else (0,) * v.aval.ndim for v in closed.jaxpr.invars]
        self.inputs = [
            fill(shape, [graph.given(x) for _ in range(math.prod(shape))])
            for shape, x in zip(shapes, closed.in_avals, strict=True)
        ]
        graph.known = {}
        with np.errstate(all="ignore"):
            args = [Cells(cells, x.dtype) for cells, x in zip(self.inputs, closed.in_avals, strict=True)]
            outs = interpreter.run(closed, args)
            self.outs = [x.cells(graph) for x in outs]
        self.dtypes = [x.dtype for x in closed.out_avals]
        finals = [x for out in self.outs for x in out.reshape(-1) if isinstance(x, Node)]
        self.order = graph.unknown(finals)
        late = {x.index for cells in self.inputs[first:] for x in cells.reshape(-1)}
        for node in self.order:
            if any(isinstance(x, Node) and x.index in late for x in node.args):
                late.add(node.index)
        self.late = late
        used = {x.index for n in self.order if n.index in late for x in n.args if isinstance(x, Node)}
        self.begun = sorted(i for i in used | {x.index for x in finals} if i not in late)
        self.first = first

    def begin(self, early, often):
        known = self._compute(self._given(self.inputs[: self.first], early), self.begun, False, often)
        return [known[i] for i in self.begun]

    def end(self, begun, late, wanted, often):
        known = dict(zip(self.begun, begun, strict=True))
        known |= self._given(self.inputs[self.first :], late)
        pairs = [(self.outs[i], self.dtypes[i]) for i in (range(len(self.outs)) if wanted is None else wanted)]
        finals = [x for out, _ in pairs for x in out.reshape(-1) if isinstance(x, Node)]
        known = self._compute(known, {x.index for x in finals}, True, often)
        given = (x.shape[cells.ndim :] for cells, x in zip(self.inputs[self.first :], late) if x is not None)
        trail = jnp.broadcast_shapes(*given, *(jnp.shape(x) for x in begun))
        return [self._joined(out, dtype, known, trail) for out, dtype in pairs]

    def _given(self, inputs, values):
        known = {}
        for cells, value in zip(inputs, values, strict=True):
            if value is not None:
                known |= {node.index: value[i] for i, node in np.ndenumerate(cells)}
        return known

    def _joined(self, out, dtype, known, trail):
        each = [known[x.index] if isinstance(x, Node) else jnp.asarray(x, dtype) for x in out.reshape(-1)]
        each = [jnp.broadcast_to(x, trail) for x in each]
        return (jnp.stack(each) if each else jnp.zeros((0, *trail), dtype)).reshape(*out.shape, *trail)

    def _compute(self, known, wanted, is_late, often):
        """The scalars known so far and the `wanted` ones. Scalars that are used several times are computed level by
        level, by calls that XLA may not inline, since otherwise it would compute them again for each use."""
        needed, todo = set(wanted), []
        for node in reversed(self.order):
            if node.index in needed and node.index not in known and (node.index in self.late) == is_late:
                todo.append(node)
                needed |= {x.index for x in node.args if isinstance(x, Node)}
        todo.reverse()
        users, place = defaultdict(int), {n.index for n in todo}
        for node in todo:
            for i in {x.index for x in node.args if isinstance(x, Node)}:
                users[i] += 1
        cost, level, shared = {}, {}, {}
        for node in todo:
            args = [x for x in node.args if isinstance(x, Node) and x.index in place]
            cost[node.index] = COST.get(node.name, 1) + sum(cost[x.index] for x in args)
            level[node.index] = max((level[x.index] + (x.index in shared) for x in args), default=0)
            if node.index in wanted or cost[node.index] * (users[node.index] - 1) > WORTH_SHARING:
                shared[node.index], cost[node.index] = node, 0
        for this in sorted({level[i] for i in shared}):
            known |= _computed([n for i, n in shared.items() if level[i] == this], known, often)
        return known


def _computed(nodes, known, often):
    """The values of the nodes from known ones, with `often` by one call that XLA may not inline."""
    inner, needed, stack = {}, {}, list(nodes)
    while stack:
        node = stack.pop()
        if node.index not in inner:
            inner[node.index] = node
            for x in node.args:
                if isinstance(x, Node):
                    needed[x.index] = x
                    stack += [x] if x.index not in known else []
    given, order = sorted(i for i in needed if i in known), [inner[i] for i in sorted(inner)]

    def compute(*values):
        values = dict(zip(given, values, strict=True))
        for node in order:
            if node.index not in values:
                values[node.index] = _applied(node, values)
        return [values[n.index] for n in nodes]

    args = [known[i] for i in given]
    results = at_once(compute, *args) if often else compute(*args)
    return {node.index: x for node, x in zip(nodes, results, strict=True)}


def at_once(function: Callable, *args):
    """`function(*args)`, a list of arrays, by a call that XLA may not inline, since otherwise it would compute the
    function again for each use of each result."""
    if not _target.get().is_processor:
        return function(*args)
    with internals.set_xla_metadata(inlineable="false"):
        return jax.jit(lambda *args: function(*args)[::-1])(*args)[::-1]


def _applied(node, values):
    args = [values[x.index] if isinstance(x, Node) else np.asarray(x, x.dtype) for x in node.args]
    shapes = {x.shape for x in args if x.shape or node.name == "select_n"}
    if len(shapes) > 1:  # A single number among arrays needs no broadcast, except in a select.
        trail = jnp.broadcast_shapes(*shapes)
        args = [_broadcast(x, trail) if x.shape or node.name == "select_n" else x for x in args]
    return node.bind(*args)


def _broadcast(x, shape):
    return x if x.shape == shape else jax.lax.broadcast_in_dim(x, shape, range(len(shape) - x.ndim, len(shape)))
