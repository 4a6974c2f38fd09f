"""Products of groups, such as the poses of several bodies."""

from collections.abc import Callable
from itertools import accumulate, pairwise

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.groups.lie_group import AbstractLaw, AbstractLieGroup, algebra_vector, element, law_of


class Product(AbstractLieGroup):
    """The product of groups: block-diagonal matrices, with the vectors of the algebras end to end.

    Its translations are those in front, up to the first rotation.

    Args:
        *factors: the groups.

    Raises:
        ValueError: for what is no group.

    Example:
        The poses of a body in the plane that carries a wheel.

        >>> group = gd.groups.Product(gd.groups.SE2(), gd.groups.SO2())
        >>> g = group.exp(jnp.array([1.0, 0.0, 0.0, 0.5]))
        >>> print(group.dim, g.shape, [part.shape for part in group.parts(g)], f"{group.log(g)[3]:.6f}")
        4 (5, 5) [(3, 3), (2, 2)] 0.500000
    """

    factors: tuple[AbstractLieGroup, ...]
    dim: int = eqx.field(static=True)
    translations: int = eqx.field(static=True)

    @checked
    def __init__(self, *factors: AbstractLieGroup):
        wrong = [factor for factor in factors if not isinstance(factor, AbstractLieGroup)]
        if wrong or not factors:
            raise ValueError(f"Product: pass one group or more, such as gd.groups.SE2(); got {wrong or 'none'}.")
        self.factors = factors
        self.dim = sum(factor.dim for factor in factors)
        translations = 0
        for factor in factors:
            translations += factor.translations
            if factor.translations < factor.dim:
                # Behind its translations come rotations: what follows is no longer in front.
                break
        self.translations = translations

    @property
    def generators(self):
        size = self._ends[-1]
        padded = []
        for factor, (begin, end) in zip(self.factors, pairwise(self._ends), strict=True):
            around = (begin, size - end)
            padded.append(np.pad(factor.generators, ((0, 0), around, around)))
        return np.concatenate(padded)

    @property
    def is_commutative(self) -> bool:
        """Whether all factors are."""
        return all(factor.is_commutative for factor in self.factors)

    @checked
    def exp(self, xi: Float[Array, " k"]):
        parts = self.components(xi)
        return block_diag(*(factor.exp(part) for factor, part in zip(self.factors, parts, strict=True)))

    @checked
    def log(self, g: Float[Array, "d d"]):
        parts = self.parts(element(self, g))
        return jnp.concatenate([factor.log(part) for factor, part in zip(self.factors, parts, strict=True)])

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        parts = self.parts(g)
        return block_diag(*(factor.inverse(part) for factor, part in zip(self.factors, parts, strict=True)))

    @checked
    def components(self, xi: Float[Array, " k"]) -> list[Float[Array, " _"]]:
        """The vectors of the algebras of the factors that ξ consists of."""
        xi = algebra_vector(self, xi)
        ends = np.cumsum([factor.dim for factor in self.factors])[:-1]
        return jnp.split(xi, ends)

    @checked
    def parts(self, g: Float[Array, "d d"]) -> list[Float[Array, "_ _"]]:
        """The elements of the factors that g consists of."""
        size = self._ends[-1]
        if g.shape != (size, size):
            raise ValueError(f"g must be an element [{size}, {size}] of this product, got shape {g.shape}")
        return [g[begin:end, begin:end] for begin, end in pairwise(self._ends)]

    @property
    def _ends(self) -> list[int]:
        """Where the blocks begin, and where the last one ends."""
        return [0, *accumulate(factor.size for factor in self.factors)]


class OfFactors(AbstractLaw):
    """That of a product, factor by factor."""

    group: Product

    def identity(self):
        return block_diag(*(factor.identity() for factor in self.group.factors))

    def compose(self, g: Float[Array, "d d"], h: Float[Array, "d d"]) -> Float[Array, "d d"]:
        return block_diag(*self._each("compose", self.group.parts(g), self.group.parts(h)))

    def rate(self, g: Float[Array, "d d"], xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        return block_diag(*self._each("rate", self.group.parts(g), self.group.components(xi)))

    def body_velocity(self, g: Float[Array, "d d"], rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        return jnp.concatenate(self._each("body_velocity", self.group.parts(g), self.group.parts(rate)))

    def rate_at_identity(self, xi: Float[Array, " k"]) -> Float[Array, "d d"]:
        return block_diag(*self._each("hat", self.group.components(xi)))

    def velocity_at_identity(self, rate: Float[Array, "d d"]) -> Float[Array, " k"]:
        return jnp.concatenate(self._each("vee", self.group.parts(rate)))

    def bracket(self, a: Float[Array, " k"], b: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.concatenate(self._each("bracket", self.group.components(a), self.group.components(b)))

    def adjoint(self, g: Float[Array, "d d"]) -> Float[Array, "k k"]:
        return block_diag(*self._each("adjoint", self.group.parts(g)))

    def dexp(self, xi: Float[Array, " k"]) -> Float[Array, "k k"]:
        return block_diag(*self._each("dexp", self.group.components(xi)))

    def _each(self, name: str, *parts: list[Array]) -> list[Array]:
        """What the method of this name of each factor makes of its parts."""
        results = []
        for factor, *of_factor in zip(self.group.factors, *parts, strict=True):
            method: Callable[..., Array] = getattr(factor, name)
            results.append(method(*of_factor))
        return results


@law_of.register
def _(group: Product) -> AbstractLaw:
    return OfFactors(group)
