"""Large bodies: the block-tridiagonal matrix is the whole one, its steps and derivatives are those of the dense one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._engine.numerics.bands import Banded, Full
from geodyn._integrators.contract import couplings
from geodyn._integrators.step.collocation import FORMULATIONS, UNCONSTRAINED, Problem
from geodyn._mechanics.elements.abstract import Tuples

FLAT = gd.spaces.Euclidean(3)
H = 0.02


class Dashpots(gd.AbstractDissipation):
    """Along edges: R = ½ Σ |v_i − v_j|²."""

    points: Tuples = eqx.field(static=True)

    def rayleigh(self, space, x, v):
        i, j = np.array(self.points).T
        return 0.5 * jnp.sum((v[i] - v[j]) ** 2)


class Attraction(gd.AbstractPotential):
    """Of all points by each other; it does not say so."""

    def energy(self, space, x):
        return 0.5 * jnp.sum((x[:, None] - x[None]) ** 2)


def pinned(count):
    """A rigid chain held at both ends, in the order of a shuffled pack, under gravity."""
    names = np.random.default_rng(0).permutation(count)
    place = np.argsort(names)
    q0 = np.stack([0.1 * place, 0 * place, 0.003 * (place - (count - 1) / 2) ** 2], axis=1)
    edges = np.stack([names[:-1], names[1:]], axis=1)
    lengths = np.linalg.norm(q0[edges[:, 0]] - q0[edges[:, 1]], axis=1)
    ends = [gd.Pin(i, q0[i]) for i in (names[0], names[-1])]
    return gd.System(FLAT, np.ones(count), gd.Rod(edges, lengths), *ends, gd.Gravity(9.81)), q0


def damped(count):
    """A rigid chain with dashpots along its rods."""
    system, q0 = gd.builders.chain(FLAT, count, 0.1, stiffness=None)
    return gd.System(FLAT, system.masses, *system.elements, Dashpots(system.elements[0].points)), q0


BUILDERS = {
    "chain": lambda: gd.builders.chain(gd.spaces.Hyperbolic(2), 20, 0.1, stiffness=100.0),
    "lattice": lambda: gd.builders.lattice(gd.spaces.Euclidean(2), (24, 2), 0.1, stiffness=100.0, diagonals=True),
    "two bodies": lambda: gd.builders.combine(
        *[gd.builders.chain(gd.spaces.Euclidean(2), 12, 0.1)] * 2, elements=[gd.Drag(1.0)]
    ),
    "rigid chain": lambda: gd.builders.chain(FLAT, 12, 0.1, stiffness=None),
    "rigid ring": lambda: gd.builders.ring(FLAT, 36, stiffness=None),
    "pinned": lambda: pinned(12),
    "damped": lambda: damped(24),
}
CASES = [("chain", None), ("lattice", None), ("two bodies", None), ("damped", "ggl"), ("pinned", "ggl")]
CASES += [("rigid ring", "ggl"), ("rigid ring", "index1"), ("rigid chain", "rs2"), ("damped", "rs3")]


@pytest.mark.long
@pytest.mark.parametrize("body, formulation", CASES)
def test_bands_hold_the_whole_matrix(body, formulation):
    """J⁻¹ J x = x, at a configuration without symmetries; the second multiplier of GGL, which is as small as the error
    of a step, is zero. Seen: at most 4e-14; a coupling outside of the bands leaves 1e-3 and more."""
    system, q0 = BUILDERS[body]()
    rng, n = np.random.default_rng(1), q0.size
    kind = UNCONSTRAINED if formulation is None else FORMULATIONS[formulation]
    tableau = (gd.Gauss(2) if formulation is None else gd.RadauIIA(int(formulation == "rs3") + 2)).tableau
    q, p = np.ravel(q0) + 0.01 * rng.normal(size=n), rng.normal(size=n)
    size = n + kind.sets * system.count_constraints(q)
    w, x = rng.normal(size=(2, tableau.stages, size))
    w[:, n + kind.count(size - n) :] = 0

    @jax.jit
    def found(system, q, p, w, x):
        problem = Problem(system, jnp.zeros(()), jnp.asarray(H), q, p, tableau, kind)
        assert isinstance(problem.form, Banded)
        push = jax.linearize(problem.residual, w)[1]
        factors = problem.form.factors(problem.form.matrix(push, w))
        return problem.form.solve(factors, push(x))

    np.testing.assert_allclose(found(system, jnp.asarray(q), jnp.asarray(p), w, x), x, atol=1e-11)


def form(system, stages=3):
    return couplings.form_of(system.couplings, stages, system.masses.size * system.space.dim, 1, False)


def wave(q0):
    """Velocities across."""
    along = 3 * np.arange(len(q0)) / len(q0)
    return 0.1 * np.stack([0 * along, np.sin(along), np.cos(along)], axis=1)[:, : q0.shape[1]]


def integrated(system, q0, v0):
    return gd.integrate(system, q0, v0, t1=5 * H, steps=5)


@pytest.mark.long
def test_steps_are_those_of_the_dense_matrix(monkeypatch):
    """A taut rigid chain. Seen: 2e-16 in the positions, 1e-12 of 170 in the multipliers."""
    system, q0 = BUILDERS["pinned"]()
    q0, v0 = gd.project(system, q0, 0.1 * wave(q0))
    assert isinstance(form(system), Banded)
    banded = integrated(system, q0, v0)
    monkeypatch.setattr(couplings, "FEWEST_BLOCKS", 10**6)
    jax.clear_caches()
    couplings.form_of.cache_clear()
    assert isinstance(form(system), Full)
    dense = integrated(system, q0, v0)
    monkeypatch.undo()
    jax.clear_caches()
    couplings.form_of.cache_clear()
    np.testing.assert_allclose(banded.q, dense.q, atol=1e-14)
    np.testing.assert_allclose(banded.multipliers, dense.multipliers, atol=1e-10)


@pytest.mark.weekly
@pytest.mark.long
def test_derivatives_and_batches_of_a_stiff_chain():
    """100 masses on springs of frequency 1e3 and a step of 0.02, where plain iteration diverges: both modes, and the
    differences of a batch. Seen: 1e-15 between the modes, 2e-8 beside differences, 0 between batch and one."""
    system, q0 = gd.builders.chain(gd.spaces.Euclidean(2), 100, 0.1, stiffness=1e6)
    v0, step = wave(q0), 1e-6
    direction = np.random.default_rng(2).normal(size=v0.shape)
    weights = np.cos(np.arange(q0.size)).reshape(q0.shape)

    def goal(v):
        run = integrated(system, q0, v)
        return jnp.sum(weights * run.q[-1]), run.stats.jacobians

    (value, jacobians), gradient = jax.jit(jax.value_and_grad(goal, has_aux=True))(v0)
    along = jax.jit(lambda v, d: jax.jvp(lambda v: goal(v)[0], (v,), (d,))[1])(v0, direction)
    ends = jax.jit(jax.vmap(goal))(v0 + step * np.array([0, 1, -1])[:, None, None] * direction)[0]
    assert int(jacobians) > 0
    np.testing.assert_allclose(ends[0], value, rtol=1e-12)
    np.testing.assert_allclose(np.sum(gradient * direction), along, rtol=1e-11)
    np.testing.assert_allclose((ends[1] - ends[2]) / (2 * step), along, rtol=1e-6)


def test_which_bodies_are_sparse():
    """A shuffled chain is as narrow as a chain; a star, a small body, and one with an element that does not say what it
    couples are dense."""
    chain, _ = BUILDERS["rigid chain"]()
    assert form(chain).blocks.shape == (12, 4)
    assert len(form(pinned(12)[0]).blocks) == 12
    star = gd.System(FLAT, np.ones(20), gd.Spring([(0, i) for i in range(1, 20)], 1.0, 1.0))
    silent = gd.System(FLAT, chain.masses, *chain.elements, Attraction())
    for system in (star, silent, gd.builders.chain(FLAT, 4)[0], gd.Lagrangian(lambda q, v: v @ v)):
        assert system.couplings is None or isinstance(form(system), Full)
    assert silent.couplings is None
