"""Atlases of charts that are spaces, atlases of products, and the atlas of any space."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.core import Tracer

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Number, Scalar
from geodyn._geometry.geodesics.distances import half_square
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.atlas import AbstractAtlas, AbstractPatches, Sizes
from geodyn._geometry.models.spaces import Product

# A chart is used up to so many times the radius from its centre: a step may lead out of the radius, and its stages
# farther.
REACH = 4.0


class Atlas(AbstractManifold, AbstractPatches):
    """A space of several charts, between which a body moves.

    Every chart is a space with methods `embed(x[n]) -> X[D]` and its inverse `coordinates(X) -> x[n]`, to and from one
    embedding of all of them. A chart must be regular for |x| < 4 radius, at least as far as a step leads, and together
    the charts must cover the space with |x| < radius. A point that is further than `radius` from the centre of its
    chart goes to the chart whose centre it is nearest to.

    The coordinates of chart k lie around (8k radius, 0, …, 0) instead of the origin, so that they tell the chart; start
    from `atlas.coordinates(X)`. The metrics of the charts must agree, and what acts on the points must be a function of
    the points, not of their coordinates: an integration stops where the energy is not the same in the next chart.
    Distances are those that the chart of the first point finds. Everything is evaluated in all of the charts.

    Args:
        charts: the charts, in a list.
        radius: the radius > 0, in coordinates, within which points stay in their chart.

    Raises:
        ValueError: for charts that are none, or not of one dimension, and for a radius that is not positive.

    Example:
        The sphere from two stereographic charts: a great circle closes after 2π, through the centres of both.

        >>> class Stereographic(gd.AbstractManifold):
        ...     sign: float
        ...     dim = 2
        ...     def metric(self, x):
        ...         return 4 / (1 + x @ x) ** 2 * jnp.eye(2)
        ...     def embed(self, x):
        ...         return jnp.append(2 * x, self.sign * (1 - x @ x)) / (1 + x @ x)
        ...     def coordinates(self, X):
        ...         return X[:2] / (1 + self.sign * X[2])
        >>> atlas = gd.spaces.Atlas([Stereographic(1.0), Stereographic(-1.0)], radius=1.1)
        >>> motion = gd.integrate(gd.System(atlas, [1.0]), [[0.2, 0.0]], [[0.52, 0.0]], t1=2 * np.pi, steps=100)
        >>> start, end = motion.embedding[0, 0], motion.embedding[-1, 0]
        >>> print(bool(jnp.allclose(start, end, atol=1e-6)), f"{motion.embedding[:, 0, 2].min():.2f}")
        True -1.00
    """

    charts: tuple[AbstractManifold, ...]
    radius: Float[Array, ""]
    dim: int = eqx.field(static=True)

    @checked
    def __init__(self, charts: Sequence[AbstractManifold], radius: Number):
        self.charts = tuple(charts)
        self.radius = jnp.asarray(radius, float)
        for k, chart in enumerate(self.charts):
            has_methods = all(callable(getattr(chart, name, None)) for name in ("metric", "embed", "coordinates"))
            if not (isinstance(chart, AbstractManifold) and has_methods):
                raise ValueError(
                    "charts must be spaces with methods embed(x) -> X and coordinates(X) -> x; "
                    f"charts[{k}] is {chart!r}"
                )
        dims = [chart.dim for chart in self.charts]
        if not dims or len(set(dims)) > 1:
            raise ValueError(f"charts must be one or more of the same dim, got {dims}")
        if not isinstance(radius, Tracer) and not radius > 0:
            raise ValueError(f"radius must be positive, got {radius}")
        self.dim = dims[0]

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric of the chart that x is in; NaN if x is in none."""
        return self._in_own_chart(x, lambda chart, local: chart.metric(local))

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        """The point in the embedding of the charts."""
        return self._in_own_chart(x, lambda chart, local: chart.embed(local))

    def coordinates(self, X: Float[Array, " D"]) -> Float[Array, " n"]:
        """The inverse of `embed`, in the chart whose centre is nearest."""
        number, _ = self._nearest(X)
        return self._coordinates_in(number, X)

    def target(self, x: Float[Array, " n"], reach: float) -> Scalar:
        nearest, square = self._nearest(self.embed(x))
        own_square = self._in_own_chart(x, lambda chart, local: local @ local)
        is_outside = own_square > (reach * self._radius(x)) ** 2
        # Where its own chart is the nearest a point stays, however far it is.
        return jnp.where(is_outside & (square < own_square), nearest, 0)

    def move(self, target: Scalar, x: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.where(target == 0, x, self._coordinates_in(target, self.embed(x)))

    def _radius(self, x: Array) -> Scalar:
        return self.radius.astype(x.dtype)

    def _centre(self, k: int, x: Array) -> Float[Array, " n"]:
        """Where chart k has its centre: the charts lie side by side along the first coordinate, each of them
        `REACH` radii wide to either side."""
        return jnp.where(jnp.arange(self.dim) == 0, 2 * REACH * k * self._radius(x), 0)

    def _inside(self, k: int, x: Float[Array, " n"]) -> tuple[Bool[Array, ""], Float[Array, " n"]]:
        """Whether x is in chart k, and its coordinates there; those of the centre if it is not."""
        local = x - self._centre(k, x)
        inside = local @ local < (REACH * self._radius(x)) ** 2
        return inside, jnp.where(inside, local, 0)

    def _in_own_chart(self, x: Float[Array, " n"], function: Callable[[Any, Array], Array]) -> Array:
        """`function(chart, local)` of the chart that x is in."""
        value: Any = jnp.nan
        for k, chart in enumerate(self.charts):
            inside, local = self._inside(k, x)
            value = jnp.where(inside, function(chart, local), value)
        # Charts that x is not in are evaluated at their centres: there nothing is NaN, nor is any derivative.
        return value

    def _nearest(self, X: Float[Array, " D"]) -> tuple[Scalar, Scalar]:
        """The number of the chart whose centre is nearest, and the squared distance from there, in coordinates."""
        number = jnp.zeros((), X.dtype)
        least = jnp.asarray(jnp.inf, X.dtype)
        for k, chart in enumerate(self.charts):
            square = jnp.sum(chart.coordinates(X) ** 2)
            nearer = square < least
            # Charts count from 1: as a target of a point, 0 means that it stays.
            number = jnp.where(nearer, k + 1.0, number)
            least = jnp.where(nearer, square, least)
        return number, least

    def _coordinates_in(self, number: Scalar, X: Float[Array, " D"]) -> Float[Array, " n"]:
        x = jnp.full(self.dim, jnp.nan, X.dtype)
        for k, chart in enumerate(self.charts):
            chosen = number == k + 1
            centre = chart.embed(jnp.zeros(self.dim, X.dtype))
            # Another chart may have no coordinates for X; those of its centre are finite, with their derivatives.
            local = chart.coordinates(jnp.where(chosen, X, centre))
            x = jnp.where(chosen, self._centre(k, local) + local, x)
        return x


@half_square.register
def _(space: Atlas, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Any) -> Scalar:
    Y = space.embed(y)
    value: Any = jnp.nan
    for k, chart in enumerate(space.charts):
        inside, local = space._inside(k, x)
        centre = chart.embed(jnp.zeros_like(x))
        other = chart.coordinates(jnp.where(inside, Y, centre))
        value = jnp.where(inside, half_square(chart, local, other, nodes), value)
    return value


class OneChart(AbstractPatches):
    """A single chart, where an atlas is asked for."""

    def target(self, x: Float[Array, " n"], reach: float) -> Scalar:
        return jnp.zeros((), x.dtype)

    def move(self, target: Scalar, x: Float[Array, " n"]) -> Float[Array, " n"]:
        return x


class ProductAtlas(AbstractAtlas):
    """The atlases of both factors of a product, which have these dimensions: each has its part of a switch, and of the
    frame."""

    a: AbstractAtlas
    b: AbstractAtlas
    dims: tuple[int, int] = eqx.field(static=True)

    def sizes(self, dim: int) -> Sizes:
        of_a = self.a.sizes(self.dims[0])
        of_b = self.b.sizes(self.dims[1])
        return Sizes(of_a.per_point + of_b.per_point, of_a.per_body + of_b.per_body)

    def switch(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        xa, xb = self._points(x)
        return jnp.concatenate([self.a.switch(xa), self.b.switch(xb)])

    def another(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        xa, xb = self._points(x)
        return jnp.concatenate([self.a.another(xa), self.b.another(xb)])

    def switched(self, switch: Float[Array, " s"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        xa, xb = self._points(x)
        to_a, to_b = self._switches(switch)
        return jnp.concatenate([self.a.switched(to_a, xa), self.b.switched(to_b, xb)], axis=1)

    def start_frame(self, x: Float[Array, "N n"]) -> Float[Array, " f"]:
        xa, xb = self._points(x)
        return jnp.concatenate([self.a.start_frame(xa), self.b.start_frame(xb)])

    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        of_a, of_b = self._frames(frame)
        to_a, to_b = self._switches(switch)
        return jnp.concatenate([self.a.moved_frame(of_a, to_a), self.b.moved_frame(of_b, to_b)])

    def from_frame(self, frame: Float[Array, " f"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        xa, xb = self._points(x)
        of_a, of_b = self._frames(frame)
        return jnp.concatenate([self.a.from_frame(of_a, xa), self.b.from_frame(of_b, xb)], axis=1)

    def _points(self, x: Float[Array, "N n"]) -> tuple[Float[Array, "N a"], Float[Array, "N b"]]:
        return x[:, : self.dims[0]], x[:, self.dims[0] :]

    def _frames(self, frame: Float[Array, " f"]) -> tuple[Float[Array, " a"], Float[Array, " b"]]:
        first = self.a.sizes(self.dims[0]).per_body
        return frame[:first], frame[first:]

    def _switches(self, switch: Float[Array, " s"]) -> tuple[Float[Array, " a"], Float[Array, " b"]]:
        both = self.sizes(sum(self.dims))
        # How many points the switch is for, from its size; none is asked for where no atlas has a number per point.
        points = (switch.size - both.per_body) // max(both.per_point, 1)
        of_a = self.a.sizes(self.dims[0])
        first = of_a.per_point * points + of_a.per_body
        return switch[:first], switch[first:]


@functools.singledispatch
def atlas_of(space: AbstractManifold) -> AbstractAtlas | None:
    """The atlas of a space, by default its `chart` if that is one; None if it has a single chart. Spaces that are
    atlases themselves, or have those of others, register here."""
    chart = getattr(space, "chart", None)
    return chart if isinstance(chart, AbstractAtlas) else None


@atlas_of.register
def _(space: Atlas) -> AbstractAtlas:
    return space


@atlas_of.register
def _(space: Product) -> AbstractAtlas | None:
    a = atlas_of(space.a)
    b = atlas_of(space.b)
    if a is None and b is None:
        return None
    return ProductAtlas(a or OneChart(), b or OneChart(), (space.a.dim, space.b.dim))
