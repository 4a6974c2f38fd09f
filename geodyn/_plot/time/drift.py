"""Plots of what should stay: energies, momenta and constraints, by their distance from where they should be.

Such distances are rounding errors that jump between zero and their largest values. What is drawn is their envelope: the
largest in each of many equal intervals of saved states. The axis is logarithmic; a line marks the level of rounding,
and what lies far below it is not drawn.
"""

from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Axes, Float, Scalar
from geodyn._integrators.contract.system import AbstractLagrangianSystem, AbstractSystem, constraint_rate
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.constrained.constraint_forces import ConstraintForces
from geodyn._mechanics.constrained.quasi_velocities import QuasiVelocities
from geodyn._mechanics.hamiltonian.hamiltonian import Hamiltonian
from geodyn._mechanics.points.body import AbstractBody, constraint_names
from geodyn._plot.scene.scene import check_one
from geodyn._plot.style import GREY, INK, PLAIN, STYLES, Labels, axes, check_lengths, legend, steady
from geodyn._plot.time.curves import mark

INTERVALS = 100


@checked
def drift(
    t: Float[np.ndarray, " T"],
    conserved: dict[str, Float[np.ndarray, "T ..."]],
    ax: Axes = None,
    *,
    labels: Labels = PLAIN,
):
    """The distance of conserved quantities from their first values, in the largest component, as an envelope on a
    logarithmic axis with the level of rounding as a line: ε times the largest value, or ε where all values are smaller
    than that, as those of a body at rest.

    Args:
        t: the times [T].
        conserved: values [T, …] under each name.
        ax: the Axes; by default a new one.
        labels: names of the coordinates and units, a `gd.plot.Labels`.

    Returns:
        The Axes.

    Example:
        >>> t = np.linspace(0.0, 1.0, 11)
        >>> ax = gd.plot.drift(t, {"energy": 1.0 + 1e-9 * t})
        >>> f"{ax.lines[0].get_ydata().max():.0e}"
        '1e-09'
    """
    check_lengths("conserved", {name: len(x) for name, x in conserved.items()}, len(t))
    ax = axes(ax, xlabel=labels.clock, ylabel="distance from the first value")
    values = {name: np.asarray(x).reshape(len(t), -1) for name, x in conserved.items()}
    for name, x in values.items():
        _envelope(ax, t[1:], np.abs(x - x[0])[1:], name)
    eps = max((float(np.finfo(x.dtype).eps) for x in values.values()), default=0.0)
    largest = max((np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in values.values()), default=0.0)
    if largest < eps:
        return _rounding(ax, eps, "rounding unit ε (all values are below it)")
    return _rounding(ax, eps * largest, "rounding of the largest value")


@checked
def energy(trajectory: Trajectory, ax: Axes = None, *, labels: Labels = PLAIN):
    """The energy of a motion, with the moments of impacts: its distance from the first value, as in `drift`, where the
    system is known to conserve it, and elsewhere the energy itself.

    Known to conserve it are Lagrangian and Hamiltonian systems on which, at the saved states, nothing does work: no
    dissipation, no friction or plasticity, no dependence on time, no driven constraint, and no contact but an elastic
    one. A trajectory from a file has no known system before `with_system`.

    Args:
        trajectory: what `gd.integrate` returns.
        ax: the Axes; by default a new one.
        labels: names of the coordinates and units, a `gd.plot.Labels`.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> gd.plot.energy(motion).get_yscale()
        'log'
    """
    check_one(trajectory)
    E = np.asarray(trajectory.energy)
    if not _conserves_energy(trajectory):
        ax = axes(ax, xlabel=labels.clock, ylabel=labels.of("energy E(t)", labels.energy))
        ax.plot(trajectory.t, E, linewidth=2, label="energy")
        return legend(mark(steady(ax, E), trajectory), len(ax.lines))
    ax = drift(np.asarray(trajectory.t), {f"energy, at first {E[0]:.6g}": E}, ax, labels=labels)
    ax.set_ylabel(labels.of("|E(t) − E(0)|", labels.energy))
    return legend(mark(ax, trajectory), len(ax.lines))


def _conserves_energy(trajectory: Trajectory) -> bool:
    """Whether the energy is known to be conserved: nothing does work at any saved state."""
    system = trajectory.system
    while isinstance(system, QuasiVelocities | ConstraintForces):
        system = system.system
    if not isinstance(system, AbstractLagrangianSystem | Hamiltonian) or not system.is_smooth:
        return False
    flat = trajectory.t.shape[0], -1
    q = trajectory.q.reshape(flat)
    v = trajectory.v.reshape(flat)
    # What is not finite, as after a failure, says nothing.
    return not any(np.any(np.abs(power) > 0) for power in _works(system, trajectory.t, q, v))


@jit
def _works(
    system: AbstractLagrangianSystem | Hamiltonian,
    t: Float[Array, " T"],
    q: Float[Array, "T n"],
    v: Float[Array, "T n"],
) -> list[Array]:
    """What does work at each state, and vanishes where the energy is conserved: ∂L/∂t, or ∂H/∂t, the dissipated power
    and the rates of constraints and gaps that move, and what contacts take from a velocity of approach 1."""

    def at(t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> list[Array]:
        still = jnp.zeros_like(v)
        if isinstance(system, Hamiltonian):
            return [jax.grad(system.hamiltonian_at)(t, q, system.momentum(t, q, v))]
        driven = jax.grad(system.lagrangian_at)(t, q, v)
        dissipated = jax.grad(system.rayleigh_at, 2)(t, q, v) @ v
        found = [driven, dissipated, constraint_rate(system, t, q, still)]
        if system.contacts is not None:
            found += [jax.jacfwd(system.contacts.gap)(t, q), 1 - system.contacts.restitution(q)]
            found += [system.contacts.friction(q)] if system.contacts.frictional else []
        return found

    return jax.vmap(at)(t, q, v)


@checked
def multipliers(
    trajectory: Trajectory, ax: Axes = None, *, system: AbstractSystem | None = None, labels: Labels = PLAIN
):
    """The multipliers of the constraints against time, with a line at zero; that of a rod is the force along it,
    negative in tension. Raises ValueError for a system without constraints.

    Args:
        trajectory: what `gd.integrate` returns.
        ax: the Axes; by default a new one.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Sphere(2), 1.0, stiffness=None)
        >>> motion = gd.integrate(rod, q0, gd.builders.velocities(rod.space, 0, q0), t1=1.0, steps=10)
        >>> gd.plot.multipliers(motion).get_ylabel()
        'multiplier λ'
    """
    check_one(trajectory)
    lam = np.asarray(trajectory.multipliers)
    if lam.shape[-1] == 0:
        raise ValueError("trajectory has no multipliers: its system has no constraints")
    known = system or trajectory.system
    numbered = [f"$\\lambda_{{{k + 1}}}$" for k in range(lam.shape[-1])]
    names = constraint_names(known) if isinstance(known, AbstractBody) else []
    names += numbered[len(names) :]  # The forces of friction and of plastic elements.
    ax = axes(ax, xlabel=labels.clock, ylabel=labels.of("multiplier λ", labels.force))
    ax.axhline(0.0, color=INK, linewidth=0.8)
    for values, name, style in zip(lam.T, names, cycle(STYLES)):
        ax.plot(trajectory.t, values, style, linewidth=2, label=name)
    return legend(steady(ax, lam), len(names))


@checked
def constraints(
    trajectory: Trajectory, ax: Axes = None, *, system: AbstractSystem | None = None, labels: Labels = PLAIN
):
    """The largest residual of the constraints in positions, |φ(q)|, and in velocities, |dφ/dt| and |Av − b|, against
    time, as an envelope on a logarithmic axis with the rounding unit as a line.

    `system` is needed for a trajectory read from a file. Raises ValueError for a system without constraints.

    Args:
        trajectory: what `gd.integrate` returns.
        ax: the Axes; by default a new one.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Sphere(2), 1.0, stiffness=None)
        >>> motion = gd.integrate(rod, q0, gd.builders.velocities(rod.space, 0, q0), t1=1.0, steps=10)
        >>> position, velocity, _ = gd.plot.constraints(motion).lines
        >>> print(max(np.max(line.get_ydata()) for line in (position, velocity)) < 1e-12)
        True
    """
    check_one(trajectory)
    known = system or trajectory.system
    if known is None or known.count_constraints(trajectory.q[0]) == 0:
        raise ValueError(
            "trajectory has no constraints"
            + (", since it was read from a file: give its system as system=" if known is None else " in its system")
        )
    flat = trajectory.t.shape[0], -1
    states = trajectory.t, trajectory.q.reshape(flat), trajectory.v.reshape(flat)
    ax = axes(ax, xlabel=labels.clock, ylabel="largest residual")
    for name, values, style in zip(("position, |φ|", "velocity, |dφ/dt|"), _residuals(known, *states), STYLES):
        _envelope(ax, np.asarray(trajectory.t), np.abs(values), name, style)
    return _rounding(ax, float(np.finfo(trajectory.q.dtype).eps), "rounding unit ε")


@jit
def _residuals(
    system: AbstractSystem, t: Float[Array, " T"], q: Float[Array, "T n"], v: Float[Array, "T n"]
) -> tuple[Float[Array, "T c"], Float[Array, "T d"]]:
    """The residuals of the constraints of positions φ [T, c], and of those of velocities (dφ/dt, Av − b) [T, c']."""
    return jax.vmap(lambda t, q, v: (system.constraint(t, q), constraint_rate(system, t, q, v)))(t, q, v)


def _envelope(ax: Axes, t: np.ndarray, values: Array | np.ndarray, name: str, style: str = "-") -> None:
    """Plots the largest component, and of that the largest in each of at most INTERVALS intervals of at least five
    saved states; a few states are drawn as they are."""
    values = np.asarray(values).reshape(len(t), -1).max(axis=1, initial=0.0)
    count = min(INTERVALS, len(t) // 5) if len(t) > 25 else len(t)
    parts = [part[np.isfinite(values[part])] for part in np.array_split(np.arange(len(t)), count)]
    parts = [part for part in parts if len(part)]
    tops = [(part, max(values[part].max(), np.finfo(float).tiny)) for part in parts]
    ends = [(k, top) for part, top in tops for k in dict.fromkeys((part[0], part[-1]))]
    ax.semilogy([t[k] for k, _ in ends], [top for _, top in ends], style, label=name)


def _rounding(ax: Axes, level: float, name: str) -> Any:
    """Draws the level of rounding, and ends the axis two decades below it and no less than one above; curves below
    stay at the lower end."""
    for line in ax.lines:
        line.set_ydata(np.maximum(line.get_ydata(), level / 100))
    highest = max((np.max(line.get_ydata(), initial=0.0) for line in ax.lines), default=0.0)
    ax.axhline(level, color=GREY, linewidth=0.8, linestyle=":", label=name)
    ax.set_ylim(level / 100, max(10 * level, 3 * highest))
    return legend(ax, len(ax.lines))
