"""Submanifolds: level sets of constraints, and the second fundamental form of level sets and of embedded surfaces.

Vectors u, v that are tangent to φ(x) = 0 satisfy dφ(u) = 0, and II(u, v) = −N Hess φ(u, v), with the covariant Hessian
of φ and N = g⁻¹φ'ᵀ(φ' g⁻¹φ'ᵀ)⁻¹. The Gauss equation gives the curvature, R(u, v, w, z) = R̄(u, v, w, z) +
<II(u, w), II(v, z)> − <II(u, z), II(v, w)> (do Carmo, *Riemannian Geometry*, chapter 6). No basis of the tangent space
is chosen, so that all of this is smooth in x and in every number of the metric and the constraints.
"""

import functools
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree, jit
from geodyn._engine.numerics.failure import nan_unless
from geodyn._engine.numerics.linalg import inverse, solve
from geodyn._engine.numerics.roots import root
from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, Scalar
from geodyn._geometry.geodesics.distances import half_square, log_of
from geodyn._geometry.geodesics.geodesic import geodesic_of, rays
from geodyn._geometry.geodesics.limits import STEPS
from geodyn._geometry.manifold.manifold import (
    AbstractManifold,
    AbstractMetric,
    checked_points,
    christoffel,
    count_coordinates,
    riemann,
    riemann_of,
    scalar_curvature,
)
from geodyn._geometry.models.spaces import Embedded, Euclidean
from geodyn._integrators.contract.lagrangian import Lagrangian
from geodyn._integrators.step.methods import RadauIIA


class LevelSet(AbstractMetric):
    """The points of a space where a constraint vanishes: a surface without a parametrisation.

    Points and vectors are in the coordinates x[n] of the space around, and the metric is the metric of that space.
    `gd.riemann`, `gd.ricci`, `gd.scalar_curvature`, `gd.sectional_curvature` (of tangent vectors),
    `gd.surfaces.gaussian_curvature`, `second_fundamental_form` and `total_bending` are those of the set, and so are
    `gd.geodesic`, `gd.exp`, `gd.log` and `gd.distance`, of points on it. They are NaN where the constraint loses rank,
    which is where the set may be singular; `gd.surfaces.check_level_set` says so by name. `project(x)` brings a point
    onto the set, `motion(potential)` is a particle that moves on it, `chart(x)` gives it coordinates. Any consistent
    units.

    Args:
        space: the space around, or the dimension of a Euclidean one.
        constraint: function x[n] -> [c], with 0 < c < n, or a number. It may be an `eqx.Module`, whose arrays are
            traced and can be differentiated.

    Raises:
        ValueError: for what is no space or no such function.

    Example:
        A sphere of radius 2 has Gauss's curvature 1/4.

        >>> sphere = gd.surfaces.LevelSet(3, lambda x: x @ x - 4.0)
        >>> x = sphere.project(jnp.ones(3))
        >>> print(sphere.dim, f"{jnp.linalg.norm(x):.6f} {gd.surfaces.gaussian_curvature(sphere, x):.6f}")
        2 2.000000 0.250000

    Source:
        do Carmo, *Riemannian Geometry*, chapter 6.
    """

    space: AbstractManifold
    constraint: Callable

    @checked
    def __init__(self, space: Count | AbstractManifold, constraint: Callable[[Array], Array]):
        self.space = space if isinstance(space, AbstractManifold) else Euclidean(space)
        self.constraint = as_pytree(constraint)
        if not 0 < self._shape().size < self.space.dim:
            raise ValueError(
                f"constraint must return from 1 to {self.space.dim - 1} numbers in this space of dim {self.space.dim}, "
                f"so that there is a set; it returned shape {self._shape().shape}"
            )

    def _shape(self):
        point = jax.ShapeDtypeStruct((self.space.dim,), jnp.result_type(float))
        return jax.eval_shape(lambda x: returned("constraint", self.constraint, x), point)

    @property
    def dim(self) -> int:
        """The dimension of the set, n − c."""
        return self.space.dim - self._shape().size

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric of the space around. Raises ValueError unless x has shape [n]."""
        if x.shape != (self.space.dim,):
            raise ValueError(f"x must have shape ({self.space.dim},), the coordinates in one row; got {x.shape}")
        return self.space.metric(x)

    def residual(self, x: Float[Array, " n"]) -> Float[Array, " c"]:
        """φ(x), which vanishes on the set."""
        return jnp.atleast_1d(self.constraint(x))

    @checked
    def normals(self, x: Float[Array, " n"]) -> Float[Array, "n c"]:
        """g⁻¹φ'ᵀ, the gradients of the constraints."""
        return jax.vmap(solve, (None, 0), 1)(self.metric(x), jax.jacfwd(self.residual)(x))

    @checked
    def gram(self, x: Float[Array, " n"]) -> Float[Array, "c c"]:
        """φ' g⁻¹φ'ᵀ, the inner products of the gradients."""
        return jax.jacfwd(self.residual)(x) @ self.normals(x)

    @checked
    def projector(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The matrix of the orthogonal projection, in the metric, of vectors onto the tangent space."""
        jacobian = jax.jacfwd(self.residual)(x)
        return jnp.eye(x.size, dtype=x.dtype) - self.normals(x) @ regular_inverse(self.gram(x)) @ jacobian

    def induced_metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The inner product of the tangent parts of vectors: the metric of the set, zero on its normals."""
        P = self.projector(x)
        return P.T @ self.metric(x) @ P

    @checked
    def tangent_basis(self, x: Float[Array, " n"]) -> Float[Array, "d n"]:
        """Orthonormal tangent vectors, as rows. The basis is smooth near x, but may jump between distant points."""
        jacobian = jax.lax.stop_gradient(jax.jacfwd(self.residual)(x))
        # The last rows of Vᵀ span the kernel. This basis is not differentiated, but its projection at x is.
        kernel = jnp.linalg.svd(jacobian, full_matrices=True)[2][jacobian.shape[0] :]
        vectors = jax.lax.stop_gradient(kernel) @ self.projector(x).T
        lower = jnp.linalg.cholesky(vectors @ self.metric(x) @ vectors.T)
        return jax.scipy.linalg.solve_triangular(lower, vectors, lower=True)

    @checked
    def project(self, x: Numbers) -> Float[Array, " n"]:
        """The point of the set that is reached from x along the gradients of the constraints at x; NaN if none is."""
        x = jnp.asarray(x, float)
        return _displace(x, self.normals(x), _multipliers(self, x, self.normals(x)))

    @checked
    def chart(self, x: Float[Array, " n"]) -> Embedded:
        """Coordinates y[d] of the set near its point x, which has y = 0: the point x + Σ y_a e_a of the tangent space,
        moved onto the set along the normals at x. The result is a parametrised surface, whose curvature is found
        without the Gauss equation."""
        return Embedded(_Graph(self, x, self.tangent_basis(x), self.normals(x)), self.space, self.dim)

    @checked
    def motion(self, potential: Callable | None = None) -> Lagrangian:
        """A particle of unit mass on the set, in a potential `potential(x) -> V`, or free, when it moves along
        geodesics: `gd.integrate(level_set.motion(), x, v, t1=…, steps=…)`. `gd.project(motion, x, v)` brings x, v onto
        the set."""
        return Lagrangian(_Particle(self.space, None if potential is None else as_pytree(potential)), self.constraint)


class _Graph(eqx.Module):
    """The level set near x as a graph over its tangent space: a function of the tangent coordinates y."""

    level_set: LevelSet
    x: Float[Array, " n"]
    basis: Float[Array, "d n"]
    normals: Float[Array, "n c"]

    def __call__(self, y: Float[Array, " d"]) -> Float[Array, " n"]:
        x = self.x + y @ self.basis
        return _displace(x, self.normals, _multipliers(self.level_set, x, self.normals))


class _Particle(eqx.Module):
    """The Lagrangian ½ g(v, v) − V of a particle of unit mass."""

    space: AbstractManifold
    potential: Callable | None

    def __call__(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        kinetic = 0.5 * v @ self.space.metric(q) @ v
        return kinetic if self.potential is None else kinetic - self.potential(q)


def _displace(x: Float[Array, " n"], normals: Float[Array, "n c"], lam: Float[Array, " c"]) -> Float[Array, " n"]:
    return x + normals @ lam


def _multipliers(level_set: LevelSet, x: Float[Array, " n"], normals: Float[Array, "n c"]) -> Float[Array, " c"]:
    """The λ with φ(x + normals λ) = 0. It is solved for with normals of unit length, so that the unknowns are in the
    units of x."""
    lengths = jnp.sqrt(jnp.sum(normals**2, axis=0))
    unit = normals / lengths[None, :]
    # λ is a difference of places, and is known no better than these.
    size = 1 + jnp.max(jnp.abs(jax.lax.stop_gradient(x)))
    zero = jnp.zeros(normals.shape[1], x.dtype)
    found = root(lambda lam: level_set.residual(_displace(x, unit, lam)), zero, zero, size)
    return found / lengths


def regular_inverse(gram: Float[Array, "c c"]) -> Float[Array, "c c"]:
    """The inverse of a matrix; NaN, instead of meaningless numbers, if it is singular to rounding."""
    lengths = jnp.sqrt(jnp.diagonal(gram))
    lengths = jnp.where(lengths > 0, lengths, 1.0)
    # As if all gradients had unit length: then the condition does not depend on the units of the constraints.
    scaled = gram / (lengths[:, None] * lengths[None, :])
    inverted = inverse(scaled)
    condition = jnp.max(jnp.sum(jnp.abs(jax.lax.stop_gradient(inverted)), axis=1))
    # The inverse has a relative error of some c · eps · condition: below this two of its digits are right.
    regular = condition < 0.01 / (gram.shape[0] * jnp.finfo(gram.dtype).eps)
    return nan_unless(regular, inverted, gram) / (lengths[:, None] * lengths[None, :])


@checked
def second_fundamental_form(surface: LevelSet | Embedded, x: Numbers) -> Float[Array, "D n n"]:
    """Second fundamental form II[k, i, j] of a surface: the normal part of ∇_i ∂_j, as vectors k of the space around.

    Args:
        surface: a `gd.surfaces.LevelSet` or a `gd.spaces.Embedded`.
        x: the point; of a level set in the coordinates of the space around, of an embedded surface in those of its
            chart.

    Returns:
        The form [D, n, n]. Of a level set i, j are coordinates of the space around too, and normal parts of the vectors
        to which it is applied do not count; of an embedded surface they are coordinates of its chart.

    Raises:
        ValueError: for what is no such surface, and for a point of another shape.

    Example:
        On a sphere of radius 2, II(u, u) of a unit tangent vector points to the centre, with the length 1/2.

        >>> sphere = gd.surfaces.LevelSet(3, lambda x: x @ x - 4.0)
        >>> form = gd.surfaces.second_fundamental_form(sphere, [2.0, 0.0, 0.0])
        >>> print(form.shape, f"{form[0, 1, 1]:.6f} {abs(form[0, 1, 2]):.6f}")
        (3, 3, 3) -0.500000 0.000000
    """
    return _second_form(surface, *checked_points(surface, x=x))


@functools.singledispatch
def _second_form(surface: Any, x: Float[Array, " n"]) -> Float[Array, "D m m"]:
    raise ValueError(f"surface must be a LevelSet or gd.spaces.Embedded, got {type(surface).__name__}")


@_second_form.register
@jit
def _(surface: LevelSet, x: Float[Array, " n"]) -> Array:
    # II = −N Hess φ on tangent vectors (see the top of this file): `normals` and the inverse of `gram` make N, and P
    # projects both vectors, so that their normal parts do not count.
    P = surface.projector(x)
    gamma = christoffel(surface.space, x)
    slope = jax.jacfwd(surface.residual)(x)
    second = jax.jacfwd(jax.jacfwd(surface.residual))(x)
    hessian = second - jnp.einsum("ck,kij->cij", slope, gamma)
    return -jnp.einsum(
        "kb,bc,cij,ip,jq->kpq", surface.normals(x), regular_inverse(surface.gram(x)), hessian, P, P, optimize="optimal"
    )


@_second_form.register
@jit
def _(surface: Embedded, x: Float[Array, " n"]) -> Array:
    # The second derivatives of the embedding, covariant in the space around, without their tangential part.
    X = surface.embedding(x)
    J = jax.jacfwd(surface.embedding)(x)
    second = jax.jacfwd(jax.jacfwd(surface.embedding))(x)
    second = second + jnp.einsum("kml,mi,lj->kij", christoffel(surface.ambient, X), J, J)
    # The matrix of the projection onto the tangent space, J (Jᵀ G J)⁻¹ Jᵀ G with the metric G of the space around.
    tangential = jnp.einsum("ka,ab,lb,lm->km", J, inverse(surface.metric(x)), J, surface.ambient.metric(X))
    return second - jnp.einsum("km,mij->kij", tangential, second)


@checked
def total_bending(surface: LevelSet | Embedded, x: Numbers) -> Scalar:
    """Total bending |II|² = Σ |II(e_a, e_b)|² of a surface at a point, over an orthonormal basis of tangent vectors.

    Of a surface in three-dimensional space it is the sum of the squares of the principal curvatures.

    Args:
        surface: a `gd.surfaces.LevelSet` or a `gd.spaces.Embedded`.
        x: the point; of a level set in the coordinates of the space around, of an embedded surface in those of its
            chart.

    Returns:
        The bending, one number, in units of 1/length².

    Raises:
        ValueError: for what is no such surface, and for a point of another shape.

    Example:
        An ellipsoid with the semi-axes 2, 1, 1 has at its tip both principal curvatures 2/1² = 2.

        >>> ellipsoid = gd.surfaces.LevelSet(3, lambda x: x[0] ** 2 / 4 + x[1] ** 2 + x[2] ** 2 - 1)
        >>> print(f"{gd.surfaces.total_bending(ellipsoid, [2.0, 0.0, 0.0]):.6f}")
        8.000000
    """
    (x,) = checked_points(surface, x=x)
    ambient = surface.metric(x) if isinstance(surface, LevelSet) else surface.ambient.metric(surface.embed(x))
    raised = inverse(surface.metric(x))
    II = second_fundamental_form(surface, x)
    return jnp.einsum("kl,kij,lpq,ip,jq", ambient, II, II, raised, raised, optimize="optimal")


@checked
def gaussian_curvature(surface: AbstractMetric, x: Numbers) -> Scalar:
    """Gauss's curvature of a surface, half of its scalar curvature.

    Args:
        surface: a space or a `gd.surfaces.LevelSet` of dimension 2.
        x: the point; of a level set in the coordinates of the space around.

    Returns:
        The curvature, one number, in units of 1/length².

    Raises:
        ValueError: for other dimensions, and for a point of another shape.

    Example:
        A torus of the radii 2 and 1, at its inner rim: −1/(1 · 1).

        >>> torus = gd.surfaces.LevelSet(3, lambda x: (jnp.hypot(x[0], x[1]) - 2) ** 2 + x[2] ** 2 - 1)
        >>> print(f"{gd.surfaces.gaussian_curvature(torus, [1.0, 0.0, 0.0]):.6f}")
        -1.000000
    """
    if surface.dim != 2:
        raise ValueError(
            f"surface must have dim 2, got {surface.dim}: of others there are gd.sectional_curvature(surface, x, u, v) "
            "and gd.scalar_curvature"
        )
    return scalar_curvature(surface, cast(Array, x)) / 2


@count_coordinates.register
def _(space: LevelSet):
    return space.space.dim


@geodesic_of.register
@jit
def _(
    space: LevelSet, x: Float[Array, " n"], v: Float[Array, " n"], ts: Float[Array, " T"], steps: Count
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    return rays(space.metric, space.residual, RadauIIA(3), x, space.projector(x) @ v, ts, steps)


@log_of.register
@jit
def _(space: LevelSet, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Any) -> Array:
    # The v that is sought is tangent to the set at x, and its geodesic ends at y. Whatever v is, the geodesic stays on
    # the set: so the part of the equation `end(v) = y` along the normals at y says nothing. To this part is added what
    # v has along the normals at x, which must be zero.
    def normal_part(v: Float[Array, " n"]) -> Float[Array, " n"]:
        return space.normals(y) @ (jax.jacfwd(space.residual)(x) @ v)

    def end(v: Float[Array, " n"]) -> Float[Array, " n"]:
        return geodesic_of(space, x, v, jnp.ones(1, x.dtype), STEPS)[0][0]

    v = root(lambda v: end(v) + normal_part(v), y, space.projector(x) @ (y - x))
    # The two may also cancel at another v, which is not tangent and so is no solution.
    tolerance = jnp.finfo(x.dtype).eps ** 0.5 * (1 + jnp.max(jnp.abs(y)))
    arrived = jnp.max(jnp.abs(normal_part(v))) <= tolerance
    return nan_unless(arrived, v, (space, x, y))


@half_square.register
def _(space: LevelSet, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Any) -> Array:
    v = log_of(space, x, y, nodes)
    return v @ space.metric(x) @ v / 2


@riemann_of.register
def _(level_set: LevelSet, x: Float[Array, " n"]) -> Array:
    # Gauss's equation: the curvature of the space around, on tangent vectors, and what the bending adds. That is
    # `lowered`, all of whose indices are below; `solve` raises the first one.
    g = level_set.metric(x)
    P = level_set.projector(x)
    II = second_fundamental_form(level_set, x)
    around = jnp.einsum("ea,afgh,fb,gc,hd->ebcd", P, riemann(level_set.space, x), P, P, P, optimize="optimal")
    bent = jnp.einsum("kac,kl,lbd->abcd", II, g, II)
    lowered = bent - bent.swapaxes(2, 3)
    of_bending = jax.vmap(solve, (None, 1), 1)(g, lowered.reshape(len(x), -1))
    return around + of_bending.reshape(around.shape)


@checked
def check_level_set(level_set: LevelSet, x: Numbers) -> None:
    """Checks that a point is on a level set, and that the constraints are independent there.

    For concrete numbers, outside of jit.

    Args:
        level_set: the `gd.surfaces.LevelSet`.
        x: the point [n], in the coordinates of the space around.

    Returns:
        None, if all is well.

    Raises:
        ValueError: where x is not on the set, or the constraints lose rank there.

    Example:
        The vertex of a cone is a singular point.

        >>> cone = gd.surfaces.LevelSet(3, lambda x: x[0] ** 2 + x[1] ** 2 - x[2] ** 2)
        >>> gd.surfaces.check_level_set(cone, jnp.array([3.0, 4.0, 5.0]))
        >>> try:
        ...     gd.surfaces.check_level_set(cone, jnp.zeros(3))
        ... except ValueError as error:
        ...     print(str(error).split(":")[0])
        the constraints lose rank at x = [0.0, 0.0, 0.0]
    """
    x = jnp.asarray(x, float)
    residual, gram = np.asarray(level_set.residual(x)), np.asarray(level_set.gram(x))
    if not np.max(np.abs(residual)) <= np.finfo(gram.dtype).eps ** 0.5 * (1 + np.max(np.abs(x))):
        raise ValueError(f"x is not on the set: φ = {residual}; take level_set.project(x)")
    if not np.all(np.isfinite(regular_inverse(jnp.asarray(gram)))):
        raise ValueError(
            f"the constraints lose rank at x = {x.tolist()}: of {len(gram)} their gradients span "
            f"{np.linalg.matrix_rank(gram)} directions. The set may be singular there: move x, or leave out what is "
            "redundant"
        )
