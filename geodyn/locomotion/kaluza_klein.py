"""MOTION: a connection and a metric of shapes that are given separately."""

from collections.abc import Callable

import jax.numpy as jnp

from geodyn._jit import as_pytree
from geodyn._typing import Array, Float
from geodyn.geometry.groups import AbstractLieGroup
from geodyn.locomotion.connection import AbstractConnection, AbstractInvariantMetric


class KaluzaKlein(AbstractInvariantMetric):
    """A body of which only the connection and the shape metric are known: `KaluzaKlein(connection, metric)`.

    `metric(r) -> G[m, m]`; None is the Euclidean metric. The metric of the bundle is `r'ᵀ G r' + |ξ + A r'|²`, of which
    nothing but `r'ᵀ G r'` remains in motion, so that `optimal_stroke` finds the shortest path of shapes with a given
    holonomy: the isoholonomic problem, of which the isoperimetric one is the simplest. Any consistent units.
    Source: Montgomery, *Commun. Math. Phys.* 128 (1990) 565.
    """

    connection: AbstractConnection
    metric: Callable | None
    group: AbstractLieGroup

    def __init__(self, connection: AbstractConnection, metric: Callable[[Float[Array, " m"]], Array] | None = None):
        if not isinstance(connection, AbstractConnection):
            raise ValueError(
                f"KaluzaKlein: connection must be a gd.AbstractConnection, got {type(connection).__name__}"
            )
        self.connection, self.group = connection, connection.group
        self.metric = None if metric is None else as_pytree(metric)

    def quadratic_form(self, r, xi, rdot):
        metric = jnp.eye(r.shape[0], dtype=r.dtype) if self.metric is None else self.metric(r)
        return rdot @ metric @ rdot + jnp.sum((xi + self.connection.form(r) @ rdot) ** 2)
