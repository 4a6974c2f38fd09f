"""Checkpoints: a run that stops goes on bit for bit; what is on disk is whole, of this run, or refused."""

import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._foundations.files.archive import differences
from geodyn._integrators.saving import parts


def pendulum(q, v):
    return 0.5 * v[0] ** 2 + jnp.cos(q[0])


def balls(stiffness=2.0):
    spring = gd.Spring([(0, 1)], stiffness, 0.5)
    return gd.System(gd.spaces.Euclidean(1), [1.0, 2.0], spring, gd.Contact([0.05, 0.1], restitution=1.0))


RODS = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Rod([(0, 1)], 1.0))
PENDULUM = {"system": gd.Lagrangian(pendulum), "q0": [1.3], "v0": [0.5], "t1": 30.0, "steps": 300, "save_every": 3}
RUNS = {
    "pendulum": PENDULUM,
    "saved rarely": PENDULUM | {"save_every": 150},
    "rigid rod": {"system": RODS, "q0": [[0, 0], [1, 0]], "v0": [[0.1, 0.5], [0.1, -0.5]], "t1": 6.0, "steps": 300},
    "two charts": {"system": gd.System(gd.spaces.Sphere(2, "stereographic pair"), [1.0]), "q0": [[0.3, 0.1]]}
    | {"v0": [[0.4, 0.2]], "t1": 15.0, "steps": 300},
    "moving chart": {"system": gd.System(gd.spaces.Hyperbolic(2, "moving halfspace"), [1.0]), "q0": [[0.1, 1.0]]}
    | {"v0": [[0.6, 0.8]], "t1": 30.0, "steps": 300},
    "contacts": {"system": balls(), "q0": [[0.0], [0.6]], "v0": [[1.0], [0.0]], "t1": 9.0, "steps": 300},
}


def bits(trajectory):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(trajectory)]


def stop_after(monkeypatch, count):
    """Ctrl-C in the part after so many."""
    whole = parts._next_piece

    def until(*args):
        nonlocal count
        count -= 1
        if count < 0:
            raise KeyboardInterrupt
        return whole(*args)

    monkeypatch.setattr(parts, "_next_piece", until)


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_goes_on_bit_for_bit(name, tmp_path, monkeypatch):
    """Stopped after one part and again after the next, against a run at once, and to rounding against one that is not
    in parts (seen: the same bits, but 1e-16 where states between the saves are kept)."""

    def run(**options):
        return gd.integrate(**RUNS[name], **options)

    if name == "saved rarely":
        monkeypatch.setattr(parts, "LONGEST_PART", 300)
    whole = run(checkpoint=tmp_path / "whole")
    np.testing.assert_allclose(whole.q, run().q, rtol=0, atol=1e-14)
    for _ in range(2):
        with monkeypatch.context() as context:
            stop_after(context, 1)
            context.setattr(parts, "SECONDS", 0.0)
            cut = run(checkpoint=tmp_path / "run")
            assert int(cut.result) == gd.RESULTS.interrupted and len(cut.q) < len(whole.q)
            np.testing.assert_array_equal(cut.q, whole.q[: len(cut.q)])
    assert bits(run(checkpoint=tmp_path / "run")) == bits(whole) and int(whole.result) == 0
    stop_after(monkeypatch, 0)
    assert bits(run(checkpoint=tmp_path / "run")) == bits(whole), "a finished run is only read"
    if name == "contacts":
        assert int(whole.impacts.count) > 1
    if "chart" in name:
        charts = whole.q[:, 0, :1] > 4 if name == "two charts" else whole.frame
        assert len(np.unique(charts, axis=0)) > 1


@pytest.mark.long
def test_killed_run_goes_on(tmp_path):
    """kill -9 in the middle, in the program as a user has it."""
    script = """if True:
        import sys, jax, jax.numpy as jnp, numpy as np, geodyn as gd
        from geodyn._integrators.saving import parts
        jax.config.update("jax_enable_x64", True)
        parts.SECONDS = 0.0
        system = gd.Lagrangian(lambda q, v: 0.5 * v[0] ** 2 + jnp.cos(q[0]))
        for folder in sys.argv[1:]:
            end = gd.integrate(system, [1.3], [0.5], t1=1e5, steps=10**6, save_every=10**3, checkpoint=folder)
            print(*np.ravel(end.q).tolist(), *np.ravel(end.p).tolist(), int(end.stats.iterations))
    """
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while len(list(tmp_path.glob("run/rows_*"))) < 3:
            time.sleep(0.005)
            assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    left = len(list(tmp_path.glob("run/rows_*")))
    done = subprocess.run([*command, str(tmp_path / "whole")], capture_output=True, text=True, timeout=200)
    resumed, whole = done.stdout.splitlines()
    assert 3 <= left < 200 and resumed == whole and len(whole.split()) == 2003, done.stderr


def test_failures_stay_failures(tmp_path):
    """A fall into a centre: the same error again, without a step."""
    fall = gd.Lagrangian(lambda q, v: 0.5 * v[0] ** 2 - 50.0 * jnp.sqrt(q[0]))

    def run():
        return gd.integrate(fall, [1.0], [0.0], t1=1.0, steps=200, checkpoint=tmp_path / "run")

    seen = []
    for _ in range(2):
        with pytest.raises(gd.IntegrationError, match="failed") as raised:
            run()
        seen.append((str(raised.value), bits(raised.value.trajectory)))
    assert seen[0] == seen[1]


def harder(q, v):
    return 0.5 * v[0] ** 2 + 1.5 * jnp.cos(q[0])


harder.__name__ = harder.__qualname__ = "pendulum"
OTHERS = {
    "q0": ({"q0": [1.4]}, r"q0 was \[1.3\] \(float64\[1\]\), is \[1.4"),
    "v0": ({"v0": [0.4]}, "v0 was"),
    "t1": ({"t1": 31.0}, r"t1 was 30.0 .*, is 31.0"),
    "steps": ({"steps": 600}, "steps was 300 .*, is 600"),
    "save_every": ({"save_every": 30}, "save_every was 3 .*, is 30"),
    "method": ({"method": gd.Gauss(2)}, "method.order was 6, is 4"),
    "equations": ({"system": gd.Lagrangian(harder)}, "the system's equations"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_run_is_refused(name, tmp_path, monkeypatch):
    """By the name of what differs, whatever else is alike: a function of the same name included."""
    stop_after(monkeypatch, 0)
    gd.integrate(**PENDULUM, checkpoint=tmp_path / "run")
    change, words = OTHERS[name]
    with pytest.raises(ValueError, match=f"is of another run: {words}"):
        gd.integrate(**PENDULUM | change, checkpoint=tmp_path / "run")


def test_numbers_are_compared_bit_for_bit():
    """Of another type, or of another zero, they are others."""
    zero = {"q0": np.zeros(1)}
    assert not differences(zero, {"q0": np.zeros(1)})
    for other in (np.zeros(1, np.float32), -np.zeros(1)):
        assert differences(zero, {"q0": other})


def test_a_table_in_a_function_belongs_to_the_run(tmp_path, monkeypatch):
    """Two functions of the same code, but for the numbers of an array in it."""
    stop_after(monkeypatch, 0)

    def pulled(table):
        return gd.Lagrangian(lambda q, v: v @ v / 2 - table @ jnp.stack([q[0] ** 2, q[0] ** 4]))

    gd.integrate(**PENDULUM | {"system": pulled(np.array([0.5, 0.1]))}, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="the system's equations"):
        gd.integrate(**PENDULUM | {"system": pulled(np.array([0.5, 0.2]))}, checkpoint=tmp_path / "run")


def test_another_number_of_the_system_is_named(tmp_path, monkeypatch):
    stop_after(monkeypatch, 0)

    def run(system):
        return gd.integrate(**RUNS["contacts"] | {"system": system}, checkpoint=tmp_path / "run")

    run(balls())
    with pytest.raises(ValueError, match=r"another run: system.elements.0.stiffness was \[2\.\] .*, is \[3\.\] [^;]*$"):
        run(balls(3.0))


def test_broken_and_foreign_files(tmp_path, monkeypatch):
    """A clear error with the remedy, which works; nothing foreign is touched."""

    def run(path):
        return gd.integrate(**PENDULUM, checkpoint=path)

    monkeypatch.setattr(parts, "SECONDS", 0.0)
    whole, folder = bits(run(tmp_path / "run")), tmp_path / "run"
    files = sorted(folder.glob("rows_*"))
    assert len(files) > 2
    files[-1].write_bytes(files[-1].read_bytes()[:300])
    with pytest.raises(ValueError, match=r"truncated.*Delete it"):
        run(folder)
    files[-1].unlink()
    (folder / ".rows_000000000075.npz.123.partial").write_bytes(b"killed while writing")
    assert bits(run(folder)) == whole
    files[1].unlink()
    with pytest.raises(ValueError, match=f"lacks {files[1].name}"):
        run(folder)
    (folder / "inputs.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"inputs\.npz is no file of geodyn"):
        run(folder)
    (folder / "inputs.npz").unlink()
    for foreign in (folder, files[0]):
        with pytest.raises(ValueError, match="must be a folder of geodyn"):
            run(foreign)
    with pytest.raises(ValueError, match="no place inside of jit"):
        jax.jit(lambda q: gd.integrate(**PENDULUM | {"q0": q}, checkpoint=tmp_path / "new").q)(jnp.array([1.3]))
    assert not (tmp_path / "new").exists() and os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("saves, every, size", [(10**6, 1, 36), (10007, 1, 36), (1, 10**9, 6), (3, 10007 * 99, 4000)])
def test_parts_cover_the_run(saves, every, size):
    """All steps and saves, in parts that are neither long nor many more than that takes."""
    rows, stride, part, kept, room = parts.plan(saves, every, size, in_view=True)
    assert rows * stride == saves * every and kept * stride == every
    longest = parts.LONGEST_PART / size
    assert (
        part <= room and part * stride <= longest and (rows - 1) // part < 3 * max(parts.PARTS, saves * every / longest)
    )
