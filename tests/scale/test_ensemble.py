"""Ensembles: the members of one `jax.vmap`, in any chunks, in memory, in files and in statistics."""

import errno
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from conftest import QUICK

import geodyn as gd
from geodyn._foundations.results import AbstractOutcome
from geodyn._scale import store

SYSTEM = gd.Lagrangian(lambda q, v: 0.5 * v @ v - 0.25 * jnp.sum(q**4))
STARTS = np.linspace(0.2, 1.5, 50)


def swing(start):
    return gd.integrate(SYSTEM, start[None], [0.3], t1=1.0, steps=8, save_every=4)


def end(start):
    return swing(start).q[-1, 0]


@pytest.fixture(scope="module")
def whole():
    return jax.jit(jax.vmap(swing))(STARTS)


@pytest.mark.newest
@pytest.mark.parametrize("chunk", [None, 7, 50, 64])
def test_any_chunk_gives_what_vmap_gives(whole, chunk):
    found = gd.ensemble(swing, STARTS, chunk=chunk)
    np.testing.assert_allclose(found.values.q, whole.q, rtol=1e-14)
    np.testing.assert_allclose(found[3].q, whole.q[3], rtol=1e-14)
    assert isinstance(found.values, gd.Trajectory) and len(found) == 50 and not len(found.failed)


@pytest.mark.newest
def test_in_a_folder_others_read_it(whole, tmp_path):
    found = gd.ensemble(swing, STARTS, folder=tmp_path / "runs", chunk=20)
    np.testing.assert_allclose(found.values.q[:], whole.q, rtol=1e-14)
    np.testing.assert_allclose(found[49].v, whole.v[49], rtol=1e-14)
    with xarray.open_zarr(tmp_path / "runs", consolidated=False, chunks=None) as data:
        assert data.q.dims == ("member", "time", "coordinate") and data.sizes["member"] == 50
        np.testing.assert_array_equal(data.q, found.values.q[:])
        assert data.status.attrs["flag_meanings"].split()[1:] == [r.name for r in gd.RESULTS]
    in_memory = gd.ensemble(swing, STARTS).dataset
    assert in_memory.q.dims == found.dataset.q.dims and set(in_memory) == set(found.dataset)


def test_points_have_the_axes_of_a_trajectory():
    body = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 1.0))
    data = gd.ensemble(lambda v: gd.integrate(body, [[0.0, 0.0], [1.0, 0.0]], v, t1=1.0, steps=2), np.ones((3, 2, 2)))
    assert data.dataset.q.dims == ("member", "time", "point", "coordinate")
    assert data.dataset["inputs.v0"].dims == ("member", "point", "coordinate")


def of_spring(stiffness, t1):
    body = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Spring([(0, 1)], stiffness, 1.0))
    return gd.integrate(body, [[0.0, 0.0], [1.2, 0.0]], t1=t1, steps=2)


def test_a_result_knows_its_parameters_and_times(tmp_path):
    """Names of fields in place of places, coordinates for times that all share and for parameters; a table with a row
    for each member, time and point; the same in memory and from a folder."""
    members = {"stiffness": np.array([1.0, 2.0, 4.0]), "seed": jax.random.split(jax.random.key(0), 3)}
    given = {"function": lambda m: of_spring(m["stiffness"], 1.0), "members": members}
    found, kept = gd.ensemble(**given), gd.ensemble(**given, folder=tmp_path / "runs", chunk=2)
    with xarray.open_zarr(tmp_path / "runs", consolidated=False, chunks=None) as data:
        for one in (found.dataset, data):
            assert set(one.coords) == {"time", "t", "stiffness", "seed"} and one.time.values.tolist() == [0, 0.5, 1]
            assert one["system.elements.0.stiffness"][:, 0].values.tolist() == one.stiffness.values.tolist()
            assert not [name for name in one.variables if "carried" in name or not one[name].size]
    table = found.to_dataframe()
    assert table.index.names == ["member", "time", "point"] and len(table) == 3 * 3 * 2
    states = [f"{x}{i}" for x in "qvp" for i in (0, 1)]
    assert table.columns.tolist() == ["seed0", "seed1", "stiffness", *states, "local_error", "status"]
    assert table.loc[(2, 0.5, 1), "v0"] == found.values.v[2, 1, 1, 0] and table.loc[2].stiffness.eq(4.0).all()
    assert kept.to_dataframe().equals(table) and kept.values.multipliers.shape == (3, 3, 0)
    np.testing.assert_array_equal(kept.parameters["stiffness"], members["stiffness"])


def test_members_with_times_of_their_own(tmp_path):
    for folder in (None, tmp_path / "runs"):
        found = gd.ensemble(lambda t1: of_spring(1.0, t1), np.array([1.0, 2.0]), folder=folder)
        assert "time" not in found.dataset.coords and found.dataset.t.dims == ("member", "time")
        assert found.dataset.t1.values.tolist() == [1.0, 2.0] and found.to_dataframe().loc[(1, 2, 0), "t"] == 2.0


def test_names_that_are_taken(tmp_path):
    """Results called as ours are, with a slash, numbers, and two trajectories of other lengths; parameters called as
    results are."""

    def function(m):
        return {"status": m["q"], "a/b": 3.0, "one": swing(m["q"]), "two": of_spring(m["q"], 1.0)}

    for folder in (None, tmp_path / "runs"):
        found = gd.ensemble(function, {"q": np.array([0.5, 1.0])}, folder=folder)
        assert found.values["status"][:].tolist() == [0.5, 1.0] and found.values["a/b"][:].tolist() == [3.0, 3.0]
        data = found.dataset
        assert data["value.status"].values.tolist() == data.q.values.tolist() == [0.5, 1.0]
        assert data["a_b"].values.tolist() == [3.0, 3.0] and not data.status.any()
        assert data["one.q"].dims == ("member", "time", "coordinate")
        assert data["two.q"].dims == ("member", "time", "point", "two.q.coordinate")
    same = gd.ensemble(lambda m: {"q": 2 * m["q"]}, {"q": np.array([0.5, 1.0])}).dataset
    assert same["q"].values.tolist() == [1.0, 2.0] and same["members.q"].values.tolist() == [0.5, 1.0]


class Search(AbstractOutcome):
    result: jax.Array


def test_a_member_that_fails(tmp_path):
    """It has a status and keeps what it had; the others are as without it."""
    starts = np.array([0.3, 1e200, 0.4])
    found = gd.ensemble(swing, starts, chunk=2)
    assert found.failed.tolist() == [1] and gd.RESULTS(found.status[1]) != gd.RESULTS.successful
    assert found.values.q[1, 0, 0] == 1e200 and np.isnan(found.values.q[1, 1:]).all()
    np.testing.assert_array_equal(found.values.q[[0, 2]], gd.ensemble(swing, starts[[0, 2]], chunk=2).values.q)
    ends = gd.ensemble(end, starts, folder=tmp_path / "ends")
    assert [gd.RESULTS(x).name for x in ends.status] == ["successful", "not_finite", "successful"]
    searches = gd.ensemble(lambda x: Search(jnp.where(x > 1, gd.RESULTS.stalled, gd.RESULTS.successful)), starts)
    assert [gd.RESULTS(x).name for x in searches.status] == ["successful", "stalled", "successful"]
    mean = gd.ensemble(end, starts, reduce=gd.ensembles.Mean())
    assert mean.values is None and mean.reduced.count == 2
    np.testing.assert_allclose(mean.reduced.mean, np.mean(ends.values[:][[0, 2]]), rtol=1e-14)
    with pytest.raises(ValueError, match=r"not kept.*keep=True"):
        mean[0]


def test_members_of_any_structure():
    """Parameters, keys of random numbers, and functions that hold arrays."""
    keys = jax.random.split(jax.random.key(0), 10)
    members = {"key": keys, "scale": np.arange(10.0)}
    found = gd.ensemble(lambda m: {"x": m["scale"] * jax.random.normal(m["key"])}, members, chunk=4)
    want = jnp.arange(10.0) * jax.vmap(jax.random.normal)(keys)
    np.testing.assert_array_equal(found.values["x"], want)
    assert found[2]["x"] == want[2]


class Counted:
    """A function that writes down its chunks."""

    def __init__(self, monkeypatch, fail_after=None, error=None):
        self.begun, write = [], store.Store.write

        def counted(this, begin, *rest):
            if fail_after is not None and len(self.begun) >= fail_after:
                raise error
            self.begun.append(begin)
            write(this, begin, *rest)

        monkeypatch.setattr(store.Store, "write", counted)


@pytest.mark.parametrize("reduce", [None, gd.ensembles.Mean()])
def test_goes_on_where_it_was_interrupted(monkeypatch, tmp_path, reduce):
    """Bit for bit, without computing a finished chunk again; with a statistic too."""
    monkeypatch.setattr("geodyn._scale.chunks._cores", lambda: 1)
    wanted = gd.ensemble(end, STARTS, folder=tmp_path / "at once", reduce=reduce, chunk=10)
    with monkeypatch.context() as patched:
        Counted(patched, 2, KeyboardInterrupt)
        part = gd.ensemble(end, STARTS, folder=tmp_path / "runs", reduce=reduce, chunk=10)
    interrupted = part.status == gd.RESULTS.interrupted
    assert interrupted.sum() == 30 and not interrupted[:20].any()
    assert reduce is None or part.reduced.count == 20
    with monkeypatch.context() as patched:
        counted = Counted(patched)
        rest = gd.ensemble(end, STARTS, folder=tmp_path / "runs", reduce=reduce)
    assert counted.begun == [20, 30, 40] and not len(rest.failed)
    if reduce is None:
        np.testing.assert_array_equal(rest.values[:], wanted.values[:])
    else:
        assert rest.reduced.mean == wanted.reduced.mean and rest.reduced.std == wanted.reduced.std


KILLED = """
import jax, sys
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, geodyn as gd
system = gd.Lagrangian(lambda q, v: 0.5 * v @ v - 0.25 * jnp.sum(q**4))
run = lambda q: gd.integrate(system, q[None], [0.3], t1=1.0, steps=2000, throw=False).q[-1, 0]
print(gd.ensemble(run, jnp.linspace(0.2, 1.5, 40000), folder=sys.argv[1], chunk=200).values[:].sum().hex())
"""


@pytest.mark.long
def test_goes_on_after_a_kill(tmp_path):
    """kill -9 amid the chunks; the finished ones are not written again, and the end is the same bit for bit."""

    def command(folder):
        return [sys.executable, "-c", KILLED, str(tmp_path / folder)]

    def finished(folder):
        return subprocess.run(command(folder), capture_output=True, text=True, check=True, env=os.environ | QUICK)

    status = tmp_path / "killed" / "status" / "c"
    with subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, env=os.environ | QUICK) as process:
        for _ in range(1200):
            if status.exists() and len(list(status.iterdir())) > 20:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in status.iterdir()}
    assert 20 < len(before) < 200
    again, afresh = finished("killed").stdout, finished("other").stdout
    assert again == afresh and len(list(status.iterdir())) == 200
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_a_disk_that_fills_up(monkeypatch, tmp_path):
    monkeypatch.setattr("geodyn._scale.chunks._cores", lambda: 1)
    begun = []

    class Full(dict):
        def __getitem__(self, name):
            begun.append(name)
            if begun.count("status") == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().__getitem__(name)

    made = store.on_disk
    with monkeypatch.context() as patched:

        def on_disk(*args):
            found = made(*args)
            found.arrays = Full(found.arrays)
            return found

        patched.setattr("geodyn._scale.ensemble.on_disk", on_disk)
        with pytest.raises(OSError, match=r"runs cannot be written \(No space left.*members in it are whole.*goes on"):
            gd.ensemble(end, STARTS, folder=tmp_path / "runs", chunk=10)
    with xarray.open_zarr(tmp_path / "runs", consolidated=False, chunks=None) as data:
        known = data.status.values >= 0
        assert known[:10].all() and not known[10:20].any()
    found = gd.ensemble(end, STARTS, folder=tmp_path / "runs")
    np.testing.assert_array_equal(found.values[:], gd.ensemble(end, STARTS, chunk=10).values)


def test_progress_counts_members(capsys):
    gd.ensemble(end, STARTS, chunk=10, progress=True)
    shown = capsys.readouterr().err
    assert "50.0/50.0" in shown and "members/s" in shown


WRONG = {
    "a number": (end, 1.0, {}, r"members must be arrays.*their lengths are members: a scalar"),
    "lengths": (
        end,
        {"a": np.ones(3), "b": np.ones(2)},
        {},
        r"of one length, at least 1; their lengths are a: 3, b: 2",
    ),
    "none": (end, np.ones(0), {}, r"at least 1; their lengths are members: 0"),
    "no arrays": (end, {}, {}, r"their lengths are no arrays"),
    "no function": (3.0, STARTS, {}, r"function must be a function of 1 argument, got 3.0"),
    "untraceable": (lambda x: float(x), STARTS, {}, r"function cannot be traced .*jax\.numpy instead"),
    "reduce": (end, STARTS, {"reduce": jnp.mean}, r"reduce must be a Reduction"),
    "chunk": (end, STARTS, {"chunk": 0}, r"chunk must be a positive whole number, got 0"),
    "folder": (end, STARTS, {"folder": 3}, r"folder must be a path.* got 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name):
    function, members, options, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        gd.ensemble(function, members, **options)


def test_no_transformation_goes_through():
    """A derivative would be lost without a word."""

    def total(k):
        return jnp.sum(gd.ensemble(lambda x: k * x, STARTS).values)

    for run in (lambda: jax.grad(total)(2.0), lambda: jax.jit(lambda x: gd.ensemble(end, x).values)(STARTS)):
        with pytest.raises(ValueError, match=r"no place inside of jit, vmap or grad: differentiate"):
            run()


def test_folders_of_something_else(tmp_path):
    gd.ensemble(end, STARTS, folder=tmp_path / "runs", chunk=25)
    with pytest.raises(ValueError, match=r"of another ensemble: members \(hash\) was .*Delete it, or give another"):
        gd.ensemble(end, STARTS + 1e-15, folder=tmp_path / "runs")
    with pytest.raises(ValueError, match=r"of another ensemble: function and reduce \(hash of their program\) was"):
        gd.ensemble(lambda x: end(1.0 * x), STARTS, folder=tmp_path / "runs")
    with pytest.raises(ValueError, match=r"members are kept was True, is False"):
        gd.ensemble(end, STARTS, folder=tmp_path / "runs", keep=False)
    (tmp_path / "file").write_text("")
    for other in (tmp_path, tmp_path / "file"):
        with pytest.raises(
            ValueError, match=r"must be the folder of an ensemble, or none yet; zarr\.json is not in it"
        ):
            gd.ensemble(end, STARTS, folder=other)
