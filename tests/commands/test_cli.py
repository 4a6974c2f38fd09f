"""The command line: what it writes can be read again, what it refuses it explains, Ctrl-C keeps what was computed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import QUICK
from helpers.cases import case
from helpers.marks import slow

import geodyn as gd
from geodyn.__main__ import main
from geodyn._engine import native
from geodyn._scenarios.exact import RODS, exact_half_separation
from geodyn._scenarios.scenario import read_scenario, shipped

ROD = """
[space]
name = "hyperbolic"
dim = 2

[body]
masses = [1, 1]
positions = [[0.3, 0.0], [-0.3, 0.0]]
velocities = [[0.0, 0.2], [0.0, 0.2]]

[[spring]]
edges = [[0, 1]]
stiffness = 1.0
length = 1.0

[time]
t1 = 1.0
steps = 20
"""


@pytest.fixture
def rod(tmp_path, monkeypatch):
    """Writes the scenario above with some of its text replaced, and returns its path."""
    monkeypatch.chdir(tmp_path)

    def write(*replacements, extra=""):
        text = ROD
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "rod.toml").write_text(text + extra)
        return "rod.toml"

    return write


def test_the_version_is_told_by_a_copy_of_the_source(tmp_path):
    """Which no installer has told its version."""
    shutil.copytree(Path(gd.__file__).parent, tmp_path / "geodyn", ignore=shutil.ignore_patterns("__pycache__"))
    code = """
import importlib.metadata
importlib.metadata.version = importlib.metadata.distribution = None
import geodyn.__main__
print(geodyn.__version__, geodyn.__file__)
geodyn.__main__.main(["--version"])
"""
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    said = subprocess.run([sys.executable, "-c", code], **options).stdout
    assert said.split("\n")[:2] == [
        f"{gd.__version__} {tmp_path / 'geodyn' / '__init__.py'}",
        f"geodyn {gd.__version__}",
    ]


def test_info(capsys, monkeypatch):
    """Of a report of wrong numbers: versions, devices, who compiled, and the settings of JAX."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_of_mine=1")
    assert main(["info"]) == 0
    rows = dict(re.split(r" {2,}", line, maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["geodyn"] == gd.__version__ and rows["Python"].startswith(".".join(map(str, sys.version_info[:2])))
    assert rows["jax"] == jax.__version__ and rows["numpy"] == np.__version__ and rows["llvmlite"][0].isdigit()
    assert re.fullmatch(rf"{len(jax.devices())} cpu \(cpu\)", rows["devices"])
    assert rows["engine on cpu"].startswith("the compiler of geodyn, for ")
    assert "XLA_FLAGS=--xla_of_mine=1" in rows["settings"]


@pytest.mark.parametrize("module", [native, native.members])
def test_info_tells_where_our_compiler_does_not_run(capsys, monkeypatch, module):
    monkeypatch.setattr(module, "is_usable", lambda *platform: False)
    assert main(["info"]) == 0
    assert re.search(r"^engine on cpu +XLA alone$", capsys.readouterr().out, re.MULTILINE)


def test_simulate_writes_what_load_reads(rod, tmp_path, capsys):
    assert main(["simulate", rod(), "--out", "out", "--plot"]) == 0
    trajectory = gd.load(tmp_path / "out" / "rod.npz")
    assert trajectory.q.shape == (21, 2, 2) and float(trajectory.t[-1]) == 1.0
    given = read_scenario("rod.toml")
    again = gd.integrate(given.system, given.q0, given.v0, **given.options)
    # The same numbers whether run in chunks or at once: measured 0, rounding may differ.
    np.testing.assert_allclose(trajectory.q, again.q, atol=1e-14)
    summary = json.loads((tmp_path / "out" / "rod.json").read_text())
    # Gauss 3 at h = 0.05 on a period of about 4: measured 3e-13 and 2e-16; a wrong force or metric drifts by > 1e-4.
    assert float(summary["drift of energy"]) < 1e-10 and float(summary["drift of Killing momenta"]) < 1e-13
    assert (tmp_path / "out" / "rod.png").stat().st_size > 10_000
    assert "steps per second" in capsys.readouterr().out


def test_simulate_any_metric(rod, tmp_path):
    """A metric from a file of the working directory: the ball chart of H² by hand moves exactly as the built-in one."""
    (tmp_path / "balls.py").write_text(
        "import jax.numpy as jnp\ndef ball(x):\n    return 4 / (1 - x @ x) ** 2 * jnp.eye(2)\n"
    )
    free = (ROD[ROD.index("[[spring]]") : ROD.index("[time]")], "")
    assert main(["simulate", rod(free), "--out", "named"]) == 0
    assert main(["simulate", rod(free, ('name = "hyperbolic"', 'metric = "balls:ball"')), "--out", "mine"]) == 0
    # Measured 1e-15.
    np.testing.assert_allclose(gd.load("named/rod.npz").q, gd.load("mine/rod.npz").q, atol=1e-13)


REFUSED = {
    "unknown key": (("stiffness", "stifness"), r"rod.toml:13: unknown key 'stifness' in \[spring\]: .*'stiffness'"),
    "unknown table": (("[[spring]]", "[[sprng]]"), r"rod.toml:11: unknown key 'sprng' at the top: .*'spring'"),
    "missing key": (("length = 1.0", ""), r"rod.toml:11: \[spring\] needs the key 'length'"),
    "unknown space": (("hyperbolic", "hyperbolik"), r"rod.toml:3: 'name' must be one of .*hyperbolic.*'hyperbolik'"),
    "wrong type": (("steps = 20", 'steps = "20"'), r"rod.toml:18: 'steps' must be of type int, got '20'"),
    "wrong shape": (("[0.3, 0.0], ", ""), r"rod.toml:8: 'positions' must be an array of 2×2 numbers, got 1×2"),
    "not a number": (("[0.3, 0.0]", '["a", 0.0]'), r"rod.toml:8: 'positions' must be an array of 2×2 numbers"),
    "edge out of range": (("[[0, 1]]", "[[0, 2]]"), r"rod.toml:12: edges .*2"),
    "negative stiffness": (("stiffness = 1.0", "stiffness = -1.0"), r"rod.toml:13: stiffness must be .*-1"),
    "negative mass": (("[1, 1]", "[1, -1]"), r"rod.toml:7: masses must be positive.*-1"),
    "no steps": (("steps = 20", "steps = 0"), r"rod.toml:18: steps must be a positive whole number, got 0"),
    "over at once": (("t1 = 1.0", "t1 = 0.0"), r"rod.toml:17: t1 must be .*another time"),
    "not TOML": (("dim = 2", "dim ="), r"rod.toml: .*line 4"),
    "no such function": (('name = "hyperbolic"', 'metric = "my:g"'), r"rod.toml:3: 'metric' must be module:function"),
    "no space": (
        (ROD[: ROD.index("[body]")], ""),
        r"rod.toml: the table \[space\] is missing: .* name, dim,",
    ),
    "no body": ((ROD[ROD.index("[body]") : ROD.index("[[spring]]")], ""), r"rod.toml: the table \[body\] is missing"),
    "no time": (
        (ROD[ROD.index("[time]") :], ""),
        r"rod.toml: the table \[time\] is missing: .* t1, steps",
    ),
    "method of text": (("[space]", 'method = "gauss"\n[space]'), r"rod.toml:2: \[method\] needs the key 'name'"),
    "masses of gravity": (("[time]", "[gravity]\nmasses = [1.0, 1.0]\n[time]"), r"rod.toml:17: unknown key 'masses'"),
    "a flag for a number": (("steps = 20", "steps = true"), r"rod.toml:18: 'steps' must be of type int, got True"),
    "after a bracket in a text": (
        ("dim = 2", 'chart = "b[l"\ndim = 2\nperod = 1'),
        r"rod.toml:6: unknown key 'perod' in \[space\]: .*'period'",
    ),
    "no such chart": (("dim = 2", 'dim = 2\nchart = "bal"'), r"rod.toml:5: chart must be one of .*'bal'"),
}


@pytest.mark.parametrize("change, message", REFUSED.values(), ids=REFUSED)
def test_wrong_scenarios_are_refused_with_their_line(rod, capsys, change, message):
    """Exit status 2 and one or two lines on stderr that name the file, the line and the remedy: no traceback."""
    assert main(["simulate", rod(change)]) == 2
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if "steps/s" not in line and line]
    assert re.search(message, lines[0]) and len(lines) <= 2 and lines[0].count("rod.toml") == 1, error


@pytest.mark.long
def test_interrupt_keeps_what_was_computed(rod, tmp_path):
    """Ctrl-C in a long run: exit status 130, and a file with the part that was done, marked as interrupted; the same
    command goes on from there, and refuses to where the scenario is another."""
    long = ("steps = 20", "steps = 100_000_000\nsave_every = 50_000")
    command, counts = [sys.executable, "-m", "geodyn", "simulate", rod(long)], [0]
    for _ in range(2):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **pipes, text=True, env=os.environ | QUICK) as process:
            shown, before = "", 0.05 * counts[-1]
            while not [n for n in re.findall(r"([\d.]+)M/100M", shown) if float(n) > before + 0.1]:
                shown += process.stderr.read(1)
                assert process.poll() is None, shown
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=100)
        assert process.returncode == 130 and "interrupted" in out and "the same command goes on" in out
        trajectory = gd.load(tmp_path / "geodyn-out" / "rod.npz")
        assert bool(np.isfinite(trajectory.q).all())
        counts.append(len(trajectory.t) - 1)
    assert 0 < counts[1] < counts[2] < 2000
    assert main(["simulate", rod(long, ("stiffness = 1.0", "stiffness = 2.0"))]) == 2


LOST = """
import gc, signal, sys, time
import geodyn.__main__ as program, geodyn._commands as commands

def once(*_):
    gc.callbacks.remove(once)
    signal.raise_signal(signal.SIGINT)

def demo(**_):
    gc.callbacks.append(once)
    gc.collect()
    for _ in range(500):
        time.sleep(0.01)

commands.demo = demo
sys.exit(program.main(["demo"]))
"""


def test_interrupt_while_memory_is_freed():
    """Where Python discards exceptions: it is not lost."""
    assert subprocess.run([sys.executable, "-c", LOST], env=os.environ | QUICK, timeout=100).returncode == 130


def test_finished_run_leaves_no_checkpoint(rod, tmp_path):
    """Files are named after the scenario's, dots and all, so that no other run's are written over."""
    Path(rod()).rename("rod.1.toml")
    assert main(["simulate", "rod.1.toml", "--out", "out"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["rod.1.json", "rod.1.npz"]


def test_gauss_refuses_rods_with_the_line(rod, capsys):
    rods = (ROD[ROD.index("[[spring]]") : ROD.index("[time]")], "[[rod]]\nedges = [[0, 1]]\nlength = 1.2\n")
    project = ("[[0.0, 0.2], [0.0, 0.2]]", "[[0.0, 0.2], [0.0, 0.2]]\nproject = true")
    assert main(["simulate", rod(rods, project, extra='[method]\nname = "gauss"\n')]) == 2
    error = capsys.readouterr().err
    assert "rod.toml:18" in error and "RadauIIA" in error
    given = read_scenario("rod.toml")
    assert float(gd.distance(given.system.space, *given.q0)) == pytest.approx(1.2, abs=1e-12)


def test_a_scenario_along_a_killing_field(rod, tmp_path, capsys, monkeypatch):
    """In a space of which only the metric is known: a rod that a Killing field carries along is not deformed. A space
    without one says so."""
    (tmp_path / "tori.py").write_text(
        "import jax.numpy as jnp\n"
        "def torus(x):\n    return jnp.diag(jnp.stack([1 + 0 * x[0], (2 + jnp.cos(x[0])) ** 2]))\n"
        "def dented(x):\n    return torus(x) * (1 + 0.1 * jnp.sin(x[0] + 2 * x[1]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    given = re.search(r"velocities = .*", ROD)[0]
    changes = ('name = "hyperbolic"', 'metric = "tori:torus"'), (given, "killing = [0.5]")
    rod(*changes)
    turned = read_scenario("rod.toml")
    assert np.allclose(turned.v0[:, 0], 0, atol=1e-12) and np.ptp(turned.v0[:, 1]) < 1e-12 < abs(turned.v0[0, 1])
    assert main(["simulate", rod(*changes, ("tori:torus", "tori:dented"))]) == 2
    assert "no symmetry was found" in capsys.readouterr().err


BY_NAME = {"nil": "Nil", "sol": "Sol", "sl2": "SL2", "s2xe": "S2xE", "h2xe": "H2xE"}


def in_three_dimensions(name: str) -> tuple:
    """What the scenario becomes: a spring that moves through one of the geometries."""
    return (
        ('name = "hyperbolic"\ndim = 2', name),
        ("[[0.3, 0.0], [-0.3, 0.0]]", "[[0.3, 1.0, 0.0], [-0.3, 1.1, 0.2]]"),
        ("[[0.0, 0.2], [0.0, 0.2]]", "[[0.0, 0.2, 0.1], [0.0, 1.0, 0.3]]"),
        ("t1 = 1.0\nsteps = 20", "t1 = 4.0\nsteps = 500"),
    )


@pytest.mark.parametrize("name", slow("sol", "s2xe", "sl2", quick="nil"))
def test_a_scenario_in_a_geometry_of_three_dimensions(rod, capsys, name):
    """It tells that the momenta of all of its Killing fields are conserved."""
    changes = in_three_dimensions(f'name = "{name}"\ndim = 3')
    given, known = read_scenario(rod(*changes)).system.space, gd.spaces.THURSTON[BY_NAME[name]]
    x = jnp.array([0.2, 0.5, 0.1])
    np.testing.assert_array_equal(given.metric(x), known.metric(x))
    assert main(["simulate", "rod.toml", "--out", "out"]) == 0
    drift = re.search(r"drift of Killing momenta +(\S+)", capsys.readouterr().out)
    assert drift is not None and float(drift[1]) < 1e-9


@pytest.mark.long
@pytest.mark.parametrize("name", ["h2xe", "sl2"])
def test_momenta_in_a_chart_that_moves(rod, capsys, name):
    """They are those in the chart of the start: in charts that go along they are not conserved."""
    chart = "moving halfspace" if name == "h2xe" else "moving"
    changes = in_three_dimensions(f'name = "{name}"\ndim = 3\nchart = "{chart}"')
    assert main(["simulate", rod(*changes), "--out", "out"]) == 0
    drift = re.search(r"drift of Killing momenta +(\S+)", capsys.readouterr().out)
    assert drift is not None and float(drift[1]) < 1e-9


def test_the_geometries_have_names_in_scenarios(rod, capsys):
    assert main(["simulate", rod(('name = "hyperbolic"', 'name = "nil"'))]) == 2
    assert "'nil' has dim = 3" in capsys.readouterr().err


def test_a_run_that_fails_says_so(rod, tmp_path):
    """By its exit status; and where gravity acts no Killing momentum is said to be conserved."""
    gravity = "[gravity]\nstrength = 9.81\n"
    assert main(["simulate", rod(("t1 = 1.0", "t1 = 1e4"), extra=gravity), "--out", "out"]) == 1
    summary = json.loads((tmp_path / "out" / "rod.json").read_text())
    assert "drift of energy" in summary and "drift of Killing momenta" not in summary


def test_misspelt_names_are_corrected(capsys):
    assert main(["simulate", "elastic_rod_h"]) == 2
    assert "did you mean 'elastic_rod_h3'" in capsys.readouterr().err
    assert main(["simulate", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in shipped())


@pytest.mark.parametrize("name", shipped())
def test_shipped_scenarios_can_be_read(name):
    given = read_scenario(name)
    assert given.q0.shape == given.v0.shape == (len(given.system.masses), given.system.space.dim)


def test_exact_separation():
    """The demo's reference against 20-digit values of the reduced and of the full problem: measured 1e-12."""
    times = np.linspace(0, 5, 101)
    for name, reference in {"elastic_rod_h3": "H3", "elastic_rod_s3": "S3"}.items():
        exact = case("B01")["reference"][reference]
        l = exact_half_separation(name, times)
        assert abs(2 * l[50] - float(exact["separation_t2p5"])) < 1e-11
        assert abs(2 * l[100] - float(exact["separation_t5"])) < 1e-11
    assert set(RODS) <= set(shipped())


@pytest.mark.long
def test_demo(tmp_path):
    """The main job: exact rods, Purcell's optimum at D = 0.1 (values of an independent optimiser), two pictures."""
    assert main(["demo", "--out", str(tmp_path)]) == 0
    for name, reference in {"elastic_rod_h3": "H3", "elastic_rod_s3": "S3"}.items():
        separation = case("B01")["reference"][reference]["separation_t5"]
        x, y = gd.load(tmp_path / f"{name}.npz").q[-1]
        # Measured 2e-14 and 1e-14; the case allows 1e-12. A wrong sign of the curvature misses by 2.
        assert abs(gd.distance(read_scenario(name).system.space, x, y) - float(separation)) < 1e-12
    optimum = gd.strokes.load_stroke(tmp_path / "purcell_stroke.npz")
    # Measured 4e-12 relative: the certificate's KKT residual is 1e-11; the thesis's rotational drag misses by 1e-1.
    assert abs(optimum.cost / 3.89371688872341 - 1) < 1e-9 and abs(optimum.multiplier / 49.6145032417 - 1) < 1e-7
    assert optimum.kkt_residual < 1e-9
    assert all((tmp_path / f"{name}.png").stat().st_size > 50_000 for name in ("rods", "purcell_stroke"))


@pytest.mark.long
def test_demo_whose_rods_fail(tmp_path, capsys, monkeypatch):
    """They have a process of their own, whose error and exit status are passed on."""
    monkeypatch.setattr(sys.modules["geodyn._commands.demo"], "stroke", lambda name, words: 0)
    (tmp_path / "rods.png").mkdir()
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "rods.png" in capsys.readouterr().err


@pytest.mark.long
def test_stroke_and_its_family(tmp_path, capsys, monkeypatch):
    """The loop of the pushmepullyou at D = 0.1 (reference of tests/test_strokes.py), and those up to D = 0.12, between
    bounds that none of them feels."""
    monkeypatch.setattr(gd.plot, "swim", partial(gd.plot.swim, seconds=0.4))
    command = ["stroke", "pmpy", "--displacement", "0.1", "--family", "0.12", "--animate", "--out", str(tmp_path)]
    held = ["--base", "10", "4.18879020478639", "--lower", "9", "0.5", "--upper", "11", "6"]
    assert main([*command, *held, "--harmonics", "12"]) == 0
    assert "the parameter reached an end of the interval" in capsys.readouterr().out
    told = json.loads((tmp_path / "pmpy_stroke_family.json").read_text())
    # Measured 4e-10, of twelve harmonics; at constant multiplier the energy at 0.12 would be another by 4 %.
    assert abs(gd.strokes.load_stroke(tmp_path / "pmpy_stroke.npz").cost / 67.5480568226558 - 1) < 1e-9
    assert abs(told["to"] - 0.12) < 1e-9 and told["KKT residual, largest"] < 1e-10
    assert all((tmp_path / f"pmpy_stroke{end}").stat().st_size > 10_000 for end in (".png", ".gif", "_family.png"))


@pytest.mark.skipif(os.name == "nt", reason="a pipe of POSIX")
@pytest.mark.parametrize("buffer", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", [["stroke"], ["--help"]])
def test_output_that_nobody_reads(words, buffer, tmp_path):
    """As after `| head -0`: the end is quiet, and the status that of a program which SIGPIPE ends; after its help
    argparse's own. (Without a buffer argparse itself overlooks that nobody reads.)"""
    reading, writing = os.pipe()
    os.close(reading)
    env = os.environ | {"PYTHONUNBUFFERED": buffer}
    run = subprocess.run(
        [sys.executable, "-m", "geodyn", *words], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, env=env
    )
    os.close(writing)
    assert run.stderr == b""
    assert run.returncode == (0 if "--help" in words else 141)


@pytest.mark.skipif(os.name == "nt", reason="a pipe of POSIX")
@pytest.mark.long
def test_the_reader_ends_in_the_middle_of_a_search(tmp_path):
    """After the first line of a search, whose lines go out at once, its next one ends the command."""
    words = [sys.executable, "-m", "geodyn", "stroke", "symmetric-purcell", "--harmonics", "3"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as run:
        assert run.stdout.readline().startswith(b"iteration 1")
        run.stdout.close()
        told = run.stderr.read()
        assert run.wait() == 141
    assert b"Broken pipe" not in told and b"Traceback" not in told


def test_another_broken_pipe_is_told(monkeypatch, capsys):
    """Of what a command reads or writes otherwise."""

    def broken():
        raise BrokenPipeError("of a socket")

    monkeypatch.setattr("geodyn._commands.info", broken)
    assert main(["info"]) == 2
    assert "geodyn: of a socket" in capsys.readouterr().err
