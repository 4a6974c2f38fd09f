"""Members of batches, each a function of a parameter k that all share and of its own x [2]: every kind of program."""

import jax.numpy as jnp

import geodyn as gd


def oscillator(k, x):
    system = gd.Lagrangian(lambda q, v: 0.5 * (1 + 0.1 * q[0] ** 2) * v @ v - 0.5 * k * q @ q - q[0] * q[1])
    return gd.integrate(system, x, 0.1 * x, t1=1.0, steps=10, throw=False).q[-1]


def network(k, x):
    weights = k * jnp.sin(jnp.arange(80.0)).reshape(2, 40)
    system = gd.Lagrangian(lambda q, v: 0.5 * v @ v - jnp.sum(jnp.tanh(q @ weights)))
    return gd.integrate(system, x, 0.1 * x, t1=1.0, steps=5, throw=False).q[-1]


def pendulum(k, x):
    system = gd.System(gd.spaces.Euclidean(2), [1.0, 2.0], gd.Rod([(0, 1)], 0.7), gd.Harmonic(k, [0.0, 0.0]))
    along = jnp.stack([jnp.cos(x[0]), jnp.sin(x[0])])
    across = jnp.stack([-along[1], along[0]])
    q, v = jnp.stack([x, x + 0.7 * along]), jnp.stack([0 * across, x[1] * across])
    return gd.integrate(system, q, v, t1=1.0, steps=10, throw=False).q[-1, 1]


def top(k, x):
    body = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
    q, v = body.state(angular_velocity=jnp.stack([x[0], x[1], 1.0 + k]))
    return gd.integrate(body, q, v, t1=1.0, steps=10, method=gd.Gauss(2), throw=False).q[-1, 0, 3:5]


def balls(k, x):
    system = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0 + k], gd.Contact(radii=[0.2, 0.2]))
    q = jnp.stack([jnp.zeros(2), jnp.ones(2) + 0.1 * x])
    return gd.integrate(system, q, jnp.array([[1.0, 0.9], [-1.0, -0.9]]), t1=1.0, steps=10, throw=False).q[-1, 0]


def stroke(k, x):
    swimmer, method = gd.swimmers.SymmetricPurcell(), gd.Direct(harmonics=3, steps=12)
    best = gd.optimal_stroke(swimmer, [0.5, 0.5], displacement=0.02 * (k + 0.1 * x[0]), method=method)
    return jnp.stack([best.cost, best.cost])


def separation(k, x):
    space = gd.Manifold(lambda x: (1 + k * x @ x) * jnp.eye(2), 2)
    return jnp.stack([gd.distance(space, x, x + 0.1), 0.0 * k])


def pile(k, x):
    wall = gd.Wall(lambda x: x[1] + 5.0, restitution=0.5)
    spring = gd.Spring([(0, 1)], k, 1.0)
    system = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], spring, gd.Gravity(1.0), wall)
    method = gd.methods.Moreau()
    return gd.integrate(system, jnp.stack([x, x + 1]), t1=1.0, steps=4, method=method, throw=False).q[-1, 0]
