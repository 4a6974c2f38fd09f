"""Slip velocities at contacts: the tangential part of the relative velocity, in an orthonormal frame."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import cholesky, solve
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number
from geodyn._geometry.geodesics.distances import distance, log
from geodyn._geometry.geodesics.geodesic import exp
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.coulomb import frame


def tangential(
    space: AbstractManifold, x: Float[Array, " n"], covector: Float[Array, " n"], u: Float[Array, " n"]
) -> Float[Array, " s"]:
    """The components, in an orthonormal frame, of the projection of the vector u at x onto the kernel of a covector,
    times the norm of the covector. Let the covector be the gradient of a gap: then the multiplier j of the gap and the
    multiplier −f of the slip are forces of magnitude j|covector| and f|covector|, and their ratio is f/j even if the
    gap is not a distance."""
    lower = cholesky(space.metric(x))
    normal = solve(lower, covector)
    size = jnp.sqrt(jnp.sum(normal**2))
    # The Householder reflection that maps the normal to the first axis maps the kernel to the span of the others.
    axis = jnp.asarray(np.arange(x.size) == 0, x.dtype)
    mirror = normal + jnp.where(normal[0] < 0, -size, size) * axis
    w = lower.T @ u
    reflected = w - mirror * (2 * jnp.dot(mirror, w) / jnp.sum(mirror**2))
    return size * reflected[1:]


def transport(
    space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], u: Float[Array, " n"]
) -> Float[Array, " n"]:
    """The vector u at x, transported along the geodesic to y: minus its image under the geodesic reflection in the
    midpoint (pole ladder: Lorenzi & Pennec, J. Math. Imaging Vis. 50 (2014) 5). Exact in symmetric spaces."""
    middle = jax.lax.stop_gradient(exp(space, x, log(space, x, y) / 2))

    def reflect(x: Float[Array, " n"]) -> Float[Array, " n"]:
        return exp(space, middle, -log(space, middle, x))

    _, image = jax.jvp(reflect, (x,), (u,))
    return -image


def slip_of_pair(
    space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], u: Float[Array, " n"], w: Float[Array, " n"]
) -> Float[Array, " s"]:
    """The slip of two spheres without spin, with centres x and y and velocities u and w: the velocity of the second
    relative to the first, orthogonal to the geodesic between them."""
    outward = jax.grad(lambda y: distance(space, x, y))(y)
    return tangential(space, y, outward, w - transport(space, x, y, u))


def slip_on_wall(
    gap: Callable, space: AbstractManifold, x: Float[Array, " n"], u: Float[Array, " n"]
) -> Float[Array, " s"]:
    """The slip of a point at x with velocity u on the wall gap(x) = 0."""
    return tangential(space, x, jax.grad(gap)(x), u)


@checked
def painleve_number(
    system: AbstractSystem, q: Float[Array, "*shape"], v: Float[Array, "*shape"], t: Number = 0.0
) -> Float[Array, " c"]:
    """The Painlevé number μ |N M⁻¹ Tᵀ| / N M⁻¹ Nᵀ of every contact, N and T being the gradients of its gap and slip.

    Where it exceeds 1, sliding in one direction presses the contact together by more than its force pushes it apart, so
    that rigid bodies have no finite contact force, or several. There `gd.methods.Moreau` jams: it stops the slip by an
    impulse, and its results depend on the step.

    Args:
        system: a system with contacts.
        q: the configuration, [N, dim] of a `System`.
        v: the velocity, in the shape of q.
        t: the time.

    Returns:
        The numbers [c], one for each contact; 0 without friction.

    Raises:
        ValueError: for a system without contacts.

    Example:
        A rod of half-length 1 and mass 1 leans on the floor at the angle θ: 3μ sin θ cos θ/(1 + 3 cos² θ).

        >>> space = gd.Manifold(lambda x: jnp.diag(jnp.array([1.0, 1.0, 1 / 3])), 3)
        >>> def gap(x):
        ...     return x[1] - jnp.sin(x[2])
        >>> floor = gd.Wall(gap, friction=1.5, slip=lambda x, v: v[0] + jnp.sin(x[2]) * v[2])
        >>> rod = gd.System(space, [1.0], floor)
        >>> number = gd.contact.painleve_number(rod, [[0.0, np.sin(1.1), 1.1]], [[1.0, 0.0, 0.0]])
        >>> print(f"{number[0]:.6f} {4.5 * np.sin(1.1) * np.cos(1.1) / (1 + 3 * np.cos(1.1) ** 2):.6f}")
        1.124822 1.124822

    Source:
        Painlevé (1895); Génot & Brogliato, *Eur. J. Mech. A* 18 (1999) 653.
    """
    if not (isinstance(system, AbstractSystem) and system.contacts is not None):
        raise ValueError(
            "painleve_number: system must have contacts, such as gd.Wall(gap, friction=0.3); this "
            f"{type(system).__name__} has none"
        )
    q = jnp.asarray(q, float).reshape(-1)
    v = jnp.asarray(v, float).reshape(-1)
    t = jnp.asarray(t, q.dtype)
    every = jnp.arange(system.contacts.gap(t, q).size)
    at = frame(system, every, t, q, system.momentum(t, q, v))
    # How the impulses of a contact change its own rates: G_nt/G_nn, times μ.
    own = jnp.einsum("kikj->kij", at.matrix)
    coupling = jnp.sqrt(jnp.sum(own[:, 0, 1:] ** 2, axis=1))
    return at.friction * coupling / own[:, 0, 0]
