"""A body on a slice of its shapes, as arrays from which the page computes by itself: the connection form, its
curvature, the metric and the outline on grids, in whose cells the page interpolates by polynomials of degree five."""

from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, Float, Row, Scalar
from geodyn._geometry.groups.frame_group import FrameGroup
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import (
    AbstractConnection,
    AbstractInvariantMetric,
    exterior_derivative,
    reduction,
)
from geodyn._locomotion.connections.coordinates import minimum_perturbation
from geodyn._plot.pages.encoding import quantise, text
from geodyn._plot.shapes.names import pose_names
from geodyn._plot.shapes.strokes import clear

SIZE = 65
"""Points of a grid in each direction."""
COARSE = 33
"""The same for bodies whose isometries are no matrices: of these each point takes milliseconds."""
OUTLINES = 17
"""The same for the grid of outlines, which need only look right."""
ORDER = 6
"""Points in each direction from which a value between them is interpolated."""
PROBES = 400
"""Places between the points at which the interpolation is compared with the body."""
FRAMES = ("body", "minimum perturbation")
NO_FRAME = (
    "the minimum-perturbation frame is that of matrices here: where the isometries are no matrices it takes minutes,"
    " and gd.bundles.minimum_perturbation(body, lower, upper) computes it"
)


class Slice(AbstractInvariantMetric):
    """A body of which two shape variables move, the others being held at `at`[m]; its shape is these two."""

    body: AbstractInvariantMetric
    at: Float[Array, " m"]
    pair: tuple[int, int] = eqx.field(static=True)
    group: AbstractLieGroup

    def __init__(self, body: AbstractInvariantMetric, at: Row, pair: tuple[int, int]):
        self.body = body
        self.at = jnp.asarray(at, float)
        self.pair = pair
        self.group = body.group

    def shape(self, r: Float[Array, "2"]) -> Float[Array, " m"]:
        """The whole shape."""
        return self.at.at[jnp.array(self.pair)].set(r)

    def quadratic_form(self, r: Float[Array, "2"], xi: Float[Array, " k"], rdot: Float[Array, "2"]) -> Scalar:
        rate = jnp.zeros_like(self.at).at[jnp.array(self.pair)].set(rdot)
        return self.body.quadratic_form(self.shape(r), xi, rate)


@jit
def _table(connection: AbstractConnection, sliced: AbstractInvariantMetric, r: Float[Array, "N 2"]):
    """A [k, 2], F₁₂ [k] and G [2, 2] at the shapes r[N, 2]."""

    def at(r: Float[Array, "2"]) -> tuple[Array, Array, Array]:
        form = connection.form(r)
        curvature = exterior_derivative(connection.group, form, jax.jacfwd(connection.form)(r))[:, 0, 1]
        return form, curvature, reduction(sliced, r)[1]

    return jax.vmap(at)(r)


@jit
def _coarse_table(sliced: AbstractInvariantMetric, r: Float[Array, "N 2"]):
    """A [k, 2] and G [2, 2] at the shapes r[N, 2], by a program for one shape: a batch of these would not fit into
    memory."""
    return native_rows(lambda r: reduction(sliced, r), r)


def curvature_of_grid(group: AbstractLieGroup, form: np.ndarray, step: np.ndarray) -> np.ndarray:
    """F₁₂ [size², k] from A [size², k, 2] on a grid with these steps, by the derivative of what is interpolated: where
    A follows from Killing fields that are carried along, that of its program takes four times as long as A."""
    size = round(len(form) ** 0.5)
    table = form.reshape(size, size, -1, 2)
    near, along = _derivative(size)
    first = np.einsum("as,asj...->aj...", along / step[0], table[near])
    second = np.einsum("as,ias...->ia...", along / step[1], table[:, near])
    slope = np.stack([first, second], axis=-1).reshape(*form.shape, 2)
    curvature = jax.vmap(lambda A, dA: exterior_derivative(group, A, dA)[:, 0, 1])
    return np.asarray(curvature(jnp.asarray(form), jnp.asarray(slope)))


def _derivative(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The derivative of the polynomials of `weights` at each point of a grid with step 1: which points [size, 6] it
    takes, and with which weights."""
    points = np.arange(size)
    first, _ = weights(points.astype(float), size)
    near = first[:, None] + np.arange(ORDER)
    powers = np.arange(ORDER)
    # The weights by which the values of the powers of x at these points give their derivatives at 0.
    values = (near - points[:, None]).astype(float)[:, None, :] ** powers[:, None]
    derivatives = np.broadcast_to((powers == 1).astype(float)[:, None], (size, ORDER, 1))
    return near, np.linalg.solve(values, derivatives)[..., 0]


@jit
def _outline(body: Any, shapes: Float[Array, "N m"]) -> Float[Array, "N ..."]:
    return jax.vmap(body.outline)(shapes)


def grid(lower: Row, upper: Row, size: int) -> np.ndarray:
    """The shapes [size², 2] of a grid, the first variable changing last."""
    corners = zip(np.asarray(lower), np.asarray(upper), strict=True)
    axes = [np.linspace(low, high, size) for low, high in corners]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)


def weights(x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first of the six points around each x, which is counted in cells, and their weights: Lagrange's polynomials
    of degree five. The page does the same."""
    first = np.clip(np.floor(x).astype(int) - ORDER // 2 + 1, 0, size - ORDER)
    s = x - first
    basis = [np.prod([(s - j) / (i - j) for j in range(ORDER) if j != i], axis=0) for i in range(ORDER)]
    return first, np.stack(basis, -1)


def interpolated(values: np.ndarray, size: int, x: np.ndarray) -> np.ndarray:
    """Values [size², c] of a grid at places x[N, 2], counted in cells."""
    table = values.reshape(size, size, -1)
    i, u = weights(x[:, 0], size)
    j, v = weights(x[:, 1], size)
    near = table[i[:, None, None] + np.arange(ORDER)[:, None], j[:, None, None] + np.arange(ORDER)]
    return np.einsum("ni,nj,nijc->nc", u, v, near)


def fields(body: AbstractInvariantMetric, pair: tuple[int, int], at: Row, lower: Row, upper: Row, frame: str) -> dict:
    """What the page knows of the body on a slice, in one of the frames; arrays are float32 in base64.

    `size` is that of the grid, coarser where the isometries of the body are no matrices; there is one frame then.
    `form` [size², k, 2] and `curvature` [size², k] belong to the frame, `metric` [size², 3] (G₁₁, G₁₂, G₂₂) to both.
    `error` is the largest of interpolated A between the points, relative to the largest |A|.
    """
    sliced = Slice(body, at, pair)
    low = np.array(lower, float)
    high = np.array(upper, float)
    of_frames = body.group._is_of_frames
    size = COARSE if of_frames else SIZE
    places = np.random.default_rng(0).integers(0, size - 1, (PROBES, 2)) + 0.5
    step = (high - low) / (size - 1)
    shapes = jnp.asarray(np.concatenate([grid(low, high, size), low + places * step]))
    if of_frames:
        if frame != "body":
            raise ValueError(NO_FRAME)
        form, metric = (np.asarray(x) for x in _coarse_table(sliced, shapes))
        curvature = curvature_of_grid(body.group, form[:-PROBES], step)
    else:
        connection: AbstractConnection = sliced
        if frame == "minimum perturbation":
            connection = minimum_perturbation(sliced, low, high)
        form, curvature, metric = (np.asarray(x) for x in _table(connection, sliced, shapes))
        curvature = curvature[:-PROBES]
    known = form[:-PROBES].reshape(size**2, -1)
    exact = form[-PROBES:].reshape(PROBES, -1)
    if not np.isfinite(known).all(axis=1).any():
        raise ValueError(f"the body is singular at all shapes between {low.tolist()} and {high.tolist()}.")
    misses = np.abs(interpolated(known, size, places) - exact)
    largest = np.nanmax(np.abs(known))
    return {
        "frame": frame,
        "size": size,
        "lower": low.tolist(),
        "upper": high.tolist(),
        "pair": list(pair),
        "at": np.asarray(at, float).tolist(),
        "form": _packed(known),
        "curvature": _packed(clear(curvature)),
        "metric": _packed(metric[:-PROBES][:, [0, 0, 1], [0, 1, 1]]),
        "error": float(np.nanmax(misses) / largest) if largest else 0.0,
    }


def _packed(array: np.ndarray) -> str:
    return text(np.asarray(array, "<f4"))


def look(body: AbstractConnection, pair: tuple[int, int], at: Row, lower: Row, upper: Row) -> dict:
    """How the body looks at the shapes of a slice: its outline on a coarser grid, [17², parts, points, D], int16."""
    kind = drawing(body)
    if kind in ("axes", "places"):
        return {"kind": kind}
    middle = np.asarray(at, float)
    shapes = np.broadcast_to(middle, (OUTLINES**2, len(middle))).copy()
    shapes[:, list(pair)] = grid(lower, upper, OUTLINES)
    lines = np.asarray(_outline(body, jnp.asarray(shapes)))
    scale = np.nanmax(np.abs(lines))
    outline = text(quantise(lines, 0.0, scale))
    return {"kind": kind, "size": OUTLINES, "shape": list(lines.shape[1:]), "scale": float(scale), "outline": outline}


def drawing(body: AbstractConnection) -> str:
    """How the page draws the body: its outline in the "plane" or in a curved "disc", the "axes" of its frame, or the
    "places" where it is in a chart, which only Python knows."""
    if body.group._is_of_frames:
        return "places"
    curvature = body.group._plane
    if curvature is None or getattr(body, "outline", None) is None:
        return "axes"
    return "disc" if curvature else "plane"


def frames_of(group: AbstractLieGroup) -> list[str]:
    """The frames in which the page can show the connection."""
    return list(FRAMES[:1] if group._is_of_frames else FRAMES)


def group_of(group: AbstractLieGroup) -> dict:
    """What the page needs to compute in the group: its generators, or, of a group that is none of matrices, the
    structure constants c[k, i, j] of its brackets; and the names of the coordinates of a pose."""
    if group._is_of_frames:
        algebra = {"structure": np.asarray(cast(FrameGroup, group).structure).tolist()}
    else:
        algebra = {"generators": np.asarray(group.generators).tolist()}
    return algebra | {
        "translations": group.translations,
        "names": pose_names(group),
        "turns": group._turns_in_plane,
        "homogeneous": group._is_homogeneous,
    }
