"""MOTION: a connection and a metric of shapes that are given separately, or of which a part is asked for."""

from collections.abc import Callable

import jax.numpy as jnp

from geodyn._checks import require
from geodyn._compile.jit import as_pytree
from geodyn._typing import Array, Float
from geodyn.geometry.groups.lie_group import AbstractLieGroup
from geodyn.geometry.groups.rigid import SE2, SO2
from geodyn.locomotion.connections.connection import AbstractConnection, AbstractInvariantMetric, reduction


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


class Heading(AbstractInvariantMetric):
    """A body in the plane of which only the turn is asked for, wherever its strokes take it: `Heading(body)`.

    The angle of a product in SE(2) is the sum of the angles, so that the last row of the connection is one of SO(2),
    with the shape metric of the body. It is all that strokes can change of a body afloat without momentum: its centre
    of mass stays. Raises ValueError for a body of another group.
    Source: Montgomery, *Fields Inst. Commun.* 1 (1993) 193, for such quotients of bundles.
    """

    body: AbstractInvariantMetric
    group: SO2 = SO2()

    def __check_init__(self):
        require("body", self.body, AbstractInvariantMetric, "a body with a metric, such as gd.swimmers.Purcell()")
        if not isinstance(self.body.group, SE2):
            raise ValueError(f"Heading: body must move in SE2, got {type(self.body.group).__name__}.")

    def quadratic_form(self, r, xi, rdot):
        form, metric = reduction(self.body, r)
        return rdot @ metric @ rdot + jnp.sum((xi + form[2:] @ rdot) ** 2)
