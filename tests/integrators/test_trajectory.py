"""Trajectories: saving every n-th step, dense evaluation, files, batches, failures, progress."""

import json
import os
import pickle
import signal
import sys
import time
from xml.etree import ElementTree

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.programs import length
from scipy.integrate import solve_ivp

import geodyn as gd
from geodyn._foundations.progress import compiling
from geodyn._integrators.saving import parts


def pendulum(q, v):
    return 0.5 * v[0] ** 2 + jnp.cos(q[0])


PENDULUM = gd.Lagrangian(pendulum)


@pytest.fixture(scope="module")
def whole():
    return gd.integrate(PENDULUM, [1.3], [0.5], t1=6.0, steps=60)


def test_save_every(whole):
    """The same states whatever is saved, to rounding: they are two programs. Seen: 1.1e-16 after 60 steps."""
    thin = gd.integrate(PENDULUM, [1.3], [0.5], t1=6.0, steps=60, save_every=6)
    np.testing.assert_allclose(thin.q, whole.q[::6], rtol=0, atol=2e-15)
    np.testing.assert_allclose(thin.t, whole.t[::6], rtol=1e-15)
    counts = {"steps": np.int64(60), "save_every": np.int32(6), "max_impacts": np.uint8(64)}
    np.testing.assert_array_equal(gd.integrate(PENDULUM, [1.3], [0.5], t1=6.0, **counts).q, thin.q)
    assert whole.q.shape == (61, 1) and int(whole.stats.steps) == 60 and int(whole.result) == gd.RESULTS.successful


def test_saving_seldom_is_no_longer_a_program():
    """The step stands in it once, whatever is saved: it takes most of the time to compile."""

    def run(q, every):
        return gd.integrate(PENDULUM, q, q, t1=1.0, steps=4, save_every=every).q

    once, seldom = (length(jax.make_jaxpr(lambda q, e=e: run(q, e))(jnp.ones(1)).jaxpr) for e in (1, 2))
    assert seldom < 1.2 * once


def test_evaluate_between_steps(whole):
    """Collocation polynomial: the saved states at the steps, order s + 1 between them (fit within 3.5 to 6.5)."""
    np.testing.assert_allclose(whole.evaluate(whole.t), whole.q, atol=1e-14)
    times = np.linspace(0.02, 2.9, 30)

    def rates(t, y):
        return (y[1], -np.sin(y[0]))

    fine = solve_ivp(rates, (0, 3), (1.3, 0.5), "DOP853", times, rtol=1e-13, atol=1e-14).y[0]
    errors = []
    for t1 in (12.0, 6.0):
        coarse = gd.integrate(PENDULUM, [1.3], [0.5], t1=t1, steps=120, save_every=3)
        errors.append(np.max(np.abs(coarse.evaluate(times)[:, 0] - fine)))
    assert 3.5 < np.log2(errors[0] / errors[1]) < 6.5
    with pytest.raises(ValueError, match="t must lie within"):
        whole.evaluate(7.0)


def test_between_the_steps_of_a_driven_motion():
    """q'' = t, saved every other step: a polynomial of degree 3, and so exact at any time."""
    driven = gd.Lagrangian(lambda q, v, t: v @ v / 2 + t * q[0])
    t, times = gd.integrate(driven, [1.0], [0.5], t1=2.0, steps=8, save_every=2), np.linspace(0, 2, 30)
    np.testing.assert_allclose(t.evaluate(times)[:, 0], 1 + times / 2 + times**3 / 6, rtol=1e-13)


@pytest.mark.long
def test_gradients_between_steps():
    """Both modes agree, and with the change of the next trajectory; between saved states, too. Seen: 1e-16, 6e-12."""

    def position(v):
        return gd.integrate(PENDULUM, [1.3], v, t1=1.0, steps=8, save_every=4).evaluate(0.93)[0]

    v, change = jnp.array([0.5]), 1e-5
    reverse = jax.jit(jax.value_and_grad(position))
    backwards = reverse(v)[1]
    np.testing.assert_allclose(backwards, jax.jit(jax.jacfwd(position))(v), rtol=1e-14)
    difference = (reverse(v + change)[0] - reverse(v - change)[0]) / (2 * change)
    np.testing.assert_allclose(backwards, difference, rtol=1e-10)


def test_file(whole, tmp_path):
    """What comes back is what was saved, with its system once that is given again; broken files are named."""
    path = tmp_path / "run.npz"
    whole.save(path)
    back = gd.load(path)
    for name in ("t", "q", "v", "p", "multipliers", "energy"):
        np.testing.assert_array_equal(getattr(back, name), getattr(whole, name))
    assert back.stats == whole.stats and int(back.result) == 0 and os.listdir(tmp_path) == ["run.npz"]
    with pytest.raises(ValueError, match=r"give it to gd.load\(path, system="):
        back.evaluate(0.05)
    back = gd.load(path, PENDULUM)
    assert jax.tree.structure(back.inputs) == jax.tree.structure(whole.inputs) and back.method == whole.method
    np.testing.assert_array_equal(back.evaluate(whole.t[:-1] + 0.03), whole.evaluate(whole.t[:-1] + 0.03))
    again = gd.integrate(back.system, **vars(back.inputs), method=back.method)
    np.testing.assert_array_equal(again.q, whole.q)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="truncated"):
        gd.load(path)
    np.savez(path, x=1)
    with pytest.raises(ValueError, match="no file of geodyn"):
        gd.load(path)


def harder(q, v):
    return 0.5 * v[0] ** 2 + 1.1 * jnp.cos(q[0])


harder.__name__ = harder.__qualname__ = "pendulum"


def test_file_gives_its_system_back_to_no_other(whole, tmp_path):
    """Refused: another number, structure, or function, if it is but another in what it does. All inputs are kept."""
    whole.save(tmp_path / "pendulum.npz")
    with pytest.raises(ValueError, match="another system: the energy of its last state"):
        gd.load(tmp_path / "pendulum.npz", gd.Lagrangian(harder))
    with pytest.raises(ValueError, match=r"another system: structure was .*pendulum.*, is .*falling"):
        gd.load(tmp_path / "pendulum.npz", gd.Lagrangian(falling))

    def rods(second):
        return gd.System(gd.spaces.Euclidean(2), [1.0, second], gd.Rod([(0, 1)], 1.0))

    run = gd.integrate(rods(2.0), [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.1], [0.0, 0.2]], t1=0.1, steps=2)
    run.save(tmp_path / "rod.npz")
    with np.load(tmp_path / "rod.npz") as file:
        np.testing.assert_array_equal(file["system.masses"], [1.0, 2.0])
        np.testing.assert_array_equal(file["inputs.v0"], [[0.0, 0.1], [0.0, 0.2]])
    back = gd.load(tmp_path / "rod.npz", rods(2.0))
    assert back.method == gd.RadauIIA(3) and [*map(float, (back.inputs.t0, back.inputs.t1))] == [0.0, 0.1]
    np.testing.assert_array_equal(back.energy, run.energy)
    with pytest.raises(ValueError, match=r"system: masses was \[1\. 2\.\].*, is \[1\. 3\.\]"):
        gd.load(tmp_path / "rod.npz", rods(3.0))
    with pytest.raises(ValueError, match="a batch of trajectories has no file"):
        jax.tree.map(lambda x: jnp.stack([x, x]), run).save(tmp_path / "batch.npz")


class Bumpy(eqx.Module):
    """A Lagrangian whose potential has many numbers."""

    weights: jax.Array

    def __call__(self, q, v):
        return v @ v / 2 - jnp.sum(jnp.tanh(self.weights @ q))


@pytest.mark.long
def test_a_batch_has_one_copy_of_its_system():
    """Numbers that were no argument of the transformation are no leaves of its result; traced ones are, and of members
    with systems of their own each has its own."""
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(1000, 2)))

    def run(q, weights):
        return gd.integrate(gd.Lagrangian(Bumpy(weights)), q, t1=1.0, steps=4, save_every=4)

    q = jnp.linspace(0.1, 1.0, 10).reshape(5, 2)
    one = run(q[0], weights)
    for transform in (lambda f: f, jax.jit):
        batch = transform(jax.vmap(lambda q: run(q, weights)))(q)
        assert sum(x.size for x in jax.tree.leaves(batch)) < 5 * 40
        np.testing.assert_allclose(batch.energy[0], one.energy, rtol=1e-14)
        np.testing.assert_allclose(batch.evaluate(0.3)[0], one.evaluate(0.3), rtol=1e-14)
    traced = jax.jit(run)(q[0], weights)
    np.testing.assert_allclose(traced.energy, one.energy, rtol=1e-14)
    own = jax.vmap(run, (None, 0))(q[0], jnp.stack([weights, 2 * weights]))
    assert own.energy.shape == (2, 2) and float(own.energy[0, 0]) == pytest.approx(float(one.energy[0]), rel=1e-14)
    bare = one.with_system(None)
    assert bare.system is None and np.array_equal(bare.with_system(one.system).energy, one.energy)


def test_what_travels_can_be_pickled(whole):
    """Systems of modules and of named functions, methods, swimmers, trajectories; lambdas cannot, as ever in Python."""
    weights = jnp.ones((3, 2))
    network = gd.integrate(gd.Lagrangian(Bumpy(weights)), weights[0], t1=1.0, steps=2)
    body = gd.System(gd.spaces.Hyperbolic(2), [1.0, 2.0], gd.Spring([(0, 1)], 1.0, 0.5), gd.Contact(0.1))
    things = [body, network, whole, gd.RadauIIA(2), gd.methods.Moreau(), gd.swimmers.Purcell()]
    for thing in things:
        back = pickle.loads(pickle.dumps(thing))
        assert jax.tree.structure(back) == jax.tree.structure(thing) and len(repr(thing)) < 2000
        jax.tree.map(np.testing.assert_array_equal, back, thing)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(network)).energy, network.energy)


def test_a_batch_is_read_as_its_members(whole):
    """What is asked of a batch is of each member; it used to be an obscure failure to reshape."""
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), whole)
    np.testing.assert_allclose(batch.energy, jnp.stack([whole.energy] * 2), rtol=1e-15)
    np.testing.assert_allclose(batch.evaluate(jnp.array([0.25, 3.1])), [whole.evaluate([0.25, 3.1])] * 2, rtol=1e-14)


def test_interrupted_save_leaves_the_old_file(whole, tmp_path, monkeypatch):
    """Neither a half-written file nor a leftover, whatever stops the writing."""
    path = tmp_path / "run.npz"
    path.write_bytes(b"old")

    def half(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(KeyboardInterrupt):
        whole.save(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["run.npz"]


def test_to_xarray(whole, tmp_path):
    """Named dimensions, attributes that hold the inputs, and a netCDF file that brings all back."""
    xarray = pytest.importorskip("xarray")
    data = whole.to_xarray()
    assert data.q.dims == ("time", "coordinate") and data.energy.attrs["long_name"] == "energy"
    assert json.loads(data.attrs["numbers"])["inputs.q0"] == [1.3] and data.attrs["result"] == "successful"
    data.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as back:
        assert back.identical(data)
        np.testing.assert_array_equal(back.q.sel(time=slice(0, 1)).to_numpy(), whole.q[:11])
    oscillator = gd.integrate(gd.ODE(lambda t, y: -y), [1.0], t1=0.1, steps=1).to_xarray()
    assert set(oscillator.data_vars) == {"q", "v"}


def test_a_long_table():
    """A row for each time and point, a column for each component; what belongs to a time stands in each of its rows."""
    pytest.importorskip("xarray")
    q0 = jnp.array([[0.1, 0.2], [0.4, -0.3], [0.0, 0.5]])
    wall = gd.Wall(lambda x: 0.42 - x[0], restitution=1.0)
    run = gd.integrate(gd.System(gd.spaces.Euclidean(2), [1.0, 2.0, 1.0], wall), q0, 0.3 * q0, t1=1.0, steps=4)
    table = run.to_dataframe()
    assert table.index.names == ["time", "point"] and table.columns.tolist() == [
        "q0",
        "q1",
        "v0",
        "v1",
        "p0",
        "p1",
        "energy",
    ]
    assert len(table) == 5 * 3 and table.loc[(0.5, 2), "q1"] == run.q[2, 2, 1]
    np.testing.assert_array_equal(table.energy.unstack()[0], run.energy)
    flat = gd.integrate(gd.ODE(lambda t, y: -y), [1.0, 2.0], t1=0.1, steps=1).to_dataframe()
    assert flat.index.name == "time" and flat.columns.tolist() == ["q0", "q1", "v0", "v1"]


def test_tables_and_meshes_for_other_programs(tmp_path):
    """A table and a series of meshes, read back: every digit, named columns, points on the sphere with their edges."""
    meshio = pytest.importorskip("meshio")
    q0 = jnp.array([[0.1, 0.2], [0.4, -0.3]])
    run = gd.integrate(gd.System(gd.spaces.Sphere(2), [1.0, 2.0]), q0, 0.3 * q0, t1=1.0, steps=4)
    run.to_csv(tmp_path / "run.csv")
    table = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    assert table.dtype.names == ("t", "q0_0", "q0_1", "q1_0", "q1_1", "v0_0", "v0_1", "v1_0", "v1_1")
    np.testing.assert_array_equal(table["t"], run.t)
    np.testing.assert_array_equal(table["q1_0"], run.q[:, 1, 0])
    np.testing.assert_array_equal(table["v0_1"], run.v[:, 0, 1])
    run.to_vtk(tmp_path / "run.pvd", edges=[(0, 1)])
    series = ElementTree.parse(tmp_path / "run.pvd").findall(".//DataSet")
    assert [float(one.get("timestep")) for one in series] == run.t.tolist()
    last = meshio.read(tmp_path / series[-1].get("file"))
    np.testing.assert_array_equal(last.points, run.embedding[-1])
    assert last.cells_dict["line"].tolist() == [[0, 1]]
    for wrong, message in (
        ({"path": tmp_path / "a.vtu"}, "path must end"),
        ({"edges": [(0, 2)]}, "edges must be pairs"),
    ):
        with pytest.raises(ValueError, match=message):
            run.to_vtk(**{"path": tmp_path / "b.pvd"} | wrong)
    with pytest.raises(ValueError, match="points must be"):
        run.to_vtk(tmp_path / "b.pvd", points=run.t)


def falling(q, v):
    return 0.5 * v[0] ** 2 - 50.0 * jnp.sqrt(q[0])


def test_a_failing_step_keeps_what_was_computed():
    """A fall into a centre of attraction: status, time, the part before it; the other member of a batch untouched."""
    system = gd.Lagrangian(falling)
    with pytest.raises(gd.IntegrationError, match="failed") as raised:
        gd.integrate(system, [1.0], [0.0], t1=1.0, steps=200)
    kept = raised.value.trajectory
    good = int(kept.stats.steps) - 1
    assert 1 <= good < 200 and np.all(np.isfinite(kept.q[: good + 1])) and np.all(np.isnan(kept.q[good + 1 :]))
    silent = gd.integrate(system, [1.0], [0.0], t1=1.0, steps=200, throw=False)
    assert int(silent.result) != gd.RESULTS.successful
    batch = jax.vmap(lambda q: gd.integrate(system, q, jnp.zeros(1), t1=1.0, steps=200))(jnp.array([[1.0], [1e4]]))
    alone = gd.integrate(system, [1e4], [0.0], t1=1.0, steps=200)
    assert int(batch.result[0]) != gd.RESULTS.successful and int(batch.result[1]) == gd.RESULTS.successful
    np.testing.assert_allclose(batch.q[1], alone.q, rtol=1e-15)


def test_failures_are_told_apart():
    """A field that ends, and one that turns too fast for the steps."""
    for field, why in (
        (lambda t, y: jnp.sqrt(0.5 - t) + 0 * y, "not_finite"),
        (lambda t, y: 9 * jnp.sin(9 * y), "not_converged"),
    ):
        assert int(gd.integrate(gd.ODE(field), [1.0], t1=9.0, steps=9, throw=False).result) == gd.RESULTS[why]


def test_batches_equal_single_runs():
    """vmap over initial data, a parameter, and the end time at once. Expected 2e-16."""
    q, k, t1 = jnp.array([0.3, 1.0, 2.0]), jnp.array([1.0, 2.0, 0.5]), jnp.array([1.0, 2.0, 3.0])

    def run(q, k, t1):
        spring = gd.Spring([(0, 1)], k, 0.5)
        system = gd.System(gd.spaces.Euclidean(1), [1.0, 2.0], spring)
        return gd.integrate(system, jnp.stack([jnp.zeros(1), q[None]]), jnp.zeros((2, 1)), t1=t1, steps=20).q[-1]

    batch = jax.vmap(run)(q, k, t1)
    single = [run(*x) for x in zip(q, k, t1, strict=True)]
    np.testing.assert_allclose(batch, single, atol=1e-15)


@pytest.mark.parametrize(
    "method",
    [
        gd.Gauss(2),
        *(
            pytest.param(method, marks=pytest.mark.long)
            for method in (gd.methods.StormerVerlet(), gd.friction.IncrementalPotential())
        ),
    ],
    ids=type,
)
def test_one_program_serves_any_number_of_steps(method):
    """In a study over step counts, saves and spans the physics is traced for the first call only."""
    traced = []

    def lagrangian(q, v):
        traced.append(1)
        # Of rows that are not made the energy would be off by 100.
        return 0.5 * v @ v + jnp.cos(q[0]) + 100.0

    system = gd.Lagrangian(lagrangian)

    def run(steps, every, t1=2.0):
        before = len(traced)
        trajectory = gd.integrate(system, [1.3], [0.5], t1=t1, steps=steps, save_every=every, method=method)
        return trajectory, len(traced) - before

    run(12, 1)
    checks = run(12, 1)[1]
    for steps, every in ((11, 1), (40, 4), (400, 100)):
        here, again = run(steps, every)
        assert again == checks and int(here.stats.steps) == steps
        there = jax.jit(lambda t1, steps=steps, every=every: run(steps, every, t1)[0])(2.0)
        for name in ("t", "q", "v", "p"):
            np.testing.assert_allclose(getattr(here, name), getattr(there, name), atol=1e-14)
        assert here.result == there.result


def test_says_that_it_compiles(capsys, monkeypatch):
    """Until the bar begins; and not where no progress is asked for."""
    monkeypatch.setattr("geodyn._foundations.progress.EVERY", 0.01)
    for shown in (True, False):
        with compiling(shown):
            time.sleep(0.1)
        assert ("compiling … 0 s" in capsys.readouterr().err) == shown


def test_progress_and_interruption(capsys, monkeypatch):
    """The bar shows steps; Ctrl-C returns what was computed, with the status."""

    def run(**options):
        return gd.integrate(PENDULUM, [1.3], [0.5], t1=30.0, steps=300, **options)

    shown = run(progress=True)
    assert "300/300" in capsys.readouterr().err
    np.testing.assert_allclose(shown.q, run().q, atol=1e-15)
    part, calls = parts._next_piece, []

    def struck(*args):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return part(*args)

    monkeypatch.setattr(parts, "_next_piece", struck)
    cut = run(progress=True)
    assert int(cut.result) == gd.RESULTS.interrupted and int(cut.stats.steps) == 200
    np.testing.assert_array_equal(cut.q, shown.q[:201])


@pytest.mark.long
def test_reverse_mode_in_parts(monkeypatch):
    """A run whose stage values are kept part by part has the gradient of one that is kept whole. Expected 1e-15."""

    def loss(q):
        return gd.integrate(PENDULUM, q, jnp.array([0.5]), t1=2.0, steps=24).q[-1, 0]

    whole = jax.jit(jax.grad(loss))(jnp.array([1.3]))
    monkeypatch.setattr(sys.modules["geodyn._integrators.run"], "STAGE_MEMORY", 1000)
    jax.clear_caches()
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(jnp.array([1.3])), whole, rtol=1e-13)
    monkeypatch.undo()
    jax.clear_caches()
