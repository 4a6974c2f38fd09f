"""Which arrays of a program may have other numbers for each member of a batch."""

from collections.abc import Sequence

from geodyn._engine.internals import ClosedJaxpr, Jaxpr, Literal, Operation, Var, inner_program, scan_counts


def results(jaxpr: Jaxpr, flags: Sequence[bool]) -> list[bool]:
    """Whether each result varies, if the arguments with these flags do."""
    varies = dict.fromkeys(jaxpr.constvars, False)
    varies |= dict(zip(jaxpr.invars, flags, strict=True))

    def is_varying(x: Var | Literal) -> bool:
        return not isinstance(x, Literal) and varies[x]

    for equation in jaxpr.eqns:
        given = [is_varying(x) for x in equation.invars]
        returned, _ = spread(equation, given)
        varies |= dict(zip(equation.outvars, returned, strict=True))
    return [is_varying(x) for x in jaxpr.outvars]


def spread(equation: Operation, flags: Sequence[bool]) -> tuple[list[bool], bool]:
    """(whether each result of an operation varies, whether all members take the same turns of a loop)."""
    name = equation.primitive.name
    inner = inner_program(equation)
    if inner is not None:
        return results(inner.jaxpr, flags), True
    if name == "while":
        return _of_while(equation.params, flags)
    if name == "scan":
        return _of_scan(equation, flags), True
    if name == "cond" and not flags[0]:
        return _of_branches(equation.params["branches"], flags[1:]), True
    return [any(flags)] * len(equation.outvars), True


def _of_branches(branches: Sequence[ClosedJaxpr], flags: Sequence[bool]) -> list[bool]:
    """Whether each result varies where all members take the same branch."""
    found = [False] * len(branches[0].out_avals)
    for branch in branches:
        found = _either(found, results(branch.jaxpr, flags))
    return found


def _of_while(params: dict, flags: Sequence[bool]) -> tuple[list[bool], bool]:
    """The same as `spread` for a loop that goes on while a condition holds."""
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    of_test, of_body, carry = flags[:first], flags[first:second], list(flags[second:])
    test, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    # What varies after one turn may make more vary in the next one; there are no more rounds than arrays.
    while True:
        (goes_on,) = results(test, [*of_test, *carry])
        if goes_on:
            # Members leave the loop one by one, and so with different numbers.
            return [True] * len(carry), False
        after = _either(carry, results(body, [*of_body, *carry]))
        if after == carry:
            return carry, True
        carry = after


def _of_scan(equation: Operation, flags: Sequence[bool]) -> list[bool]:
    """Whether each result of a loop with a fixed number of turns varies."""
    count, carried = scan_counts(equation)
    consts, xs = flags[:count], flags[count + carried :]
    carry = list(flags[count : count + carried])
    body = equation.params["jaxpr"].jaxpr
    while True:
        found = results(body, [*consts, *carry, *xs])
        after = _either(carry, found[:carried])
        if after == carry:
            return [*carry, *found[carried:]]
        carry = after


def _either(a: Sequence[bool], b: Sequence[bool]) -> list[bool]:
    return [x or y for x, y in zip(a, b, strict=True)]
