"""Strict ground for every test: float64, no silent rank promotion, warnings are errors, shapes are checked.

`JAX_ENABLE_X64=0 pytest -m float32` runs the marked subset in single precision.
"""

import contextlib
import gc
import logging
import os
import shutil
import signal
import sys
import time

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import jaxtyping
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", os.environ["JAX_ENABLE_X64"] == "1")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Not _foundations and _engine, whose functions are called millions of times while a step is traced.
ROOMS = [
    "_integrators",
    "_geometry",
    "_mechanics",
    "_locomotion",
    "_control",
    "_plot",
    "_scenarios",
    "_catalogue",
    "_studio",
    "_commands",
]
install_import_hook([f"geodyn.{room}" for room in ROOMS], "beartype.beartype")
from geodyn._engine.internals import quick_options  # noqa: E402

# XLA fuses operations by an older emitter in half the time; it has none since JAX 0.12.
FUSION = {"xla_cpu_use_fusion_emitters": False} if "xla_cpu_use_fusion_emitters" in quick_options() else {}
FLAGS = " ".join([os.environ.get("XLA_FLAGS", ""), *(f"--{name}={value}".lower() for name, value in FUSION.items())])
# What the tests start as processes has users' settings, unless it is to be QUICK.
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": FLAGS}
# XLA ends a process by a segmentation fault that has loaded too many programs; and they fill the memory.
MOST_PROGRAMS = 2000


def pytest_configure(config):
    """Compiled programs are kept between runs; one folder a worker, since the cache's writes are not atomic. What any
    worker compiled in an earlier run all find. Ctrl-C is heeded also where a shell started the tests in the background,
    which lets them and what they start ignore it. Files are given to workers in the order of the collection."""
    config.option.loadscopereorder = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = config.cache.mkdir("jax-" + os.environ.get("PYTEST_XDIST_WORKER", "main"))
    for program in folder.parent.glob("jax-*/*-cache"):
        with contextlib.suppress(FileExistsError):
            os.link(program, folder / program.name)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


class Faultless(logging.Handler):
    """A fault of our compiler, after which a user's program runs by XLA, is an error in the tests."""

    def emit(self, record):
        assert "our compiler failed" not in record.msg, record.getMessage()


logging.getLogger("geodyn").addHandler(Faultless())


class Compiler:
    """How this process compiles, and how many programs it has."""

    def __init__(self):
        self.quick, self.programs = False, 0
        jax.monitoring.register_event_duration_secs_listener(self.count)
        if FUSION:  # JAX has such options for one program, and in the environment for all of a process.
            from jax._src import compiler

            options = compiler.get_compile_options
            compiler.get_compile_options = lambda *args, **kwargs: self.quickened(options(*args, **kwargs))

    def count(self, event, _, **__):
        self.programs += event.endswith("backend_compile_duration")

    def quickened(self, options):
        if self.quick:
            options.env_option_overrides = [*options.env_option_overrides, *FUSION.items()]
        return options

    def be(self, quick):
        """Forgets what was compiled in the other way; and all, if that is much."""
        if quick != self.quick or self.programs > MOST_PROGRAMS:
            jax.clear_caches()
            gc.unfreeze()
            gc.collect()
            self.programs = 0
        self.quick = quick
        jax.config.update("jax_disable_most_optimizations", quick)


COMPILER = Compiler()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Tests marked `users` come last, in each file and of the files: at a change from the others or back all that was
    compiled is forgotten."""
    marked = {item: item.get_closest_marker("users") is not None for item in items}
    kinds = {}
    for item in items:
        kinds.setdefault(item.path, set()).add(marked[item])
    files = {path: (min(kind), max(kind), place) for place, (path, kind) in enumerate(kinds.items())}
    items.sort(key=lambda item: (files[item.path], marked[item]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Compiling is most of the time here, and optimising most of the compiling; what runs is short. So tests compile
    without optimisation; those marked `users` as users do. None begins later than `TESTS_UNTIL`, in seconds of
    the clock, if that is set."""
    if time.time() > float(os.environ.get("TESTS_UNTIL", "inf")):
        pytest.skip("the time that TESTS_UNTIL gives is over")
    COMPILER.be(quick=item.get_closest_marker("users") is None)


@pytest.fixture(autouse=True, scope="module")
def no_garbage_is_looked_for():
    """Neither within a file, which takes a seventh of the time that is spent on tracing, nor ever in what earlier files
    have left."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_figure_is_left():
    """Else matplotlib warns of them in a test that happens to come after many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def as_users_run():
    """Without the type checks of the test suite, which would speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def browser():
    """A real browser without a window: playwright's own chromium, or the one of the machine."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with api.sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        found = next(filter(None, map(shutil.which, names)), None)
        try:
            launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no browser: {str(error).splitlines()[0]} (playwright install chromium)")
        yield launched
        launched.close()
