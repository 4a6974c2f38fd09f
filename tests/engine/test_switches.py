"""JAX's own switches for debugging: everything runs under each, in a process of its own."""

import os
import subprocess
import sys

import pytest
from conftest import QUICK

SCRIPT = """
import sys
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
for switch in sys.argv[2:]:
    name, _, value = switch.partition("=")
    jax.config.update(name, value or True)
import geodyn as gd

def end(k):
    body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(k, [0.0]))
    return jnp.sum(gd.integrate(body, [[1.0]], t1=0.3, steps=3).q[-1])

def rod():
    body = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Rod([(0, 1)], 1.0))
    return gd.integrate(body, [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], t1=0.2, steps=2)

def balls():
    body = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], gd.Contact(0.1))
    return gd.integrate(body, [[0.0], [0.5]], [[1.0], [0.0]], t1=1.0, steps=4)

def top():
    body = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
    return gd.integrate(body, *body.state(angular_velocity=[0.1, 1.0, 0.2]), t1=0.2, steps=2)

def torus():
    space = gd.Manifold(lambda x: jnp.diag(jnp.stack([jnp.ones(()), (2.0 + jnp.cos(x[0])) ** 2])), dim=2)
    return gd.distance(space, [0.1, 0.2], [0.3, 0.1])

few = {
    "integrate": lambda: end(2.0),
    "gradient": lambda: jax.jit(jax.grad(end))(2.0),
}
all_of_them = few | {
    "batch": lambda: jax.jit(jax.vmap(end))(jnp.array([1.0, 2.0])),
    "eager gradient": lambda: jax.grad(end)(2.0),
    "rod": rod,
    "balls": balls,
    "top": top,
    "equation": lambda: gd.integrate(gd.ODE(lambda t, y: -y), [1.0], t1=1.0, steps=4),
    "distance": lambda: gd.distance(gd.spaces.Sphere(2), [0.1, 0.2], [0.3, 0.1]),
    "torus": torus,
    "curvature": lambda: gd.curvature(gd.swimmers.Purcell(), [0.1, 0.2]),
    "stroke": lambda: gd.optimal_stroke(gd.swimmers.PushMePullYou(), displacement=0.1, base=(10.0, 4.0)),
}
for name, task in (few if sys.argv[1] == "few" else all_of_them).items():
    if not ("jax_disable_jit" in sys.argv and name == "stroke"):  # Minutes, operation by operation.
        task()
        print(name, flush=True)
"""


def run(tasks, *switches):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, tasks, *switches]
    return subprocess.run(command, env=os.environ | QUICK, timeout=280, capture_output=True, text=True)


def test_nan_and_promotion():
    """Under both of these every call of integrate failed."""
    done = run("few", "jax_debug_nans", "jax_debug_infs", "jax_numpy_dtype_promotion=strict")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n") == ["integrate", "gradient", ""]


SWITCHES = [
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_numpy_dtype_promotion=strict",
    "jax_numpy_rank_promotion=raise",
    "jax_check_tracer_leaks",
    "jax_enable_checks",
    "jax_log_compiles",
    "jax_disable_jit",
]


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch(switch):
    done = run("all", switch)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("\n") >= 11
