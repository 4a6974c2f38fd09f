"""The configurations that constraints allow, with the metric of the kinetic energy."""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._typing import Numbers
from geodyn.geometry.derived.level_set import LevelSet
from geodyn.geometry.manifold.manifold import Manifold
from geodyn.integrators.contract.system import AbstractSystem


class _Kinetic(eqx.Module):
    """∂p/∂v, the metric of the kinetic energy."""

    system: AbstractSystem

    def __call__(self, x):
        return jax.jacfwd(self.system.momentum, 2)(jnp.zeros_like(x[0]), x, jnp.zeros_like(x))


class _Held(eqx.Module):
    """The constraints of a system."""

    system: AbstractSystem

    def __call__(self, x):
        return self.system.constraint(jnp.zeros_like(x[0]), x)


def configuration_space(system: AbstractSystem, q: Numbers) -> LevelSet:
    """The configurations that the constraints of a system allow, as a level set with the kinetic metric: x is a
    configuration such as q, flattened. Its geodesics are the free motions (at time 0, where things depend on time), and
    `total_bending` says how hard the constraints push. Raises ValueError for a system without constraints."""
    q = jnp.asarray(q, float)
    if system.count_constraints(q) == 0:
        raise ValueError("system has no constraints: its configurations are all of its space")
    return LevelSet(Manifold(_Kinetic(system), q.size), _Held(system))
