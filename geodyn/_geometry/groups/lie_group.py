"""Lie groups. Most are matrices, given by their generators and the closed forms of exponential, logarithm and inverse.

Elements are matrices, homogeneous if there are translations; vectors of the algebra hold the translations first, then
the rotations. The product is `g h`, a body velocity is `ξ = g⁻¹ g'`. Angles are in radians, lengths in any consistent
units.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.manifold.manifold import as_floats

# The largest error, relative to the size of g, of g g⁻¹ = 1 in what is taken for an element.
ELEMENT = 1e-2


class AbstractLieGroup(eqx.Module):
    """A matrix Lie group; the base class of the groups in which bodies move.

    Elements are matrices [d, d], homogeneous where there are translations. Vectors of its algebra have `dim`
    components, translations first, then rotations; `translations` is the number of translations. The product is g h, a
    body velocity is ξ = g⁻¹ g'. Angles are in radians, lengths in any consistent units.

    A subclass has the static fields `dim` and `translations`, the property `generators` [dim, d, d] (the basis E of the
    algebra, matrices that are orthogonal to one another) and the methods `exp`, `log` (angles in (−π, π]) and
    `inverse`. From these follow `identity`, `compose`, `hat`, `vee`, `bracket`, `adjoint`, `dexp`, `rate` and
    `body_velocity`. A group whose product is not that of matrices, such as `gd.groups.FrameGroup`, has its own.

    Example:
        The Lorentz transformations of one space dimension; the exponential coordinate is the rapidity, which adds.

        >>> class Boosts(gd.groups.AbstractLieGroup):
        ...     dim = 1
        ...     translations: int = eqx.field(static=True, default=0)
        ...     @property
        ...     def generators(self):
        ...         return np.array([[[0.0, 1.0], [1.0, 0.0]]])
        ...     def exp(self, xi):
        ...         return jnp.cosh(xi[0]) * jnp.eye(2) + jnp.sinh(xi[0]) * self.hat(jnp.ones(1))
        ...     def log(self, g):
        ...         return jnp.arcsinh(g[:1, 1])
        ...     def inverse(self, g):
        ...         return self.exp(-self.log(g))
        >>> group = Boosts()
        >>> g = group.compose(group.exp(jnp.array([0.3])), group.exp(jnp.array([0.4])))
        >>> print(f"{group.log(g)[0]:.6f}")
        0.700000
    """

    dim: eqx.AbstractVar[int]
    translations: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def generators(self) -> np.ndarray:
        """The basis E[k, d, d] of the algebra, matrices that are orthogonal to one another."""

    @abstractmethod
    def exp(self, xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        """The group element reached from the identity in unit time with constant velocity ξ."""

    @abstractmethod
    def log(self, g: Float[Array, "d d"]) -> Float[Array, " k"]:
        """The exponential coordinates of g, with angles in (−π, π]; the inverse of `exp`."""

    @abstractmethod
    def inverse(self, g: Float[Array, "d d"]) -> Float[Array, "d d"]:
        """The element h with `g h = 1`."""

    def identity(self) -> Float[Array, "d d"]:
        """The unit element."""
        return law_of(self).identity()

    @property
    def size(self) -> int:
        """The number of rows of an element."""
        return self.generators.shape[1]

    @property
    def is_commutative(self) -> bool:
        """Whether g h = h g for all elements, so that it does not matter where a closed stroke starts."""
        products = np.einsum("aij,bjk->abik", self.generators, self.generators)
        return np.allclose(products, np.swapaxes(products, 0, 1))

    # What pictures, pages and equations of motion ask of a group, and what holds for most. Others say so.

    @property
    def _is_posed(self) -> bool:
        """Whether `_posed` and `_posed_velocity` are right for all elements."""
        return self.is_commutative

    def _posed(self, q: Float[Array, " k"]) -> Float[Array, "d d"]:
        """The element at the coordinates q, which have no singularity: the exponential ones, of what commutes."""
        return self.exp(q)

    def _posed_velocity(self, q: Float[Array, " k"], rate: Float[Array, " k"]) -> Float[Array, " k"]:
        """The body velocity ξ of `_posed(q)` where q changes at this rate."""
        return rate

    @property
    def _plane(self) -> int | None:
        """The curvature of the plane in which a body with this group moves: 0, or 1 of the sphere, −1 of the hyperbolic
        plane. None: in no plane."""
        return None

    def _on_plane(self, g: Float[np.ndarray, "*T d d"]) -> Float[np.ndarray, "*T 3 3"]:
        """Elements as matrices that move the points (x, y, 1) of the flat plane, or (X', w) of a curved one."""
        return g

    @property
    def _turns_in_plane(self) -> bool:
        """Whether there are rotations of the flat plane among the elements."""
        return self._plane == 0 and self.dim > self.translations

    @property
    def _is_homogeneous(self) -> bool:
        """Whether elements are affine maps, homogeneous matrices with a translation in the last column."""
        return self.translations > 0

    @property
    def _is_of_frames(self) -> bool:
        """Whether elements are images of a frame, and their product is not that of matrices."""
        return False

    def _moved(self, g: Float[Array, "d d"], x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The point of the chart to which an element takes the point x, where elements are affine maps of the chart."""
        return (g @ jnp.append(x, jnp.ones_like(x[0])))[:-1]

    @checked
    def compose(self, g: Float[Array, "d d"], h: Float[Array, "d d"]) -> Float[Array, "d d"]:
        """The product g h: first g, then h in the frame that g has reached."""
        return law_of(self).compose(g, h)

    @checked
    def rate(self, g: Float[Array, "d d"], xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        """The rate g' = g ξ of an element that moves with the body velocity ξ."""
        return law_of(self).rate(g, xi)

    @checked
    def body_velocity(self, g: Float[Array, "d d"], rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        """The body velocity ξ = g⁻¹ g' of an element that changes at this rate g', the inverse of `rate`."""
        return law_of(self).body_velocity(g, rate)

    @checked
    def hat(self, xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        """The matrix of an algebra vector, `Σ ξ_a E_a`."""
        return law_of(self).rate_at_identity(xi)

    @checked
    def vee(self, matrix: Float[Array, "d d"]) -> Float[Array, " k"]:
        """The algebra vector of a matrix, the inverse of `hat`."""
        return law_of(self).velocity_at_identity(matrix)

    @checked
    def bracket(self, a: Float[Array, " k"], b: Float[Array, " k"]) -> Float[Array, " k"]:
        """The Lie bracket `[a, b]` of two algebra vectors, by the structure constants of the generators."""
        return law_of(self).bracket(a, b)

    @checked
    def adjoint(self, g: Float[Array, "d d"]) -> Float[Array, "k k"]:
        """The matrix of the adjoint representation `Ad_g`: the body velocity ξ at the element g is that of Ad_g ξ in
        space, `hat(Ad_g ξ) = g hat(ξ) g⁻¹` for matrices."""
        return law_of(self).adjoint(element(self, g))

    @checked
    def dexp(self, xi: Float[Array, " k"]) -> Float[Array, "k k"]:
        """The matrix of `dexp_ξ`, the derivative of the exponential as a spatial velocity: `d exp(ξ) = hat(dexp_ξ dξ)
        exp(ξ)`.

        Source: Hairer, Lubich & Wanner, *Geometric Numerical Integration* (2006), section III.4.
        """
        return law_of(self).dexp(xi)


class AbstractLaw(eqx.Module):
    """How the elements of a group multiply and move."""

    @abstractmethod
    def identity(self) -> Float[Array, "d d"]:
        """The unit element."""

    @abstractmethod
    def compose(self, g: Float[Array, "d d"], h: Float[Array, "d d"]) -> Float[Array, "d d"]:
        """The product g h."""

    @abstractmethod
    def rate(self, g: Float[Array, "d d"], xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        """The rate of g at the body velocity ξ."""

    @abstractmethod
    def body_velocity(self, g: Float[Array, "d d"], rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        """The body velocity at this rate of g."""

    @abstractmethod
    def rate_at_identity(self, xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        """`rate` at the identity."""

    @abstractmethod
    def velocity_at_identity(self, rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        """`body_velocity` at the identity."""

    @abstractmethod
    def bracket(self, a: Float[Array, " k"], b: Float[Array, " k"]) -> Float[Array, " k"]:
        """The Lie bracket [a, b]."""

    @abstractmethod
    def adjoint(self, g: Float[Array, "d d"]) -> Float[Array, "k k"]:
        """The matrix Ad_g."""

    @abstractmethod
    def dexp(self, xi: Float[Array, " k"]) -> Float[Array, "k k"]:
        """The derivative of the exponential, as a velocity in space."""


class OfMatrices(AbstractLaw):
    """That of matrices, which follows from the generators."""

    group: AbstractLieGroup

    def identity(self):
        return self.group.exp(jnp.zeros(self.group.dim))

    def compose(self, g: Float[Array, "d d"], h: Float[Array, "d d"]) -> Float[Array, "d d"]:
        return g @ h

    def rate(self, g: Float[Array, "d d"], xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        return g @ self.rate_at_identity(xi)

    def body_velocity(self, g: Float[Array, "d d"], rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        return self.velocity_at_identity(self.group.inverse(g) @ rate)

    def rate_at_identity(self, xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        return jnp.tensordot(xi, jnp.asarray(self.group.generators, xi.dtype), 1)

    def velocity_at_identity(self, rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        return jnp.tensordot(jnp.asarray(_dual(self.group.generators), rate.dtype), rate, 2)

    def bracket(self, a: Float[Array, " k"], b: Float[Array, " k"]) -> Float[Array, " k"]:
        e = self.group.generators
        products = np.einsum("aij,bjk->abik", e, e)
        structure = np.einsum("cij,abij->cab", _dual(e), products - np.swapaxes(products, 0, 1))
        return jnp.asarray(structure, a.dtype) @ b @ a

    def adjoint(self, g: Float[Array, "d d"]) -> Float[Array, "k k"]:
        e = self.group.generators
        turned = jnp.einsum("ij,bjk,kl->bil", g, jnp.asarray(e, g.dtype), self.group.inverse(g))
        return jnp.einsum("aij,bij->ab", jnp.asarray(_dual(e), g.dtype), turned)

    def dexp(self, xi: Float[Array, " k"]) -> Float[Array, "k k"]:
        return dexp_of(self.group, xi)


@functools.singledispatch
def law_of(group: AbstractLieGroup) -> AbstractLaw:
    """How a group multiplies; groups that are no matrices register here."""
    return OfMatrices(group)


def algebra_vector(group: AbstractLieGroup, xi: Any) -> Float[Array, " k"]:
    """The exponential coordinates ξ of the group as an array of floats; ValueError unless they are [k]."""
    xi = as_floats(xi)
    if xi.shape != (group.dim,):
        raise ValueError(
            f"xi must have shape ({group.dim},), one number for each generator of {type(group).__name__}; "
            f"got {xi.shape}"
        )
    return xi


def element(group: AbstractLieGroup, g: Any) -> Float[Array, "d d"]:
    """The matrix g as an array of floats; ValueError unless it is [d, d] and, for concrete numbers, an element of the
    group."""
    g = square(group, g)
    if not isinstance(g, Tracer):
        group.inverse(g)
    return g


def inverse_of(group: AbstractLieGroup, g: Any, closed: Callable[[Array], Array]) -> Float[Array, "d d"]:
    """The inverse closed(g), of a form that holds for elements of the group only; ValueError as of `element`."""
    g = square(group, g)
    inverse = closed(g)
    if not isinstance(inverse, Tracer):  # Inside jit it is traced, though g may be known.
        known, back = np.asarray(g), np.asarray(inverse)
        off = np.abs(known @ back - np.eye(len(known))).max() / max(1, np.abs(known).max() * np.abs(back).max())
        if not (off < ELEMENT and np.linalg.det(known) > 0):
            raise ValueError(f"g must be an element of {type(group).__name__}, as exp returns it; got {known.tolist()}")
    return inverse


def square(group: AbstractLieGroup, g: Any) -> Float[Array, "d d"]:
    """The matrix g as an array of floats; ValueError unless it has the size of an element."""
    g, size = as_floats(g), group.size
    if g.shape != (size, size):
        raise ValueError(f"g must be an element [{size}, {size}] of {type(group).__name__}, got shape {g.shape}")
    return g


@functools.singledispatch
def dexp_of(group: AbstractLieGroup, xi: Float[Array, " k"]) -> Float[Array, "k k"]:
    """The computation of `dexp` for matrices; groups with another formula register here."""
    back = group.exp(-xi)
    return jax.vmap(lambda slope: group.vee(slope @ back), 2, 1)(jax.jacfwd(group.exp)(xi))


def _dual(generators: np.ndarray) -> np.ndarray:
    """The matrices that read off the coordinates of an algebra element: `Σ_ij dual_a E_b = δ_ab`."""
    return generators / np.sum(generators**2, axis=(1, 2), keepdims=True)
