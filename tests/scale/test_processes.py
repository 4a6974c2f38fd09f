"""Ensembles of several processes, which `jax.distributed` joins over the loopback: the numbers of one process, an end
when one dies, and a run that goes on after it."""

import os
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from conftest import QUICK

import geodyn as gd

SCRIPT = """
import sys
import jax
folder, port, count, index, steps = sys.argv[1], *map(int, sys.argv[2:])
jax.config.update("jax_enable_x64", True)
if count > 1:
    limits = {"initialization_timeout": 20, "heartbeat_timeout_seconds": 10}
    jax.distributed.initialize(f"localhost:{port}", count, index, **limits)
assert jax.process_count() == count
import jax.numpy as jnp, geodyn as gd
system = gd.Lagrangian(lambda q, v: 0.5 * v @ v - 0.25 * jnp.sum(q**4))
end = lambda q: gd.integrate(system, q[None], [0.3], t1=1.0, steps=steps, throw=False).q[-1, 0]
starts = jnp.linspace(0.2, 1.5, 400)
found = gd.ensemble(end, starts, folder=folder, chunk=20, reduce=gd.ensembles.Mean(), keep=True)
assert not len(found.failed)
print(found.values[:].sum().hex(), found.reduced.std.item().hex(), flush=True)
"""


def started(folder, count, index, port=0, steps=50):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, *map(str, (folder, port, count, index, steps))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=os.environ | QUICK, **pipes)


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def ended(processes):
    """(exit status, output, errors) of each; none takes longer than a minute and a half."""
    try:
        texts = [process.communicate(timeout=90) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *text) for process, text in zip(processes, texts, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3])
def test_the_numbers_of_one_process(tmp_path, count):
    port = free_port()
    (alone,) = ended([started(tmp_path / "one", 1, 0)])
    assert alone[0] == 0, alone[2]
    for status, numbers, errors in ended([started(tmp_path / "several", count, i, port) for i in range(count)]):
        assert status == 0, errors[-2000:]
        assert numbers == alone[1]


@pytest.mark.long
def test_more_processes_than_chunks(tmp_path):
    """Those without a chunk wait for the others: here two of three, when all but one chunk are there."""
    port, folder = free_port(), tmp_path / "runs"
    (alone,) = ended([started(folder, 1, 0)])
    (folder / "status" / "c" / "7").unlink()
    for status, numbers, errors in ended([started(folder, 3, i, port) for i in range(3)]):
        assert status == 0 and numbers == alone[1], errors[-2000:]


@pytest.mark.long
def test_a_process_that_dies(tmp_path):
    """The other ends within a minute and says that one died; the same run, started again, goes on."""
    port, folder = free_port(), tmp_path / "runs"
    first, second = (started(folder, 2, i, port, steps=100_000) for i in range(2))
    status = folder / "status" / "c"
    for _ in range(600):
        if status.exists() and len(list(status.iterdir())) > 2:
            break
        time.sleep(0.1)
    second.send_signal(signal.SIGKILL)
    begin = time.monotonic()
    (code, _, errors), _ = ended([first, second])
    assert code != 0 and time.monotonic() - begin < 60
    assert "another task died" in errors
    finished = {path: path.stat().st_mtime_ns for path in status.iterdir()}
    assert 2 < len(finished) < 20
    again = free_port()
    for code, _, errors in ended([started(folder, 2, i, again, steps=100_000) for i in range(2)]):
        assert code == 0, errors[-2000:]
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items())


@pytest.mark.long
def test_a_coordinator_that_is_not_there(tmp_path):
    begin = time.monotonic()
    ((code, _, errors),) = ended([started(tmp_path / "runs", 2, 1, free_port())])
    assert code != 0 and time.monotonic() - begin < 60 and "DEADLINE_EXCEEDED" in errors


def test_several_processes_need_a_folder(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match=r"folder must be given in a run of several processes: it is where"):
        gd.ensemble(lambda x: x, np.ones(2))
