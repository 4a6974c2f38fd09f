"""Trajectories: the saved states of an integration, its statistics, its impacts, interpolation, and files."""

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import Carried, jit
from geodyn._engine.native import native_of
from geodyn._foundations.files.archive import named_arrays, write_archive
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Bool, File, Float, Index, Int, Numbers, Scalar
from geodyn._integrators.contract.system import AbstractSystem, total_energy
from geodyn._integrators.impacts.substep import Moving, start_of_path, substep
from geodyn._integrators.saving.dataset import dataset, table
from geodyn._integrators.saving.inputs import description
from geodyn._integrators.saving.schema import structure
from geodyn._integrators.saving.tables import write_csv, write_vtk
from geodyn._integrators.step.methods import (
    AbstractCollocation,
    AbstractMethod,
    AbstractStepper,
    State,
    dense_weights,
    start,
)
from geodyn._integrators.step.path import path

Function = TypeVar("Function", bound=Callable)


def of_each(function: Function) -> Function:
    """A function of one trajectory, extended to batches: it is applied to each member."""

    @functools.wraps(function)
    def of_members(trajectory: Any, *args: Any) -> Any:
        if trajectory.t.ndim > 1:
            return jax.vmap(lambda one: of_members(one, *args))(trajectory)
        return function(trajectory, *args)

    return of_members


def compiled(function: Function) -> Function:
    """A function of a trajectory, compiled once for all systems that differ in numbers only."""
    run = jit(lambda system, bare, *args: function(bare.with_system(system), *args))

    @functools.wraps(function)
    def call(trajectory: Any, *args: Any) -> Any:
        return run(trajectory.system, trajectory.with_system(None), *args)

    return call


def _is_carried(x: Any) -> bool:
    return isinstance(x, Carried)


class IntegrationError(RuntimeError):
    """A step of `gd.integrate` failed; `error.trajectory` holds what was computed until then, and NaN after it.

    The message says what to do; the reason is `gd.RESULTS(int(error.trajectory.result))`. With `throw=False` nothing is
    raised.

    Example:
        The solution of y' = y² from 1 is infinite at t = 1.

        >>> try:
        ...     gd.integrate(gd.ODE(lambda t, y: y**2), [1.0], t1=2.0, steps=20)
        ... except gd.IntegrationError as error:
        ...     print(gd.RESULTS(int(error.trajectory.result)).name, error.trajectory.q.shape)
        not_converged (21, 1)
    """

    def __init__(self, message: str, trajectory: "Trajectory"):
        super().__init__(message)
        self.trajectory = trajectory


class Stats(eqx.Module):
    """Statistics of a whole integration: the `steps` done, the `iterations` of the stage equations, the `jacobians`
    formed, and the largest `local_error` of all steps, saved or not."""

    steps: Int[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    local_error: Float[Array, ""]


class Impacts(eqx.Module):
    """The impacts of a motion, in the order of time: `trajectory.impacts`.

    Arrays have a fixed length M, the `max_impacts` of `gd.integrate`. The property `count` is the number of impacts;
    what follows is padding with t = ∞, contact = −1 and impulse = 0. Several contacts at one time are several rows.

    Args:
        t: times of the impacts [M].
        contact: the contact that closed [M], its place among all gaps, in the order of the elements of the system.
        impulse: its impulse [M]: the momentum changes by p⁺ − p = impulse · gradient of the gap.

    Example:
        A ball of mass 2 falls from the height 1; the impulse is m (1 + e) √(2g).

        >>> ball = gd.System(gd.spaces.Euclidean(1), [2.0], gd.Gravity(9.81), gd.Wall(lambda x: x[0], restitution=0.5))
        >>> impacts = gd.integrate(ball, [[1.0]], t1=0.6, steps=20).impacts
        >>> print(impacts.count, impacts.t.shape, f"{impacts.impulse[0]:.6f} {2 * 1.5 * np.sqrt(2 * 9.81):.6f}")
        1 (64,) 13.288341 13.288341
    """

    t: Float[Array, " M"]
    contact: Int[Array, " M"]
    impulse: Float[Array, " M"]

    @property
    def count(self) -> Int[Array, ""]:
        """The number of impacts."""
        return jnp.sum(self.contact >= 0)


class Inputs(eqx.Module):
    """The arguments of `integrate` beside system and method: `integrate(system, **vars(inputs))` takes them again."""

    q0: Float[Array, "..."]
    v0: Float[Array, "..."] | None
    t0: Float[Array, ""]
    t1: Float[Array, ""]
    steps: int = eqx.field(static=True)
    save_every: int = eqx.field(static=True)
    max_impacts: int = eqx.field(static=True)


class Run(NamedTuple):
    """What made a trajectory: its fields name the numbers that a trajectory carries."""

    system: AbstractSystem | None
    method: AbstractMethod | None


class Trajectory(AbstractOutcome):
    """A motion as `gd.integrate` returns it: the states at the saved times, and how the integration went.

    Beside its fields it has the properties `energy` [T], `embedding` (the points in the embedding of their space),
    `system` and `method`, and the methods `evaluate(t)` (positions at any times), `coordinates(space)`, `save(path)`,
    `to_xarray()`, `to_dataframe()`, `to_csv(path)` and `to_vtk(path)`. After a failed step everything is NaN. Where a
    space has several charts, q, v and p are in the chart of their time.

    A batch, made by `jax.vmap`, has its axes before all others. What takes one trajectory takes a member of it:
    `jax.tree.map(lambda x: x[i], batch)`.

    `local_error` bounds what the step that ends at each saved time added to the error of the positions. It comes from
    differences of the stage velocities of three steps, and falls with the step size to the power s + 2 (for `Gauss(3)`
    32 times with twice the steps), whereas the error itself falls faster (order + 1: 128 times). So it is near the
    truth, up to a factor of ten or so, where few digits are right, and a thousand times too large where many are. Where
    it is no smaller than what a step moves, take more steps. It is NaN at the start and for the first two steps (again
    after a change of charts), for methods that are no collocation and for systems with contacts. It has no derivative.

    Args:
        t: the saved times [T].
        q: the configurations [T, …], each in the shape of q0.
        v: the velocities, in the shape of q.
        p: the momenta ∂L/∂v, in the shape of q.
        multipliers: the multipliers [T, c], with the sign of the force: a stretched rod has λ < 0.
        result: how it ended, a member of `gd.RESULTS`.
        stats: `steps` done, `iterations` of the stage equations, `jacobians` formed, and the largest `local_error`.
        step_size: the step h, one number.
        carried: the system and the method; their numbers are leaves of the trajectory only where they were traced, so a
            batch has one copy of the others.
        recorded_energy: the energy [T] that a file holds; None otherwise.
        impacts: a `gd.contact.Impacts`, of a system with contacts; None otherwise.
        inputs: q0, v0, t0, t1, steps, save_every and max_impacts as `gd.integrate` took them.
        frame: where charts that move with the body stood [T, f]; None where there are none.
        local_error: the estimate [T], in the units of q, the largest of its components.

    Example:
        A mass on a spring, x = cos t.

        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> trajectory = gd.integrate(body, [[1.0]], t1=2.0, steps=10)
        >>> print(trajectory.t.shape, trajectory.q.shape, gd.RESULTS(int(trajectory.result)).name)
        (11,) (11, 1, 1) successful
        >>> print(f"{trajectory.evaluate(1.05)[0, 0]:.5f} {np.cos(1.05):.5f} {trajectory.energy[-1]:.6f}")
        0.49757 0.49757 0.500000
    """

    t: Float[Array, " T"]
    q: Float[Array, "T ..."]
    v: Float[Array, "T ..."]
    p: Float[Array, "T ..."]
    multipliers: Float[Array, "T c"]
    result: Int[Array, ""]
    stats: Stats
    step_size: Float[Array, ""]
    carried: Carried
    recorded_energy: Float[Array, " T"] | None = None
    impacts: Impacts | None = None
    inputs: Inputs | None = None
    frame: Float[Array, "T f"] | None = None
    local_error: Float[Array, " T"] | None = None

    @property
    def system(self) -> AbstractSystem | None:
        """The system that was integrated; None for a trajectory from a file that was loaded without its system."""
        return self.carried.tree.system

    @property
    def method(self) -> AbstractMethod | None:
        """The method that took the steps."""
        return self.carried.tree.method

    @checked
    def with_system(self, system: AbstractSystem | None) -> "Trajectory":
        """The same trajectory, with this system in place of its own."""
        return eqx.tree_at(lambda t: t.carried, self, Carried(Run(system, self.method)), is_leaf=_is_carried)

    @property
    @of_each
    def embedding(self) -> Float[Array, "T N D"]:
        """The points in the embedding of their space, `space.embed`, which does not depend on their charts. Raises
        ValueError if the space has no embedding."""
        if self.system is None or self.system.embedding is None:
            raise ValueError(
                "embedding is of the trajectory of a gd.System, one from a file needs gd.load(path, system); the points"
                " of rigid bodies are gd.rigid.rigid_motion(trajectory).points, those of a linkage are its joints(q)"
            )
        return _embedded(self.system, self.coordinates())

    @of_each
    @checked
    def coordinates(self, space: Any = None) -> Float[Array, "T ..."]:
        """The points in one chart. It is the chart of `space`, which is the same space in a chart of your choice. By
        default, if the charts move with the body, it is the chart of the start. Raises ValueError as `embedding`
        does."""
        if space is not None:
            return jax.vmap(jax.vmap(space.coordinates))(self.embedding)
        if self.frame is None:
            return self.q
        if self.system is None:
            raise ValueError("a trajectory read from a file has no system: give it to gd.load(path, system=...)")
        flat = self.q.reshape(self.t.shape[0], -1)
        charts = self.system.charts
        assert charts is not None  # They made the frame.
        return jax.vmap(charts.from_frame)(self.frame, flat).reshape(self.q.shape)

    @property
    @of_each
    def energy(self) -> Float[Array, " T"]:
        """Energy <p, v> − L at the saved times."""
        if self.system is None:
            if self.recorded_energy is None:
                raise ValueError("this file holds no energy: its system was an ODE")
            return self.recorded_energy
        return _energies(self)

    @of_each
    @checked
    def evaluate(self, t: Numbers) -> Float[Array, "..."]:
        """Positions at any times within the trajectory. A position is that of the collocation polynomial of the step
        that contains the time; the step is solved again from the saved state before it. With s stages the accuracy
        between steps is of order s + 1. A method that is not a collocation is interpolated by the cubic polynomial
        through the saved positions and velocities. If the chart moves with the body, a position is in the chart of the
        saved state before its time. A batch is evaluated at the same times for each member. The result is
        differentiable in both modes, through impacts in forward mode only.

        Raises ValueError for a trajectory read from a file without its system, and for concrete times outside of it.
        """
        if self.system is None:
            raise ValueError("a trajectory read from a file has no system: give it to gd.load(path, system=...)")
        t = jnp.asarray(t, self.t.dtype)
        if not any(isinstance(x, Tracer) for x in (t, self.t)):
            first, last = sorted((float(self.t[0]), float(self.t[-1])))
            if np.any(np.asarray(t) < first) or np.any(np.asarray(t) > last):
                raise ValueError(f"t must lie within [{first}, {last}], got {np.asarray(t)}")
        if isinstance(self.method, AbstractStepper):
            if self.system.charts is not None:
                raise ValueError("between the charts of a space nothing is interpolated: evaluate needs a collocation")
            return jax.vmap(partial(_cubic, self))(t.reshape(-1)).reshape(t.shape + self.q.shape[1:])
        return _evaluate(self, t)

    @checked
    def save(self, path: File) -> None:
        """Writes the trajectory with all its inputs to one .npz file, which appears whole or not at all. It contains
        every array of the trajectory and of its system by name, and the method and the structure of the system as text.

        Raises ValueError for a batch.
        """
        if self.t.ndim != 1:
            raise ValueError("a batch of trajectories has no file: save jax.tree.map(lambda x: x[i], trajectory)")
        recorded = None if self.system is not None and _is_first_order(self) else self.energy
        whole = eqx.tree_at(lambda t: t.recorded_energy, self, recorded, is_leaf=lambda x: x is None)
        everything = {name: x for name, x in vars(whole).items() if name != "carried"} | {"system": self.system}
        meta = {
            "format": FORMAT,
            "result": RESULTS(int(self.result)).name,
            "system": structure(self.system),
            "method": None if self.method is None else description(self.method),
            "inputs": None if self.inputs is None else {name: getattr(self.inputs, name) for name in COUNTS},
        }
        write_archive(path, named_arrays(everything), meta)

    def to_xarray(self):
        """The trajectory as an `xarray.Dataset` (the extra `geodyn[xarray]`) with named dimensions: `time`, `point`
        and `coordinate` (of a flat configuration only the last), `constraint`, `impact`; the inputs are its
        attributes. `.to_netcdf(path)` writes HDF5. Any consistent units.

        Raises ImportError without xarray, ValueError for a batch.
        """
        return dataset(self)

    def to_dataframe(self):
        """The trajectory as a long table of pandas (the extra `geodyn[xarray]`): a row for each saved time and point,
        which are its index, and columns for the components, `q0`, `q1`, …, `v0`, … of a point's coordinates. What
        belongs to the system as a whole, the `energy` and the multipliers, stands in each row of its time. Of a flat
        configuration there is a row for each time. Impacts are in `to_xarray`.

        Raises ImportError without xarray, ValueError for a batch.
        """
        data = dataset(self)
        names = [str(name) for name, x in data.data_vars.items() if "impact" not in x.dims]
        return table(data, names, ("time", "point"))

    @checked
    def to_csv(self, path: File) -> None:
        """Writes a table, with commas between the columns and a row for each saved time: `t`, then the positions and
        the velocities, `q0`, `q1`, …, `v0`, … of a flat configuration and `q0_1` for the coordinate 1 of the point 0.
        Every digit is kept; what a failed run did not reach is `nan`. Any consistent units.

        Raises ValueError for a batch.
        """
        write_csv(path, self)

    @checked(gaps=("points",))
    def to_vtk(self, path: File, points: Numbers | None = None, edges: Sequence[tuple[Index, Index]] = ()) -> None:
        """Writes the points as a series in time that ParaView and Blender open: a .pvd file, and beside it a folder of
        the same name with a .vtu file for each saved time, by meshio (the extra `geodyn[mesh]`).

        The points are those of `embedding` where the system has one, else the coordinates q[T, N, n]; `points[T, N, 2
        or 3]` are others, as of a model of the space. `edges`, pairs of points such as `gd.builders.edges(system)`,
        become lines. States that are not finite, after a failure, and velocities are not written.

        Raises ImportError without meshio, ValueError for another ending than .pvd, for a batch, and for points that do
        not lie in three dimensions.
        """
        write_vtk(path, self.t, _places(self) if points is None else points, edges)


def _places(trajectory: Trajectory) -> Float[Array, "T N D"]:
    """The points [T, N, D] of a trajectory where they lie."""
    try:
        return trajectory.embedding
    except ValueError:  # Without an embedding.
        return trajectory.coordinates()


FORMAT = "geodyn trajectory 3"
COUNTS = ("steps", "save_every", "max_impacts")


def _is_first_order(trajectory: Trajectory) -> bool:
    return trajectory.p.size == 0


@compiled
def _energies(trajectory: Trajectory) -> Float[Array, " T"]:
    flat = trajectory.t.shape[0], -1
    states = trajectory.t, trajectory.q.reshape(flat), trajectory.v.reshape(flat), trajectory.multipliers
    system = cast(AbstractSystem, trajectory.system)
    return jax.vmap(partial(native_of, total_energy, system))(*states)


@jit
def _embedded(system: AbstractSystem, q: Float[Array, "T ..."]) -> Float[Array, "T N D"]:
    embed = cast(Callable, system.embedding)
    return jax.vmap(embed)(q.reshape(q.shape[0], -1))


def _save_before(trajectory: Trajectory, t: Scalar) -> Int[Array, ""]:
    """The number of the last saved state that is not after the time t; in a run backwards in time, not before it."""
    sign = jnp.sign(trajectory.step_size)
    after = jnp.searchsorted(sign * trajectory.t, sign * t, side="right")
    return jnp.clip(after - 1, 0, trajectory.t.shape[0] - 1)


def _cubic(trajectory: Trajectory, t: Scalar) -> Float[Array, "..."]:
    """The position at the time t, by cubic Hermite interpolation between two saved states."""
    i = jnp.minimum(_save_before(trajectory, t), trajectory.t.shape[0] - 2)
    start = trajectory.t[i]
    length = trajectory.t[i + 1] - start
    x = (t - start) / length
    q = trajectory.q[i]
    moved = trajectory.q[i + 1] - q
    left = length * trajectory.v[i] - moved
    arrived = moved - length * trajectory.v[i + 1]
    return q + x * moved + x * (1 - x) * ((1 - x) * left + x * arrived)


@compiled
def _evaluate(trajectory: Trajectory, times: Float[Array, "..."]) -> Float[Array, "..."]:
    system = cast(AbstractSystem, trajectory.system)
    method = cast(AbstractCollocation, trajectory.method)
    h = trajectory.step_size
    shape = trajectory.q.shape[1:]

    def flat(x: Float[Array, "T ..."], i: Int[Array, ""]) -> Float[Array, " n"]:
        return x[i].reshape(-1)

    def through_impacts(t: Scalar, i: Int[Array, ""], state: State) -> Float[Array, "..."]:
        """The position at the time t, by substeps up to t itself."""
        t0 = trajectory.t[i]

        def unfinished(m: Moving) -> Bool[Array, ""]:
            return (m.time < t) & m.state.alive

        def ahead(m: Moving) -> Moving:
            grid = jnp.minimum(trajectory.t[i] + h * (m.state.step + 1), t)
            return substep(method, system, grid, h, m, unfinished(m))[0]

        end = jax.lax.while_loop(unfinished, ahead, start_of_path(system, t0, h, state))
        return end.state.q.reshape(shape)

    every = cast(Inputs, trajectory.inputs).save_every

    def at(t: Scalar) -> Float[Array, "..."]:
        i = _save_before(trajectory, t)
        q = flat(trajectory.q, i)
        v = flat(trajectory.v, i)
        p = flat(trajectory.p, i)
        state = start(system, method, trajectory.t[i], h, q, p, v)
        if trajectory.impacts is not None:
            return through_impacts(t, i, state)
        _, steps = path(system, trajectory.t[i], h, state, method=method, saves=every, every=1)
        steps_away = (t - trajectory.t[i]) / h
        ahead = jnp.clip(jnp.floor(steps_away).astype(int), 0, every - 1)
        q = jnp.concatenate([state.q[None], steps.q])[ahead]
        frame = jnp.concatenate([state.frame[None], steps.frame])[ahead]
        theta = steps_away - ahead
        weights = dense_weights(method.tableau, theta)
        q = q + h * weights @ steps.w[ahead, :, : q.shape[0]]
        if system.charts is not None:
            q = system.charts.from_frame(frame, q)
        return q.reshape(shape)

    return jax.vmap(at)(times.reshape(-1)).reshape(times.shape + shape)
