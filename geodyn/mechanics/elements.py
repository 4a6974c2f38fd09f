"""What bodies are made of: potentials, dissipations and constraints, each one function of the positions."""

import abc

import equinox as eqx

from geodyn._typing import Array, Float, Scalar
from geodyn.geometry.manifold import AbstractManifold


class AbstractPotential(eqx.Module):
    """A force that is the gradient of an energy. A method that names a parameter `t` is given the time."""

    @abc.abstractmethod
    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Scalar:
        """Potential energy of the points x[N, dim]."""


class AbstractDissipation(eqx.Module):
    """A force −∂R/∂v from a Rayleigh function, half the power dissipated where R is quadratic in v."""

    @abc.abstractmethod
    def rayleigh(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Scalar:
        """R(x, v) of the points x[N, dim] with coordinate velocities v[N, dim]."""


class AbstractConstraint(eqx.Module):
    """Holonomic constraints, held at zero by multipliers."""

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " size"]:
        """What vanishes where the constraints hold, shape [size]."""
