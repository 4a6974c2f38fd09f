"""The data for a picture of a trajectory: its points in a model of the space, and its edges as geodesics."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import ConvexHull

from geodyn._engine.jit import jit
from geodyn._foundations.typing import Array, Float, Numbers
from geodyn._geometry.geodesics.distances import log, nearest_image
from geodyn._geometry.geodesics.geodesic import geodesic
from geodyn._geometry.manifold.manifold import AbstractManifold, period_of
from geodyn._geometry.models.spaces import AbstractConstantCurvature, Euclidean, Product
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.integrate import integrate
from geodyn._integrators.step.methods import Gauss
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.elements.abstract import AbstractConstraint
from geodyn._mechanics.elements.parts import point_lists
from geodyn._mechanics.points.body import AbstractBody, elements_of
from geodyn._mechanics.points.system import System, edges
from geodyn._mechanics.rigid.bodies import RigidBodies
from geodyn._mechanics.rigid.polyhedra import Polyhedron
from geodyn._plot.scene.models import Model, model_of, places_of
from geodyn._plot.scene.outlines import lines_of
from geodyn._plot.scene.solids import Spheres, ellipsoids, flashes, spheres
from geodyn._plot.style import COLOURS, GREY, PLAIN, Labels

FEW = 6
"""The largest number of points of a body that are drawn individually; bodies with more points are drawn smaller, and at
fewer times."""
SAMPLES = 33
# The lines of ellipsoids of inertia, and those that a user gives.
THIN, THICK = (GREY, 0.8), (COLOURS[0], 2.5)
BATCH = 128
"""The number of geodesics that are computed at a time, so that one compiled function serves for any number."""


class Scene(NamedTuple):
    """A trajectory in a model: times t[T], points[T, N, 2 or 3], edges and which of them are `rigid`, `outlines`
    [T, L, K, 2 or 3] and the `look` of their lines (colour, width), `spheres` around points, and `flashes` at the times
    of impacts."""

    space: AbstractManifold
    model: Model
    t: np.ndarray
    q: np.ndarray
    points: np.ndarray
    radii: np.ndarray
    edges: np.ndarray
    rigid: np.ndarray
    outlines: np.ndarray
    spheres: Spheres
    flashes: list
    look: tuple[str, float] = THIN

    @property
    def few(self) -> bool:
        """Whether the body has so few points that they are drawn individually."""
        return len(self.radii) <= FEW

    def geodesics(self, frames: np.ndarray | list[int]) -> np.ndarray:
        """The edges at the saved states `frames`, in the model: [frames, E, SAMPLES, 2 or 3]. If the two points of an
        edge have winding numbers that differ in a periodic coordinate, half of the edge is drawn from each of them
        towards the nearest image of the other, with NaN between the halves."""
        starts, ends = (self.q[frames][:, side].reshape(-1, self.space.dim) for side in self.edges.T)
        curves = [np.zeros((0, SAMPLES, self.space.dim))]
        for k in range(0, len(starts), BATCH):
            missing = ((0, max(0, k + BATCH - len(starts))), (0, 0))
            batch = (np.pad(side[k : k + BATCH], missing, "edge") for side in (starts, ends))
            curves.append(np.asarray(_geodesics(self.space, *batch)))
        q = np.concatenate(curves)[: len(starts)]
        found = places_of(self.model.place, q)
        if period_of(self.space) is not None:
            turned = q + _turns(self.space, q[:, -1], ends)[:, None]
            other = places_of(self.model.place, turned)
            half = SAMPLES // 2
            torn = ~np.isclose(found[:, half], other[:, half]).all(axis=1)
            found = np.concatenate([found[:, :half], other[:, half:]], axis=1)
            found[torn, half] = np.nan
        return found.reshape(len(frames), len(self.edges), SAMPLES, self.points.shape[-1])

    @property
    def struck(self) -> np.ndarray:
        """Where the impacts were, [K, 2 or 3]: in the middle of the points that met."""
        met = [self.at(t)[points].mean(axis=0) for t, points in self.flashes if t <= self.t[-1]]
        return np.reshape(met, (-1, self.points.shape[-1]))

    def at(self, t: float) -> np.ndarray:
        """The points at a time between saved states, on the straight line between these, [N, 2 or 3]."""
        k = int(np.clip(np.searchsorted(self.t, t), 1, len(self.t) - 1))
        share = (t - self.t[k - 1]) / (self.t[k] - self.t[k - 1])
        return (1 - share) * self.points[k - 1] + share * self.points[k]

    def nearest(self, times: Numbers) -> np.ndarray:
        """The saved states nearest to the times. Raises ValueError for times outside of the trajectory."""
        times = np.atleast_1d(np.asarray(times, float))
        margin = 1e-9 * (self.t[-1] - self.t[0])
        if np.any(times < self.t[0] - margin) or np.any(times > self.t[-1] + margin):
            raise ValueError(f"times must lie within the trajectory, [{self.t[0]:g}, {self.t[-1]:g}]; got {times}")
        return np.abs(self.t[None, :] - times[:, None]).argmin(axis=1)


def scene(
    trajectory: Trajectory,
    model: str | Callable | None,
    system: AbstractSystem | None,
    labels: Labels = PLAIN,
    outline: Callable | None = None,
) -> Scene:
    """The scene of the trajectory of a body, in the model of the given name. An `outline` (q) is of points of its
    space; of a system that is not in a space, of the picture."""
    known = trajectory.system if system is None else system
    outline = getattr(known, "outline", None) if outline is None else outline
    if outline is not None and not isinstance(known, AbstractBody):
        return _outline(trajectory, model, labels, outline)
    body = system_of(trajectory, system)
    rods = {pair for e in elements_of(body, AbstractConstraint) for pair in point_lists(e)}
    pairs = edges(body)
    q = points_of(trajectory, body)
    count = q.shape[1]
    masses = np.asarray(body.masses) if isinstance(body, System) else np.ones(q.shape[1])
    outlines = None
    if isinstance(body, RigidBodies):
        bare = ellipsoids(body, np.asarray(trajectory.q))
        frame = rigid_lines(body) + [(b, q.shape[1] + k) for k, b in enumerate(bare.bodies)]
        pairs = pairs + frame
        rods = rods | set(frame)
        masses = np.append(masses, np.full(len(bare.bodies), 0.1))
        q = np.concatenate([q, bare.tips], axis=1)
        outlines = bare.outlines
    drawn = scene_of(body.space, trajectory.t, q, model, pairs, [p in rods for p in pairs], masses, outlines, labels)
    if outline is not None:
        lines = lines_of(outline, drawn.t, trajectory.coordinates()[_known(trajectory)], (body.space.dim,))
        drawn = drawn._replace(outlines=places_of(drawn.model.place, lines), look=THICK)
    own = drawn.q[:, :count]
    return drawn._replace(
        spheres=spheres(body, drawn.model, own, drawn.points[:, :count]),
        flashes=flashes(trajectory, body, own),
    )


def _outline(trajectory: Trajectory, model: str | Callable | None, labels: Labels, outline: Callable) -> Scene:
    """The scene of a system that is not in a space: nothing but its outline, where that lies in the picture."""
    check_one(trajectory)
    if model is not None:
        raise ValueError("model belongs to a space, in which this system is not: outline(q) says where its lines lie")
    known = _known(trajectory)
    t = np.asarray(trajectory.t)[known]
    lines = lines_of(outline, t, np.asarray(trajectory.q)[known], (2, 3))
    space = Euclidean(lines.shape[-1])
    drawn = model_of(space, None, labels=labels._replace(coordinates=()))
    points = np.zeros((len(t), 0, space.dim))
    no_edges = np.zeros((0, 2), int)
    no_spheres = Spheres([], points, np.zeros((len(t), 0)))
    rigid = np.zeros(0, bool)
    radii = np.zeros(0)
    return Scene(space, drawn, t, points, points, radii, no_edges, rigid, lines, no_spheres, [], THICK)


def _known(trajectory: Trajectory) -> np.ndarray:
    """Which of the saved states [T] are finite."""
    return np.isfinite(np.asarray(trajectory.q).reshape(len(trajectory.t), -1)).all(axis=1)


def scene_of(
    space: AbstractManifold,
    t: Array | np.ndarray,
    q: Array | np.ndarray,
    model: str | Callable | None,
    pairs: Sequence[tuple[int, int]],
    rigid: list[bool],
    masses: np.ndarray,
    outlines: np.ndarray | None = None,
    labels: Labels = PLAIN,
) -> Scene:
    """The scene of points q[T, N, n] of a space, joined by edges; saved states that are not finite are left out."""
    q = _of_one_body(q)
    done = np.isfinite(q).all(axis=(1, 2))
    outlines = np.zeros((len(q), 0, 1, space.dim)) if outlines is None else outlines
    q = _beside(space, q[done], pairs)
    t = np.asarray(t)[done]
    outlines = outlines[done]
    drawn = model_of(space, model, q.reshape(-1, space.dim), labels)
    radii = np.cbrt(masses / masses.max()) * min(1.0, (FEW / len(masses)) ** 0.5)
    ends = np.reshape(pairs, (-1, 2)).astype(int)
    points = places_of(drawn.place, q)
    thick = np.asarray(rigid, bool)
    nothing = Spheres([], points[:, :0], np.zeros((len(q), 0)))
    return Scene(space, drawn, t, q, points, radii, ends, thick, places_of(drawn.place, outlines), nothing, [])


def check_one(trajectory: Trajectory) -> None:
    """Raises ValueError, with the remedy, for a batch of trajectories."""
    if np.ndim(trajectory.t) != 1:
        raise ValueError(
            f"trajectory is a batch, with times of shape {np.shape(trajectory.t)}: take one member, "
            "jax.tree.map(lambda x: x[0], batch); gd.plot.fan draws a number of all members against time"
        )


def _of_one_body(q: Array | np.ndarray) -> np.ndarray:
    q = np.asarray(q)
    if q.ndim != 3:
        raise ValueError(
            f"trajectory must be of points, q[T, N, dim]; got q of shape {q.shape}. Of a batch take one member: "
            "jax.tree.map(lambda x: x[0], batch)"
        )
    return q


def _beside(space: AbstractManifold, q: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """The points shifted by whole periods of the coordinates so that, in the first state, edges join points to their
    nearest images."""
    if period_of(space) is None or len(q) == 0:
        return q
    q = q.copy()
    group = np.arange(q.shape[1])
    for i, j in pairs:
        if group[i] != group[j]:
            own = group == group[j]
            q[:, own] += np.asarray(nearest_image(space, *jnp.asarray(q[0, [i, j]]))) - q[0, j]
            group[own] = group[i]
    return q


def _turns(space: AbstractManifold, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The difference y − x as whole periods of the coordinates, for points x[K, n] and y that differ by these only."""
    period = np.array(period_of(space))
    round_ = np.isfinite(period)
    period = np.where(round_, period, 1.0)
    return np.where(round_, np.round((y - x) / period) * period, 0)


def points_of(trajectory: Trajectory, body: AbstractBody) -> np.ndarray:
    """The points of a body in its space at the saved times, [T, N, n]."""
    q = _of_one_body(trajectory.coordinates())
    return q if isinstance(body, System) else np.asarray(_points(body, jnp.asarray(q.reshape(len(q), -1))))


@jit
def _points(body: AbstractBody, q: Float[Array, "T n"]) -> Float[Array, "T N d"]:
    return jax.vmap(body.points)(q)


def rigid_lines(bodies: RigidBodies) -> list[tuple[int, int]]:
    """Pairs of points whose lines show the attitudes of rigid bodies: the edges of the convex hull of the points of a
    body or, if these span no volume, the lines from its origin to them."""
    lines = []
    count = len(bodies.masses)
    for body in range(count):
        own = [i for i, carrier in enumerate(bodies.carriers) if carrier == body and i >= count]
        sites = np.asarray(bodies.sites)[own]
        if len(own) > 3 and np.linalg.matrix_rank(sites - sites.mean(axis=0)) == 3:
            corners = ConvexHull(sites).vertices
            lines += [(own[corners[i]], own[corners[j]]) for i, j in Polyhedron(sites).edges]
        else:
            lines += [(body, i) for i in own]
    return lines


def system_of(trajectory: Trajectory, system: AbstractSystem | None = None) -> AbstractBody:
    """The body of a trajectory; for one read from a file it is the given `system`. Raises ValueError if there is none,
    or if it is not a body."""
    system = system or trajectory.system
    if not isinstance(system, AbstractBody):
        found = "was read from a file: give its body as system=" if system is None else f"is of {type(system).__name__}"
        raise ValueError(
            "trajectory must be of points in a space, that of a gd.System, RigidBodies or Linkage; this one"
            f" {found}. Say how it looks by outline=, a function q -> lines in the plane or in space;"
            " gd.plot.coordinates draws any against time, gd.plot.path points of a space that you name"
        )
    return system


@jit
def _geodesics(
    space: AbstractManifold, starts: Float[Array, "K n"], ends: Float[Array, "K n"]
) -> Float[Array, "K s n"]:
    """Points [K, SAMPLES, n] of the geodesics between pairs of points [K, n], at equally spaced fractions of their
    lengths."""

    def between(x: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, "s n"]:
        v = log(space, x, y)
        if isinstance(space, AbstractConstantCurvature | Product):
            return geodesic(space, x, v, jnp.linspace(0.0, 1.0, SAMPLES, dtype=x.dtype))[0]
        # One integration that saves every step compiles much faster than one for each of the times.
        point = System(space, jnp.ones(1, x.dtype))
        return integrate(point, x[None], v[None], t1=1.0, steps=SAMPLES - 1, method=Gauss(2)).q[:, 0]

    return jax.vmap(between)(starts, ends)
