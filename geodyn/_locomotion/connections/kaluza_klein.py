"""MOTION: bodies made of a connection and a metric of shapes, given separately (Kaluza–Klein metrics)."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._geometry.groups.rigid import SE2, SO2
from geodyn._locomotion.connections.checks import one_if, same_to_rounding
from geodyn._locomotion.connections.connection import (
    AbstractConnection,
    AbstractInvariantMetric,
    check_law,
    law,
    not_negative,
    reduction,
    true_reduction,
)


class KaluzaKlein(AbstractInvariantMetric):
    """A connection and a metric of shapes that are given separately, together as one body.

    The metric of the bundle is `r'ᵀ G r' + |ξ + A r'|²`, of which only `r'ᵀ G r'` remains in motion. So
    `gd.optimal_stroke` finds the shortest path of shapes with a given holonomy: the isoholonomic problem, of which the
    isoperimetric one is the simplest. Any consistent units.

    Args:
        connection: body with a connection, a `gd.AbstractConnection`.
        metric: function r[m] -> G[m, m], positive definite; None: the Euclidean metric.

    Raises:
        ValueError: for what is no connection.

    Example:
        A car with the squared length `roll'² + 4 δ'²` of shapes: the energy of a circle of them.

        >>> car = gd.bundles.KaluzaKlein(gd.swimmers.KinematicCar(), lambda r: jnp.diag(jnp.array([1.0, 4.0])))
        >>> print(gd.shape_metric(car, [0.2, 0.3]).diagonal(), f"{gd.cost(car, gd.FourierStroke.circle(0.1)):.6f}")
        [1. 4.] 0.986960
        >>> print(f"{(1 + 4) / 2 * (2 * np.pi * 0.1) ** 2:.6f}")
        0.986960

    Source:
        Montgomery, *Commun. Math. Phys.* 128 (1990) 565.
    """

    connection: AbstractConnection
    metric: Callable | None
    group: AbstractLieGroup

    @checked
    def __init__(self, connection: AbstractConnection, metric: Callable[[Float[Array, " m"]], Array] | None = None):
        if not isinstance(connection, AbstractConnection):
            raise ValueError(
                f"KaluzaKlein: connection must be a gd.AbstractConnection, got {type(connection).__name__}"
            )
        self.connection, self.group = connection, connection.group
        self.metric = None if metric is None else as_pytree(metric)

    @property
    def shape_names(self) -> tuple[str, ...] | None:
        """Those of the body with the connection."""
        return getattr(self.connection, "shape_names", None)

    @property
    def first_shape(self) -> Float[Array, " m"] | None:
        """That of the body with the connection."""
        return self.connection.first_shape

    @property
    def shape_region(self) -> tuple[Float[Array, " m"], Float[Array, " m"]] | None:
        """That of the body with the connection."""
        return self.connection.shape_region

    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        metric = jnp.eye(r.shape[0], dtype=r.dtype) if self.metric is None else self.metric(r)
        return rdot @ metric @ rdot + jnp.sum((xi + self.connection.form(r) @ rdot) ** 2)


@checked
class Heading(AbstractInvariantMetric):
    """A body in the plane of which only the turn counts, wherever its strokes take it.

    Angles of products in SE(2) add up, so that the last row of the connection is a connection of SO(2); the shape
    metric is that of the body. The turn is all that strokes can change of a body afloat without momentum, since its
    centre of mass stays. A displacement of `gd.optimal_stroke` is a vector [1] then, the angle in radians.

    Args:
        body: body with a metric of shapes that moves in `gd.groups.SE2`.
        group: `gd.groups.SO2()`.

    Raises:
        ValueError: for a body of another group, and for one without a metric.

    Example:
        >>> robot, stroke = gd.swimmers.FloatingLinks(), gd.FourierStroke.circle(0.7, centre=(1.0, 1.0))
        >>> heading = gd.bundles.Heading(robot)
        >>> turns = heading.group.log(gd.holonomy(heading, stroke)), robot.group.log(gd.holonomy(robot, stroke))
        >>> print(f"{turns[0][0]:.6f} {turns[1][2]:.6f}")
        -0.115715 -0.115715

    Source:
        Montgomery, *Fields Inst. Commun.* 1 (1993) 193, for such quotients of bundles.
    """

    body: AbstractInvariantMetric
    group: SO2 = SO2()

    def __check_init__(self):
        if not isinstance(self.body.group, SE2):
            raise ValueError(f"Heading: body must move in SE2, got {type(self.body.group).__name__}.")

    @property
    def shape_names(self) -> tuple[str, ...] | None:
        """Those of the body."""
        return getattr(self.body, "shape_names", None)

    @property
    def first_shape(self) -> Float[Array, " m"] | None:
        """That of the body."""
        return self.body.first_shape

    @property
    def shape_region(self) -> tuple[Float[Array, " m"], Float[Array, " m"]] | None:
        """That of the body."""
        return self.body.shape_region

    @property
    def needs_bounds(self) -> str | None:
        """That of the body, whose shape metric it has."""
        return self.body.needs_bounds

    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        form, metric = reduction(self.body, r)
        return rdot @ metric @ rdot + jnp.sum((xi + form[2:] @ rdot) ** 2)


@true_reduction.register(KaluzaKlein)
@true_reduction.register(Heading)
def _(swimmer: Any, r: Float[Array, " m"]) -> tuple[Float[Array, "k m"], Float[Array, "m m"]]:
    true, (form, metric) = law(swimmer, r), reduction(swimmer, r)
    return true * form, true * metric


@law.register
def _(swimmer: KaluzaKlein, r: Float[Array, " m"]):
    metric = jnp.eye(r.shape[0], dtype=r.dtype) if swimmer.metric is None else swimmer.metric(r)
    symmetric = same_to_rounding(metric, metric.T, jnp.max(jnp.abs(metric)))
    return law(swimmer.connection, r) * one_if(symmetric & not_negative(metric))


@law.register
def _(swimmer: Heading, r: Float[Array, " m"]):
    return law(swimmer.body, r)


@check_law.register
def _(swimmer: KaluzaKlein, r: Float[Array, " m"]):
    check_law(swimmer.connection, r)
    metric = jnp.eye(r.shape[0], dtype=r.dtype) if swimmer.metric is None else swimmer.metric(r)
    if np.all(np.isfinite(metric)) and not (np.allclose(metric, metric.T) and not_negative(metric)):
        raise ValueError(f"KaluzaKlein: metric must be symmetric and positive definite, at r = {r} it is\n{metric}")


@check_law.register
def _(swimmer: Heading, r: Float[Array, " m"]):
    check_law(swimmer.body, r)
