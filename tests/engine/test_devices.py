"""Batches that several devices share: on every kind of mesh the numbers of one device. The devices are virtual ones of
this processor, in a process of their own that has a few minutes."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import QUICK
from helpers import members
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import geodyn as gd

SCRIPT = """
import sys
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

count, name, *kinds = sys.argv[1:]
assert jax.local_device_count() == int(count)

from helpers import members

run = getattr(members, name)
k, x = jnp.asarray(0.8), jnp.linspace(0.2, 0.9, 16).reshape(8, 2)

def loss(k, x):
    return jnp.sum(jax.vmap(lambda x: run(k, x))(x) ** 2)

def values(k, x):
    each = jax.vmap(jax.grad(lambda x: jnp.sum(run(k, x) ** 2)))  # The derivative inside of the batch, not around it.
    return (jax.vmap(lambda x: run(k, x))(x), *jax.grad(loss, (0, 1))(k, x), each(x))

wanted = jax.jit(values)(k, x)
for kind in kinds:
    axes = AxisType.Explicit if kind.startswith("explicit") else AxisType.Auto
    mesh = jax.make_mesh((int(count),), ("b",), axis_types=(axes,))
    spread = jax.device_put(x, NamedSharding(mesh, P("b", None)))
    if kind == "shard_map":
        own = jax.shard_map(values, mesh=mesh, in_specs=(P(), P("b")), out_specs=(P("b"), P(), P("b"), P("b")))
        found = jax.jit(own)(k, spread)
    elif kind == "pmap":
        parts = jax.pmap(values, in_axes=(None, 0))(k, x.reshape(int(count), -1, 2))
        found = parts[0].reshape(x.shape), parts[1].sum(), parts[2].reshape(x.shape), parts[3].reshape(x.shape)
    elif kind.endswith("set"):
        with jax.set_mesh(mesh):
            found = jax.jit(values)(k, spread)
    else:
        found = jax.jit(values)(k, spread)
        forward = jax.jit(jax.vmap(lambda x: run(k, x))).lower(spread).compile()
        text = forward.as_text()
        asked = (" while(" in text and "all-reduce" in text) or "all-gather" in text
        assert name in ("balls", "stroke") or not asked, "the devices wait for each other in a loop"
        six = jax.jit(lambda k, x: jax.value_and_grad(loss)(k, x[:6]))
        for got, want in zip(six(k, spread) if kind == "auto" else (), six(k, x)):
            np.testing.assert_allclose(got, want, rtol=1e-11, err_msg="of members that the devices cannot share evenly")
    assert kind == "pmap" or len(found[0].sharding.device_set) == int(count)
    for got, want in zip(found, wanted):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13, err_msg=kind)
    print(kind, flush=True)
"""
TESTS = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
KINDS = ["explicit", "explicit set", "auto", "auto set", "shard_map", "pmap"]


def run(count, name, kinds, **environment):
    flags = f"{environment.pop('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(count), name, *kinds],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": TESTS} | environment,
        timeout=280,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[:-1] == list(kinds)


@pytest.mark.weekly
@pytest.mark.newest
@pytest.mark.long
@pytest.mark.parametrize("count", [2, 4])
def test_any_mesh(count):
    run(count, "oscillator", KINDS if count == 4 else KINDS[:1], **QUICK)


# Two kinds of mesh for each, since every kind compiles all programs again; the oscillator is on all of them.
ON_MESHES = {
    "network": ["explicit", "shard_map"],
    "pendulum": ["explicit set", "pmap"],
    "top": ["auto", "shard_map"],
    "balls": ["explicit set", "shard_map"],
    "stroke": ["auto", "pmap"],
}


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", ON_MESHES)
def test_everything_on_any_mesh(name):
    run(2, name, ON_MESHES[name], **QUICK)


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


def test_points_of_a_chart_on_a_mesh_with_explicit_axes():
    """What asks whether a point is in its chart, inside of a batch: a page of the docs failed."""
    space, y = gd.spaces.Hyperbolic(2), jnp.array([0.2, -0.3])
    x = jnp.linspace(0.1, 0.4, 8).reshape(4, 2)
    mesh = jax.make_mesh((1,), ("b",), axis_types=(AxisType.Explicit,))
    spread = jax.device_put(x, NamedSharding(mesh, PartitionSpec("b")))

    def values(x):
        return gd.distance(space, x, y), gd.exp(space, x, y), jax.grad(lambda x: gd.inner(space, x, y, y))(x)

    for found, wanted in zip(jax.jit(jax.vmap(values))(spread), jax.vmap(values)(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.long
@pytest.mark.parametrize("name", ["oscillator", "network", "pendulum", "top", "balls", "stroke", "separation", "pile"])
def test_programs_for_other_devices(name):
    """Forward and backward they translate for GPUs and TPUs, without calls that only a CPU knows or to the host."""
    run = getattr(members, name)

    def loss(k, x):
        return jnp.sum(jax.vmap(partial(run, k))(x))

    args = jnp.asarray(0.8), jnp.linspace(0.2, 0.9, 16).reshape(8, 2)
    for platform in ("cuda", "tpu"):
        text = jax.jit(jax.value_and_grad(loss, (0, 1))).trace(*args).lower(lowering_platforms=(platform,)).as_text()
        assert text.count("\n") > 1000 and not re.findall("lapack|callback|geodyn_", text)
