"""Which rule gives the results of an operation."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from geodyn._engine.batches import NATIVE, Transposed, evaluate, in_turn, of_members, trace
from geodyn._engine.cells import ELEMENTWISE, REDUCTIONS, apply, fill, has_rule
from geodyn._engine.elementary.formulas import SELDOM
from geodyn._engine.internals import INLINED, Operation, called_program, length, solver_of
from geodyn._engine.llvm.code import Memory, NotUnderstood
from geodyn._engine.program.arrays import ProgramArray, kind
from geodyn._engine.program.block import MOST_CELLS, Block
from geodyn._engine.program.functions import LONG, NAMED, call, call_library, seldom
from geodyn._engine.program.indexing import INDEXED
from geodyn._engine.program.large import on_large
from geodyn._engine.program.loops import CONTROL
from geodyn._engine.program.pairs import Pairs, is_complex, part_by_part
from geodyn._engine.program.programs import PROGRAMS, by_program

# An elementary function of more numbers is a loop over them.
MOST_IN_LINE = 16
# What only orders or names operations.
SAME = {"optimization_barrier", "name", "pvary", "sharding_constraint", "device_put"}


def results_of(
    block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]
) -> Sequence[ProgramArray]:
    """The results of an operation of a program, in the memories `wanted` where that is possible."""
    name = equation.primitive.name
    if name in NAMED and equation.params["name"] in SELDOM:
        return seldom(block, equation, args)
    if name in NAMED and id(called_program(equation).jaxpr) in block.code.repeated:
        return call(block, equation, args)
    if name in INLINED:
        return block.run(called_program(equation), args, wanted)
    if name == NATIVE:
        return _native(block, equation, args, wanted)
    if name in CONTROL:
        return CONTROL[name](block, equation, args, wanted)
    if name in SAME:
        return args
    if name == "platform_index":
        names = ("cuda", "gpu") if block.code.is_graphics else ("cpu",)
        return [_platform(equation, names)]
    if name in PROGRAMS:
        return by_program(block, equation, args)
    if name == "custom_linear_solve":
        solve, given = solver_of(equation, args)
        return block.run(solve, given)
    variables = (*equation.invars, *equation.outvars)
    if any(map(is_complex, variables)):
        return part_by_part(block, equation, args) if name in INDEXED else [Pairs(block, equation).result(args)]
    if name in INDEXED:
        return INDEXED[name](block, equation, *args)
    return _on_numbers(block, equation, args, wanted)


def _on_numbers(block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]) -> list:
    """The results of an operation on arrays of real numbers: number by number where they are few, else in memory."""
    name = equation.primitive.name
    forms = [kind(v.aval) for v in equation.outvars]
    is_large = any(x.size > MOST_CELLS for x in (*args, *forms))
    reduces_nothing = name in REDUCTIONS and not args[0].size
    if is_large or reduces_nothing:
        return on_large(block, equation, args, wanted)
    if name in block.formulas and forms[0].size > MOST_IN_LINE:
        return [block.cells(x) for x in on_large(block, equation, args, [None])]
    cells = [block.cells(x) for x in args]
    if name in ELEMENTWISE:
        return [block.elementwise(equation, cells, forms[0])]
    if not has_rule(equation):
        raise NotUnderstood(f"{name} of {[str(v.aval) for v in equation.invars]}")
    return apply(block.graph, equation, cells)


def _native(
    block: Block, equation: Operation, args: Sequence, wanted: Sequence[Memory | None]
) -> Sequence[ProgramArray]:
    """The results of such a program that stands in this one, for the batch that it has here. Its members come one after
    the other: so their numbers are in registers, and each goes on for as long as it needs."""
    params = equation.params
    program = params["program"]
    closed = program.closed_jaxpr() if isinstance(program, Transposed) else program
    in_library = length(closed.jaxpr) >= LONG and not block.code.is_graphics
    if not params["batch"]:
        return call_library(block, closed, args) if in_library else block.run(closed, args, wanted)
    if in_library:
        of_one = params | {"batch": (), "summed": ((),) * len(program.out_avals)}
        one = partial(equation.primitive.bind, **of_one)
    else:
        one = partial(evaluate, closed, batch=())
    together = partial(of_members, one, batch=params["batch"], summed=params["summed"], over=in_turn)
    whole = trace(together, [v.aval for v in equation.invars])
    return block.run(whole, args, wanted)


def _platform(equation: Operation, names: tuple[str, ...]) -> np.ndarray:
    """Which of the programs for several platforms is that for the one of these names."""
    for k, those in enumerate(equation.params["platforms"]):
        is_for_all = those is None
        if is_for_all or any(name in those for name in names):
            return fill((), [np.int32(k)])
    raise NotUnderstood(f"a program for other platforms than {names}")
