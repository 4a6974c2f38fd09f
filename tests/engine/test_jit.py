"""The boundary to `jax.jit`."""

import gc
import importlib
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._engine import internals
from geodyn._engine.jit import KEPT, for_few_runs, for_one_run, jit

pytestmark = pytest.mark.newest


def swing(angle, table):
    if table.shape != (2,):
        raise ValueError("a table of two")
    return jnp.sin(angle) * table


@pytest.mark.parametrize("compiled", [for_few_runs, for_one_run])
def test_a_quick_program_inside_of_other_programs(compiled):
    """A program with options of its own may stand inside of another, whose options hold then: also where nothing that
    it is given is traced."""
    quick, half, table = compiled(swing), jnp.array(0.5), jnp.array([2.0, 3.0])
    wanted = np.sin(0.5) * np.array([2.0, 3.0])
    np.testing.assert_allclose(quick(0.5, table), wanted, rtol=1e-15)
    np.testing.assert_allclose(jax.jit(lambda x: x + quick(half, table))(0.0), wanted, rtol=1e-15)
    np.testing.assert_allclose(jax.vmap(lambda x: quick(x, table))(jnp.full(3, 0.5)), [wanted] * 3, rtol=1e-15)
    np.testing.assert_allclose(jax.jacfwd(quick)(0.5, table), np.cos(0.5) * np.array([2.0, 3.0]), rtol=1e-15)
    with pytest.raises(ValueError, match="a table of two"):
        quick(0.5, jnp.ones(3))


def test_unknown_options_are_left_out(monkeypatch):
    """A version of XLA that lacks an option compiles without it."""
    monkeypatch.setattr(internals, "QUICK", {"xla_backend_optimization_level": 1, "xla_no_such_option": False})
    internals.quick_options.cache_clear()
    assert internals.quick_options() == {"xla_backend_optimization_level": 1}
    internals.quick_options.cache_clear()


def test_numbers_are_traced_and_everything_else_is_static():
    """One program serves all values of floats, of numpy too, and arrays of numpy; results may be anything."""
    traced = []

    @jit
    def scaled(x, factor, count, name, function):
        traced.append(name)
        return {"value": function(factor * x) / count, "name": name, "count": count}

    for x, factor in ((1.0, 2.0), (np.float64(2.0), 3.0), (np.array(3.0), jnp.array(4.0))):
        found = scaled(x, factor, np.int64(2), name="one", function=jnp.sin)
        assert (found["name"], found["count"]) == ("one", 2)
        assert abs(found["value"] - np.sin(x * factor) / 2) < 1e-15
    assert traced == ["one"] * 2  # A Python float has a weak type, and an array of numpy has none.
    assert scaled(1.0, 1.0, 2, "other", jnp.cos)["name"] == traced[-1] == "other"


def test_an_error_of_the_users_force_is_reported_in_short():
    """`eqx.error_if` in a force raises the error of equinox with the user's message, as under `eqx.filter_jit`; JAX's
    own would be a long text about callbacks."""

    class Table(gd.AbstractPotential):
        def energy(self, space, x):
            return -eqx.error_if(x, x[0, 0] > 1.05, "left the table")[0, 0]

    with pytest.raises(eqx.EquinoxRuntimeError, match="left the table"):
        gd.integrate(gd.System(gd.spaces.Euclidean(1), [1.0], Table()), [[1.0]], t1=1.0, steps=10)


def test_such_an_error_is_reported_in_short_where_results_are_read(monkeypatch):
    """There it comes on a GPU, which returns results before they are computed."""
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.jit(lambda x: eqx.error_if(x, x > 0, "left the table"))(1.0))

    def late(_):
        raise caught.value

    monkeypatch.setattr(importlib.import_module("geodyn._integrators.integrate"), "raise_failure", late)
    with pytest.raises(eqx.EquinoxRuntimeError, match="left the table"):
        gd.integrate(gd.System(gd.spaces.Euclidean(1), [1.0]), [[1.0]], t1=1.0, steps=10)


@pytest.mark.long
def test_a_call_like_one_before_compiles_nothing(caplog):
    """Also by functions that choose what to compile when they are called."""
    space, v = gd.Manifold(lambda x: (1 + x @ x) * jnp.eye(2), 2), [0.2, 0.1]

    def calls(x):
        gd.exp(space, x, v), gd.log(space, x, v), gd.distance(space, x, v), gd.cells.area(space, x, v, [0.1, 0.3])

    calls([0.1, 0.0])
    with jax.log_compiles(), caplog.at_level("WARNING"):
        calls([0.0, 0.1])
    assert [line for line in caplog.messages if "Compiling" in line] == []


def test_programs_of_functions_that_nobody_has_are_let_go():
    """Those of the last `KEPT` functions stay; the others, which hold 12 MB for a metric of one's own, are freed."""
    traced = []

    @jit
    def apply(function, x):
        traced.append(function)
        return function(x)

    def fresh(k):
        def function(x):
            return k * x

        assert apply(function, 2.0) == 2.0 * k
        return function

    last = fresh(0)
    alive = [weakref.ref(fresh(k)) for k in range(1, KEPT)]
    assert apply(last, 3.0) == 0.0 and len(traced) == KEPT
    alive += [weakref.ref(fresh(k)) for k in range(KEPT, KEPT + 8)]
    traced.clear()
    gc.collect()
    assert sum(ref() is not None for ref in alive) <= KEPT
