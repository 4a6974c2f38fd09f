"""Programs on small arrays as graphs of scalars.

In a step of a small body most operations only move numbers within arrays of three or six, or multiply by zeros that
come from differentiation. In a program on single numbers all of that disappears, and under `vmap` each number is one
contiguous array over the batch.
"""

import numpy as np

from geodyn._compile.cells import apply, fill
from geodyn._compile.expressions import Graph
from geodyn._compile.internals import ClosedJaxpr, Literal

LARGEST_ARRAY = 512
INLINED = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint"}


def cells_of(graph: Graph, closed, args) -> list:
    """The results of a program of which every operation has a rule, as arrays of numbers of the graph, like `args`."""
    jaxpr = closed.jaxpr
    env = {v: _constant(x) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)}
    env |= dict(zip(jaxpr.invars, args, strict=True))

    def read(x):
        return _constant(np.asarray(x.val, x.aval.dtype)) if isinstance(x, Literal) else env[x]

    for equation in jaxpr.eqns:
        inner, given = inner_program(equation), [read(x) for x in equation.invars]
        outs = apply(graph, equation, given) if inner is None else cells_of(graph, inner, given)
        env |= dict(zip(equation.outvars, outs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _constant(x):
    return fill(np.shape(x), np.asarray(x).reshape(-1))


def inner_program(equation):
    """The program that an operation calls, if the operation is only a call; else None."""
    if equation.primitive.name not in INLINED:
        return None
    return _closed(equation.params.get("jaxpr", equation.params.get("call_jaxpr")))


def _closed(jaxpr):
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())
