"""Programs of small arrays as programs of scalars.

In a step of a small body most operations move numbers about in arrays of three or six, or multiply by zeros that a
derivative left. Scalar by scalar all of that is gone before XLA sees it, and under `vmap` each scalar is one contiguous
array over the batch. Whatever is large, or has no rule here, runs on arrays as it was.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from geodyn import _cells
from geodyn._expressions import Graph, Node
from geodyn._jax import ClosedJaxpr, Literal, scan_split

LARGEST_ARRAY = 512
INLINED = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint"}


def on_arrays(function: Callable) -> Callable:
    """The function, left as it is by `scalar_program`: for what runs seldom, or is long and would take the compiler
    long."""

    def left_on_arrays(*args):
        return function(*args)

    return jax.jit(left_on_arrays)


def scalar_program(closed) -> Callable:
    """The function of a closed jaxpr, from arrays to the list of its results, computed scalar by scalar."""

    def program(*args):
        interpreter = Interpreter()
        with np.errstate(all="ignore"):
            return [x.array(interpreter.graph) for x in interpreter.run(closed, map(Whole, args))]

    return program


class Whole:
    """An array, as JAX has it."""

    def __init__(self, value):
        self.value, self.shape, self.size, self.dtype = value, jnp.shape(value), jnp.size(value), jnp.result_type(value)

    def array(self, graph):
        return self.value

    def cells(self, graph):
        if not isinstance(self.value, jax.core.Tracer):
            return _cells.fill(self.shape, np.asarray(self.value).reshape(-1))
        flat = self.value.reshape(-1)
        one = lambda i: lax.squeeze(lax.slice(flat, [i], [i + 1]), [0])  # noqa: E731
        return _cells.fill(self.shape, [graph.given(one(i)) for i in range(self.size)])


class Cells:
    """An array of scalars."""

    def __init__(self, cells, dtype):
        self.scalars, self.shape, self.size, self.dtype = cells, cells.shape, cells.size, np.dtype(dtype)

    def array(self, graph):
        flat = list(self.scalars.reshape(-1))
        if not any(isinstance(x, Node) for x in flat):
            return jnp.asarray(np.array(flat, self.dtype).reshape(self.shape))
        return jnp.stack(graph.values(flat)).reshape(self.shape)

    def cells(self, graph):
        return self.scalars


class Interpreter:
    """Runs programs on `Whole` and `Cells`."""

    def __init__(self):
        self.graph = Graph()

    def run(self, closed, args):
        jaxpr = closed.jaxpr
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*map(Whole, closed.consts), *args], strict=True))
        read = lambda x: Whole(np.asarray(x.val, x.aval.dtype)) if isinstance(x, Literal) else env[x]  # noqa: E731
        for equation in jaxpr.eqns:
            outs = self.equation(equation, [read(x) for x in equation.invars])
            env |= dict(zip(equation.outvars, outs, strict=True))
        return [read(x) for x in jaxpr.outvars]

    def equation(self, equation, args):
        name, params = equation.primitive.name, equation.params
        if name in INLINED and params.get("name") != "left_on_arrays":
            return self.run(_closed(params.get("jaxpr", params.get("call_jaxpr"))), args)
        if name in CONTROL and not (name == "while" and params["cond_jaxpr"].out_avals[0].shape):
            return CONTROL[name](self, equation, args)
        shapes = [v.aval for v in equation.outvars]
        size = max([x.size for x in args] + [math.prod(s.shape) for s in shapes])
        if size <= LARGEST_ARRAY and _cells.has_rule(equation):
            outs = _cells.apply(self.graph, equation, [x.cells(self.graph) for x in args])
            return [Cells(x, s.dtype) for x, s in zip(outs, shapes, strict=True)]
        values = equation.primitive.bind(*[x.array(self.graph) for x in args], **params)
        return [Whole(x) for x in (values if equation.primitive.multiple_results else [values])]

    def linear_solve(self, equation, args):
        params = equation.params
        lengths, solve = params["const_lengths"], params["jaxprs"].solve
        before = lengths.matvec + lengths.vecmat
        consts, b = args[before : before + lengths.solve], args[before + lengths.solve + lengths.transpose_solve :]
        return self.run(solve, [*consts, *b])

    def loop(self, equation, args):
        params = equation.params
        of_test, of_body = params["cond_nconsts"], params["body_nconsts"]
        test_consts, body_consts = args[:of_test], args[of_test : of_test + of_body]
        carry = args[of_test + of_body :]
        form = Form(carry, _only_on_arrays(params))

        def test(flat):
            inner = Interpreter()
            args = [*self.handed(inner, test_consts), *form.unpack(inner.graph, flat)]
            return inner.run(params["cond_jaxpr"], args)[0].array(inner.graph)

        def body(flat):
            inner = Interpreter()
            args = [*self.handed(inner, body_consts), *form.unpack(inner.graph, flat)]
            return form.pack(inner.graph, inner.run(params["body_jaxpr"], args))

        self.settle([*test_consts, *body_consts])
        return form.unpack(self.graph, lax.while_loop(test, body, form.pack(self.graph, carry)))

    def scan(self, equation, args):
        params, closed = equation.params, equation.params["jaxpr"]
        split = scan_split(equation)
        consts, carry, xs = args[: split[0]], args[split[0] : split[1]], args[split[1] :]
        state, read, written = Form(carry), Form(closed.in_avals[split[1] :]), Form(closed.out_avals[len(carry) :])

        def body(flat, x):
            inner = Interpreter()
            args = [*self.handed(inner, consts), *state.unpack(inner.graph, flat), *read.unpack(inner.graph, x)]
            outs = inner.run(closed, args)
            return state.pack(inner.graph, outs[: len(carry)]), written.pack(inner.graph, outs[len(carry) :])

        self.settle(consts)
        rows, length = read.rows([x.array(self.graph) for x in xs]), params["length"]
        flat, ys = lax.scan(body, state.pack(self.graph, carry), rows, length, reverse=params["reverse"])
        return [*state.unpack(self.graph, flat), *map(Whole, written.joined(ys, length))]

    def settle(self, values):
        """Computes what inner programs take from here, all at once."""
        self.graph.values([x for value in values if isinstance(value, Cells) for x in value.scalars.reshape(-1)])

    def handed(self, inner, values):
        """What an inner program takes from here, in its own graph: a number stays a number."""
        move = lambda x: inner.graph.given(self.graph.known[x.index]) if isinstance(x, Node) else x  # noqa: E731
        move_all = lambda x: Cells(_cells.each(x.shape, move, x.scalars), x.dtype)  # noqa: E731
        return [move_all(x) if isinstance(x, Cells) else x for x in values]


def inner_program(equation):
    """The program of an operation that is a call and nothing else, or None."""
    if equation.primitive.name not in INLINED:
        return None
    return _closed(equation.params.get("jaxpr", equation.params.get("call_jaxpr")))


CONTROL = {"while": Interpreter.loop, "scan": Interpreter.scan, "custom_linear_solve": Interpreter.linear_solve}


class Form:
    """How arrays pass a loop: small ones as scalars, large ones whole, and those of the places in `whole`."""

    def __init__(self, like, whole=()):
        self.like = [(x.shape, math.prod(x.shape), x.dtype) for x in like]
        self.small = [size <= LARGEST_ARRAY and i not in whole for i, (_, size, _) in enumerate(self.like)]

    def pack(self, graph, values):
        pairs = list(zip(values, self.small, strict=True))
        scalars = [c for x, small in pairs if small for c in x.cells(graph).reshape(-1)]
        return graph.values(scalars), [x.array(graph) for x, small in pairs if not small]

    def unpack(self, graph, flat):
        scalars, whole = map(iter, flat)
        cells = lambda shape, size: _cells.fill(shape, [graph.given(next(scalars)) for _ in range(size)])  # noqa: E731
        return [
            Cells(cells(shape, size), dtype) if small else Whole(next(whole))
            for (shape, size, dtype), small in zip(self.like, self.small, strict=True)
        ]

    def rows(self, xs):
        """What a scan reads in its turns: of a small array one sequence for each scalar."""
        pairs = list(zip(xs, self.small, strict=True))
        scalars = [row for x, small in pairs if small for row in x.reshape(x.shape[0], math.prod(x.shape[1:])).T]
        return scalars, [x for x, small in pairs if not small]

    def joined(self, ys, length):
        """What a scan wrote in its turns, as arrays."""
        scalars, whole = map(iter, ys)

        def join(shape, size, dtype):
            rows = [next(scalars) for _ in range(size)]
            return (jnp.stack(rows, 1) if rows else jnp.zeros(0, dtype)).reshape(length, *shape)

        return [join(*like) if small else next(whole) for like, small in zip(self.like, self.small, strict=True)]


def _only_on_arrays(loop):
    """Places in the carry of a loop, of its parameters, of what its body uses in parts left on arrays only: no scalar
    of it is wanted."""
    body, consts = loop["body_jaxpr"].jaxpr, loop["body_nconsts"]
    return {i for i, x in enumerate(body.invars[consts:]) if _stays_whole(body, x)}


def _stays_whole(jaxpr, x):
    uses = [_leaves_on_arrays(e, x) for e in jaxpr.eqns if any(x is y for y in e.invars)]
    return bool(uses) and all(uses)


def _leaves_on_arrays(equation, x):
    if equation.primitive.name != "while":
        return equation.params.get("name") == "left_on_arrays"
    of_test, body = equation.params["cond_nconsts"], equation.params["body_jaxpr"].jaxpr
    places = [i - of_test for i, y in enumerate(equation.invars) if y is x]
    return all(i >= 0 and _stays_whole(body, body.invars[i]) for i in places)


def _closed(jaxpr):
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())
