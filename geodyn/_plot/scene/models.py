"""Models of curved spaces for plots: Poincaré ball, half-space, stereographic projection, …

A model maps a point x[n] of the space to a point of the picture, in two or three dimensions, and has lines for the
background. The builder of a model returns None for a space that it does not fit. The first model that fits is the
default.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Float
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.charts import Ball, Cartesian, HalfSpace
from geodyn._geometry.models.spaces import Embedded, Euclidean, Hyperbolic, Product, Sphere
from geodyn._geometry.models.thurston import SL2
from geodyn._plot.style import PLAIN, Labels

Lines = list[np.ndarray]
COORDINATES = "coordinates"


class Model(NamedTuple):
    """A `title`; `place(x[n]) -> [2 or 3]`; `backdrop(x[M, n])`, which returns polylines [K, 2 or 3] for the background
    of the points x; `labels` of the axes, "" for an axis without numbers; `equal`, whether all axes have one scale."""

    title: str
    place: Callable
    backdrop: Callable = lambda x: []
    labels: tuple[str, ...] = ("", "", "")
    equal: bool = True


def model_of(
    space: AbstractManifold, name: str | Callable | None, x: np.ndarray | None = None, labels: Labels = PLAIN
) -> Model:
    """The model of the given name for the points x[M, n]; by default the first that fits the space. A function
    `x[n] -> [2 or 3]`, such as an embedding, is also possible. `labels` has the names of the coordinates and the unit
    of length. Raises ValueError, with the models that fit."""
    if callable(name):
        shape = jax.eval_shape(name, jax.ShapeDtypeStruct((space.dim,), float)).shape
        if shape not in ((2,), (3,)):
            raise ValueError(f"model must be a function x[{space.dim}] -> [2 or 3], got the shape {shape}")
        return Model("", name, lambda x: _mesh(name, x))
    built = {key: build(space, x) for key, build in MODELS.items()}
    fitting = {key: model for key, model in built.items() if model is not None}
    if name is not None and name not in fitting:
        raise ValueError(
            f"model {name!r} does not fit {type(space).__name__} of dimension {space.dim}: take "
            f"{', '.join(map(repr, fitting))} or a function x[{space.dim}] -> [2 or 3]"
        )
    first = next(iter(fitting))
    return _label(fitting[first if name is None else name], space, labels)


def _label(model: Model, space: AbstractManifold, labels: Labels) -> Model:
    """The model with the names of the coordinates where these are what its axes show, and with the unit of length."""
    cartesian = isinstance(space, Euclidean) and isinstance(space.chart, Cartesian)
    names = labels.coordinates[: len(model.labels)]
    if (model.title == COORDINATES or cartesian) and len(names) == len(model.labels):
        model = model._replace(labels=names)
    if isinstance(space, Euclidean) and model.title != COORDINATES:
        model = model._replace(labels=tuple(name and labels.of(name, labels.length) for name in model.labels))
    return model


def places_of(place: Callable, x: Array | np.ndarray) -> np.ndarray:
    """`place` of each of the points x[..., n]."""
    points = np.asarray(jax.jit(jax.vmap(place))(jnp.asarray(x).reshape(-1, x.shape[-1])))
    return points.reshape(*x.shape[:-1], *points.shape[1:])


def _cartesian(space: AbstractManifold, x: np.ndarray | None) -> Model | None:
    """Cartesian coordinates of Euclidean space in any chart."""
    if not isinstance(space, Euclidean):
        return None
    return Model("", lambda x: _pad(space.embed(x)), labels=_names(space.dim))


def _ball(space: AbstractManifold, x: np.ndarray | None) -> Model | None:
    """The Poincaré disc or ball, with its boundary."""
    if not (isinstance(space, Hyperbolic) and space.dim > 1):
        return None
    title = {2: "Poincaré disc", 3: "Poincaré ball"}.get(space.dim, "Poincaré ball, first three coordinates")
    return Model(title, lambda x: Ball().coordinates(space.embed(x))[:3], lambda x: _round(min(space.dim, 3)))


def _half_space(space: AbstractManifold, x: np.ndarray | None) -> Model | None:
    """The upper half-plane or half-space, with its boundary."""
    if not (isinstance(space, Hyperbolic) and space.dim in (2, 3)):
        return None

    def place(x: Float[Array, " n"]) -> Array:
        return HalfSpace().coordinates(space.embed(x))

    title = "upper half-plane" if space.dim == 2 else "upper half-space"
    return Model(title, place, lambda x: _ground(places_of(place, x)), (*_names(space.dim)[:-1], "height"))


def _sphere(space: AbstractManifold, x: np.ndarray | None) -> Model | None:
    """The circle or the sphere itself."""
    if not (isinstance(space, Sphere) and space.dim <= 2):
        return None
    return Model("", space.embed, lambda x: _round(space.dim + 1))


def _stereographic(space: AbstractManifold, x: np.ndarray | None) -> Model | None:
    """Stereographic projection of the sphere from the one of the points ±X_i that is farthest from the points x. In it
    great spheres are drawn as spheres. The background is the unit sphere, the image of the equator."""
    if not (isinstance(space, Sphere) and space.dim > 1):
        return None
    axis, sign = -1, -1.0
    if x is not None:
        X = places_of(space.embed, x)
        axes = X.shape[1]
        # The cosine of the distance from each X_i, and then from each −X_i, to the nearest of the points x. Rounded, so
        # that rounding errors do not decide between equally far ones.
        nearness = np.round(np.concatenate([X.max(axis=0), -X.min(axis=0)]), 6)
        # Of equally far points the last, which is the centre of the stereographic chart.
        farthest = 2 * axes - 1 - int(np.argmin(nearness[::-1]))
        axis = farthest % axes
        sign = 1.0 if farthest < axes else -1.0

    def place(x: Float[Array, " n"]) -> Array:
        X = space.embed(x)
        return (jnp.delete(X, axis) / (1 - sign * X[axis]))[:3]

    # Named from 1 on; the axis may be −1.
    number = axis % (space.dim + 1) + 1
    title = f"stereographic projection from {'+' if sign > 0 else '−'}$X_{{{number}}}$"
    return Model(title, place, lambda x: _round(min(space.dim, 3)))


def _surface(space: AbstractManifold, x: np.ndarray | None) -> Model | None:
    """An embedded curve or surface, in the default model of an ambient space of two or three dimensions; a space of
    one's own says by a method `embedding` how it lies in the plane or in ordinary space."""
    embedding = getattr(space, "embedding", None)
    if not callable(embedding):
        return None
    if not isinstance(space, Embedded):
        return Model("", embedding, lambda x: _mesh(embedding, x))
    if space.ambient.dim not in (2, 3):
        return None
    ambient = model_of(space.ambient, None, None if x is None else places_of(space.embedding, x))

    def place(x: Float[Array, " n"]) -> Array:
        return ambient.place(space.embedding(x))

    return Model(ambient.title, place, lambda x: ambient.backdrop(places_of(space.embedding, x)) + _mesh(place, x))


def _cylinder(space: AbstractManifold, x: np.ndarray | None) -> Model | None:
    """A product of a plane and an axis, such as H² × E: a model of the plane, drawn along the axis; and SL₂(R)~."""
    if isinstance(space, SL2):
        return _turning_cylinder()
    if not (isinstance(space, Product) and {space.a.dim, space.b.dim} == {1, 2}):
        return None
    plane_is_first = space.a.dim == 2
    plane = space.a if plane_is_first else space.b
    in_plane = slice(0, 2) if plane_is_first else slice(1, 3)
    axis = slice(2, 3) if plane_is_first else slice(0, 1)
    names = {Hyperbolic: "ball", Sphere: "stereographic", Euclidean: "cartesian"}
    name = names.get(type(plane), "coordinates")
    flat = model_of(plane, name, None if x is None else x[:, in_plane])

    def backdrop(x: np.ndarray) -> Lines:
        return _walls(flat.backdrop(x[:, in_plane]), x[:, axis])

    def place(x: Float[Array, " n"]) -> Array:
        return jnp.append(flat.place(x[in_plane]), x[axis])

    labels = (*flat.labels[:2], f"$x_{3 if plane_is_first else 1}$")
    return Model(f"{flat.title or 'plane'} × axis", place, backdrop, labels, False)


def _turning_cylinder() -> Model:
    """SL₂(R)~ as a line over each point of the Poincaré disc. Heights are measured from the geodesics that leave the
    axis over (0, 1) horizontally, so that rotations about the axis are seen as such."""
    plane = Hyperbolic(2, "halfspace")

    def place(x: Float[Array, " n"]) -> Array:
        disc = Ball().coordinates(plane.embed(x[:2]))
        return jnp.append(disc, x[2] + 2 * jnp.arctan2(x[0], 1 + x[1]))

    def backdrop(x: np.ndarray) -> Lines:
        return _walls(_round(2), places_of(place, x)[:, 2])

    return Model("Poincaré disc × line", place, backdrop, ("", "", "height"), False)


def _walls(rings: Lines, heights: np.ndarray) -> Lines:
    """Cylinders over rings in the plane, between the least and the greatest height."""
    levels = np.linspace(heights.min(), heights.max(), 5)
    # An upright line at every 15th point of a ring, whose last point is its first.
    lines = []
    for ring in rings:
        for point in ring[:-1:15]:
            lines.append(np.stack([np.append(point, height) for height in levels]))
    for ring in rings:
        for height in levels:
            lines.append(np.column_stack([ring, np.full(len(ring), height)]))
    return lines


def _coordinates(space: AbstractManifold, x: np.ndarray | None) -> Model:
    """The coordinates themselves, at most the first three."""
    return Model(COORDINATES, lambda x: _pad(x), labels=_names(space.dim), equal=False)


MODELS = {
    "cartesian": _cartesian,
    "ball": _ball,
    "half-space": _half_space,
    "sphere": _sphere,
    "stereographic": _stereographic,
    "surface": _surface,
    "cylinder": _cylinder,
    "coordinates": _coordinates,
}


def _pad(x: Float[Array, " n"]) -> Array:
    """A point of the plane or of space: a line lies in the plane, and of many coordinates there are three."""
    return jnp.append(x, 0.0 * x) if x.shape[0] == 1 else x[:3]


def _names(dim: int) -> tuple[str, ...]:
    return ("$x_1$", "") if dim == 1 else ("$x_1$", "$x_2$", "$x_3$")[:dim]


def _round(dim: int) -> Lines:
    """The unit circle in the plane, or circles of latitude and longitude of the unit sphere."""
    angle = np.linspace(0, 2 * np.pi, 181)
    cos = np.cos(angle)
    sin = np.sin(angle)
    if dim == 2:
        return [np.column_stack([cos, sin])]
    lines = []
    for height in np.sin(np.linspace(-np.pi / 2, np.pi / 2, 9))[1:-1]:
        radius = np.sqrt(1 - height**2)
        lines.append(np.column_stack([radius * cos, radius * sin, np.full_like(cos, height)]))
    for turn in np.linspace(0, np.pi, 6, endpoint=False):
        lines.append(np.column_stack([cos * np.cos(turn), cos * np.sin(turn), sin]))
    return lines


def _ground(points: np.ndarray) -> Lines:
    """The boundary of a half-space under the points: a line, or a grid of squares."""
    low = points.min(axis=0)
    high = points.max(axis=0)
    margin = 0.1 * (high - low).max()
    # The last coordinate is the height.
    sides = [np.linspace(a - margin, b + margin, 9) for a, b in zip(low[:-1], high[:-1])]
    if len(sides) == 1:
        return [np.column_stack([sides[0], 0 * sides[0]])]
    u, v = np.meshgrid(*sides)
    sheet = np.stack([u, v, 0 * u], axis=-1)
    # Each line of the grid is straight: its two ends are enough.
    rows = sheet[:, [0, -1]]
    columns = sheet[[0, -1]].swapaxes(0, 1)
    return [*rows, *columns]


def _mesh(place: Callable, x: np.ndarray, lines: int = 25, samples: int = 97) -> Lines:
    """Coordinate lines of a surface around the points x; of a coordinate with period 2π the whole period is drawn."""
    if x.shape[1] != 2:
        return []
    low = x.min(axis=0)
    high = x.max(axis=0)
    margin = 0.15 * (high - low).max()
    here = places_of(place, x)
    ranges = []
    for i in range(2):
        turned = places_of(place, x + 2 * np.pi * np.eye(2)[i])
        # Up to a difference that no one sees in the picture.
        periodic = np.allclose(turned, here, rtol=0, atol=1e-4 * np.ptp(here, axis=0).max())
        ranges.append((low[i], low[i] + 2 * np.pi) if periodic else (low[i] - margin, high[i] + margin))
    fine = [np.linspace(low, high, samples) for low, high in ranges]
    coarse = [np.linspace(low, high, lines) for low, high in ranges]
    # The rows of a grid are coordinate lines: in the first grid those along the first coordinate, in the second those
    # along the second one.
    first, second = np.meshgrid(fine[0], coarse[1])
    along_first = np.stack([first, second], axis=-1)
    second, first = np.meshgrid(fine[1], coarse[0])
    along_second = np.stack([first, second], axis=-1)
    return [*places_of(place, along_first), *places_of(place, along_second)]
