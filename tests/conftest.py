"""Strict ground for every test: float64, no silent rank promotion, warnings are errors, shapes are checked.

`JAX_ENABLE_X64=0 pytest -m float32` runs the marked subset in single precision.
"""

import contextlib
import gc
import os
from importlib.metadata import version

os.environ.setdefault("JAX_ENABLE_X64", "1")
# Compiling is most of the time here, and optimising most of the compiling; what runs is short.
FLAGS = os.environ.get("XLA_FLAGS")
os.environ["XLA_FLAGS"] = f"{FLAGS or ''} --xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.9."):  # The newer emitters compile more slowly; XLA aborts on a flag that it lost.
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

import jax  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

jax.config.update("jax_enable_x64", os.environ["JAX_ENABLE_X64"] == "1")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Not the programs' own arithmetic (geodyn/_*.py): it is called millions of times while a step is traced.
ROOMS = ["integrators", "geometry", "mechanics", "locomotion", "control", "exact", "plot", "scenario", "commands"]
install_import_hook([f"geodyn.{room}" for room in ROOMS], "beartype.beartype")

# XLA has read them; what the tests start as a user would has the user's, unless it is to be QUICK.
jax.devices()
QUICK = {"XLA_FLAGS": os.environ["XLA_FLAGS"]}
del os.environ["XLA_FLAGS"]
if FLAGS is not None:
    os.environ["XLA_FLAGS"] = FLAGS


def pytest_configure(config):
    """Compiled programs are kept between runs; one folder a worker, since the cache's writes are not atomic. What any
    worker compiled in an earlier run all find."""
    folder = config.cache.mkdir("jax-" + os.environ.get("PYTEST_XDIST_WORKER", "main"))
    for program in folder.parent.glob("jax-*/*-cache"):
        with contextlib.suppress(FileExistsError):
            os.link(program, folder / program.name)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture(autouse=True, scope="module")
def arrays(request):
    """Long runs as programs of arrays, which compile a third faster; as users have them, of scalars, in files marked so
    and in what is started as a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("scalars") is None:
            patch.setattr("geodyn._native.FEWEST_TURNS", 10**9)
        yield


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """What one file compiled, no other uses: kept, it would fill the memory. Nor is garbage looked for within a file,
    which takes a seventh of the time that is spent on tracing."""
    gc.disable()
    yield
    jax.clear_caches()
    gc.collect()
