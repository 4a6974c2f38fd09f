"""MOTION: changes of the body frame, and minimum-perturbation coordinates.

In the frame `g b(r)` the form is `Ad_{b⁻¹} A − b⁻¹ db`, the curvature is `Ad_{b⁻¹} F`, and the holonomy of a stroke is
`b⁻¹ g b`, with b at its start.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import as_pytree, jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Index, Numbers, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import AbstractConnection, check_law, form_of, law
from geodyn._locomotion.connections.polynomials import chebyshev, exponents
from geodyn._locomotion.strokes.stroke import floating

_ITERATIONS = 16
MOST_POLYNOMIALS = 500
MOST_ENTRIES = 100_000_000
"""Of the matrix of the least-squares problem, 0.8 GB."""


class Reframed(AbstractConnection):
    """The same body, with its frame moved by a group element b(r) as its shape changes.

    In the frame `g b(r)` the form is `Ad_{b⁻¹} A − b⁻¹ db`, the curvature `Ad_{b⁻¹} F`, and the holonomy of a
    stroke `b⁻¹ g b`, b at its start. Power and energy are those of `original`, in any frame.

    Args:
        original: body with a connection.
        frame: function r[m] -> group element [d, d], the new frame seen from the old; an `eqx.Module` has its arrays
            traced.

    Example:
        >>> swimmer = gd.swimmers.Purcell()
        >>> def frame(r):  # on the first link instead of the second
        ...     return swimmer.group.exp(jnp.stack([0.0 * r[0], 0.0 * r[0], -r[0]]))
        >>> stroke = gd.FourierStroke.circle(1.0)
        >>> b, g = frame(stroke(0.0)), gd.holonomy(swimmer, stroke)
        >>> turned = gd.holonomy(gd.bundles.Reframed(swimmer, frame), stroke)
        >>> print(bool(jnp.allclose(turned, jnp.linalg.inv(b) @ g @ b)))
        True
    """

    original: AbstractConnection
    frame: Callable
    group: AbstractLieGroup

    @checked
    def __init__(self, original: AbstractConnection, frame: Callable[[Array], Array]):
        self.original, self.frame, self.group = original, as_pytree(frame), original.group

    @property
    def shape_names(self) -> tuple[str, ...] | None:
        """Those of the body in its first frame."""
        return getattr(self.original, "shape_names", None)

    @property
    def first_shape(self) -> Float[Array, " m"] | None:
        """That of the body in its first frame."""
        return self.original.first_shape

    @property
    def shape_region(self) -> tuple[Float[Array, " m"], Float[Array, " m"]] | None:
        """That of the body in its first frame."""
        return self.original.shape_region

    def form(self, r: Float[Array, " m"]) -> Float[Array, "k m"]:
        return _transform(self.group, form_of(self.original, r), self.frame(r), jax.jacfwd(self.frame)(r))


@law.register
def _(swimmer: Reframed, r: Float[Array, " m"]):
    return law(swimmer.original, r)


@check_law.register
def _(swimmer: Reframed, r: Float[Array, " m"]):
    check_law(swimmer.original, r)


def _transform(
    group: AbstractLieGroup, form: Float[Array, "k m"], b: Float[Array, "d d"], slope: Float[Array, "d d m"]
) -> Float[Array, "k m"]:
    turned = group.adjoint(group.inverse(b)) @ form
    return turned - jax.vmap(lambda db: group.body_velocity(b, db), 2, 1)(slope)


class ChebyshevFrame(eqx.Module):
    """A frame b(r) whose coordinates are polynomials of the shape: b is a translation times a rotation.

    Column p of `coefficients[k, P]` belongs to the product of Chebyshev polynomials of the degrees `powers[p]`, one for
    each shape variable, in the box of shapes from `lower` to `upper`.
    """

    group: AbstractLieGroup
    coefficients: Float[Array, "k P"]
    lower: Float[Array, " m"]
    upper: Float[Array, " m"]
    powers: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __call__(self, r: Float[Array, " m"]) -> Float[Array, "d d"]:
        """The group element at the shape r."""
        return element(self.group, self.coefficients @ chebyshev(self.lower, self.upper, self.powers, r))


def element(group: AbstractLieGroup, x: Float[Array, " k"]) -> Float[Array, "d d"]:
    """The pose with these coordinates: a translation, then a rotation in the frame that it reaches."""
    moves = jnp.asarray(np.arange(group.dim) < group.translations, x.dtype)
    return group.compose(group.exp(moves * x), group.exp((1 - moves) * x))


@checked
def minimum_perturbation(swimmer: AbstractConnection, lower: Numbers, upper: Numbers, *, degree: Index = 6) -> Reframed:
    """The body in the frame that changes of its shape disturb least: least ∫|A|² over a box of shapes.

    In that frame `exp(−gd.bundles.flux)` comes near the displacement even of large strokes. The frame is a polynomial
    of the shape, found by Levenberg and Marquardt's method on Gauss–Legendre nodes; use it inside the box, which must
    hold no singular shape. For rigid motions no unit of length enters: the turning of the frame and its place decouple.

    Args:
        swimmer: body with a connection.
        lower, upper: shapes [m], the corners of the box.
        degree: total degree of the polynomial.

    Returns:
        The body in that frame, a `gd.bundles.Reframed`.

    Raises:
        ValueError: unless lower < upper and degree ≥ 1, and if no frame is found.

    Example:
        How far `exp(−flux)` ends from where a large stroke leads, in the frame of the middle link and in the best one.

        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0)
        >>> best = gd.bundles.minimum_perturbation(swimmer, [-1.0, -1.0], [1.0, 1.0], degree=3)
        >>> for body in (swimmer, best):
        ...     moved = body.group.log(gd.holonomy(body, stroke, steps=32))
        ...     print(f"{jnp.linalg.norm(moved + gd.bundles.flux(body, stroke, steps=32)):.3f}")
        0.041
        0.001

    Source:
        Hatton & Choset, *Int. J. Robot. Res.* 30 (2011) 988; *Eur. Phys. J. Spec. Top.* 224 (2015) 3141.
    """
    lower, upper = floating(lower, "lower"), floating(upper, "upper")
    if lower.ndim != 1 or lower.shape != upper.shape or degree < 1 or not np.all(np.asarray(lower < upper)):
        raise ValueError(
            "minimum_perturbation: lower[m] < upper[m] must be two shapes and degree at least 1, got"
            f" {lower}, {upper} and {degree}."
        )
    count = math.comb(degree + lower.size, lower.size)
    if count > MOST_POLYNOMIALS:
        raise ValueError(
            f"degree must be lower: polynomials of degree {degree} in {lower.size} shape variables have {count} terms,"
            f" at most {MOST_POLYNOMIALS} are fitted"
        )
    nodes = (degree + 2) ** lower.size
    entries = nodes * lower.size * count * swimmer.group.dim**2
    if entries > MOST_ENTRIES:
        raise ValueError(
            f"degree must be lower: a grid over {lower.size} shape variables has {nodes} nodes for degree {degree}, and"
            " with them the fit does not fit into memory. gd.bundles.minimum_perturbation_along(swimmer, stroke) needs"
            " no grid."
        )
    powers = exponents(int(degree), lower.size)
    coefficients, gain = _least_squares(swimmer, lower, upper, powers)
    if not isinstance(gain, Tracer) and not gain < 1e-3:
        raise ValueError(
            f"minimum_perturbation: no frame of least perturbation was found between {lower} and {upper}; keep singular"
            " shapes of the body out of the box, or make it smaller."
        )
    return Reframed(swimmer, ChebyshevFrame(swimmer.group, coefficients, lower, upper, powers))


@jit
def _least_squares(
    swimmer: AbstractConnection,
    lower: Float[Array, " m"],
    upper: Float[Array, " m"],
    powers: tuple[tuple[int, ...], ...],
):
    """What `least_perturbation` gives for a box of shapes."""
    m = lower.shape[0]
    highest = max(map(max, powers))
    x, w = np.polynomial.legendre.leggauss(highest + 2)
    grid = jnp.asarray(list(product((x + 1) / 2, repeat=m)), lower.dtype)
    weights = [np.prod(factors) for factors in product(w / 2, repeat=m)]
    roots = jnp.sqrt(jnp.asarray(weights, lower.dtype))
    shapes = lower[None] + (upper - lower)[None] * grid
    forms = law(swimmer, shapes[0]) * jax.vmap(lambda r: form_of(swimmer, r))(shapes)
    tangents = jnp.broadcast_to(jnp.eye(m, dtype=lower.dtype), (len(shapes), m, m))
    return least_perturbation(swimmer.group, lower, upper, powers, Nodes(shapes, tangents, forms, roots))


class Nodes(NamedTuple):
    """The nodes of a quadrature of |A|²: the coordinates there of which a frame is a polynomial, their rates along s
    tangents, the form along these tangents, and the square roots of the weights."""

    coordinates: Float[Array, "N q"]
    tangents: Float[Array, "N q s"]
    forms: Float[Array, "N k s"]
    roots: Float[Array, " N"]


class Damped(NamedTuple):
    """The coefficients of a frame between two steps, and how much the next step is damped."""

    coefficients: Float[Array, " c"]
    damping: Scalar


def integral(nodes: Nodes) -> Scalar:
    """∫|A|² in the frame in which the form is given."""
    return jnp.sum(nodes.roots[:, None, None] ** 2 * nodes.forms**2)


def least_perturbation(
    group: AbstractLieGroup,
    lower: Float[Array, " q"],
    upper: Float[Array, " q"],
    powers: tuple[tuple[int, ...], ...],
    nodes: Nodes,
) -> tuple[Float[Array, "k P"], Scalar]:
    """The coefficients of the frame of least ∫|A|² by damped Gauss–Newton steps, and the decrease that the last step
    predicted, relative to the initial value of the integral."""

    def residual(coefficients: Float[Array, " c"]) -> tuple[Float[Array, " e"], Float[Array, " e"]]:
        frame = ChebyshevFrame(group, coefficients.reshape(group.dim, -1), lower, upper, powers)

        def at(
            x: Float[Array, " m"], tangents: Float[Array, "m t"], form: Float[Array, "k t"], root: Scalar
        ) -> Float[Array, "k t"]:
            return root * _transform(group, form, frame(x), jax.jacfwd(frame)(x) @ tangents)

        value = jax.vmap(at)(*nodes).ravel()
        return value, value

    def improve(state: Damped, _: Any) -> tuple[Damped, Scalar]:
        c = state.coefficients
        J, y = jax.jacfwd(residual, has_aux=True)(c)
        slope = J.T @ y
        matrix = J.T @ J
        # The matrix is singular: a constant rotation of the frame does not change ∫|A|².
        damped = matrix + state.damping * jnp.trace(matrix) * jnp.eye(c.size, dtype=c.dtype)
        step = jnp.linalg.solve(damped, slope)
        better = jnp.sum(residual(c - step)[0] ** 2) <= jnp.sum(y**2)
        # Levenberg's rule: closer to Newton's step after one that helped, else closer to steepest descent.
        less = jnp.maximum(state.damping / 10, 1e3 * jnp.finfo(c.dtype).eps)
        damping = jnp.where(better, less, 10 * state.damping)
        after = jnp.asarray(jnp.where(better, c - step, c))
        return Damped(after, damping), slope @ step

    start = Damped(jnp.zeros(group.dim * len(powers), lower.dtype), jnp.asarray(1e-6, lower.dtype))
    end, gains = jax.lax.scan(improve, start, None, length=_ITERATIONS)
    c = end.coefficients
    return c.reshape(group.dim, -1), gains[-1] / jnp.maximum(integral(nodes), jnp.finfo(c.dtype).tiny)
