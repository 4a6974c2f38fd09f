"""Functions of one point, evaluated along trailing axes at many: scalar by scalar, or with arrays.

A function that is arithmetic on few numbers is computed scalar by scalar where that suits what the program is lowered
for: each scalar is then one contiguous array over the members of a batch.
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

from geodyn._compile import internals, native
from geodyn._compile.cells import fill, has_rule
from geodyn._compile.elementary import ELEMENTARY
from geodyn._compile.expressions import COST, WORTH_SHARING, Graph, Node
from geodyn._compile.scalars import LARGEST_ARRAY, cells_of, inner_program

# With more scalars than this, arrays run as fast, and compile in less time.
MOST_SCALARS = 4000
# With more scalars than this for each operation on arrays, arrays take half as long to compile, and up to a third
# longer to run.
MOST_LONGER = 3
# Products of matrices with more entries, as in a neural network, take ten times as long to compile scalar by scalar.
LARGEST_PRODUCT = 128


class Target(NamedTuple):
    """What a program is lowered for."""

    by_scalars: bool = False  # Arithmetic on few numbers is computed scalar by scalar.
    is_processor: bool = False


_UNKNOWN = Target()
_target = ContextVar("target", default=_UNKNOWN)


def current_target() -> Target:
    """What is being lowered for."""
    return _target.get()


@contextlib.contextmanager
def lowered_for(target: Target):
    """Within it the target is this one."""
    token = _target.set(target)
    try:
        yield
    finally:
        _target.reset(token)


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
    program is. If it `is_long` so, it is computed with arrays nevertheless where it is called without `often`. With
    `often` a program by scalars takes twice as long to compile, and half as long to run."""

    def __init__(self, function: Callable, likes, first: int = 0, scalar: bool = True):
        self.given, self.likes, self.first, self.scalar = function, likes, first, scalar

    # It is traced when it is first used: of a tangent and its transpose a program uses only one.
    @functools.cached_property
    def closed(self):
        """The program of the function."""
        return jax.make_jaxpr(lambda *x: list(self.given(*x)))(*self.likes)

    @functools.cached_property
    def function(self):
        """The traced program as a function: tracing the user's functions takes long."""
        return internals.jaxpr_as_fun(self.closed)

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
        return self.scalars if current_target().by_scalars else None

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
        graph = Graph(ELEMENTARY)
        # An argument that is not used has no scalars: a large array would be many.
        atoms = [*closed.jaxpr.outvars, *(v for equation in closed.jaxpr.eqns for v in equation.invars)]
        used = {v for v in atoms if not isinstance(v, internals.Literal)}
        shapes = [v.aval.shape if v in used else (0,) * v.aval.ndim for v in closed.jaxpr.invars]
        self.inputs = [
            fill(shape, [graph.given(x) for _ in range(math.prod(shape))])
            for shape, x in zip(shapes, closed.in_avals, strict=True)
        ]
        with np.errstate(all="ignore"):
            self.outs = cells_of(graph, closed, self.inputs)
        self.dtypes = [x.dtype for x in closed.out_avals]
        finals = [x for out in self.outs for x in out.reshape(-1) if isinstance(x, Node)]
        self.order = graph.needed(finals)
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
    if not current_target().is_processor:
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
