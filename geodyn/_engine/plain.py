"""Programs as XLA should have them, where our compiler does not take them.

A step computes its stages, a matrix its columns, and a body its points, by a loop, which our compiler takes as it
likes (`native.for_each`, `native.for_points`). For XLA a batch of them is better.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax

from geodyn._engine.internals import (
    ClosedJaxpr,
    Jaxpr,
    Literal,
    Operation,
    Var,
    called_program,
    eval_jaxpr,
    inner_program,
    programs_in,
    scan_counts,
    solver_of,
)
from geodyn._foundations.typing import Array

# Loops of at most so many turns, which give at most so many numbers, are batches.
MOST_TURNS, MOST_NUMBERS = 1024, 2**15


def evaluate(jaxpr: Jaxpr, consts: Sequence, *args: Array) -> list:
    """The results of a program, with its short loops that carry nothing as batches."""
    if not _has_stages(jaxpr):
        return eval_jaxpr(jaxpr, consts, *args)
    values = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

    def read(x: Var | Literal) -> Array:
        return x.val if isinstance(x, Literal) else values[x]

    for equation in jaxpr.eqns:
        given, rewritten = [read(x) for x in equation.invars], _other_way(equation)
        if rewritten is None:
            variables = list({x for x in equation.invars if not isinstance(x, Literal)})
            one = jaxpr.replace(constvars=[], invars=variables, outvars=equation.outvars, eqns=[equation])
            results = eval_jaxpr(one, [], *map(read, variables))
        else:
            results = rewritten(equation, given)
        values |= dict(zip(equation.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _has_stages(jaxpr: Jaxpr) -> bool:
    return any(_is_of_stages(e) or any(map(_has_stages, programs_in(e.params))) for e in jaxpr.eqns)


def _is_of_stages(equation: Operation) -> bool:
    if equation.primitive.name != "scan" or equation.params["length"] > MOST_TURNS:
        return False
    return scan_counts(equation)[1] == 0 and sum(math.prod(v.aval.shape) for v in equation.outvars) <= MOST_NUMBERS


def _other_way(equation: Operation) -> Callable | None:
    """The function of an operation and its arguments that computes its results in another way; None for most."""
    if _is_of_stages(equation):
        return stages
    if not any(map(_has_stages, programs_in(equation.params))):
        return None
    if equation.primitive.name == "while" and equation.params["cond_jaxpr"].out_avals[0].shape:
        return None  # JAX has batched it, so that each row has a condition of its own.
    return _inline if inner_program(equation) is not None else LOOPS.get(equation.primitive.name)


def _inline(equation: Operation, args: list) -> list:
    return _function_of(called_program(equation))(*args)


def stages(equation: Operation, args: Sequence) -> list:
    """The results of a loop that carries nothing, whose turns are a batch."""
    count, _ = scan_counts(equation)
    stage = partial(_function_of(equation.params["jaxpr"]), *args[:count])
    return jax.vmap(stage, axis_size=equation.params["length"])(*args[count:])


def _function_of(program: ClosedJaxpr) -> Callable:
    """The function that evaluates a program."""
    return partial(evaluate, program.jaxpr, program.consts)


def _scan(equation: Operation, args: list) -> list:
    p, (count, carried) = equation.params, scan_counts(equation)
    consts, carry, xs = args[:count], args[count : count + carried], args[count + carried :]

    def turn(carry: list, x: list) -> tuple[list, list]:
        values = _function_of(p["jaxpr"])(*consts, *carry, *x)
        return values[:carried], values[carried:]

    carry, rows = jax.lax.scan(turn, carry, xs, p["length"], reverse=p["reverse"], unroll=p["unroll"])
    return [*carry, *rows]


def _while(equation: Operation, args: list) -> list:
    p = equation.params
    first, second = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    test = partial(_function_of(p["cond_jaxpr"]), *args[:first])
    body = partial(_function_of(p["body_jaxpr"]), *args[first:second])
    return jax.lax.while_loop(lambda x: test(*x)[0], lambda x: body(*x), args[second:])


def _cond(equation: Operation, args: list) -> list:
    branches = [_function_of(branch) for branch in equation.params["branches"]]
    return jax.lax.switch(args[0].astype(int), branches, *args[1:])


def _solve(equation: Operation, args: list) -> list:
    solve, args = solver_of(equation, args)
    return _function_of(solve)(*args)


LOOPS = {"scan": _scan, "while": _while, "cond": _cond, "custom_linear_solve": _solve}
