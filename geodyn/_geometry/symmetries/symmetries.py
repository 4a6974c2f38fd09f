"""The symmetries of a space, found from its metric."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.internals import double_precision
from geodyn._engine.jit import jit
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Numbers
from geodyn._geometry.groups.frame_group import FrameGroup
from geodyn._geometry.manifold.manifold import AbstractManifold, check_metric, checked_points, signature_of
from geodyn._geometry.symmetries.algebra import (
    CLOSED,
    Algebra,
    Evidence,
    Frame,
    algebra_of,
    evidence,
    frame_of,
    orbit_dimension,
    tensors_at,
    to_coordinates,
)
from geodyn._geometry.symmetries.fields import Seeds, pairs_at, with_fields
from geodyn._geometry.symmetries.flows import carried_along

# Singular values that are zero and those that are not are so far apart where one radius decides. Else it is doubled, or
# halved where it leads out of the space: so many radii are tried.
WIDE, ATTEMPTS = 1e6, 6
# A change of the curvature that is none, relative to others.
SMALL = 1e-10
# Within a smaller part of the length in which the metric changes, rounding errors hide changes of the fourth order.
SHORT = 1e-2
FOUND, NONE, UNDECIDED = "found", "none", "undecided"
# How a vector of the algebra is given.
COEFFICIENTS = "the coefficients of the Killing fields"


class Symmetries(eqx.Module):
    """The Killing fields of a space, as `gd.symmetries` finds them.

    Their canonical basis begins with the translations, which move the point x of unit length, as far as that can be one
    along each vector of an orthonormal frame there; the others leave x where it is, and those that turn do so by 2π in
    the time 2π. What was found holds within the `radius` of x: a space may be more symmetric near a point than
    elsewhere.

    Args:
        verdict: "found", "none", or "undecided", where the metric is symmetric to many digits, but not to all.
        dimensions: the least and the largest number of independent Killing fields that the metric may have; they are
            the same unless it is undecided.
        radius: how far from x, as a length, the metric was looked at.
        gap: the smallest number that says that a field is none, over the largest that says that one is, in units of
            rounding errors: 1e6 and more is safe.
        structure: the structure constants c[k, i, j] [K, K, K] of the brackets [K_i, K_j] = Σ c_kij K_k.
        inner: the space as it was given.
        seeds: the fields and their derivatives at x, from which they are known everywhere.

    Example:
        The product of a sphere and a line: three translations of a point, and the rotation about it. The bracket of the
        translations along the sphere is the rotation.

        >>> space = gd.Manifold(lambda x: jnp.diag(jnp.stack([1.0 + 0 * x[0], jnp.sin(x[0]) ** 2, 1.0 + 0 * x[0]])), 3)
        >>> found = gd.symmetries(space, [np.pi / 2, 0.0, 0.0])
        >>> print(found.verdict, found.dim, found.translations, np.round(np.abs(found.structure[:, 0, 1]), 6))
        found 4 3 [0. 0. 0. 1.]
    """

    verdict: str = eqx.field(static=True)
    dimensions: tuple[int, int] = eqx.field(static=True)
    radius: float = eqx.field(static=True)
    gap: float = eqx.field(static=True)
    structure: Float[np.ndarray, "K K K"]
    inner: AbstractManifold
    seeds: Seeds

    @property
    def translations(self) -> int:
        """How many of the fields move x: the dimension of its orbit."""
        return self.seeds.translations

    @property
    def dim(self) -> int:
        """The number of independent Killing fields; ValueError where it is undecided."""
        self._check_decided()
        return self.dimensions[0]

    @property
    def space(self) -> AbstractManifold:
        """The space with a method `killing_fields(x) -> [K, n]`, so that all that asks for its symmetries works: the
        derivatives of the fields by numbers in its metric, too. Where those are replaced by others (`eqx.tree_at`) the
        fields are NaN: ask `gd.symmetries` again. ValueError where none was found."""
        self._check_found()
        return with_fields(self.inner, self.seeds)

    @property
    def group(self) -> FrameGroup:
        """The isometries as a group in which bodies move: its vectors are the coefficients of the fields. ValueError
        where no symmetry was found."""
        return FrameGroup(self.space)

    @checked
    def killing_fields(self, x: Numbers) -> Float[Array, "K n"]:
        """The fields at a point x [n] of the chart, to a relative error of 1e-10; NaN where the straight way there in
        the chart is too far for that."""
        self._check_found()
        (x,) = checked_points(self.inner, x=x)
        return _fields(self.inner, self.seeds, x)

    @checked
    def flow(self, xi: Numbers, x: Numbers, t: Number = 1.0) -> Float[Array, " n"]:
        """Where the isometry φ_t takes a point.

        Args:
            xi: the coefficients ξ [K] of the Killing field Σ ξ_a K_a along which it flows.
            x: the point [n].
            t: the time.

        Returns:
            The point φ_t(x) [n]; NaN where it leaves the chart.

        Raises:
            ValueError: unless xi and x have these shapes, and where no symmetry was found.

        Example:
            A quarter of a turn about a point of the sphere, of any point.

            >>> sphere = gd.Manifold(lambda x: 4 / (1 + x @ x) ** 2 * jnp.eye(2), dim=2)
            >>> turned = gd.symmetries(sphere, jnp.zeros(2)).flow([0.0, 0.0, 1.0], [0.3, 0.1], t=np.pi / 2)
            >>> print(bool(jnp.allclose(abs(turned), jnp.array([0.1, 0.3]))))
            True
        """
        self._check_found()
        xi = floats("xi", xi, COEFFICIENTS)
        if xi.shape != (self.dim,):
            raise ValueError(f"xi must have shape ({self.dim},), a number for each Killing field; got {xi.shape}")
        (x,) = checked_points(self.inner, x=x)
        return carried_along(self.inner, self.seeds, xi * t, x)

    @property
    def is_safe(self) -> bool:
        """Whether what was found within one radius needs no second opinion: of no field or one there are no brackets
        that could give it."""
        return self.verdict == FOUND and self.gap > WIDE and self.dimensions[0] > 1

    def _check_decided(self):
        if self.verdict == UNDECIDED:
            least, most = self.dimensions
            raise ValueError(
                f"the symmetries are undecided within the radius {self.radius:.3g}: between {least} and {most} Killing "
                "fields, since the metric is nearly symmetric, or looked at too near or too far. Another radius=, most "
                "often a larger one, may decide; "
                "tolerance=, the relative error of the metric, takes for symmetric what is so within it"
            )

    def _check_found(self):
        self._check_decided()
        if self.verdict == NONE:
            raise ValueError(
                f"no symmetry was found within the radius {self.radius:.3g} of "
                f"x = {np.asarray(self.seeds.origin).tolist()}: this metric has no Killing fields, and so no momenta "
                "that are conserved and no swimmers. tolerance=, the relative error of the metric, takes for symmetric "
                "what is so within it"
            )


@jit
def _fields(space: AbstractManifold, seeds: Seeds, x: Float[Array, " n"]) -> Float[Array, "K n"]:
    return pairs_at(space, seeds, x)[0]


@checked
def symmetries(
    space: AbstractManifold, x: Numbers, radius: float | None = None, tolerance: float | None = None
) -> Symmetries:
    """The Killing fields of a space, from its metric alone: how many there are, and what they are.

    It carries values and derivatives of fields from x to points around it, and looks which of them leave the curvature
    unchanged there. The answer is local: it holds within the radius of x, and for all of a space whose metric is
    analytic. `period` of the space is respected: what does not come back to itself is no symmetry. Outside of jit.

    Args:
        space: any space, its metric three times differentiable and of any signature.
        x: a point of it [n], in the middle of what interests.
        radius: how far from x to look, as a length. By default it follows from the curvature, and grows until the
            answer is clear or the space ends. Within one that is so small that rounding errors hide what changes, only
            what is a symmetry farther out is certain to be one.
        tolerance: the relative error of the curvature, of a metric from data: what is symmetric within it counts as
            symmetric. By default rounding errors.

    Returns:
        The `Symmetries`. Where the metric is symmetric to some digits only, its verdict is "undecided".

    Raises:
        ValueError: for a point outside of the chart, a metric that is not finite, or degenerate, there or within the
            radius, a radius that is not positive, and a tolerance that is not between 0 and 1.

    Example:
        A torus turns about its axis only, and the momentum of that rotation is conserved.

        >>> torus = gd.Manifold(lambda x: jnp.diag(jnp.stack([1.0 + 0 * x[0], (2 + jnp.cos(x[0])) ** 2])), dim=2)
        >>> found = gd.symmetries(torus, [0.3, 0.0])
        >>> body = gd.System(found.space, [1.0, 2.0], gd.Spring([(0, 1)], stiffness=1.0, length=0.5))
        >>> motion = gd.integrate(body, [[0.0, 0.0], [0.5, 0.2]], [[0.3, 0.4], [0.0, 0.4]], t1=1.0, steps=20)
        >>> first, last = (gd.hamilton.killing_momentum(body, motion.q[i], motion.v[i]) for i in (0, -1))
        >>> print(found.dim, bool(jnp.max(jnp.abs(last - first)) < 1e-9))
        1 True

    Source:
        Kobayashi & Nomizu, *Foundations of Differential Geometry I* (1963), VI.2–3.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((space, x))):
        raise ValueError(
            "space and x must be known numbers, since those decide how many Killing fields there are: call "
            "gd.symmetries outside of jit, grad and vmap. Within them the fields of its `space` follow the numbers in "
            "the metric"
        )
    if radius is not None and not 0 < radius < np.inf:
        raise ValueError(f"radius must be positive and finite, got {radius}")
    if tolerance is not None and not 0 < tolerance < 1:
        raise ValueError(f"tolerance, a relative error, must be between 0 and 1, got {tolerance}")
    with double_precision():
        (x,) = checked_points(space, x=np.asarray(x, float))
        check_metric(space, x, signature=signature_of(space))
        return _found(space, np.asarray(x), radius, tolerance or float(np.finfo(float).eps))


def _found(space: AbstractManifold, x: Float[np.ndarray, " n"], radius: float | None, error: float) -> Symmetries:
    metric, symbols, riemann, change = (tensor[0] for tensor in tensors_at(space, x[None]))
    frame = frame_of(metric)
    curvature = np.einsum("abcd,ai,bj,ck,dl->ijkl", riemann, *[frame.vectors] * 4)

    def look(radius: float, at_most: int | None = None) -> Symmetries | None:
        looked = evidence(space, x, frame, radius, error)
        return None if looked is None else _judge(space, x, frame, curvature, radius, looked, at_most)

    length = _length(frame, symbols, curvature, change[..., : x.size])
    if radius is None:
        found = _with_radius(look, length)
        if found is None:
            raise ValueError(f"the metric is not finite, or degenerate, near x = {x.tolist()}")
        return found
    found = look(radius)
    if found is None:
        raise ValueError(
            f"radius = {radius:.3g} leads out of the space: within it of x = {x.tolist()} the metric is not finite, or "
            "degenerate, or changes too fast to be resolved. Take a smaller one"
        )
    if radius >= SHORT * length:
        return found
    # Here what is no symmetry may seem to be one. What is one farther out is one here.
    farther = _with_radius(look, length)
    sure = 0 if farther is None else farther.dimensions[0]
    if farther is not None and sure == found.dimensions[1]:
        return farther
    return look(radius, at_most=sure)


def _length(
    frame: Frame,
    symbols: Float[np.ndarray, "n n n"],
    curvature: Float[np.ndarray, "n n n n"],
    gradient: Float[np.ndarray, "n n n n n"],
) -> float:
    """Half the length in which the metric changes: by its curvature, the change of that, and its coordinates; 1 where
    it does not change at all. The last index of the gradient is raised."""
    ways = [frame.vectors] * 4
    change = _size(np.einsum("abcde,ai,bj,ck,dl,me->ijklm", gradient, *ways, frame.inverse, optimize=True))
    symbol = _size(np.einsum("ia,abc,bj,ck->ijk", frame.inverse, symbols, *ways[:2]))
    most = _size(curvature)
    fastest = max(most**0.5, change / most if most > 0 else 0.0, symbol)
    return 0.5 / fastest if fastest > 0 else 1.0


def _size(tensor: np.ndarray) -> float:
    return float(np.max(np.abs(tensor), initial=0.0))


def _with_radius(look: Callable, radius: float) -> Symmetries | None:
    """What is found within the first of several radii that decides, else within the last: the radius is doubled, or, as
    long as it leads out of the space, halved. None if all of them lead out."""
    last = None
    for _ in range(ATTEMPTS):
        found = look(radius)
        if found is None and last is not None:
            break
        if found is None:
            radius /= 2
            continue
        if found.is_safe or (last is not None and last.verdict == found.verdict != UNDECIDED):
            return found
        last, radius = found, 2 * radius
    return last


def _judge(
    space: AbstractManifold,
    x: Float[np.ndarray, " n"],
    frame: Frame,
    curvature: Float[np.ndarray, "n n n n"],
    radius: float,
    looked: Evidence,
    at_most: int | None,
) -> Symmetries:
    """What the evidence says, where `at_most` so many of the fields are certain. Brackets of Killing fields that are
    none of them say that their number is wrong."""
    least, most = looked.least, looked.most
    if at_most is not None:
        least = min(least, at_most)
    algebra = algebra_of(looked.directions[:least], curvature, frame.signs, radius)
    if not algebra.closure < CLOSED:
        least = 0
    verdict = UNDECIDED if least < most else FOUND if least else NONE
    if verdict == UNDECIDED:
        algebra = algebra_of(looked.directions[:0], curvature, frame.signs, radius)
    return Symmetries(
        verdict=verdict,
        dimensions=(least, most),
        radius=float(radius),
        gap=looked.gap,
        structure=algebra.structure,
        inner=space,
        seeds=_seeds(x, frame, algebra, looked),
    )


def _seeds(x: Float[np.ndarray, " n"], frame: Frame, algebra: Algebra, looked: Evidence) -> Seeds:
    """The fields of the algebra in coordinates, and how they follow the metric."""
    pairs = algebra.basis @ to_coordinates(frame).T
    # The rows may have different units.
    heights = np.max(np.abs(looked.changes), axis=1, keepdims=True, initial=0.0)
    heights = np.where(heights > 0, heights, 1.0)
    left, sizes, right = np.linalg.svd(looked.changes / heights, full_matrices=False)
    others = pairs.shape[1] - len(pairs)
    rank = min(others, np.sum(sizes > SMALL * np.max(sizes, initial=0.0)))
    correction = looked.units.to_coordinates @ (right[:rank].T / sizes[:rank]) @ left[:, :rank].T / heights.T
    return Seeds(
        *map(jnp.asarray, (x, pairs, looked.ends, correction, looked.metrics)),
        translations=orbit_dimension(algebra.basis, x.size),
        is_commutative=not np.any(np.abs(algebra.structure) > CLOSED),
    )
