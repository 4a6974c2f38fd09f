"""Products of groups, such as the poses of several bodies."""

from itertools import accumulate, pairwise

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.groups.lie_group import AbstractLieGroup, algebra_vector, element


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
        self.factors, self.dim = factors, sum(factor.dim for factor in factors)
        mixed = [i for i, factor in enumerate(factors) if factor.translations < factor.dim]
        self.translations = sum(factor.translations for factor in factors[: (mixed or [len(factors)])[0] + 1])

    @property
    def generators(self):
        size = self._ends[-1]
        padded = [
            np.pad(factor.generators, ((0, 0), (begin, size - end), (begin, size - end)))
            for factor, (begin, end) in zip(self.factors, pairwise(self._ends), strict=True)
        ]
        return np.concatenate(padded)

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        ends = np.cumsum([factor.dim for factor in self.factors])[:-1]
        return block_diag(*(f.exp(part) for f, part in zip(self.factors, jnp.split(xi, ends), strict=True)))

    @checked
    def log(self, g: Float[Array, "d d"]):
        g = element(self, g)
        return jnp.concatenate([f.log(part) for f, part in zip(self.factors, self.parts(g), strict=True)])

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        return block_diag(*(f.inverse(part) for f, part in zip(self.factors, self.parts(g), strict=True)))

    @checked
    def parts(self, g: Float[Array, "d d"]) -> list[Float[Array, "_ _"]]:
        """The elements of the factors that g consists of."""
        if g.shape != (size := self._ends[-1], size):
            raise ValueError(f"g must be an element [{size}, {size}] of this product, got shape {g.shape}")
        return [g[begin:end, begin:end] for begin, end in pairwise(self._ends)]

    @property
    def _ends(self):
        """Where the blocks begin, and where the last one ends."""
        return [0, *accumulate(factor.generators.shape[1] for factor in self.factors)]
