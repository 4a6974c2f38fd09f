"""The compiled layer beside the plain program, on physics of every kind: first call and later ones, as ratios.

    python benchmarks/plain.py [NAME ...]

A ratio above 1 says that the compiled layer is slower: it should be left out where that is more than a tenth.
"""

import sys
import time
from contextlib import ExitStack
from unittest import mock

import equinox as eqx
import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

import geodyn as gd  # noqa: E402
from geodyn._engine import native  # noqa: E402


def network(width, size):
    return eqx.nn.MLP(size, "scalar", width, 2, activation=jnp.tanh, key=jax.random.key(0))


class Neural(gd.AbstractPotential):
    """A potential that is a network of two hidden layers."""

    network: eqx.Module

    def energy(self, space, x):
        return self.network(x.reshape(-1))


def plane(*elements, masses=(1.0, 1.0)):
    return gd.System(gd.spaces.Euclidean(2), list(masses), *elements)


def metric(factor):
    return gd.System(gd.Manifold(lambda x: factor(x) * jnp.eye(2), 2), [1.0, 1.0])


TABLE = jnp.linspace(0.0, 3.0, 64), 1 + jnp.linspace(0.0, 3.0, 64) ** 2
EDGES = [(i, i + 1) for i in range(19)]
CORNERS = [(i, j) for i in range(4) for j in range(i)]
PROBLEMS = {
    "truss": lambda: plane(gd.Spring(CORNERS, 3.0, 0.5), masses=[1.0] * 4),
    "spring": lambda: plane(gd.Spring([(0, 1)], 3.0, 0.5)),
    **{f"neural potential {w}": lambda w=w: plane(Neural(network(w, 4))) for w in (16, 64, 256)},
    "neural metric 16": lambda: metric(lambda x: 1 + network(16, 2)(x) ** 2),
    "metric from a table": lambda: metric(lambda x: jnp.interp(x @ x, *TABLE)),
    "cond": lambda: metric(lambda x: jax.lax.cond(x[0] > 0.3, lambda x: 1 + x @ x, lambda x: 1.09 + x[1] ** 2, x)),
    "while_loop": lambda: metric(lambda x: jax.lax.fori_loop(0, 8, lambda _, y: 1 + 0.1 * jnp.sin(y) * x[0], 1.0)),
    "eigh": lambda: metric(lambda x: 1 + jnp.linalg.eigh(jnp.diag(x) + 0.1)[0][1] ** 2),
    "20 masses": lambda: plane(gd.Spring(EDGES, 3.0, 0.5), masses=[1.0] * 20),
}


TIMES, SECONDS = 3, 0.3  # How often each is compiled, and for how long it then runs.


def layered():
    """As it is."""
    return ExitStack()


def plainly():
    """Without the compiled layer, as on a JAX that does not take its operations."""
    stack = ExitStack()
    stack.enter_context(mock.patch.object(native, "is_usable", lambda: False))
    return stack


def measured(run, *args):
    """[(seconds of the first call, of a later one)] with the layer and without, by turns; of each the least."""
    both = [[once(way, run, *args) for way in (layered, plainly)] for _ in range(TIMES)]
    return [tuple(map(min, zip(*each, strict=True))) for each in zip(*both, strict=True)]


def once(way, run, *args):
    """(seconds of the first call, of a later one)."""
    jax.clear_caches()
    with way():
        begin = time.perf_counter()
        compiled = eqx.filter_jit(run)
        jax.block_until_ready(compiled(*args))
        first = time.perf_counter() - begin
    later, end = [], time.perf_counter() + SECONDS
    while len(later) < 2 or time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*args))
        later.append(time.perf_counter() - begin)
    return first, min(later)


def kinds(system):
    """{what is run: (a function, its arguments)}"""
    count = system.masses.size
    q = jnp.stack([0.5 * jnp.arange(count), 0.1 * jnp.arange(count) % 0.3], axis=1)
    v, trained = 0.3 * jnp.cos(q), eqx.filter(system, eqx.is_inexact_array)
    adam, fixed = optax.adam(1e-3), eqx.filter(system, eqx.is_inexact_array, inverse=True)

    def end(v, system=system):
        return jnp.sum(gd.integrate(system, q, v, t1=1.0, steps=100).q[-1] ** 2)

    def trains(trained, state, starts):
        def mean(x):
            return jnp.mean(jax.vmap(end, (0, None))(starts, eqx.combine(x, fixed)))

        loss, slopes = jax.value_and_grad(mean)(trained)
        changes, state = adam.update(slopes, state)
        return loss, optax.apply_updates(trained, changes), state

    runs = {"forward": (end, v), "gradient": (jax.grad(end), v)}
    batches = {size: v * jnp.linspace(0.9, 1.1, size)[:, None, None] for size in (32, 1000)}
    runs |= {str(size): (jax.vmap(end), x) for size, x in batches.items()}
    if len(jax.tree.leaves(trained)) > 1:  # Masses alone are nothing to learn.
        runs["training"] = (trains, trained, adam.init(trained), batches[32])
    return runs


def main(names):
    """Prints a table."""
    print(f"JAX {jax.__version__}; seconds of the first call and milliseconds of later ones, compiled layer / plain")
    for name in names or PROBLEMS:
        for kind, (run, *args) in kinds(PROBLEMS[name]()).items():
            layer, plain = measured(run, *args)
            print(
                f"{name:22s}{kind:10s}{layer[0]:7.2f} /{plain[0]:6.2f} = {layer[0] / plain[0]:5.2f}"
                f"{1e3 * layer[1]:10.3f} /{1e3 * plain[1]:8.3f} = {layer[1] / plain[1]:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
