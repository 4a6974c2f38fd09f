"""What is to be drawn of a trajectory: its points in a model, and its edges as geodesics."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import jit
from geodyn.geometry import AbstractManifold, geodesic, log
from geodyn.geometry.spaces import AbstractConstantCurvature, Product
from geodyn.integrators import Gauss, Trajectory, integrate
from geodyn.mechanics import System, edges
from geodyn.mechanics.parts import joined
from geodyn.plot.models import Model, model_of, placed

FEW = 6
"""Points of a body that can be told apart; of more, everything is drawn smaller and less often."""
SAMPLES = 33
BATCH = 128
"""Geodesics are found so many at a time, so that one compiled function serves for any number."""


class Scene(NamedTuple):
    """A trajectory in a model: times t[T], points[T, N, 2 or 3], and the edges, which of them are `rigid`."""

    space: AbstractManifold
    model: Model
    t: np.ndarray
    q: np.ndarray
    points: np.ndarray
    radii: np.ndarray
    edges: np.ndarray
    rigid: np.ndarray

    @property
    def few(self) -> bool:
        """Whether its points can be told apart."""
        return len(self.radii) <= FEW

    def geodesics(self, frames) -> np.ndarray:
        """The edges at the saved states `frames`, in the model: [frames, E, SAMPLES, 2 or 3]."""
        starts, ends = (self.q[frames][:, side].reshape(-1, self.space.dim) for side in self.edges.T)
        curves = [np.zeros((0, SAMPLES, self.space.dim))]
        for k in range(0, len(starts), BATCH):
            missing = ((0, max(0, k + BATCH - len(starts))), (0, 0))
            batch = (np.pad(side[k : k + BATCH], missing, "edge") for side in (starts, ends))
            curves.append(np.asarray(_geodesics(self.space, *batch)))
        found = placed(self.model.place, np.concatenate(curves)[: len(starts)])
        return found.reshape(len(frames), len(self.edges), SAMPLES, self.points.shape[-1])

    def nearest(self, times) -> np.ndarray:
        """The saved states nearest to the times. Raises ValueError for times outside of the trajectory."""
        times = np.atleast_1d(np.asarray(times, float))
        margin = 1e-9 * (self.t[-1] - self.t[0])
        if np.any(times < self.t[0] - margin) or np.any(times > self.t[-1] + margin):
            raise ValueError(f"times must lie within the trajectory, [{self.t[0]:g}, {self.t[-1]:g}]; got {times}")
        return np.abs(self.t[None, :] - times[:, None]).argmin(axis=1)


def scene(trajectory: Trajectory, model, system: System | None) -> Scene:
    """The trajectory of a body, in the model of that name."""
    system = system_of(trajectory, system)
    rods = {pair for e in system.constraints for pair in joined(e)}
    pairs = edges(system)
    return scene_of(system.space, trajectory, model, pairs, [p in rods for p in pairs], np.asarray(system.masses))


def scene_of(space, trajectory, model, pairs, rigid, masses) -> Scene:
    """The trajectory of points of a space, joined by edges. Saved states that are not finite are left out."""
    q = np.asarray(trajectory.coordinates())
    if q.ndim != 3:
        raise ValueError(
            f"trajectory must be of points, q[T, N, dim]; got q of shape {q.shape}. Of a batch take one member: "
            "jax.tree.map(lambda x: x[0], batch)"
        )
    done = np.isfinite(q).all(axis=(1, 2))
    q, t = q[done], np.asarray(trajectory.t)[done]
    drawn = model_of(space, model, q.reshape(-1, space.dim))
    radii = np.cbrt(masses / masses.max()) * min(1.0, (FEW / len(masses)) ** 0.5)
    ends = np.reshape(pairs, (-1, 2)).astype(int)
    return Scene(space, drawn, t, q, placed(drawn.place, q), radii, ends, np.asarray(rigid, bool))


def system_of(trajectory: Trajectory, system: System | None = None) -> System:
    """The body that moved: given, for a trajectory read from a file. Raises ValueError where it is not known."""
    system = system or trajectory.system
    if not isinstance(system, System):
        found = "was read from a file: give its body as system=" if system is None else f"is of {type(system).__name__}"
        raise ValueError(f"trajectory must be that of a gd.System, a body of points in a space; this one {found}")
    return system


@jit
def _geodesics(space, starts, ends):
    """Points [K, SAMPLES, n] of the geodesics between pairs of points [K, n], at equally spaced fractions of their
    lengths."""

    def between(x, y):
        v = log(space, x, y)
        if isinstance(space, AbstractConstantCurvature | Product):
            return geodesic(space, x, v, jnp.linspace(0.0, 1.0, SAMPLES, dtype=x.dtype))[0]
        # One motion that is saved on its way compiles much faster than one motion to each of the times.
        point = System(space, jnp.ones(1, x.dtype))
        return integrate(point, x[None], v[None], t1=1.0, steps=SAMPLES - 1, method=Gauss(2)).q[:, 0]

    return jax.vmap(between)(starts, ends)
