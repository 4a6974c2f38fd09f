"""Conversion of programs on small arrays to programs on scalars.

In a step of a small body most operations only move numbers within arrays of three or six, or multiply by zeros that
come from differentiation. In a program on single numbers all of that disappears before XLA sees the program, and under
`vmap` each number is one contiguous array over the batch. Operations on large arrays, loops, and operations without a
rule in `cells.py` stay operations on arrays.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from geodyn._compile.cells import apply, fill, has_rule
from geodyn._compile.elementary import ELEMENTARY
from geodyn._compile.expressions import Graph, Node
from geodyn._compile.internals import ClosedJaxpr, Literal

LARGEST_ARRAY = 512
INLINED = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint"}


def scalar_program(closed) -> Callable:
    """The function of a closed jaxpr, from arrays to the list of its results, computed scalar by scalar."""

    def program(*args):
        interpreter = Interpreter()
        with np.errstate(all="ignore"):
            return [x.array(interpreter.graph) for x in interpreter.run(closed, map(Whole, args))]

    return program


class Whole:
    """An array that is kept as a JAX array."""

    def __init__(self, value):
        self.value, self.shape, self.size, self.dtype = value, jnp.shape(value), jnp.size(value), jnp.result_type(value)

    def array(self, graph):
        return self.value

    def cells(self, graph):
        if not isinstance(self.value, jax.core.Tracer):
            return fill(self.shape, np.asarray(self.value).reshape(-1))
        flat = self.value.reshape(-1)

        def one(i):
            return lax.squeeze(lax.slice(flat, [i], [i + 1]), [0])

        return fill(self.shape, [graph.given(one(i)) for i in range(self.size)])


class Cells:
    """An array whose entries are single numbers of a graph."""

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
    """Evaluates a jaxpr on arrays that are `Whole` or `Cells`."""

    def __init__(self):
        self.graph = Graph(ELEMENTARY)

    def run(self, closed, args):
        jaxpr = closed.jaxpr
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*map(Whole, closed.consts), *args], strict=True))

        def read(x):
            return Whole(np.asarray(x.val, x.aval.dtype)) if isinstance(x, Literal) else env[x]

        for equation in jaxpr.eqns:
            outs = self.equation(equation, [read(x) for x in equation.invars])
            env |= dict(zip(equation.outvars, outs, strict=True))
        return [read(x) for x in jaxpr.outvars]

    def equation(self, equation, args):
        name, params = equation.primitive.name, equation.params
        if name in INLINED:
            return self.run(inner_program(equation), args)
        if name == "custom_linear_solve":
            return self.linear_solve(equation, args)
        shapes = [v.aval for v in equation.outvars]
        size = max([x.size for x in args] + [math.prod(s.shape) for s in shapes])
        if size <= LARGEST_ARRAY and has_rule(equation):
            outs = apply(self.graph, equation, [x.cells(self.graph) for x in args])
            return [Cells(x, s.dtype) for x, s in zip(outs, shapes, strict=True)]
        values = equation.primitive.bind(*[x.array(self.graph) for x in args], **params)
        return [Whole(x) for x in (values if equation.primitive.multiple_results else [values])]

    def linear_solve(self, equation, args):
        params = equation.params
        lengths, solve = params["const_lengths"], params["jaxprs"].solve
        before = lengths.matvec + lengths.vecmat
        consts, b = args[before : before + lengths.solve], args[before + lengths.solve + lengths.transpose_solve :]
        return self.run(solve, [*consts, *b])


def inner_program(equation):
    """The program that an operation calls, if the operation is only a call; else None."""
    if equation.primitive.name not in INLINED:
        return None
    return _closed(equation.params.get("jaxpr", equation.params.get("call_jaxpr")))


def _closed(jaxpr):
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())
