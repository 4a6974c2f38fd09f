"""The energy that a motion dissipates, and quasi-static motion, which has no inertia."""

from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.core import Tracer

from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Int, Number, Numbers, Scalar
from geodyn._integrators.contract.lagrangian import AbstractFlatLagrangian, check_kinetic
from geodyn._integrators.contract.system import AbstractLagrangianSystem
from geodyn._integrators.integrate import integrate
from geodyn._integrators.step.collocation import Problem
from geodyn._integrators.step.methods import AbstractCollocation, AbstractStepper, formulation_of, start
from geodyn._integrators.step.path import path
from geodyn._integrators.trajectory import Inputs, IntegrationError, Trajectory, compiled
from geodyn._mechanics.dissipative.increment import slips_of
from geodyn._mechanics.dissipative.incremental import IncrementalPotential
from geodyn._mechanics.points.body import AbstractBody, strains
from geodyn._mechanics.points.projection import project


@checked
def dissipated(trajectory: Trajectory) -> Float[Array, " T"]:
    """The energy dissipated until each saved time: ∫ <∂R/∂v, v> dt, and what dry friction and plastic flow take.

    Without forces that depend on time the energy falls by as much: d(K + V)/dt = −<∂R/∂v, v>. A `gd.rigid.Load` is part
    of R with minus its power: the work that it does counts as negative, so that for a body with loads the result is
    what drag takes minus what they give.

    For a collocation method the integral is evaluated at its stages, to the order of the method. For a stepper it is
    the sum over its steps, each with the mean of its velocities; for `gd.friction.IncrementalPotential` that mean is
    weighted by its theta, so that it is the last velocity where theta is 1. What backward Euler damps beyond that is no
    dissipation of the system.

    Args:
        trajectory: a trajectory that `gd.integrate` returned.

    Returns:
        The energies [T], the first being 0.

    Raises:
        ValueError: for a system without a Lagrangian, for a trajectory that has contacts or comes from a file without
            its system, and for one of a stepper that did not save every step.

    Example:
        What a body loses to drag: its energy falls from 2 by the factor e^(−2ct/m).

        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Drag(0.5))
        >>> trajectory = gd.integrate(body, [[0.0]], [[2.0]], t1=1.0, steps=20)
        >>> print(f"{gd.friction.dissipated(trajectory)[-1]:.6f} {2 * (1 - np.exp(-1.0)):.6f}")
        1.264241 1.264241

    Source:
        Goldstein, *Classical Mechanics*, 1.5.
    """
    system = trajectory.system
    inputs = trajectory.inputs
    if not isinstance(system, AbstractLagrangianSystem) or inputs is None:
        raise ValueError(
            "dissipated needs the trajectory of a System or Lagrangian; one from a file gd.load(path, system)"
        )
    if system.contacts is not None:
        raise ValueError("contacts dissipate too: where there are any, take trajectory.energy[0] - trajectory.energy")
    if not isinstance(trajectory.method, AbstractStepper):
        return _by_stages(trajectory)
    if inputs.save_every > 1:
        raise ValueError(f"dissipated needs every step: integrate with save_every=1, not {inputs.save_every}")
    return _by_steps(trajectory)


@compiled
def _by_stages(trajectory: Trajectory) -> Float[Array, " T"]:
    """`dissipated` for collocation methods: repeats the integration to get the stages, and integrates <∂R/∂v, v> over
    each step by the quadrature of the tableau."""
    # `dissipated` has looked at all three.
    system = cast(AbstractLagrangianSystem, trajectory.system)
    method = cast(AbstractCollocation, trajectory.method)
    inputs = cast(Inputs, trajectory.inputs)
    h = trajectory.step_size
    q = trajectory.q[0].reshape(-1)
    v = trajectory.v[0].reshape(-1)
    p = trajectory.p[0].reshape(-1)
    state = start(system, method, inputs.t0, h, q, p, v)
    steps = path(system, inputs.t0, h, state, method=method, saves=inputs.steps, every=1)[1]
    formulation = formulation_of(method, system.count_constraints(q))

    def powers(t: Array, q: Array, v: Array) -> Array:
        return jax.vmap(lambda t, q, v: _power(system, t, q, v))(t, q, v)

    def during(k: Int[Array, ""], q: Float[Array, " n"], p: Array, w: Array) -> Scalar:
        """The energy dissipated in the step k from (q, p), with the stage values w."""
        problem = Problem(system, inputs.t0 + h * k, h, q, p, method.tableau, formulation)
        times = problem.times
        positions = problem.positions(w)
        velocities = jax.vmap(problem.stage)(times, positions, w)[0]
        weights = jnp.asarray(method.tableau.b, h.dtype)
        return h * jnp.dot(weights, powers(times, positions, velocities))

    q_before = jnp.concatenate([q[None], steps.q[:-1]])
    p_before = jnp.concatenate([p[None], steps.p[:-1]])
    amounts = jax.vmap(during)(jnp.arange(inputs.steps), q_before, p_before, steps.w)
    return jnp.append(0, jnp.cumsum(amounts))[:: inputs.save_every]


@compiled
def _by_steps(trajectory: Trajectory) -> Float[Array, " T"]:
    """`dissipated` for steppers, from the saved states before and after each step."""
    system = cast(AbstractLagrangianSystem, trajectory.system)  # `dissipated` has looked.
    h = trajectory.step_size
    method = trajectory.method
    part = method.theta if isinstance(method, IncrementalPotential) else 0.5

    def mean(x: Float[Array, "T ..."]) -> Float[Array, "_ _"]:
        between = x[:-1] + part * jnp.diff(x, axis=0)
        return between.reshape(len(x) - 1, -1)

    within = mean(trajectory.t)[:, 0], mean(trajectory.q), mean(trajectory.v)
    amounts = h * jax.vmap(lambda t, q, v: _power(system, t, q, v))(*within)
    if not isinstance(system, AbstractBody) or system.is_smooth:
        return jnp.append(0, jnp.cumsum(amounts))
    flat = trajectory.q.reshape(len(trajectory.t), -1)
    k, most, strain = jax.vmap(lambda t, q: strains(system, t, q))(trajectory.t, flat)

    def slip(t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " s"]:
        rows = [slips.reshape(-1) for _, slips in slips_of(system, t, q, v)]
        return jnp.concatenate(rows or [k[0, :0]])

    slips = jax.vmap(slip)(*within)
    # The multipliers are those of the constraints, then the forces of friction, then those of plastic springs.
    frictional = slips.shape[1]
    plastic = k.shape[1]
    of_both = trajectory.multipliers[:, -frictional - plastic :]
    forces, yielding = jnp.split(of_both, [frictional], axis=1)
    flow = jnp.diff(strain + yielding / k, axis=0)
    amounts = amounts - h * jnp.sum(forces[1:] * slips, axis=1) + jnp.sum(most[1:] * jnp.abs(flow), axis=1)
    return jnp.append(0, jnp.cumsum(amounts))


def _power(system: AbstractLagrangianSystem, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
    return jnp.dot(jax.grad(system.rayleigh_at, 2)(t, q, v), v)


@checked
def quasi_static(
    system: AbstractLagrangianSystem, q0: Numbers, *, t1: Number, steps: Count, t0: Number = 0.0, **options: Any
) -> Trajectory:
    """Motion so slow that inertia plays no part: ∇V + ∂R/∂v + friction + φ'ᵀλ = 0 at every time.

    The steps minimise V + hR. The motion is driven by what depends on time: `gd.loads.PointLoad(force)`, or points
    moved by `gd.loads.Driven`, whose multipliers are the forces that this takes. It starts from the configuration
    nearest to q0 that obeys the constraints. Masses play no part. What changes its shape crawls: of all motions that
    the constraints allow, a step takes that which dissipates least. Where a load meets no resistance (nothing elastic
    holds the body, and friction gives way), a step fails. `gd.plot.hysteresis` draws the loop of a force over a
    displacement.

    Args:
        system: a `System` or a `Lagrangian`.
        q0: the initial configuration, [N, dim] of a `System`, [n] of a `Lagrangian`.
        t1: the end time.
        steps: the number of steps.
        t0: the initial time.
        **options: those of `gd.integrate`, except v0, p0 and method.

    Returns:
        The trajectory, as of `gd.integrate`.

    Raises:
        ValueError: as `gd.integrate` does.
        IntegrationError: where a step fails.

    Example:
        A block on a rough floor is pulled by a spring back and forth once: of the work 4 F (amplitude − F/k) remains.

        >>> k, F = 10.0, 1.0
        >>> pull = gd.loads.Driven(0, lambda t: jnp.array([0.3 * jnp.sin(t)]))
        >>> elements = gd.Spring([(0, 1)], k, 1.0), gd.friction.DryFriction([0.0, F]), pull
        >>> system = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], *elements)
        >>> trajectory = gd.friction.quasi_static(system, [[0.0], [1.0]], t1=4 * np.pi, steps=400)
        >>> lost = gd.friction.dissipated(trajectory)
        >>> print(f"{lost[400] - lost[200]:.3f} {4 * F * (0.3 - F / k):.3f}")
        0.800 0.800
    """
    if taken := {"v0", "p0", "method"} & options.keys():
        raise ValueError(
            f"{', '.join(sorted(taken))} must be left out: quasi-static motion has no inertia, and one method"
        )
    q0 = floats("q0", q0, "real numbers in the shape of a configuration")
    known = not any(isinstance(x, Tracer) for x in jax.tree.leaves((system, q0, t0)))
    if isinstance(system, AbstractFlatLagrangian) and known:
        check_kinetic(system, t0, q0, jnp.zeros_like(q0))
    q0, v0 = project(system, q0, jnp.zeros_like(q0), t0)
    method = IncrementalPotential(inertia=False)
    try:
        return integrate(system, q0, v0, t0=t0, t1=t1, steps=steps, method=method, **options)
    except IntegrationError as error:
        hint = (
            "In quasi-static motion that is also where a load meets no resistance: hold the body by something elastic"
        )
        raise IntegrationError(f"{error}. {hint}, or give it inertia by gd.integrate", error.trajectory) from None
