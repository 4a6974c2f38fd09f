"""Programs compiled by ourselves: the same numbers as the plain path, in every transformation."""

import logging
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._engine import native
from geodyn._engine.program import members

pytestmark = [pytest.mark.users, pytest.mark.newest]


def pendulum(q, v):
    return 0.5 * v[0] ** 2 + jnp.cos(q[0])


SYSTEM = gd.Lagrangian(pendulum)


def end(q):
    return gd.integrate(SYSTEM, q, jnp.array([0.5]), t1=2.0, steps=20).q[-1, 0]


TRANSFORMED = {
    "vmap": lambda q: jax.vmap(end)(jnp.stack([q, q]))[1],
    "grad in a scan": lambda q: jax.grad(
        lambda q: jax.lax.scan(lambda q, _: (q + 0.1 * end(q), None), q, None, length=2)[0][0]
    )(q),
}


@pytest.mark.long
@pytest.mark.parametrize("name", TRANSFORMED)
def test_both_paths_agree(name, monkeypatch):
    """Expected 4e-16."""
    q = jnp.array([1.3])
    fast = TRANSFORMED[name](q)
    monkeypatch.setattr(members, "is_usable", lambda: False)
    monkeypatch.setattr(native, "is_usable", lambda: False)
    jax.clear_caches()
    np.testing.assert_allclose(TRANSFORMED[name](q), fast, rtol=1e-13)
    monkeypatch.undo()
    jax.clear_caches()


@pytest.mark.long
def test_what_all_members_share_is_pulled_by_all():
    """A batch within a program, forwards and backwards. Seen: 2e-14."""

    def many(t1, q):
        return jax.vmap(lambda q: gd.integrate(SYSTEM, q, jnp.array([0.5]), t1=t1, steps=64).q[-1, 0])(q)

    q = jnp.linspace(0.5, 1.5, 37)[:, None]
    back = jax.jit(jax.grad(lambda t1, q: jnp.sum(many(t1, q)), (0, 1)))(2.0, q)
    forward = jax.jit(lambda t1, q, *d: jax.jvp(many, (t1, q), d)[1])
    np.testing.assert_allclose(back[0], jnp.sum(forward(2.0, q, 1.0, 0 * q)), rtol=1e-12)
    np.testing.assert_allclose(back[1][:, 0], forward(2.0, q, 0.0, jnp.ones_like(q)), rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("function", [end, jax.grad(end)])
def test_a_batch_of_one_is_one(function):
    """The same bits."""
    many, alone = jax.jit(jax.vmap(jax.vmap(function)))(jnp.array([[[1.3]]])), jax.jit(function)(jnp.array([1.3]))
    np.testing.assert_array_equal(many[0, 0], alone)


def test_what_a_batch_has_in_common_is_pulled_by_all():
    """A number that is the same for every member, and one that each has."""

    def linear(k, x):
        return [k * x[0], 3 * x[1]]

    def call(k, *x):
        return native.native_linear(linear, k, x)

    def many(x, y, k):
        return jnp.sum(jnp.stack(jax.vmap(call, (0, None, 0))(k, x, y)))

    k = jnp.array([2.0, 5.0, -1.0])
    x_bar, y_bar = jax.jit(jax.grad(many, (0, 1)))(jnp.array(2.0), k, k)
    assert x_bar == 6 and y_bar.tolist() == [3, 3, 3]


@pytest.mark.long
def test_stiff_alone_and_in_a_batch():
    """A spring of frequency 1e3 and a step of 0.05 need a Jacobian, which is learned from the residual. Seen: 3e-14 in
    the positions, 3e-11 in the energy."""

    def run(stiffness):
        body = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Spring([(0, 1)], stiffness, 1.0))
        return gd.integrate(body, [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.3], [0.0, -0.1]], t1=1.0, steps=20)

    alone, batch = run(1e6), jax.vmap(run)(jnp.array([1.0, 1e6]))
    assert int(alone.stats.jacobians) > 0 and int(batch.stats.jacobians[1]) > 0 == int(batch.stats.jacobians[0])
    np.testing.assert_allclose(alone.q, batch.q[1], atol=1e-12)
    np.testing.assert_allclose(alone.energy, alone.energy[0], rtol=1e-9)


def test_constant_arguments():
    """All arguments constants of the program, and results of which only a count is wanted."""

    def run():
        return gd.integrate(SYSTEM, [1.3], [0.5], t1=2.0, steps=20)

    np.testing.assert_allclose(jax.jit(lambda: run().q[-1])(), run().q[-1], rtol=1e-15)
    assert int(jax.jit(lambda: run().stats.steps)()) == 20


def test_python_numbers_are_arguments():
    """Outside of `jit` as well."""
    x = jnp.arange(3.0)
    for number in (2.0, 2, True):
        found = jax.vmap(lambda x, y=number: native.native(lambda x, y: x * y, x, y))(x)
        np.testing.assert_array_equal(found, x * number)


@pytest.mark.long
def test_a_metric_with_an_inverse():
    """The factors of small matrices are programs of our own."""
    space = gd.Manifold(lambda x: jnp.linalg.inv(jnp.diag(jnp.stack([jnp.ones(()), 1 + x[0] ** 2]))), 2)
    trajectory = gd.integrate(gd.System(space, [1.0]), [[0.5, 0.0]], [[0.1, 0.3]], t1=1.0, steps=20)
    np.testing.assert_allclose(trajectory.energy, trajectory.energy[0], rtol=1e-12)


def bounced(q):
    ball = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Wall(lambda x: x[0]))
    return gd.integrate(ball, q[None], jnp.array([[-1.0]]), t1=2.0, steps=4).q[-1, 0]


@pytest.mark.parametrize(("function", "most"), [(end, 0), pytest.param(bounced, 3, marks=pytest.mark.long)])
def test_other_devices_get_the_plain_program(function, most):
    """What only CPUs run stays there, and there it is all of the motion: one call, and but for the contacts at the
    start and the order of the impacts no loop beside it."""
    run = jax.jit(function)
    lowered = {
        name: run.trace(jnp.array([1.3])).lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda")
    }
    assert "geodyn_" in lowered["cpu"] and lowered["cpu"].count("stablehlo.while") <= most
    assert "geodyn_" not in lowered["cuda"] and 'inlineable = "false"' not in lowered["cuda"]


@pytest.mark.long
def test_a_jax_that_lacks_something():
    """Programs run as they are written, and one line says so: what is read of JAX's programs is tried once."""
    code = """
import diffrax, jax, lineax, optimistix
jax.config.update("jax_enable_x64", True)
import jax.extend.core
del jax.extend.core.Primitive
import geodyn as gd, numpy as np
from geodyn._engine import internals, native
run = jax.jit(jax.vmap(jax.value_and_grad(lambda k: gd.integrate(
    gd.Lagrangian(lambda q, v: 0.5 * v @ v - k * q @ q), [1.0], [0.0], t1=1.0, steps=64).q[-1, 0])))
k = np.array([0.5, 1.0])
value, slope = run(k)
assert not native.is_usable() and native.program_p is None
np.testing.assert_allclose(value, np.cos((2 * k) ** 0.5), rtol=1e-11)
np.testing.assert_allclose(slope, -np.sin((2 * k) ** 0.5) / (2 * k) ** 0.5, rtol=1e-10)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("programs run slower than they could") == 1


def test_whole_numbers_stay_exact():
    """Beyond 2⁵³, where a float has no room for them: 2⁵³ + 1 was 4 modulo 7."""

    def rest(n, x):
        return (n % 7, jnp.sum(x))

    n, x = jnp.array([2**53 + 1, -(2**62) - 1]), jnp.ones(2)
    got = jax.jit(lambda n, x: native.native(rest, n, x))(n, x)[0]
    np.testing.assert_array_equal(got, [(2**53 + 1) % 7, (-(2**62) - 1) % 7])


def test_an_elementary_function_of_rows_that_are_all_the_same():
    """What the members of a batch share stands once; the function is of all numbers. (A warning is an error here.)"""
    tangents = jnp.linspace(0.1, 2.0, 12).reshape(4, 3)

    def angles(tangents):
        return jax.vmap(lambda row: jnp.arctan2(row, jnp.ones_like(row)))(tangents)

    np.testing.assert_allclose(native.native_of(angles, tangents), np.arctan(tangents), rtol=1e-14)


def test_a_fault_of_the_compiler_is_a_warning(monkeypatch, caplog):
    """And the program runs by XLA. (In the other tests it is an error, see conftest.)"""

    def fails(*_):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(logging.getLogger("geodyn"), "handlers", [])
    monkeypatch.setattr(members, "compile_program", fails)
    value = jax.jit(lambda q: end(3 * q))(jnp.array([0.4]))
    assert "our compiler failed: RuntimeError('no such instruction')" in caplog.text
    monkeypatch.undo()
    np.testing.assert_allclose(value, end(jnp.array([1.2])), rtol=1e-13)


def test_points_are_a_loop_for_our_compiler_alone():
    """Also in a function that JAX has traced before, and in its derivative; few points are none."""

    @jax.jit
    def of_points(x):
        return native.for_points(lambda y: jnp.sin(y) * jnp.sum(y) / 2, x)

    def loops(function, x):
        return str(jax.make_jaxpr(function)(x)).count("scan[")

    many, few = jnp.ones((40, 2)), jnp.ones((4, 2))
    pulled = jax.grad(lambda x: jnp.sum(native.native(of_points, x)))
    for function in (of_points, lambda x: native.native(of_points, x), of_points):
        np.testing.assert_allclose(function(many), np.sin(1.0), rtol=1e-6)
    assert loops(of_points, many) == 0
    assert loops(lambda x: native.native(of_points, x), many) == (1 if members.llvm is not None else 0)
    assert loops(lambda x: native.native(of_points, x), few) == 0
    np.testing.assert_allclose(pulled(many)[:4], pulled(few), rtol=1e-6)
