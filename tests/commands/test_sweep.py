"""`geodyn sweep`: each member is the scenario with its numbers in their places, and what is wrong names its line."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray
from conftest import QUICK

import geodyn as gd
from geodyn.__main__ import main
from geodyn._commands.members import members_of
from geodyn._foundations.files.toml import Source
from geodyn._scenarios.scenario import read_scenario

ROD = """
[space]
name = "sphere"
dim = 2

[body]
masses = [1.0, 2.0]
positions = [[0.3, 0.0], [-0.3, 0.0]]
velocities = [[0.0, 0.2], [0.0, 0.2]]

[[spring]]
edges = [[0, 1]]
stiffness = 1.0
length = 1.0

[time]
t1 = 1.0
steps = 8
save_every = 4

[sweep]
"""
SWIMMER = """
[swimmer]
name = "symmetric-purcell"
drag_ratio = 2.0

[stroke]
displacement = 0.02
harmonics = 4

[sweep]
swimmer.drag_ratio = [1.8, 2.2]
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(text):
        (tmp_path / "many.toml").write_text(text)
        return tmp_path / "many.toml"

    return written


def dataset():
    return xarray.open_zarr("geodyn-out/many.zarr", consolidated=False, chunks=None)


def test_a_member_is_the_scenario_with_its_numbers(file, capsys):
    grid = "spring.stiffness = [1.0, 3.0]\nbody.velocities.1.0 = {from = -0.2, to = 0.2, count = 3}\n"
    file(ROD + grid)
    assert main(["sweep", "many.toml", "--plot"]) == 0
    with dataset() as data:
        assert data["spring.stiffness"].values.tolist() == [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
        np.testing.assert_allclose(data["body.velocities.1.0"], [-0.2, 0.0, 0.2] * 2, atol=1e-16)
        assert data.q.dims == ("member", "time", "point", "coordinate") and not data.status.any()
        assert data.time.values.tolist() == [0.0, 0.5, 1.0] and "spring.stiffness" in data.coords
        assert not [name for name in data.variables if name.startswith("carried")]
        file(ROD.replace("stiffness = 1.0", "stiffness = 3.0").replace("2], [0.0", "2], [0.2") + "spring.length=[1.0]")
        given = read_scenario("many.toml")
        assert given.v0[1, 0] == 0.2
        alone = gd.integrate(given.system, given.q0, given.v0, **given.options)
        np.testing.assert_allclose(data.q[5], alone.q, rtol=1e-13)
    assert json.loads(Path("geodyn-out/many.json").read_text())["successful"] == 6
    said = capsys.readouterr()
    assert (
        "written: geodyn-out/many.zarr (xarray.open_zarr), geodyn-out/many.png" in said.out and "6.00/6.00" in said.err
    )


def test_it_goes_on_and_refuses_another(file, capsys):
    file(ROD + "spring.stiffness = [1.0, 3.0]")
    assert main(["sweep", "many.toml"]) == main(["sweep", "many.toml"]) == 0
    file(ROD + "spring.stiffness = [1.0, 3.5]")
    assert main(["sweep", "many.toml"]) == 2
    assert "is of another ensemble: members (hash) was" in capsys.readouterr().err


def test_random_numbers(file):
    """They are drawn afresh at each point of the grid, and are the same for the same seed."""
    text = ROD + "draws = 400\nseed = 3\nbody.masses.0 = [1.0, 2.0]\nspring.stiffness = {normal = [5.0, 0.5]}\n"
    text += "spring.length = {uniform = [0.5, 1.5]}\n"
    given = members_of(Source(file(text)))
    mass, stiffness, length = given.values.values()
    assert mass.tolist() == [1.0] * 400 + [2.0] * 400 and len(set(stiffness)) == 800
    assert abs(stiffness.mean() - 5) < 0.1 and abs(stiffness.std() - 0.5) < 0.05
    assert length.min() > 0.5 and length.max() < 1.5 and abs(length.mean() - 1) < 0.05
    again = members_of(Source(file(text))).values
    np.testing.assert_array_equal(again["spring.stiffness"], stiffness)
    assert members_of(Source(file(text.replace("seed = 3", "seed = 4")))).values["spring.length"][0] != length[0]


def test_a_geometric_progression(file):
    given = members_of(Source(file(ROD + "time.t1 = {from = 1, to = 100, count = 3, log = true}")))
    np.testing.assert_allclose(given.values["time.t1"], [1, 10, 100])


@pytest.mark.long
def test_a_swimmer(file):
    file(SWIMMER)
    assert main(["sweep", "many.toml", "--plot"]) == 0
    method = gd.Direct(harmonics=4, steps=24)
    with dataset() as data:
        for i, ratio in enumerate([1.8, 2.2]):
            swimmer = gd.swimmers.SymmetricPurcell(drag_ratio=ratio)
            best = gd.optimal_stroke(swimmer, [1.0, 1.0], displacement=0.02, method=method)
            np.testing.assert_allclose(data.energy[i], best.cost, rtol=1e-8)
            want = jax.vmap(best.stroke)(np.linspace(0.0, 1.0, 65))
            assert abs(np.ptp(data.shapes.values[i], axis=0) - np.ptp(want, axis=0)).max() < 1e-3


WRONG = {
    "": r"many\.toml:21: \[sweep\] names no number of this file",
    "spring.stifness = [1.0]": r":22: spring\.stifness is no number.* edges, stiffness, length, no 'stifness'",
    "body.masses = [1.0]": r":22: body\.masses must name one number.*index behind it, such as body\.masses\.0",
    "body.masses.2 = [1.0]": r":22: body\.masses\.2 is no number of this file: there are 0, 1, no '2'",
    "body.masses.0.1 = [1.0]": r":22: body\.masses\.0\.1 is no number of this file: '0' is 1\.0",
    "space.name = [1.0]": r":22: space\.name must name one number of this file, and it is 'sphere'",
    "time.steps = [10, 20]": r":18: 'steps' must be of type int, got 10\.0",
    "spring.length = {from = 1.0, to = 2.0}": r":22: spring\.length must be a list of values, \{from",
    "spring.length = {from = 1.0, to = 2.0, count = 0}": r":22: spring\.length must be a list of values",
    "spring.length = {from = -1.0, to = 2.0, count = 3, log = true}": r":22: from and to of spring\.length",
    "spring.length = {normal = [1.0, -1.0]}": r":22: spring\.length must be a list of values.*got \{'normal'",
    "spring.length = {uniform = [1.0]}": r":22: 'uniform' must be an array of 2 numbers, got 1",
    "spring.length = []": r":22: spring\.length needs at least one value",
    "spring.length = ['a']": r":22: 'length' must be an array of n numbers",
    "body.masses.1 = [1.0, -1.0, 2.0]": r":7: masses must be",
    "draws = 3\nspring.length = [1.0]": r":22: 'draws' goes with random numbers",
    "draws = 0\nspring.length = [1.0]": r":22: 'draws' must be at least 1, got 0",
}


@pytest.mark.parametrize("table", WRONG)
def test_wrong_tables(file, table, capsys):
    file(ROD + table)
    assert main(["sweep", "many.toml"]) == 2
    error = capsys.readouterr().err
    assert re.search(WRONG[table], error), error


@pytest.mark.long
def test_two_processes(file):
    """The second says nothing; the first writes the summary."""
    file(ROD + "spring.stiffness = {from = 1.0, to = 2.0, count = 30}")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "geodyn", "sweep", "many.toml", "--distributed", address, "2"]
    options = {"stdout": subprocess.PIPE, "text": True, "env": os.environ | QUICK}
    runs = [subprocess.Popen([*command, str(i)], **options) for i in range(2)]
    said = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert "many: 30 members" in said[0] and "successful" in said[0] and said[1] == ""
    with dataset() as data:
        assert not data.status.any() and data["spring.stiffness"][29] == 2.0


def test_wrong_words(file, capsys):
    file(ROD + "spring.stiffness = [1.0]")
    assert main(["sweep", "many.toml", "--distributed", "here"]) == 2
    assert "--distributed takes nothing (SLURM, MPI, Kubernetes), or HOST:PORT" in capsys.readouterr().err
    assert main(["sweep", "none.toml"]) == 2
    assert "none.toml" in capsys.readouterr().err


def test_wrong_swimmers(file, capsys):
    file(SWIMMER.replace("drag_ratio = 2.0", "drag_ratio = 2.0\nbodi = 1.0"))
    assert main(["sweep", "many.toml"]) == 2
    assert "many.toml:5: unknown key 'bodi' in [swimmer]: did you mean 'body'?" in capsys.readouterr().err
    file(SWIMMER.replace("symmetric-purcell", "purcel"))
    assert main(["sweep", "many.toml"]) == 2
    assert "there is no body 'purcel'" in capsys.readouterr().err
