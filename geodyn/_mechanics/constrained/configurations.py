"""The configuration space that holonomic constraints allow, with the metric of the kinetic energy."""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Numbers
from geodyn._geometry.derived.level_set import LevelSet
from geodyn._geometry.manifold.manifold import Manifold
from geodyn._integrators.contract.system import AbstractSystem


class _Kinetic(eqx.Module):
    """x ↦ ∂p/∂v, the mass matrix: the metric of the kinetic energy."""

    system: AbstractSystem

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        return jax.jacfwd(self.system.momentum, 2)(jnp.zeros_like(x[0]), x, jnp.zeros_like(x))


class _Held(eqx.Module):
    """x ↦ φ(x), the holonomic constraints of a system."""

    system: AbstractSystem

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " c"]:
        return self.system.constraint(jnp.zeros_like(x[0]), x)


@checked
def configuration_space(system: AbstractSystem, q: Numbers) -> LevelSet:
    """The configurations that the constraints of a system allow, as a space with the metric of the kinetic energy.

    It is a level set of the constraints, whose points x are configurations such as q, flat. Its geodesics are the free
    motions (at time 0, where things depend on time). Its curvatures follow from the constraints alone; `total_bending`
    says how hard the constraints push.

    Args:
        system: a system with holonomic constraints.
        q: a configuration, which tells the shape.

    Returns:
        The space, a `gd.surfaces.LevelSet`.

    Raises:
        ValueError: for a system without constraints.

    Example:
        A mass m on a rod l in space moves on a sphere with the metric m l², whose Gaussian curvature is 1/(m l²).

        >>> pendulum = gd.linkages.Linkage([(0, 1)], 2.0, {0: [0.0, 0.0, 0.0]}, hinge_masses=3.0, dim=3)
        >>> q = jnp.array([[0.0, 1.2, -1.6]])
        >>> space = gd.linkages.configuration_space(pendulum, q)
        >>> print(f"{gd.scalar_curvature(space, q.ravel()) / 2:.6f} {1 / (3.0 * 2.0**2):.6f}")
        0.083333 0.083333
    """
    q = jnp.asarray(q, float)
    if q.ndim > 2:
        raise ValueError(f"q must be one configuration, [N, dim] or flat, got shape {q.shape}")
    if system.count_constraints(q) == 0:
        raise ValueError("system has no constraints: its configurations are all of its space")
    return LevelSet(Manifold(_Kinetic(system), q.size), _Held(system))
