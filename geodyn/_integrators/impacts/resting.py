"""Resting contacts, which forces λ ≥ 0 hold closed: d²gap/dt² ≥ 0, λ d²gap/dt² = 0."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.tracing import once
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, Scalar
from geodyn._integrators.contract.system import AbstractSystem, Couplings
from geodyn._integrators.impacts.complementarity import complementarity
from geodyn._integrators.impacts.gaps import Expansion, GapState, accelerations, expansion, most_urgent, rounding

# The time constant with which the rounding errors of gaps decay, in steps.
SETTLING = 8


class Resting(AbstractSystem):
    """A system in which some of the contacts `which` [K] are `held` [K] closed by reaction forces. These are a function
    of the state, by the complementarity problem of the accelerations (Glocker 2001; Baraff 1994). Rounding errors of
    the gaps decay with the time constant `settling` (Baumgarte 1972). With `differentiable` reverse mode works, at the
    price of slower batches."""

    system: AbstractSystem
    which: Array
    held: Bool[Array, " K"]
    settling: Array
    differentiable: bool = eqx.field(static=True, default=False)

    def force(
        self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]
    ) -> Float[Array, " n"]:
        applied = self.system.force(t, q, v, lam)
        if self.differentiable:

            def held(f: Float[Array, " n"]) -> Float[Array, " n"]:
                return f + self.reaction(t, q, v, f)

            return jax.lax.cond(jnp.any(self.held), held, lambda f: f, applied)
        # The reaction forces are left out of the Jacobian of the stage equations.
        system, *state = jax.lax.stop_gradient((self, t, q, v, applied))

        def reacting(_: Float[Array, " n"]) -> tuple[Float[Array, " n"]]:
            return (system.reaction(*state),)

        (reaction,) = once(jnp.any(self.held), reacting, jnp.zeros_like(q))
        return applied + reaction

    def reaction(
        self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], applied: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """The reaction force Nᵀλ of the held contacts, where `applied` are the other forces."""
        lam, _, normals, _ = self.pushes(t, q, v, applied)
        return lam @ normals

    def pushes(
        self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], applied: Float[Array, " n"]
    ) -> tuple[Float[Array, " K"], Bool[Array, " K"], Float[Array, "K n"], Float[Array, " K"]]:
        """(λ, λ > 0, N, d²gap/dt²) of the contacts, with their reaction forces λ and the gradients N of their gaps."""
        at, gram, free = self.free_motion(t, q, v, applied)
        # In place of d²gap/dt² ≥ 0 the law is gap'' + 2 gap'/T + gap/T² ≥ 0 with the time constant T (Baumgarte).
        stabilised = free + 2 * at.rate / self.settling + at.gap / self.settling**2
        lam, pushing = complementarity(gram, stabilised, self.held)
        return lam, pushing, at.normals, free + gram @ lam

    def free_motion(
        self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], applied: Float[Array, " n"]
    ) -> tuple[Expansion, Float[Array, "K K"], Float[Array, " K"]]:
        """(the `Expansion` of the gaps, N M⁻¹ Nᵀ, d²gap/dt² without reaction forces) of the contacts."""
        at = expansion(self.system, self.which, t, q, v)

        def raise_index(row: Float[Array, " n"]) -> Float[Array, " n"]:
            """M⁻¹ times a row of N: the change of the velocities by this change of the momenta."""
            return jax.jvp(lambda p: self.system.velocity(t, q, p, v), (applied,), (row,))[1]

        gram = at.normals @ jax.vmap(raise_index)(at.normals).T
        return at, gram, accelerations(self.system, at, t, q, v, applied)

    def momentum(self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.system.momentum(t, q, v)

    def velocity(
        self, t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"], v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        return self.system.velocity(t, q, p, v)

    def constraint(self, t: Scalar, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return self.system.constraint(t, q)

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return self.system.count_constraints(q)

    def energy(self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return self.system.energy(t, q, v)

    def check(self, t: Number, q: np.ndarray, v: np.ndarray | None) -> None:
        return self.system.check(t, q, v)

    @property
    def couplings(self) -> Couplings | None:
        return None if self.differentiable else self.system.couplings


def resting_contacts(
    system: AbstractSystem,
    which: Int[Array, " g"] | None,
    h: Scalar,
    t: Scalar,
    q: Float[Array, " n"],
    v: Float[Array, " n"],
    force: Float[Array, " n"],
    gaps: GapState,
) -> Bool[Array, " g"]:
    """A mask of the contacts `which` that are closed, at rest, and pressed by `force` or by each other; `gaps` is their
    state. Whatever is within rounding counts as zero, and its sign does not matter: a gap, a rate, and a reaction that
    would move a gap in a step by no more than the rounding error of the gap."""
    gap, rate, size = gaps
    noise = rounding(size)
    still = (jnp.abs(gap) <= noise) & (jnp.abs(rate) * h <= noise)
    # Places in the mask: only so many contacts can be computed at once.
    at = most_urgent(still)
    numbers = at if which is None else which[at]
    # `free_motion` does not depend on the time constant.
    _, gram, free = Resting(system, numbers, still[at], SETTLING * h).free_motion(t, q, v, force)
    reaction, pushing = complementarity(gram, free, still[at])
    moved_by = reaction * jnp.diag(gram) * h**2
    pressed = pushing & (moved_by > noise[at])
    # From the places `at` back to a mask of all contacts.
    is_place = at[:, None] == jnp.arange(still.size)[None, :]
    return jnp.any(is_place & pressed[:, None], axis=0)
