"""Batches that several devices share: on every kind of mesh the numbers of one device. The devices are virtual ones of
this processor, in a process of their own that has a few minutes."""

import os
import subprocess
import sys

import pytest
from conftest import QUICK

SCRIPT = """
import sys
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import geodyn as gd

count, name, *kinds = sys.argv[1:]
assert jax.local_device_count() == int(count)

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

run = globals()[name]
k, x = jnp.asarray(0.8), jnp.linspace(0.2, 0.9, 16).reshape(8, 2)

def loss(k, x):
    return jnp.sum(jax.vmap(lambda x: run(k, x))(x) ** 2)

def values(k, x):
    return (jax.vmap(lambda x: run(k, x))(x), *jax.grad(loss, (0, 1))(k, x))

wanted = jax.jit(values)(k, x)
for kind in kinds:
    axes = AxisType.Explicit if kind.startswith("explicit") else AxisType.Auto
    mesh = jax.make_mesh((int(count),), ("b",), axis_types=(axes,))
    spread = jax.device_put(x, NamedSharding(mesh, P("b", None)))
    if kind == "shard_map":
        own = jax.shard_map(values, mesh=mesh, in_specs=(P(), P("b")), out_specs=(P("b"), P(), P("b")))
        found = jax.jit(own)(k, spread)
    elif kind == "pmap":
        parts = jax.pmap(values, in_axes=(None, 0))(k, x.reshape(int(count), -1, 2))
        found = parts[0].reshape(x.shape), parts[1].sum(), parts[2].reshape(x.shape)
    elif kind.endswith("set"):
        with jax.set_mesh(mesh):
            found = jax.jit(values)(k, spread)
    else:
        found = jax.jit(values)(k, spread)
        forward = jax.jit(jax.vmap(lambda x: run(k, x))).lower(spread).compile()
        asked = " while(" in forward.as_text() and "all-reduce" in forward.as_text()
        assert name in ("balls", "stroke") or not asked, "the devices wait for each other in a loop"
    assert kind == "pmap" or len(found[0].sharding.device_set) == int(count)
    for got, want in zip(found, wanted):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13, err_msg=kind)
    print(kind, flush=True)
"""
KINDS = ["explicit", "explicit set", "auto", "auto set", "shard_map", "pmap"]


def run(count, name, kinds, **environment):
    flags = f"--xla_force_host_platform_device_count={count}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(count), name, *kinds],
        env=os.environ | {"XLA_FLAGS": flags} | environment,
        timeout=280,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[:-1] == list(kinds)


@pytest.mark.newest
@pytest.mark.parametrize("count", [2, 4])
def test_any_mesh(count):
    run(count, "oscillator", KINDS if count == 4 else KINDS[:1], **QUICK)


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.parametrize("name", ["network", "pendulum", "top", "balls", "stroke"])
def test_everything_on_any_mesh(name):
    run(2, name, ["explicit" if name == "network" else "explicit set", "auto", "shard_map", "pmap"], **QUICK)


CLOSED_OVER = """
import jax, jax.numpy as jnp
import geodyn as gd
jax.set_mesh(jax.make_mesh((2,), ("b",)))

@jax.jit
def run(k, x):
    weights = k * jnp.ones((2, 2))
    system = gd.Lagrangian(lambda q, v: 0.5 * v @ v - jnp.sum(jnp.sin(q @ weights)))
    return jax.vmap(lambda x: gd.integrate(system, x, t1=1.0, steps=2).q)(x)

run(1.0, jax.device_put(jnp.ones((4, 2)), jax.sharding.PartitionSpec("b")))
"""


def test_what_no_mesh_allows_is_said():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", CLOSED_OVER], env=os.environ | flags, timeout=280, capture_output=True, text=True
    )
    assert "ValueError: a function of the system uses an array that was computed outside of it" in done.stderr
