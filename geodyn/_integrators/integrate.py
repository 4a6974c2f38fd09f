"""Time integration: `integrate`, from initial data to a trajectory. Only here is the failure of a step raised."""

import functools
import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import Carried, jit, short_errors, static_count, traced_numbers
from geodyn._engine.tracing import undisturbed
from geodyn._foundations.checks import a_number, array_of, numbers
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Numbers, Scalar, Steps
from geodyn._integrators.contract.contacts import Contacts
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.failures import raise_failure
from geodyn._integrators.impacts.gaps import is_nearly_closed
from geodyn._integrators.impacts.path import with_padding
from geodyn._integrators.impacts.substep import pressed_contacts
from geodyn._integrators.run import ROWS, AnyArray, End, Rows, compiled_run, concrete_run, initial_state
from geodyn._integrators.saving.checkpoint import open_checkpoint
from geodyn._integrators.saving.inputs import named_inputs
from geodyn._integrators.step.methods import AbstractCollocation, AbstractMethod, Gauss, RadauIIA, formulation_of
from geodyn._integrators.trajectory import Impacts, Inputs, Run, Stats, Trajectory

# The numbers of all saved states. In double precision they take 16 GiB, the memory of many a machine.
MOST_NUMBERS = 2**31


@checked
@undisturbed()
def integrate(
    system: AbstractSystem,
    q0: Numbers,
    v0: Numbers | None = None,
    *,
    p0: Numbers | None = None,
    t1: Numbers,
    steps: Steps,
    t0: Numbers = 0.0,
    method: AbstractMethod | None = None,
    save_every: Steps = 1,
    max_impacts: Count = 64,
    progress: bool = False,
    checkpoint: str | os.PathLike | None = None,
    throw: bool = True,
) -> Trajectory:
    """Integrates a system from (q0, v0) at the time t0 to the time t1 in equal steps.

    The default method is `gd.Gauss(3)`, or `gd.RadauIIA(3)` for a system with constraints. Systems with dry friction or
    plasticity need `gd.friction.IncrementalPotential()`; contacts that slide, stick or rest with friction need
    `gd.methods.Moreau()`. To compare with, there are `gd.methods.Collocation(gd.tableaus.rk4())`,
    `gd.methods.Newmark()`, `gd.methods.StormerVerlet()` and `gd.methods.Adaptive()`.

    The impacts of a system with contacts happen at their own moments between the steps and stand in
    `trajectory.impacts`; the saved times stay as they are. A restitution below 1 ends flights of less than a sixteenth
    of a step.

    The result can be differentiated, in both modes, with respect to every number in the system, q0, v0, t0 and t1, by
    the implicit-function theorem, and batched with `jax.vmap` over any of them. Outside of jit, vmap and grad one
    compiled program serves any number of steps, of saved states and, up to the next power of 2, of impacts.

    Args:
        system: a `System`, a `Lagrangian`, an `ODE` or another system.
        q0: the initial configuration, [N, dim] of a `System`, [n] of a `Lagrangian` or `ODE`.
        v0: the initial velocity, in the shape of q0. Without it the motion starts from rest. An `ODE` takes none, and a
            `gd.hamilton.Hamiltonian` needs v0 or p0.
        p0: the initial momentum, in the shape of q0, in the place of v0.
        t1: the end time, in any consistent units. An earlier one than t0 is reached backwards, without contacts, dry
            friction and plasticity.
        steps: the number of steps.
        t0: the initial time.
        method: the method of integration.
        save_every: the start and every so many-th step are saved; it must divide `steps`.
        max_impacts: the largest number of impacts.
        progress: True shows the steps done, the rate and the time left, and before that for how long it has been
            compiling.
        checkpoint: a folder, new or of a run with the same inputs, which then goes on where it stopped, bit for bit
            (with the same versions on the same machine). It is written every few seconds and at the end.
        throw: False returns the trajectory where a step has failed.

    Returns:
        A `Trajectory` with T = steps/save_every + 1 saved states. With `progress` or `checkpoint`, Ctrl-C returns what
        was computed so far. Inside jit or vmap nothing can be raised: look at `trajectory.result`. What follows a
        failed step is NaN, and so are its derivatives; the other members of a batch are not affected.

    Raises:
        ValueError: for arguments that do not fit, and for a checkpoint of another run, before anything is compiled.
        IntegrationError: where a step fails, unless throw=False.

    Example:
        A mass on a spring, x = cos √k t, and the derivative with respect to the stiffness k, −t sin(√k t)/(2√k).

        >>> def position(k):
        ...     body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(k, [0.0]))
        ...     return gd.integrate(body, [[1.0]], t1=1.0, steps=20).q[-1, 0, 0]
        >>> print("%.6f %.6f" % jax.value_and_grad(position)(4.0))
        -0.416147 -0.227324
        >>> print(f"{np.cos(2.0):.6f} {-np.sin(2.0) / 4:.6f}")
        -0.416147 -0.227324
    """
    if p0 is not None:
        v0 = _velocity_of_momentum(system, q0, v0, p0, t0)
    q, v = _initial_values(system, q0, v0)
    steps = static_count("steps", steps)
    save_every = static_count("save_every", save_every)
    max_impacts = static_count("max_impacts", max_impacts)
    reversible = system.contacts is None and system.is_smooth
    _check_times(t0, t1, steps, save_every, reversible)
    kind = type(system)  # Equinox makes a pytree of every bound method, `system.check`, which takes 50 µs.
    constraints = kind.count_constraints(system, q)
    method = _checked_method(system, method, q, constraints)
    system = traced_numbers(system)
    method = traced_numbers(method)
    h = _step_size(t0, t1, steps, q.dtype, reversible)
    saves = steps // save_every
    _check_memory(steps, save_every, saves, q.size)
    most = _most_impacts(system, method, max_impacts)
    concrete = not any(isinstance(x, Tracer) for x in jax.tree.leaves((system, method, q, v, t0, t1, h)))
    as_array = np.asarray if concrete else jnp.asarray
    t0 = as_array(t0, q.dtype)
    t1 = as_array(t1, q.dtype)
    if concrete:
        kind.check(system, t0, np.asarray(q), None if v is None else np.asarray(v))
        contacts = system.contacts
        if contacts is not None and most and contacts.elastic:
            system = _with_rest(system, contacts, method, t0, h, q, v)
    elif checkpoint is not None:
        raise ValueError(f"checkpoint={checkpoint} has no place inside of jit, vmap or grad")
    counts = {"steps": steps, "save_every": save_every, "max_impacts": max_impacts}
    initial = (system, method, t0, h, q, v)
    if concrete:
        folder = None
        if checkpoint is not None:
            folder = open_checkpoint(checkpoint, named_inputs(system, method, q0=q, v0=v, t0=t0, t1=t1, **counts))
        end, rows, hits = concrete_run(initial, saves, save_every, most, constraints, folder, progress)
    else:
        end, rows, hits = compiled_run(*initial, saves=saves, every=save_every, most=most)
    # A program may have room for more impacts than were asked for.
    impacts = Impacts(*jit(with_padding)(most, *(hits or ()))) if most else None
    trajectory = _trajectory(system, method, (t0, t1, h), q, v, end, rows, impacts, counts)
    if throw and not isinstance(trajectory.result, Tracer):  # It is known outside of jit, in derivatives too.
        with short_errors():
            raise_failure(trajectory)
    return trajectory


def _step_size(t0: Numbers, t1: Numbers, steps: int, dtype: np.dtype, reversible: bool) -> Scalar:
    """The length of a step, which is traced wherever anything is."""
    h = _number((t1 - t0) / steps, dtype)
    if isinstance(h, Tracer) and not reversible:
        # Nothing can be raised for a traced time. A run that would go backwards is NaN.
        h = h * jnp.where(h > 0, 1.0, jnp.nan)
    return h


@partial(jax.jit, static_argnums=1)
def _number(x: Number, dtype: np.dtype) -> Scalar:
    return jnp.asarray(x, dtype)  # Without jit it takes three times as long.


def _cast(x: AnyArray, dtype: np.dtype) -> AnyArray:
    if isinstance(x, np.ndarray):
        return np.array(x, dtype)  # A copy, since the steps may still read it when the caller changes the original.
    # A weak type would give way to that of other numbers, and take a program of its own.
    return x if x.dtype == dtype and not x.weak_type else x.astype(dtype)


def _precision_of(q: AnyArray) -> np.dtype:
    """The precision in which a motion from q is computed: that of q, or the usual one of JAX, which a list of numbers
    has, too."""
    usual = jnp.result_type(float)
    is_float = jnp.issubdtype(q.dtype, jnp.floating)
    return q.dtype if is_float and q.dtype.itemsize <= usual.itemsize else usual


def _initial_values(system: AbstractSystem, q0: Numbers, v0: Numbers | None) -> tuple[AnyArray, AnyArray | None]:
    """(q, v), checked, as arrays of the same shape and precision."""
    wanted = "real numbers in the shape of a configuration"
    q = array_of("q0", q0, wanted)
    dtype = _precision_of(q)
    if dtype.itemsize < 4:
        raise ValueError(f"q0 must be numbers of float32 or float64, got {dtype}: give q0.astype(float)")
    q = _cast(q, dtype)
    v = None
    if v0 is not None:
        v = _cast(array_of("v0", v0, wanted), dtype)
    elif system.starts_at_rest:
        v = np.zeros(q.shape, dtype)
    if v is not None and v.shape != q.shape:
        raise ValueError(f"v0 must have the shape of q0, {q.shape}; got {v.shape}")
    for name, value in (("q0", q), ("v0", v)):
        if value is None or isinstance(value, Tracer):
            continue
        if not np.all(np.isfinite(np.asarray(value))):
            raise ValueError(f"{name} must be finite, got {np.asarray(value)}")
    return q, v


def _velocity_of_momentum(system: AbstractSystem, q0: Numbers, v0: Numbers | None, p0: Numbers, t0: Numbers) -> Array:
    """The initial velocity that belongs to the momentum p0."""
    if v0 is not None:
        raise ValueError("give either v0 or p0, not both")
    q, _ = _initial_values(system, q0, None)
    p = numbers("p0", p0, "real numbers in the shape of a configuration")
    if p.shape != q.shape:
        raise ValueError(f"p0 must have the shape of q0, {q.shape}; got {p.shape}")
    return jit(_velocity_at)(system, jnp.asarray(t0, q.dtype), q, p.astype(q.dtype))


def _velocity_at(
    system: AbstractSystem, t: Scalar, q: Float[Array, "..."], p: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The velocity of a momentum, both in the shape of a configuration."""
    return system.velocity(t, q.reshape(-1), p.reshape(-1)).reshape(q.shape)


def _check_times(t0: Numbers, t1: Numbers, steps: int, save_every: int, reversible: bool) -> None:
    if steps % save_every:
        raise ValueError(f"save_every must divide steps={steps}, got {save_every}")
    a_number("t0", t0)
    a_number("t1", t1)
    if isinstance(t0, Tracer) or isinstance(t1, Tracer):
        return
    if not (np.isfinite(t1) and np.isfinite(t0) and t1 != t0):
        raise ValueError(f"t1 must be finite and another time than t0={t0}, got {t1}")
    if not reversible and t1 < t0:
        raise ValueError(
            f"t1 must be later than t0={t0}, got {t1}: impacts, dry friction and plasticity are not followed backwards"
        )


def _check_memory(steps: int, save_every: int, saves: int, coordinates: int) -> None:
    if saves * ROWS * coordinates > MOST_NUMBERS:
        raise ValueError(
            f"steps={steps} with save_every={save_every} would save {saves} states of {coordinates} coordinates, more "
            "than fit into the memory: save fewer of them, by a larger save_every"
        )


@functools.cache
def _default_method(constrained: bool) -> AbstractCollocation:
    return RadauIIA(3) if constrained else Gauss(3)


def _checked_method(system: AbstractSystem, method: Any, q: AnyArray, constraints: int) -> AbstractMethod:
    """The method asked for or the default one, checked against the system's constraints."""
    if method is None:
        method = _default_method(constraints > 0)
    if not isinstance(method, AbstractMethod):
        raise ValueError(
            f"method must be gd.Gauss(3), gd.RadauIIA(3), gd.methods.Collocation(tableau) or a stepper; got {method!r}"
        )
    if isinstance(method, AbstractCollocation):
        _check_collocation(system, method, q, constraints)
    return method


def _check_collocation(system: AbstractSystem, method: AbstractCollocation, q: AnyArray, constraints: int) -> None:
    """ValueError where collocation cannot follow the system."""
    if formulation_of(method, constraints).at_end and constraints > _count_holonomic(system, q):
        raise ValueError(
            f"formulation={method.formulation!r} bounds only the end of a step, and nonholonomic constraints every "
            "stage: use method=gd.RadauIIA(3)"
        )
    if not system.is_smooth:
        raise ValueError(
            "the system has elements such as gd.friction.DryFriction, whose force jumps where they slip the other "
            "way: collocation cannot follow that, take method=gd.friction.IncrementalPotential()"
        )
    if system.contacts is not None and not method.tableau.has_distinct_nodes:
        raise ValueError(
            "the system has contacts, whose impacts are found on the polynomial of a step: that needs a method "
            f"with distinct nodes, and those of {method.tableau} are {method.tableau.c.tolist()}: take "
            "method=gd.Gauss(3), or gd.RadauIIA(3) where there are constraints"
        )
    if system.contacts is not None and system.contacts.jumping:
        raise ValueError(
            "the system has contacts such as gd.rigid.Polyhedra, whose gaps jump where features lose each other: "
            "no moment of impact can be found there, take method=gd.methods.Moreau()"
        )


def _most_impacts(system: AbstractSystem, method: AbstractMethod, max_impacts: int) -> int:
    """The largest number of impacts; 0 where no contacts are watched: only along the polynomials of a collocation are
    moments of impact found."""
    if system.contacts is None or not isinstance(method, AbstractCollocation):
        return 0
    if max_impacts and system.charts is not None:
        raise ValueError("system has contacts, which need a space of a single chart: give the space another chart")
    return max_impacts


def _count_holonomic(system: AbstractSystem, q: AnyArray) -> int:
    return jax.eval_shape(system.constraint, jnp.zeros((), q.dtype), q.reshape(-1)).size


def _with_rest(
    system: AbstractSystem,
    contacts: Contacts,
    method: AbstractMethod,
    t0: AnyArray,
    h: Scalar,
    q: AnyArray,
    v: AnyArray | None,
) -> AbstractSystem:
    """The system, or, if contacts are pressed at rest from the start, the same system whose contacts may be at rest."""
    if not jit(is_nearly_closed)(system, t0, q.reshape(-1)):
        return system
    first = jit(initial_state)(system, method, t0, h, q, v)
    _, pressed = jit(pressed_contacts)(system, None, t0, h, first)
    if contacts.with_rest is None or not np.any(pressed):
        return system
    return contacts.with_rest()


def _trajectory(
    system: AbstractSystem,
    method: AbstractMethod,
    times: tuple[AnyArray, AnyArray, AnyArray],
    q: AnyArray,
    v: AnyArray | None,
    end: End,
    rows: Rows,
    impacts: Impacts | None,
    counts: dict[str, int],
) -> Trajectory:
    columns, h, further = _columns(times, q, v, end, rows, counts=tuple(counts.items()))
    carried = Carried(Run(system, method))
    return Trajectory(*columns, carried=carried, result=end.result, step_size=h, impacts=impacts, **further)


@partial(jax.jit, static_argnames="counts")
def _columns(
    times: tuple[Scalar, Scalar, Scalar],
    q0: Float[Array, "..."],
    v0: Float[Array, "..."] | None,
    end: End,
    rows: Rows,
    *,
    counts: tuple[tuple[str, int], ...],
) -> tuple[tuple[Array, ...], Scalar, dict[str, Any]]:
    """((t, q, v, p, λ), h, the further fields of a `Trajectory`) of the rows, with q, v and p in the shape of a
    configuration. They are made here since that costs less for each call."""
    t0, t1, h = times
    inputs = Inputs(q0, v0, t0, t1, **dict(counts))
    every = inputs.save_every
    # A program that serves any number of saves has room for more rows.
    count = min(len(rows[0]), inputs.steps // every + 1)
    q, p, lam, frame, error, v = (x[:count] for x in rows)
    t = t0 + h * every * jnp.arange(count, dtype=q.dtype)
    shape = (count, *q0.shape)
    # Momenta of which there are not as many as coordinates have no such shape.
    p = p.reshape(shape) if p.shape == q.shape else p
    further = {
        "inputs": inputs,
        "frame": frame if frame.size else None,
        "local_error": error[:, 0],
        "stats": Stats(end.steps, end.iterations, end.jacobians, end.errors[1]),
    }
    return (t, q.reshape(shape), v.reshape(shape), p, lam), h, further
