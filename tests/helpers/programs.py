"""What the tests of programs read from them."""

from geodyn._engine.internals import programs_in


def length(jaxpr) -> int:
    """Operations of a program, those inside of others counted once."""
    inner = [programs_in(equation.params) for equation in jaxpr.eqns]
    return sum(sum(map(length, programs)) if programs else 1 for programs in inner)
