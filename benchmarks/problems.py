"""The bodies that the benchmarks move. Any consistent units; float64."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import geodyn as gd


def chart(space, X, V):
    """Coordinates and coordinate velocities of points and velocities of the embedding."""
    return jax.vmap(lambda X, V: jax.jvp(space.coordinates, (X,), (V,)))(jnp.array(X, float), jnp.array(V, float))


def elastic_rod(stiffness=1.0):
    """Two unit masses in H³ (polar chart), two apart on a spring of length two, thrown across: (system, q0, v0)."""
    space, s, c = gd.spaces.Hyperbolic(3, "polar"), np.sinh(1.0), np.cosh(1.0)
    q0, v0 = chart(space, [[0, s, 0, c], [0, -s, 0, c]], [[c, 0, 0, 0]] * 2)
    return gd.System(space, [1.0, 1.0], gd.Spring([(0, 1)], stiffness, 2.0)), q0, v0


def elastic_rod_end(t):
    """(q, v) of the elastic rod at time t, [2, 2, 3], from the equations that its symmetry leaves: half its length l
    and the way a along the axis, l'' = sinh l cosh l a'² − 2 (l − 1), a' = cosh²1 / cosh²l; by DOP853 at 1e-13."""

    def rate(_, y):
        l, speed, _ = y
        along = (np.cosh(1.0) / np.cosh(l)) ** 2
        return speed, np.sinh(l) * np.cosh(l) * along**2 - 2 * (l - 1), along

    y = solve_ivp(rate, (0, t), (1.0, 0.0, 0.0), method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]

    def embedded(y, side):
        l, _, a = y
        return jnp.stack([jnp.cosh(l) * jnp.sinh(a), side * jnp.sinh(l), 0 * l, jnp.cosh(l) * jnp.cosh(a)])

    ends = [jax.jvp(lambda y, side=side: embedded(y, side), (y,), (jnp.array(rate(0, y)),)) for side in (1, -1)]
    return jnp.stack(chart(gd.spaces.Hyperbolic(3, "polar"), *map(jnp.stack, zip(*ends))))


def chain(n):
    """n unit masses in H³ (Poincaré ball), 0.1 apart in a row, joined by n − 1 springs, with a wave running along."""
    space = gd.spaces.Hyperbolic(3)
    along = 0.1 * (np.arange(n) - (n - 1) / 2)
    q0 = np.stack([np.tanh(along / 2), 0 * along, 0 * along], axis=1)
    v0 = 0.1 * np.stack([0 * along, np.sin(3 * along), np.cos(2 * along)], axis=1) * (1 - q0[:, :1] ** 2) / 2
    edges = [(i, i + 1) for i in range(n - 1)]
    return gd.System(space, np.ones(n), gd.Spring(edges, 1.0, 0.1)), q0, v0


def lattice(rows=8, columns=4):
    """rows × columns unit masses in H³ (Poincaré ball) near a plane, springs along the sides and diagonals of the
    squares, at rest where they are, with a wave across."""
    space = gd.spaces.Hyperbolic(3)
    i, j = (x.ravel() for x in np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"))
    q0 = 0.1 * np.stack([i - (rows - 1) / 2, j - (columns - 1) / 2, 0 * i], axis=1)
    v0 = 0.1 * np.stack([0 * i, 0 * i, np.sin(i + j)], axis=1)
    near = np.maximum(abs(i[:, None] - i[None]), abs(j[:, None] - j[None])) == 1
    edges = np.argwhere(np.triu(near))
    lengths = jax.vmap(lambda e: gd.distance(space, *e))(jnp.array(q0)[edges])
    return gd.System(space, np.ones(i.size), gd.Spring(edges, 1.0, lengths)), q0, v0


def rigid_rod():
    """Two unit masses in H³ (Poincaré ball) on a rigid rod, turning as they go: (system, q0, v0) on the constraint."""
    system, q0 = gd.builders.rod(gd.spaces.Hyperbolic(3), 1.0, stiffness=None)
    return system, *gd.project(system, q0, np.array([[0.3, 0.1, 0.2], [0.3, -0.1, 0.0]]))
