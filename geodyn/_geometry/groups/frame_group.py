"""The isometries of any space with Killing fields as a group, whose elements are images of a frame."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._engine.numerics.linalg import solve
from geodyn._engine.numerics.roots import with_derivative, without_derivatives
from geodyn._engine.tracing import batched_as
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Int
from geodyn._geometry.groups.frames import carry_frame, develop, frame_at, pack, turning, unpack
from geodyn._geometry.groups.lie_group import ELEMENT, AbstractLaw, AbstractLieGroup, algebra_vector, law_of, square
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.manifold.tensors import christoffel_at, curvature_at
from geodyn._geometry.models.thurston import SL2

# Newton's method for `log` takes so many steps at most, and stops where a step is smaller than this relative to it.
MOST_ITERATIONS = 40
SETTLED = 0.75  # the power of the rounding error


class Base(NamedTuple):
    """Where the frame of a group stands, and what is known of its algebra: the point [n], the number of translations,
    and whether all elements commute."""

    origin: Float[Array, " n"]
    translations: int
    is_commutative: bool


@functools.singledispatch
def base_of(space: Any) -> Base | None:
    """The `Base` of a space that has a group of frames; None: it has none."""
    return None


@functools.singledispatch
def jet_of_fields(space: Any, x: Float[Array, " n"]) -> tuple[Array, Array]:
    """(the Killing fields K [K, n] at x, their covariant derivatives ∇_b K^a [K, n, n])."""
    fields = space.killing_fields(x)
    slopes = jax.jacfwd(space.killing_fields)(x)
    return fields, slopes + jnp.einsum("abc,kc->kab", christoffel_at(space, x), fields)


class FrameGroup(AbstractLieGroup):
    """The isometries of a space with Killing fields that can be reached from the identity, as images of a frame.

    An element is the matrix [n + 1, n + 1] with the image of the `origin` in its last column and the derivative of the
    isometry there in the others. The product is not that of matrices, but follows from the metric: an isometry carries
    a curve to one that turns alike. ξ are the coefficients of the Killing fields of the space, and its exponential is
    the flow along Σ ξ_a K_a. As `gd.symmetries(...).group` gives it, and `gd.groups.isometry_group` for
    `gd.spaces.SL2`. What is too far in the chart for ten digits is NaN.

    Args:
        space: a space with the method `killing_fields`, for which `gd.groups.isometry_group` is such a group.

    Raises:
        ValueError: for other spaces.

    Example:
        Isometries of the sphere, of which only the metric is known: a quarter of a turn about the origin.

        >>> sphere = gd.Manifold(lambda x: 4 / (1 + x @ x) ** 2 * jnp.eye(2), dim=2)
        >>> group = gd.symmetries(sphere, jnp.zeros(2)).group
        >>> g = group.exp(jnp.array([0.0, 0.0, np.pi / 2]))
        >>> turned = gd.groups.act(group.space, g, [0.3, 0.1])
        >>> print(group.dim, bool(jnp.allclose(jnp.abs(turned), jnp.array([0.1, 0.3]))))
        3 True

    Source:
        Kobayashi & Nomizu, *Foundations of Differential Geometry I* (1963), VI.1–3.
    """

    space: AbstractManifold
    origin: Float[Array, " n"]
    fields: Float[Array, "k n"]
    slopes: Float[Array, "k n n"]
    structure: Float[Array, "k k k"]
    reader: Float[Array, "k m"]
    dim: int = eqx.field(static=True)
    translations: int = eqx.field(static=True)
    commutes: bool = eqx.field(static=True)

    @checked
    def __init__(self, space: AbstractManifold):
        base = base_of(space)
        if base is None:
            raise ValueError(
                f"FrameGroup: space must be the space of gd.symmetries, or one that has no other group, got a "
                f"{type(space).__name__}: gd.groups.isometry_group(space) says which group it has."
            )
        self.space, self.origin = space, base.origin.astype(jnp.result_type(float))
        self.translations, self.commutes = base.translations, base.is_commutative
        self.fields, self.slopes, self.reader, self.structure = _algebra_at(space, self.origin)
        self.dim = self.fields.shape[0]

    @property
    def generators(self):
        """How the generators change the numbers of an element at the identity, [k, n + 1, n + 1]. They are not
        orthogonal to one another."""
        return jax.vmap(lambda xi: self.rate(self.identity(), xi))(jnp.eye(self.dim, dtype=self.origin.dtype))

    @property
    def size(self) -> int:
        """The number of rows of an element."""
        return self.origin.size + 1

    @property
    def is_commutative(self) -> bool:
        """Whether g h = h g for all elements."""
        return self.commutes

    @checked
    def exp(self, xi: Float[Array, " k"]):
        """Where the frame is after unit time with the constant velocity Σ ξ_a K_a."""
        xi = algebra_vector(self, xi)
        return _flow(self, self.identity().astype(xi.dtype), xi)

    @checked
    def log(self, g: Float[Array, "d d"]):
        """The exponential coordinates of g, by Newton's method from those of a small motion; NaN where it does not
        find them: some groups have elements that are no exponentials."""
        return _log(self, self._element(g))

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        g = self._element(g)
        identity = self.identity().astype(g.dtype)
        return _developed(self.space, g, identity, identity)

    @property
    def _is_homogeneous(self) -> bool:
        return False

    @property
    def _is_of_frames(self) -> bool:
        return True

    def _moved(self, g: Float[Array, "d d"], x: Float[Array, " n"]) -> Float[Array, " n"]:
        """That of the frame of the chart at x, with which the element is composed."""
        return self.compose(g, frame_at(x))[:-1, -1]

    def _element(self, g: Any) -> Float[Array, "d d"]:
        """The frame g as an array of floats; ValueError unless, for concrete numbers, it is the image of that at the
        origin."""
        g = square(self, g)
        if isinstance(g, Tracer) or any(isinstance(x, Tracer) for x in jax.tree.leaves(self)):
            return g
        x, F = map(np.asarray, unpack(g))
        before = np.asarray(self.space.metric(jnp.asarray(self.origin)))
        after = np.asarray(self.space.metric(jnp.asarray(x)))
        with np.errstate(invalid="ignore"):
            off = np.max(np.abs(F.T @ after @ F - before)) / np.max(np.abs(before))
        if not (off < ELEMENT and np.array_equal(np.asarray(g)[-1], np.eye(len(g))[-1])):
            raise ValueError(f"g must be an element of FrameGroup, as exp returns it; got {np.asarray(g).tolist()}")
        return g


@base_of.register
def _(space: SL2) -> Base:
    return Base(jnp.array([0.0, 1.0, 0.0]), 3, False)


class OfFrames(AbstractLaw):
    """That of images of a frame, which follows from the metric."""

    group: FrameGroup

    def identity(self):
        return frame_at(self.group.origin)

    def compose(self, g: Any, h: Any) -> Float[Array, "d d"]:
        g = square(self.group, g)
        h = square(self.group, h)
        return _developed(self.group.space, self.identity().astype(g.dtype), g, h)

    def rate(self, g: Float[Array, "d d"], xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        x, F = unpack(g)
        u = F @ (xi @ self.group.fields.astype(xi.dtype))
        slope = jnp.tensordot(xi, self.group.slopes.astype(xi.dtype), 1)
        # The frame turns with the flow of the Killing field, and by the curvature of the coordinates.
        turn = F @ slope + turning(self.group.space, x, u, F)
        return pack(u, turn).at[-1, -1].set(0.0)

    def body_velocity(self, g: Float[Array, "d d"], rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        x, F = unpack(g)
        u, dF = unpack(rate)
        columns = jnp.concatenate([u[:, None], dF - turning(self.group.space, x, u, F)], axis=1)
        inward = jax.vmap(lambda column: solve(F, column), 1, 1)(columns)
        return self.group.reader.astype(g.dtype) @ _flat(inward[:, 0], inward[:, 1:])

    def rate_at_identity(self, xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        return self.rate(self.identity().astype(xi.dtype), xi)

    def velocity_at_identity(self, rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        return self.body_velocity(self.identity().astype(rate.dtype), rate)

    def bracket(self, a: Float[Array, " k"], b: Float[Array, " k"]) -> Float[Array, " k"]:
        return self.group.structure.astype(a.dtype) @ b @ a

    def adjoint(self, g: Float[Array, "d d"]) -> Float[Array, "k k"]:
        """From the Killing fields where the frame has come."""
        x, F = unpack(g)
        fields, slopes = jet_of_fields(self.group.space, x)
        back = jax.vmap(lambda unit: solve(F, unit), 1, 1)(jnp.eye(x.size, dtype=g.dtype))
        seen = _flat(fields @ back.T, back @ slopes @ F)
        inverse = self.group.reader.astype(g.dtype) @ seen.T
        return jax.vmap(lambda unit: solve(inverse, unit), 1, 1)(jnp.eye(self.group.dim, dtype=g.dtype))

    def dexp(self, xi: Float[Array, " k"]) -> Float[Array, "k k"]:
        """∫₀¹ exp(s ad) ds, by an exponential of twice the size."""
        unit = jnp.eye(self.group.dim, dtype=xi.dtype)
        ad = jax.vmap(lambda e: self.bracket(xi, e), out_axes=1)(unit)
        nothing = jnp.zeros_like(unit)
        k = len(unit)
        # exp of [[ad, 1], [0, 0]] has this integral in its upper right block (Van Loan).
        return jax.scipy.linalg.expm(jnp.block([[ad, unit], [nothing, nothing]]))[:k, k:]


@law_of.register
def _(group: FrameGroup) -> AbstractLaw:
    return OfFrames(group)


def _flat(fields: Float[Array, "*b n"], slopes: Float[Array, "*b n n"]) -> Float[Array, "*b m"]:
    """Fields and their derivatives in one row each."""
    return jnp.concatenate([fields, slopes.reshape(*slopes.shape[:-2], -1)], axis=-1)


def _left_inverse(rows: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """The matrix that reads the coefficients off a sum of these independent rows."""
    q, r = jnp.linalg.qr(rows.T)
    return jax.scipy.linalg.solve_triangular(r, q.T)


@jit
def _algebra_at(space: AbstractManifold, x: Float[Array, " n"]) -> tuple[Array, Array, Array, Array]:
    """(the Killing fields at x, their derivatives, the matrix that reads coefficients off both, the structure constants
    of the group)."""
    fields, slopes = jet_of_fields(space, x)
    reader = _left_inverse(_flat(fields, slopes))
    at = curvature_at(space, x)
    brackets = _brackets(fields, slopes, jnp.einsum("ea,abcd->ebcd", at.inverse, at.riemann))
    return fields, slopes, reader, -jnp.einsum("kN,ijN->kij", reader, brackets)


def _brackets(
    fields: Float[Array, "k n"], slopes: Float[Array, "k n n"], riemann: Float[Array, "n n n n"]
) -> Float[Array, "k k m"]:
    """[K_i, K_j] = ∇_{K_i} K_j − ∇_{K_j} K_i and its derivative [∇K_j, ∇K_i] + R(K_i, K_j)."""
    along = jnp.einsum("jab,ib->ija", slopes, fields)
    turned = jnp.einsum("jab,ibc->ijac", slopes, slopes)
    curved = jnp.einsum("abcd,ic,jd->ijab", riemann, fields, fields)
    return _flat(along - along.swapaxes(0, 1), turned - turned.swapaxes(0, 1) + curved)


@jit
def _flow(group: FrameGroup, g: Float[Array, "d d"], xi: Float[Array, " k"]) -> Float[Array, "d d"]:
    """The product g exp(ξ)."""
    fields = group.fields.astype(xi.dtype)
    slopes = group.slopes.astype(xi.dtype)
    return carry_frame(group.space, g, xi @ fields, jnp.tensordot(xi, slopes, 1))


_developed = jit(develop)


class Iterate(NamedTuple):
    """Exponential coordinates ξ in Newton's method, whether they are settled, and the number of iterations so far."""

    xi: Float[Array, " k"]
    settled: Bool[Array, ""]
    count: Int[Array, ""]


@jit
def _log(group: FrameGroup, g: Float[Array, "d d"]) -> Float[Array, " k"]:
    def missing(xi: Float[Array, " k"]) -> Float[Array, " k"]:
        """The velocity that leads from exp(ξ) towards g, which vanishes where it is g."""
        here = _flow(group, group.identity().astype(xi.dtype), xi)
        return group.body_velocity(here, g - here)

    still, aim = without_derivatives((group, g))
    precision = jnp.finfo(g.dtype).eps ** SETTLED

    def goes_on(state: Iterate) -> Bool[Array, ""]:
        return ~state.settled & (state.count < MOST_ITERATIONS)

    def improve(state: Iterate) -> Iterate:
        xi = state.xi
        here = _flow(still, still.identity().astype(xi.dtype), xi)
        off = still.body_velocity(here, aim - here)
        step = solve(still.dexp(-xi), off)
        settled = jnp.max(jnp.abs(step)) <= precision * (1 + jnp.max(jnp.abs(xi)))
        return Iterate(xi + step, settled, state.count + 1)

    identity = still.identity().astype(g.dtype)
    start = Iterate(still.body_velocity(identity, aim - identity), jnp.zeros((), bool), jnp.zeros((), int))
    end = jax.lax.while_loop(goes_on, improve, batched_as(aim[0, 0], start))
    found: Array = jnp.where(end.settled, end.xi, jnp.nan)
    return with_derivative(missing, found)
