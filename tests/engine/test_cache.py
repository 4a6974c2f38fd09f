"""Compiled programs kept between processes."""

import subprocess
import sys

import jax
import pytest

import geodyn as gd

SCRIPT = """
import jax
import geodyn as gd
missed = []
count = lambda event, **_: missed.append(event) if event.endswith("cache_misses") else None
jax.monitoring.register_event_listener(count)
gd.cache("{folder}")
y = gd.integrate(gd.ODE(lambda t, y: -y), [1.0], None, t1=1.0, steps=5).q[-1, 0]
print(y, len(missed))
"""


def test_the_next_process_compiles_nothing(tmp_path):
    folder = tmp_path / "programs"

    def run():
        return subprocess.run(
            [sys.executable, "-c", SCRIPT.format(folder=folder)], capture_output=True, text=True, check=True
        )

    first, second = run(), run()
    assert int(first.stdout.split()[1]) > 0 and second.stdout.split() == [first.stdout.split()[0], "0"]
    assert not second.stderr, "XLA's messages about code from its cache"


FIRST = """
import jax
import geodyn as gd
programs = []
count = lambda event, *_, **__: programs.append(event) if event.endswith("backend_compile_duration") else None
jax.monitoring.register_event_duration_secs_listener(count)
def end(k):
    body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(k, [0.0]))
    return gd.integrate(body, [[1.0]], t1=1.0, steps=5).q[-1, 0, 0]
jax.jit(jax.grad(end))(4.0)
print(len(programs))
"""


@pytest.mark.long
def test_a_first_derivative_is_one_program():
    """What a body is made of compiles no others. One more is the trial of our own compiler, once in a process."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"]


def test_where_it_is(tmp_path, monkeypatch):
    kept = jax.config.jax_compilation_cache_dir, jax.config.jax_compilation_cache_max_size
    seconds = jax.config.jax_persistent_cache_min_compile_time_secs
    monkeypatch.setenv("XDG_CACHE_HOME" if sys.platform == "linux" else "HOME", str(tmp_path))
    try:
        assert gd.cache() == gd.cache(kept[0])
        jax.config.update("jax_compilation_cache_dir", None)
        assert tmp_path in gd.cache().parents and gd.cache(max_bytes=10**6).name == "geodyn"
        assert jax.config.jax_compilation_cache_max_size == 10**6
        with pytest.raises(ValueError, match="max_bytes must be a positive number of bytes, got 0"):
            gd.cache(max_bytes=0)
        with pytest.raises(ValueError, match=r"folder must be a path.*got 3"):
            gd.cache(3)
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match="file"):
            gd.cache(tmp_path / "file")
    finally:
        jax.config.update("jax_compilation_cache_dir", kept[0])
        jax.config.update("jax_compilation_cache_max_size", kept[1])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)
