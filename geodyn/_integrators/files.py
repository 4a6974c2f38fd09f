"""Loading of trajectories from files."""

from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import Carried, traced_numbers
from geodyn._foundations.files.archive import differences, named_arrays, read_archive
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, File
from geodyn._integrators.contract.system import AbstractSystem, total_energy
from geodyn._integrators.contract.tableau import ButcherTableau
from geodyn._integrators.saving.schema import structure
from geodyn._integrators.step.methods import AbstractMethod, AbstractStepper, Collocation, Gauss, RadauIIA
from geodyn._integrators.trajectory import FORMAT, Impacts, Inputs, Run, Stats, Trajectory


@checked
def load(path: File, system: AbstractSystem | None = None) -> Trajectory:
    """Reads a trajectory from a file that `trajectory.save(path)` wrote.

    A file holds no code. With `system`, the one of the run, built again, the trajectory has its system back, and
    `evaluate` and `embedding` work.

    Args:
        path: the name of the file.
        system: the system of the run, built again; None where only the numbers are wanted.

    Returns:
        The trajectory.

    Raises:
        ValueError: for any other or broken file, for one of double precision where JAX runs in single, and for a system
            that differs from that of the run in a number, in its structure, or in the velocity and energy that it gives
            the last state.

    Example:
        >>> import tempfile
        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> trajectory = gd.integrate(body, [[1.0]], t1=2.0, steps=10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trajectory.save(f"{folder}/oscillation.npz")
        ...     again = gd.load(f"{folder}/oscillation.npz", body)
        >>> print(bool(jnp.all(again.q == trajectory.q)), f"{again.evaluate(1.05)[0, 0]:.5f}")
        True 0.49757
    """
    arrays, meta = read_archive(path, FORMAT)
    if system is not None:
        system = traced_numbers(system)
        _check_system(path, arrays, meta, system)
    values = {name: jnp.asarray(x) for name, x in arrays.items() if not name.startswith("system.")}

    def within(kind: type, prefix: str, **others: Any) -> Any:
        found = {name.removeprefix(prefix): x for name, x in values.items() if name.startswith(prefix)}
        return kind(**found, **others) if found else None

    inputs = within(Inputs, "inputs.", **{"v0": None} if "inputs.v0" not in values else {}, **meta["inputs"] or {})
    return Trajectory(
        **{name: x for name, x in values.items() if "." not in name},
        stats=within(Stats, "stats."),
        impacts=within(Impacts, "impacts."),
        inputs=inputs,
        carried=Carried(Run(system, meta["method"] and _method(**meta["method"]))),
    )


def _method(name: str, **numbers: Any) -> AbstractMethod | None:
    steppers = {stepper.__name__: stepper for stepper in AbstractStepper.__subclasses__()}
    if name in steppers:
        return steppers[name](**numbers)
    return _collocation(name, **numbers) if "a" in numbers else None


def _collocation(
    name: str, formulation: str | None, order: int, a: np.ndarray | list, b: np.ndarray | list, c: np.ndarray | list
) -> AbstractMethod:
    tableau = ButcherTableau(a, b, c, order=order)
    if name == "Gauss":
        return Gauss(tableau.stages)
    if name == "RadauIIA":
        return RadauIIA(tableau.stages, cast(str, formulation))
    return Collocation(tableau, formulation or "ggl")


def _check_system(path: File, arrays: dict[str, np.ndarray], meta: dict[str, Any], system: AbstractSystem) -> None:
    """Raises ValueError unless the system is that of the file: it compares every number and the structure, and, since
    these do not show what functions compute, the velocity and the energy of the last state."""
    saved = {name.removeprefix("system."): x for name, x in arrays.items() if name.startswith("system.")}
    found = differences(
        saved | {"structure": np.array(meta["system"])},
        named_arrays(system) | {"structure": np.array(structure(system))},
    )
    if found:
        raise ValueError(f"{path} comes from another system: {'; '.join(found)}")
    last = np.flatnonzero(np.isfinite(arrays["q"]).reshape(len(arrays["q"]), -1).all(axis=1))[-1]

    def in_last(name: str) -> Array:
        return jnp.asarray(arrays[name][last]).reshape(-1)

    t = in_last("t")
    q = in_last("q")
    v = in_last("v")
    p = in_last("p")
    lam = in_last("multipliers")
    got: dict[str, tuple[Any, Any]] = {"velocity": (v, system.velocity(t[0], q, p))}
    if "recorded_energy" in arrays:
        got["energy"] = (arrays["recorded_energy"][last], total_energy(system, t[0], q, v, lam))
    for name, (old, new) in got.items():
        if not np.allclose(new, old, rtol=jnp.finfo(q.dtype).eps ** 0.5, atol=jnp.finfo(q.dtype).eps ** 0.75):
            raise ValueError(f"{path} comes from another system: the {name} of its last state was {old}, is {new}")
