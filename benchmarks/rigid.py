"""Rigid bodies over 10⁶ steps: what is conserved, beside the explicit steppers of free rotation.

The free body of the case R01 near its unstable axis (inertia 1, 2, 3; W = (0.02, 1, 0.03), a flip every 15.3), and a
heavy asymmetric top, of which only the momentum about the vertical is conserved. Of the relative error of the energy
the table gives the largest, and the rise of the line through all: a drift would be as large as the largest error.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from timing import elapsed, machine, table

import geodyn as gd

STEP, SAVES = 0.05, 1000
INERTIA, SPIN = np.array([1.0, 2.0, 3.0]), np.array([0.02, 1.0, 0.03])


def row(name, seconds, steps, rotation, momentum, energy):
    """One line of the table."""
    error = np.asarray(energy / energy[0] - 1)
    rise = np.polyfit(np.linspace(0, 1, len(error)), error, 1)[0]
    defect = np.abs(np.swapaxes(rotation, 1, 2) @ rotation - np.eye(3)).max()
    return [name, 1e6 * seconds / steps, np.abs(momentum - momentum[0]).max(), defect, np.abs(error).max(), rise]


def implicit(name, stages, body, start, steps, conserved=slice(None)):
    """A line of `integrate`."""
    method, every = gd.Gauss(stages), steps // SAVES

    def run():
        return gd.integrate(body, *start, t1=STEP * steps, steps=steps, save_every=every, method=method)

    run()
    seconds, trajectory = elapsed(run)
    motion = jax.tree.map(lambda x: np.asarray(x)[:, 0], gd.rigid.rigid_motion(trajectory))
    return row(name, seconds, steps, motion.rotation, motion.angular_momentum[:, conserved], trajectory.energy)


def explicit(name, step, steps):
    """A line of an explicit stepper of free rotation."""

    def run():
        return gd.rigid.free_rotation(INERTIA, np.eye(3), SPIN, t1=STEP * steps, steps=steps, step=step)

    run()
    seconds, rotation = elapsed(run)
    R = np.asarray(rotation[:: steps // SAVES])
    W = np.linalg.solve(R * INERTIA, np.broadcast_to((INERTIA * SPIN)[:, None], (len(R), 3, 1)))[..., 0]
    return row(name, seconds, steps, R, np.einsum("tij,tj->ti", R, INERTIA * W), 0.5 * (INERTIA * W**2).sum(axis=1))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10**6)
    steps = parser.parse_args().steps
    print(machine())
    body = gd.rigid.RigidBodies(INERTIA, pinned=np.zeros(3))
    free = body.state(angular_velocity=SPIN)
    rows = [implicit(f"free, Gauss {stages}", stages, body, free, steps) for stages in (1, 2, 3, 4)]
    top = gd.rigid.heavy_top([1.0, 2.0, 2.5], 1.0, (0.3, 0.2, 0.8), 1.0)
    spun = top.state(gd.groups.SO3().exp(jnp.array([0.6, 0.2, 0.1])), [0.3, 0.2, 2.0])
    rows += [implicit(f"heavy, Gauss {stages}", stages, top, spun, steps, [2]) for stages in (3, 4)]
    rows += [
        explicit("free, first order", gd.rigid.momentum_step, steps),
        explicit("free, Buss", gd.rigid.buss_step, steps),
    ]
    head = ["body", "µs a step", "momentum", "|RᵀR − 1|", "energy, largest", "energy, rise"]
    table(f"Rigid bodies, largest errors over {steps:.0e} steps, h = {STEP}", head, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
