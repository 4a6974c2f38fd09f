"""Everything that geodyn uses of JAX beyond its public interface. Results do not depend on it, only speed does.

Programs are compiled by a compiler of our own (`program/`, `llvm/`), which saves time and nothing else. For that geodyn
reads JAX's programs (jaxprs), and defines primitives of its own. `passes` tests this once per process. If anything is
missing or different in a newer JAX, all programs run as they were written.
"""

import contextlib
import functools
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, cast

import jax
import numpy as np

from geodyn._engine.tracing import undisturbed
from geodyn._foundations.indices import scan_counts as scan_counts
from geodyn._foundations.typing import PyTree

# Where our compiler makes machine code.
PLATFORMS = "cpu", "cuda"

try:
    from jax.core import ShapedArray, eval_jaxpr
    from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive, Var
    from jax.interpreters import ad, batching, mlir

    MISSING = None
except (ImportError, AttributeError) as missing:
    nothing = cast(Any, None)
    eval_jaxpr = ad = batching = mlir = nothing
    # These are named in annotations, too.
    ShapedArray = ClosedJaxpr = Jaxpr = Literal = Primitive = Var = cast(Any, Any)
    MISSING = missing

try:
    from jax.extend.core import jaxpr_as_fun
except ImportError:

    def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable:
        """The function of a program."""
        return partial(eval_jaxpr, closed.jaxpr, closed.consts)


try:  # How several devices share an operation, and the operations whose translation for XLA depends on the devices.
    from jax._src.dispatch import prim_requires_devices_during_lowering as for_devices
    from jax.experimental.custom_partitioning import custom_partitioning
except ImportError:
    for_devices = custom_partitioning = None


class Operation(Protocol):
    """What a rule reads of an operation of a program: the primitive, its parameters, and the variables (or numbers)
    that it takes and gives. An equation of a jaxpr has it."""

    @property
    def primitive(self) -> Primitive: ...

    @property
    def params(self) -> dict: ...

    @property
    def invars(self) -> Sequence: ...

    @property
    def outvars(self) -> Sequence: ...


def double_precision() -> contextlib.AbstractContextManager:
    """Within it JAX computes in double precision, whatever the user has set."""
    try:
        return jax.enable_x64(True)
    except AttributeError:  # Before JAX 0.8.
        from jax.experimental import enable_x64  # pyright: ignore[reportAttributeAccessIssue]: of an older JAX

        return enable_x64()


def passes(trial: Callable[[], bool]) -> bool:
    """Whether `trial`, a test of what this file offers, runs and returns True. It may be called while JAX traces."""
    try:
        with jax.ensure_compile_time_eval():
            if MISSING is None and trial():
                return True
        reason = MISSING or "a trial gave a wrong number"
    except Exception as failure:  # Whatever a JAX yet to come may raise.
        reason = repr(failure)
    logging.getLogger("geodyn").warning(
        "JAX %s: small programs run slower than they could (%s)", jax.__version__, reason
    )
    return False


def new_operation(
    name: str,
    *,
    run: Callable,
    abstract: Callable,
    batched: Callable,
    pushed_forward: Callable,
    pulled_back: Callable,
    lowered: Callable,
) -> Any:
    """A new JAX primitive with several results, and with these rules; None if this JAX lacks what it needs. `lowered`
    is told for which of PLATFORMS (None for any other), and whether one device runs the program by itself (`alone`)."""
    if MISSING is not None:
        return None
    operation = Primitive(name)
    operation.multiple_results = True
    operation.def_impl(run)
    operation.def_abstract_eval(lambda *args, **params: _on_mesh_of(args, abstract(*args, **params)))
    batching.primitive_batchers[operation] = undisturbed()(batched)
    ad.primitive_jvps[operation] = undisturbed()(pushed_forward)
    ad.primitive_transposes[operation] = undisturbed()(pulled_back)

    def lowering(platform: str | None) -> Callable:
        @undisturbed()
        def lower(context: Any, *args: Any, **params: Any) -> Any:
            function = partial(lowered, platform=platform, alone=_is_for_one_device(context))
            return mlir.lower_fun(function)(context, *args, **params)

        return lower

    if for_devices is not None:
        for_devices.add(operation)
    mlir.register_lowering(operation, lowering(None))
    for platform in PLATFORMS:
        mlir.register_lowering(operation, lowering(platform), platform=platform)
    return operation


def _on_mesh_of(args: Sequence[ShapedArray], values: list[ShapedArray]) -> list[ShapedArray]:
    """The types `values` of the results of an operation, on the mesh that the types of its arguments name: where only
    the arguments were on it, JAX would move cotangents away from it, and cannot do so in a batch."""
    mesh = next((x.sharding.mesh for x in args if getattr(x, "sharding", None) and not x.sharding.mesh.empty), None)
    if mesh is None:
        return values

    def on_mesh(x: ShapedArray) -> ShapedArray:
        spec = jax.sharding.PartitionSpec(*[None] * len(x.shape))
        return x.update(sharding=jax.sharding.NamedSharding(mesh, spec))

    return [on_mesh(x) if x.sharding.mesh.empty else x for x in values]


def _is_for_one_device(context: Any) -> bool:
    """Whether what is lowered runs on each device by itself, and not as a program that several devices share."""
    axes = context.module_context.axis_context
    try:
        return axes.num_devices == 1
    except AttributeError:  # Inside of `shard_map`; `pmap`, which has no axes that are not manual.
        return set(getattr(axes, "manual_axes", ())) == set(getattr(getattr(axes, "mesh", None), "axis_names", ()))


def varying(x: ShapedArray) -> frozenset:
    """The axes of a mesh along which an array of this type varies, inside of `jax.shard_map`."""
    try:
        return x.mat.varying  # Since JAX 0.12.
    except AttributeError:
        return x.vma


def varying_over(x: jax.Array, axes: frozenset) -> jax.Array:
    """The array x, typed as varying along these axes of a mesh too."""
    missing = tuple(axes - varying(jax.typeof(x)))
    if not missing:
        return x
    try:
        return jax.lax.pcast(x, missing, to="varying")
    except AttributeError:  # Before JAX 0.9.
        return jax.lax.pvary(x, missing)


def plain_type(x: ShapedArray) -> ShapedArray:
    """The type of an array like x that does not say along which axes of a mesh it varies."""
    return ShapedArray(x.shape, x.dtype, weak_type=x.weak_type, sharding=x.sharding)


def varying_type(x: ShapedArray, like: ShapedArray) -> ShapedArray:
    """The type of an array like x that varies along the same axes of a mesh as `like`."""
    sharding = jax.sharding.NamedSharding(like.sharding.mesh, jax.sharding.PartitionSpec(*[None] * len(x.shape)))
    return like.update(shape=x.shape, dtype=x.dtype, weak_type=x.weak_type, sharding=sharding)


def is_zero(tangent: Any) -> bool:
    """Whether a tangent or cotangent in a rule of a primitive is known to be zero."""
    return type(tangent) is ad.Zero


def is_unknown(argument: Any) -> bool:
    """Whether an argument of a transposition rule is one with respect to which the operation is linear."""
    return ad.is_undefined_primal(argument)


def silence() -> None:
    """Turns off XLA's messages below fatal errors, if this jaxlib can. For code from its cache XLA warns that the
    processor lacks features such as "prefer-no-gather", which are settings of XLA and not features of any processor."""
    try:
        from jaxlib.utils import absl_set_min_log_level
    except ImportError:
        return
    absl_set_min_log_level(3)


# XLA's options with which a program compiles in less time: less of LLVM's optimisation, and fusions by the older
# emitter, which XLA lacks since JAX 0.12.
LEVEL = "xla_backend_optimization_level"
QUICK = {LEVEL: 0, "xla_cpu_use_fusion_emitters": False}


@functools.cache
def quick_options() -> dict:
    """Those of `QUICK` that this version of XLA knows; none on other devices than CPUs."""
    known = {}
    for name, value in QUICK.items() if jax.default_backend() == "cpu" else ():
        with contextlib.suppress(Exception), jax.ensure_compile_time_eval():
            jax.jit(lambda x: x, compiler_options={name: value})(np.zeros(()))
            known[name] = value
    return known


# What most parameters of operations are.
PLAIN = str, int, float, np.dtype, type(None)


def programs_in(params: dict | Sequence) -> list[Jaxpr]:
    """The programs (jaxprs, closed or open) among the parameters of an operation, as open ones."""
    found = []
    for x in params.values() if isinstance(params, dict) else params:
        if isinstance(x, tuple | list | dict):
            found += programs_in(x)
        elif not isinstance(x, PLAIN):
            opened = getattr(x, "jaxpr", x)
            found += [opened] if isinstance(getattr(opened, "eqns", None), list | tuple) else []
    return found


def each_program(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The program and all programs in it, each once: the same one may stand in many places."""
    met = set()
    ahead = [jaxpr]
    while ahead:
        program = ahead.pop()
        if id(program) in met:
            continue
        met.add(id(program))
        yield program
        for equation in program.eqns:
            if equation.params:
                ahead += programs_in(equation.params)


# The lengths of the programs that are known.
_LENGTHS: weakref.WeakKeyDictionary[Jaxpr, int] = weakref.WeakKeyDictionary()


def length(jaxpr: Jaxpr) -> int:
    """The number of operations of a program, those of the programs in it included, wherever they stand."""
    known = _LENGTHS.get(jaxpr)
    if known is None:
        known = sum(max(1, sum(map(length, programs_in(equation.params)))) for equation in jaxpr.eqns)
        _LENGTHS[jaxpr] = known
    return known


def needed_operations(jaxpr: Jaxpr) -> list:
    """The operations on which the results depend, in order."""
    live = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if not live.isdisjoint(equation.outvars):
            kept.append(equation)
            live.update(v for v in equation.invars if not isinstance(v, Literal))
    return kept[::-1]


INLINED = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint"}


def inner_program(equation: Operation) -> ClosedJaxpr | None:
    """The program that an operation calls, if the operation is only a call; else None."""
    if equation.primitive.name not in INLINED:
        return None
    params = equation.params
    called = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
    return called if isinstance(called, ClosedJaxpr) else ClosedJaxpr(called, ())


def called_program(equation: Operation) -> ClosedJaxpr:
    """The program of an operation that is a call."""
    called = inner_program(equation)
    assert called is not None, f"{equation.primitive.name} calls no program"
    return called


def solver_of(equation: Operation, args: Sequence) -> tuple[ClosedJaxpr, list]:
    """(the program that solves a `custom_linear_solve`, its arguments); the others of its programs are for
    derivatives."""
    lengths, solve = equation.params["const_lengths"], equation.params["jaxprs"].solve
    before = lengths.matvec + lengths.vecmat
    return solve, [*args[before : before + lengths.solve], *args[before + lengths.solve + lengths.transpose_solve :]]


def is_high(jaxpr: Jaxpr) -> bool:
    """Whether a program contains high-level operations, which newer versions of JAX expand late; a primitive of one's
    own may not contain them."""
    return any(e.primitive.name == "call_hi_primitive" for program in each_program(jaxpr) for e in program.eqns)


def is_constant(function: Callable, x: PyTree) -> bool:
    """Whether the value of the function is known not to depend on x: no operation in its program leads from x to it."""
    try:
        program = jax.make_jaxpr(function)(x).jaxpr
        return not any(_dependent_results(program, [True] * len(program.invars)))
    except (AttributeError, TypeError):
        return False


def _dependent_results(jaxpr: Jaxpr, given: list[bool]) -> list[bool]:
    """Which results of a program may depend on those arguments that are `given`."""
    reached = {v for v, is_given in zip(jaxpr.invars, given, strict=True) if is_given}

    def is_reached(v: Var | Literal) -> bool:
        return not isinstance(v, Literal) and v in reached

    for equation in jaxpr.eqns:
        leads = [is_reached(v) for v in equation.invars]
        inner = inner_program(equation)
        ends = [any(leads)] * len(equation.outvars) if inner is None else _dependent_results(inner.jaxpr, leads)
        reached.update(v for v, is_end in zip(equation.outvars, ends, strict=True) if is_end)
    return [is_reached(v) for v in jaxpr.outvars]
