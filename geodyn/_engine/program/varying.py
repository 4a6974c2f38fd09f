"""Which arrays of a program may have other numbers for each member of a batch."""

from collections.abc import Sequence

from geodyn._engine.internals import Jaxpr, Literal, Operation, Var, inner_program, scan_counts


def results(jaxpr: Jaxpr, flags: Sequence[bool]) -> list[bool]:
    """Whether each result varies, if the arguments with these flags do."""
    varies = dict.fromkeys(jaxpr.constvars, False) | dict(zip(jaxpr.invars, flags, strict=True))

    def of(x: Var | Literal) -> bool:
        return not isinstance(x, Literal) and varies[x]

    for equation in jaxpr.eqns:
        found, _ = spread(equation, [of(x) for x in equation.invars])
        varies |= dict(zip(equation.outvars, found, strict=True))
    return [of(x) for x in jaxpr.outvars]


def spread(equation: Operation, flags: Sequence[bool]) -> tuple[list[bool], bool]:
    """(whether each result of an operation varies, whether all members take the same turns of a loop)."""
    name, p = equation.primitive.name, equation.params
    inner = inner_program(equation)
    if inner is not None:
        return results(inner.jaxpr, flags), True
    if name == "while":
        return _of_while(p, flags)
    if name == "scan":
        return _of_scan(equation, flags), True
    if name == "cond" and not flags[0]:
        found = [results(branch.jaxpr, flags[1:]) for branch in p["branches"]]
        return [any(x) for x in zip(*found, strict=True)], True
    return [any(flags)] * len(equation.outvars), True


def _of_while(p: dict, flags: Sequence[bool]) -> tuple[list[bool], bool]:
    of_test, carry = flags[: p["cond_nconsts"]], flags[p["cond_nconsts"] + p["body_nconsts"] :]
    of_body = flags[p["cond_nconsts"] : p["cond_nconsts"] + p["body_nconsts"]]
    while True:
        if results(p["cond_jaxpr"].jaxpr, [*of_test, *carry])[0]:
            # Members leave the loop one by one, and so with different numbers.
            return [True] * len(carry), False
        found = _either(carry, results(p["body_jaxpr"].jaxpr, [*of_body, *carry]))
        if found == carry:
            return carry, True
        carry = found


def _of_scan(equation: Operation, flags: Sequence[bool]) -> list[bool]:
    count, carried = scan_counts(equation)
    carry = flags[count : count + carried]
    while True:
        found = results(equation.params["jaxpr"].jaxpr, [*flags[:count], *carry, *flags[count + len(carry) :]])
        after = _either(carry, found[: len(carry)])
        if after == carry:
            return [*carry, *found[len(carry) :]]
        carry = after


def _either(a: Sequence[bool], b: Sequence[bool]) -> list[bool]:
    return [x or y for x, y in zip(a, b, strict=True)]
