"""Quasi-velocities: constrained systems in a basis of their admissible velocities, without multipliers."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree, jit, with_time
from geodyn._engine.numerics.linalg import solve
from geodyn._engine.numerics.roots import root
from geodyn._foundations.checks import check_arguments, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Numbers, Scalar
from geodyn._integrators.contract.system import AbstractSystem, constraint_rate
from geodyn._mechanics.constrained.constraint_forces import require_plain


class QuasiVelocities(AbstractSystem):
    """A system with constraints as one without, in the velocities that they admit: `v = E(q) u + e(q)`, for any method.

    The columns of E span the admissible velocities, AE = 0. With `π = Eᵀ ∂L/∂v` the equations are unconstrained,
    with m momenta, `π' = Eᵀ(∂L/∂q − ∂R/∂v) + E'ᵀ ∂L/∂v`. Every velocity is admissible to rounding, and
    `gd.Gauss` is time-reversible, so that where the motion is, energy has no drift. Holonomic constraints are treated
    alike, by their rates: φ is then kept to the order of the method, or to rounding by `gd.Gauss` where it is quadratic
    in q. `admissible(q, u)` are velocities for `v0`. Any consistent units.

    Args:
        system: a system with constraints.
        basis: function q -> E[n, m] of flat q, which may name a parameter `t`; or the numbers of m coordinates whose
            velocities determine the others wherever the motion goes: then E is found from the constraints.

    Raises:
        ValueError: for a basis that is not one of the admissible velocities at q0, and for a system with contacts, dry
            friction or several charts.

    Example:
        >>> sleigh = gd.nonholonomic.Sleigh(mass=1.2, inertia=0.3, offset=0.25)
        >>> free, q0 = gd.nonholonomic.QuasiVelocities(sleigh, sleigh.basis), jnp.zeros(3)
        >>> motion = gd.integrate(free, q0, free.admissible(q0, [0.4, 2.5]), t1=3.0, steps=100, method=gd.Gauss(2))
        >>> (u, v, _), heading = motion.v[-1], motion.q[-1, 2]
        >>> slip = jnp.cos(heading) * v - jnp.sin(heading) * u
        >>> print(f"{abs(slip):.6f}, energy {motion.energy[0]:.6f} {motion.energy[-1]:.6f}")
        0.000000, energy 1.267875 1.267875

    Source:
        Neimark & Fufaev, *Dynamics of Nonholonomic Systems* (1972), III.2; Bloch, *Nonholonomic Mechanics and Control*,
        5.2; Kane & Levinson, *Dynamics*: the equations of Boltzmann and Hamel, before Eu is written out in them.
    """

    system: AbstractSystem
    basis: Callable | tuple[int, ...]

    @checked
    def __init__(self, system: AbstractSystem, basis: Callable | Sequence[int]):
        require_plain("QuasiVelocities", system)
        if not callable(basis) and not (np.ndim(basis) == 1 and np.issubdtype(np.asarray(basis).dtype, np.integer)):
            raise ValueError(f"basis must be a function q -> E[n, m], or the numbers of m coordinates; got {basis!r}")
        if callable(basis):
            check_arguments("basis", basis, "q")
        self.system = system
        self.basis = as_pytree(basis) if callable(basis) else tuple(int(i) for i in basis)

    @checked
    def directions(self, t: Number, q: Float[Array, " n"]) -> Float[Array, "n m"]:
        """The basis E(t, q) of the admissible velocities, as columns."""
        if not isinstance(self.basis, tuple):
            basis = returned("basis", with_time(self.basis, 1), t, q)
            if basis.ndim != 2 or basis.shape[0] != q.size:
                raise ValueError(f"basis must return E[n, m] with n = {q.size}, got shape {basis.shape}")
            return basis
        a = self._bounds(t, q)
        unit = np.eye(q.size)
        free = unit[:, list(self.basis)]
        others = np.delete(unit, self.basis, axis=1)
        # The velocities of the other coordinates follow from those chosen: A(free + others x) = 0.
        follow = jax.vmap(lambda b: solve(a @ others, b), 1, 1)(a @ free)
        return free - others @ follow

    @checked
    def offset(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " n"]:
        """e(t, q): the admissible velocity of least norm; zero if the constraints are linear in v."""
        a = self._bounds(t, q)
        at_rest = constraint_rate(self.system, t, q, jnp.zeros_like(q))
        return -a.T @ solve(a @ a.T, at_rest)

    @checked
    def admissible(self, q: Numbers, u: Numbers, t: Number = 0.0) -> Array:
        """The velocities e + Eu, in the shape of q."""
        flat = jnp.asarray(q, float).reshape(-1)
        t = jnp.asarray(t, flat.dtype)
        u = jnp.asarray(u, flat.dtype)
        v = self.offset(t, flat) + self.directions(t, flat) @ u
        return v.reshape(np.shape(q))

    def _bounds(self, t: Number, q: Float[Array, " n"]) -> Float[Array, "c n"]:
        """The constraint matrix A(t, q)."""
        return jax.jacfwd(lambda v: constraint_rate(self.system, t, q, v))(jnp.zeros_like(q))

    def force(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]) -> Array:
        directions, change = jax.jvp(self.directions, (t, q), (jnp.ones_like(t), v))
        # The reactions drop out, since they do no work on the columns of E.
        applied = directions.T @ self.system.force(t, q, v, lam)
        return applied + change.T @ self.system.momentum(t, q, v)

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        return self.directions(t, q).T @ self.system.momentum(t, q, v)

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Array, v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        directions = self.directions(t, q)
        offset = self.offset(t, q)
        if v is None:
            u = root(lambda u: self.momentum(t, q, offset + directions @ u), p, jnp.zeros_like(p))
            return offset + directions @ u
        # The admissible velocity nearest to v, and from there one step of Newton's method.
        nearest = solve(directions.T @ directions, directions.T @ (v - offset))
        v = offset + directions @ nearest
        momentum, push = jax.linearize(lambda v: self.system.momentum(t, q, v), v)
        mass = directions.T @ jax.vmap(push, 1, 1)(directions)
        return v + directions @ solve(mass, p - directions.T @ momentum)

    @property
    def starts_at_rest(self) -> bool:
        return self.system.starts_at_rest

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return jnp.zeros(0, q.dtype)

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return 0

    def energy(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return self.system.energy(t, q, v)

    def check(self, t: Number, q: np.ndarray, v: np.ndarray) -> None:
        self.system.check(t, q, v)
        wanted = q.size - self.system.count_constraints(q)
        directions, slip = map(np.asarray, jit(_slip)(self, jnp.asarray(t), jnp.asarray(q).reshape(-1)))
        if directions.shape != (q.size, wanted):
            raise ValueError(
                f"basis must have shape ({q.size}, {wanted}), a column for each velocity that "
                f"{q.size - wanted} constraints leave of {q.size}; got {directions.shape}"
            )
        tolerance = np.finfo(directions.dtype).eps ** 0.5
        if not np.all(np.abs(slip) <= tolerance * (1 + np.abs(directions).max())):
            raise ValueError(
                "basis must span velocities that the constraints admit, A(q)E = 0, at q0 they violate them by "
                f"{np.abs(slip).max():.3g} (NaN: the other coordinates do not follow from those chosen)"
            )
        if np.linalg.matrix_rank(directions) < wanted:
            raise ValueError(f"basis has dependent columns at q0: rank {np.linalg.matrix_rank(directions)} of {wanted}")


def _slip(system: QuasiVelocities, t: Number, q: Float[Array, " n"]) -> tuple[Float[Array, "n m"], Float[Array, "c m"]]:
    """The basis E, and AE, by which it violates the constraints."""
    directions = system.directions(t, q)
    return directions, system._bounds(t, q) @ directions
