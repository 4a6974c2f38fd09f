"""Statistics of an ensemble that are computed chunk by chunk, without keeping its members."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import static_count
from geodyn._foundations.checks import numbers, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Each, Float, Int, Number, Numbers, PyTree


def _itself(value: PyTree) -> PyTree:
    return value


class AbstractReduction(eqx.Module):
    """A statistic of the members of `gd.ensemble`, for its `reduce`.

    A chunk of members becomes a total, a pytree of arrays; two totals are joined; the last total gives the result.
    Members that failed do not count.

    Example:
        The largest value of all members.

        >>> class Largest(gd.ensembles.AbstractReduction):
        ...     def total(self, values, good):
        ...         return jnp.max(jnp.where(good, values, -jnp.inf))
        ...     def joined(self, first, second):
        ...         return jnp.maximum(first, second)
        ...     def result(self, total):
        ...         return total
        >>> print(gd.ensemble(lambda x: x**2, jnp.linspace(-3.0, 2.0, 11), reduce=Largest()).reduced)
        9.0
    """

    @abc.abstractmethod
    def total(self, values: PyTree, good: Bool[Array | np.ndarray, " B"]) -> PyTree:
        """The total of a chunk of B members; all arrays of `values` have the axis [B] before their own."""

    @abc.abstractmethod
    def joined(self, first: PyTree, second: PyTree) -> PyTree:
        """The total of two groups of members from the totals of each."""

    @abc.abstractmethod
    def result(self, total: PyTree) -> Any:
        """What `gd.ensemble` returns, from the total of all members."""


class Moments(eqx.Module):
    """The result of `gd.ensembles.Mean`, in the structure of what was averaged.

    Args:
        count: the number of members that did not fail.
        mean: their mean.
        std: their standard deviation, with n − 1.

    Example:
        >>> moments = gd.ensemble(lambda x: x, jnp.arange(5.0), reduce=gd.ensembles.Mean()).reduced
        >>> print(moments.count, moments.mean, f"{moments.std:.6f} {np.std(np.arange(5.0), ddof=1):.6f}")
        5 2.0 1.581139 1.581139
    """

    count: Array
    mean: PyTree
    std: PyTree

    def __repr__(self) -> str:
        """With the numbers, which a reader wants to see."""
        return eqx.tree_pformat(self, short_arrays=False)


@checked
class Mean(AbstractReduction):
    """Mean and standard deviation of a function of each member's value; for learning, of a loss and its gradient.

    Args:
        of: the function value -> pytree of arrays, of one member's value; default the value itself.

    Example:
        The gradient of a mean loss over 1000 data, of which none is kept: d/dk of the mean of (k x − 1)² is 2 (k ⟨x²⟩ −
        ⟨x⟩).

        >>> data = jnp.linspace(0.0, 1.0, 1000)
        >>> def loss(k, x):
        ...     return (k * x - 1.0) ** 2
        >>> found = gd.ensemble(lambda x: jax.grad(loss)(3.0, x), data, reduce=gd.ensembles.Mean())
        >>> print(f"{found.reduced.mean:.6f} {2 * (3 * jnp.mean(data**2) - jnp.mean(data)):.6f}")
        1.001001 1.001001

    Source:
        Chan, Golub & LeVeque, *Am. Stat.* 37 (1983) 242, for joining the sums of squares.
    """

    of: Callable = eqx.field(static=True, default=_itself)

    def total(self, values: PyTree, good: Bool[Array | np.ndarray, " N"]) -> tuple[Array, PyTree, PyTree]:
        """(count, means, sums of squared differences from the mean)."""
        count = jnp.sum(good)

        def over_members(x: Array) -> Array:
            return jnp.sum(jnp.where(_beside(good, x), x, 0), axis=0)

        values = jax.tree.map(_as_float, jax.vmap(self.of)(values))
        mean = jax.tree.map(lambda x: over_members(x) / jnp.maximum(count, 1), values)
        return count, mean, jax.tree.map(lambda x, m: over_members((x - m[None]) ** 2), values, mean)

    def joined(
        self, first: tuple[Array, PyTree, PyTree], second: tuple[Array, PyTree, PyTree]
    ) -> tuple[Array, PyTree, PyTree]:
        """The moments of both groups."""
        n, mean, square = first
        m, other, more = second
        part = m / jnp.maximum(n + m, 1)
        joint = jax.tree.map(lambda a, b: a + (b - a) * part, mean, other)
        return n + m, joint, jax.tree.map(lambda s, t, a, b: s + t + (b - a) ** 2 * n * part, square, more, mean, other)

    def result(self, total: tuple[Array, PyTree, PyTree]) -> Moments:
        """`Moments`; NaN where there are too few members."""
        count, mean, square = total
        nan = jnp.where(count > 0, 0.0, jnp.nan)
        std = jax.tree.map(lambda s: jnp.sqrt(s / jnp.where(count > 1, count - 1, jnp.nan)), square)
        return Moments(count, jax.tree.map(lambda m: m + nan, mean), std)


class Counts(eqx.Module):
    """The result of `gd.ensembles.Histogram`, for each number of what was counted.

    Args:
        inside: how many members lie in each of the K bins [..., K].
        below: how many lie below the bins [...].
        above: how many lie above them [...].
        edges: the edges of the bins [K + 1].

    Example:
        >>> found = gd.ensemble(lambda x: x, jnp.arange(5.0), reduce=gd.ensembles.Histogram([0.0, 2.0, 4.0])).reduced
        >>> print(found.inside, found.below, found.above)
        [2 2] 0 1
    """

    inside: Array
    below: Array
    above: Array
    edges: Array | np.ndarray


class Histogram(AbstractReduction):
    """A histogram of each number in a function of the members' values; a bin has its lower edge, not the upper.

    Args:
        edges: the K + 1 edges of the bins, increasing.
        of: the function value -> array, of one member's value; default the value itself.

    Raises:
        ValueError: for edges that do not increase.

    Example:
        >>> counted = gd.ensembles.Histogram([0, 0.25, 2])
        >>> print(gd.ensemble(lambda x: x**2, jnp.linspace(0.0, 1.0, 101), reduce=counted).reduced.inside)
        [50 51]
    """

    edges: Array | np.ndarray
    of: Callable = eqx.field(static=True, default=_itself)

    @checked
    def __init__(self, edges: Numbers, of: Callable = _itself):
        self.edges, self.of = np.asarray(numbers("edges", edges), float), of
        if self.edges.ndim != 1 or self.edges.size < 2 or not np.all(np.diff(self.edges) > 0):
            raise ValueError(f"edges must be at least two increasing numbers, got {edges!r}")

    def total(self, values: PyTree, good: Bool[Array | np.ndarray, " N"]) -> Int[Array, "..."]:
        """How many members lie between each two edges, [..., K + 2] with those below and above."""
        x = jax.vmap(lambda value: returned("of", self.of, value))(values)
        place = jnp.searchsorted(jnp.asarray(self.edges, _as_float(x).dtype), x, side="right")
        numbers = jnp.moveaxis(place, 0, -1).reshape(-1, len(good))

        def count(places: Int[Array, " N"]) -> Int[Array, " K"]:
            return jnp.zeros(len(self.edges) + 1, int).at[places].add(jnp.where(good, 1, 0))

        return jax.vmap(count)(numbers).reshape(*x.shape[1:], -1)

    def joined(self, first: Array, second: Array) -> Array:
        """The sum."""
        return first + second

    def result(self, total: Array) -> Counts:
        """`Counts`."""
        return Counts(total[..., 1:-1], total[..., 0], total[..., -1], self.edges)


class Quantiles(AbstractReduction):
    """Quantiles of each number in a function of the members' values, right to within the width of a bin.

    Args:
        probabilities: one probability or P of them, in [0, 1]; 0.5 is the median.
        low: the lower end of the interval in which they are looked for.
        high: its upper end; a quantile beyond either end is ∓∞.
        bins: the number of equal bins between them.
        of: the function value -> array, of one member's value; default the value itself.

    Returns:
        `reduced` is an array, of the shape of the probabilities before that of a value.

    Raises:
        ValueError: for probabilities outside of [0, 1], and an empty interval.

    Example:
        >>> middle = gd.ensembles.Quantiles([0.25, 0.5], 0.0, 1.0, bins=100)
        >>> found = gd.ensemble(lambda x: x**2, jnp.linspace(0.0, 1.0, 10001), reduce=middle)
        >>> print(found.reduced.round(2))
        [0.06 0.25]
    """

    probabilities: Array | np.ndarray
    histogram: Histogram

    @checked
    def __init__(self, probabilities: Each, low: Number, high: Number, bins: Count = 1000, of: Callable = _itself):
        self.probabilities = np.asarray(numbers("probabilities", probabilities), float)
        if not np.all((self.probabilities >= 0) & (self.probabilities <= 1)):
            raise ValueError(f"probabilities must lie in [0, 1], got {probabilities!r}")
        if not low < high:
            raise ValueError(f"low must be smaller than high, got {low} and {high}")
        self.histogram = Histogram(np.linspace(low, high, static_count("bins", bins) + 1), of)

    def total(self, values: PyTree, good: Bool[Array | np.ndarray, " N"]) -> Int[Array, "..."]:
        """The histogram's."""
        return self.histogram.total(values, good)

    def joined(self, first: Array, second: Array) -> Array:
        """The histogram's."""
        return self.histogram.joined(first, second)

    def result(self, total: Array) -> Float[Array, "..."]:
        """The quantiles, linear within each bin."""
        reached = jnp.cumsum(total, axis=-1)

        def of(reached: Int[Array, " K"]) -> Float[Array, " P"]:
            wanted = jnp.asarray(self.probabilities) * reached[-1]
            found = jnp.interp(wanted, reached[:-1], self.histogram.edges)
            below = (wanted < reached[0]) | (reached[-1] == 0)
            return jnp.where(wanted > reached[-2], jnp.inf, jnp.where(below, -jnp.inf, found))

        values = jax.vmap(of)(reached.reshape(-1, reached.shape[-1]))
        return jnp.moveaxis(values, 0, -1).reshape(*self.probabilities.shape, *reached.shape[:-1])


def _beside(good: Any, x: Array) -> Bool[Array, "..."]:
    return good.reshape(-1, *[1] * (x.ndim - 1))


def _as_float(x: Array) -> Array:
    if jnp.iscomplexobj(x):
        raise ValueError("what of returns, or the value of a member without it, must be real numbers, got complex ones")
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(float)
