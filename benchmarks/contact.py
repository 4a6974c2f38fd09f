"""Bodies at rest on each other with friction over 10⁵ steps of Moreau's method, cubes over 10⁴: how far they move,
which they should not, and how much the energy grows between two of 1000 saved times."""

import argparse

import jax
import numpy as np
from timing import elapsed, machine, table

import geodyn as gd

STEP, SAVES, G = 0.01, 1000, 9.81
PLANE = gd.spaces.Euclidean(2)


def incline(angle=0.3, mu=0.31):
    """A block just below the angle of friction, tan 0.3 = 0.309."""
    plane = gd.Wall(lambda x: np.cos(angle) * x[1] - np.sin(angle) * x[0], 0.0, mu)
    return gd.System(PLANE, [1.0], gd.Gravity(G), plane), np.zeros((1, 2))


def pyramid(mu=0.5):
    """A disc on two others."""
    floor = gd.Wall(lambda x: x[1] - 0.5, 0.0, mu)
    q0 = np.array([[-0.5, 0.5], [0.5, 0.5], [0.0, 0.5 + np.sqrt(3) / 2]])
    return gd.System(PLANE, [1.0] * 3, gd.Gravity(G), gd.Contact(0.5, 0.0, mu), floor), q0


def ladder(mu=0.4):
    """Two masses on a rigid rod, against a wall, at 55°."""
    angle = np.deg2rad(55)
    rough = gd.Wall(lambda x: x[1], 0.0, mu), gd.Wall(lambda x: x[0], 0.0, mu)
    q0 = np.array([[np.cos(angle), 0.0], [0.0, np.sin(angle)]])
    return gd.System(PLANE, [1.0, 1.0], gd.Gravity(G), gd.Rod([(0, 1)], 1.0), *rough), q0


def cubes(count, mu=0.5):
    """Cubes on each other, each a little aside."""
    cube = gd.rigid.box([1.0, 1.0, 1.0])
    corners = [(i, x) for i in range(count) for x in cube.vertices]
    weight, floor = gd.Gravity(G), gd.Wall(lambda x: x[2], 0.0, mu)
    touching = gd.rigid.Polyhedra([cube] * count, 0.0, mu, [(i, i + 1) for i in range(count - 1)])
    inertia, masses = np.stack([cube.inertia(1.0)] * count), np.ones(count)
    bodies = gd.rigid.RigidBodies(inertia, masses, weight, floor, touching, points=corners)
    return bodies, bodies.state(position=[[0.1 * i, 0.05 * i, 0.5 + i] for i in range(count)])[0]


def row(name, system, q0, steps):
    """One line of the table."""
    every, method = max(steps // SAVES, 1), gd.methods.Moreau()
    options = {"t1": STEP * steps, "steps": steps, "save_every": every, "method": method}

    def run():
        return gd.integrate(system, q0, 0 * q0, **options)

    run()
    seconds, t = elapsed(run)
    moved = np.abs(np.asarray(t.q) - np.asarray(t.q[0])).max()
    return [name, steps, 1e6 * seconds / steps, moved, np.diff(t.energy).max()]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10**5)
    steps = parser.parse_args().steps
    print(machine())
    bodies = {"block on an incline": incline(), "pyramid of discs": pyramid(), "leaning ladder": ladder()}
    rows = [row(name, *body, steps) for name, body in bodies.items()]
    rows += [row(f"{name} cubes", *cubes(count), steps // 10) for name, count in (("two", 2), ("three", 3))]
    head = ["at rest", "steps", "µs a step", "moved", "energy grew, at most"]
    table(f"Bodies at rest with friction, h = {STEP}", head, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
