"""PURPOSE: the problem of the optimal stroke for a body and a displacement that depend on parameters."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from geodyn._control.problem.pointwise import pointwise
from geodyn._control.problem.problem import StrokeProblem
from geodyn._foundations.typing import Array, Float, Number, PyTree, Scalar
from geodyn._locomotion.motion.costs import Costly


def constant(value: Any, _: Any) -> Any:
    """`value`, for every parameter."""
    return value


def towing_drag(swimmer: Costly) -> Number:
    """The towing drag that the swimmer says; 1 for one that says none."""
    return 1.0 if swimmer.towing_drag is None else swimmer.towing_drag


class VariedProblem(eqx.Module):
    """A `StrokeProblem` whose swimmer and displacement are functions of parameters. It is differentiable with respect
    to the stroke and the parameters.

    The parameters are appended to the coordinates of each point of the stroke, since `pointwise` gives derivatives with
    respect to these coordinates only.
    """

    problem: StrokeProblem
    swimmer: Callable
    displacement: Callable

    def at(self, parameters: PyTree) -> StrokeProblem:
        """The problem for given parameters."""
        there = self.swimmer(parameters), self.displacement(parameters)
        return eqx.tree_at(lambda p: (p.swimmer, p.displacement), self.problem, there)

    def outcome(self, x: PyTree, parameters: PyTree) -> tuple[Scalar, Float[Array, "d d"]]:
        """Energy and holonomy of the stroke of the unknowns x."""
        theta, unravel = ravel_pytree(parameters)

        def local(point: Float[Array, " n"]) -> Array:
            point, theta = jnp.split(point, [point.size - p])
            return self.at(unravel(theta)).local(point)

        p = theta.size

        def along(points: Float[Array, "Q n"]) -> Float[Array, "Q w"]:
            return jnp.concatenate([points, jnp.tile(theta, (points.shape[0], 1))], axis=1)

        energy, g, _, _ = self.problem.outcome(x, lambda points: pointwise(local)(along(points)))
        return energy, g
