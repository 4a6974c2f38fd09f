"""What a first call costs: the elastic rod in H³ and its gradient, in fresh processes, without and with the persistent
compilation cache; and that a second call with other numbers compiles nothing."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from timing import elapsed, table

REPEATS = 3


def child(what):
    """In a fresh process: print the times of the import and of two calls, and the compilations of the second."""
    import jax

    jax.config.update("jax_enable_x64", True)
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compilations.append(seconds) if event.endswith("backend_compile_duration") else None
    )
    from problems import elastic_rod

    import geodyn as gd

    _, q0, v0 = elastic_rod()

    def end(stiffness, speed, t1):
        return gd.integrate(elastic_rod(stiffness)[0], q0, speed * v0, t1=t1, steps=100).q[-1]

    call = end if what == "trajectory" else jax.grad(lambda *x: end(*x).sum(), (0, 1, 2))
    first = elapsed(lambda: call(1.0, 1.0, 10.0))[0]
    before = len(compilations)
    second = elapsed(lambda: call(1.1, 0.9, 9.0))[0]
    print(json.dumps([first, second, before, len(compilations) - before]))


def fresh(what, folder=None):
    """What `child` prints."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    # XLA warns of the features "prefer-no-…" of its own compiler, which no machine lists, when it reads its cache.
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    if folder is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = folder
    done = subprocess.run(
        [sys.executable, __file__, what], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Print the table."""
    rows = []
    for what in ("trajectory", "gradient"):
        cold = np.median([fresh(what) for _ in range(REPEATS)], axis=0)
        with tempfile.TemporaryDirectory() as folder:
            fresh(what, folder)
            warm = np.median([fresh(what, folder) for _ in range(REPEATS)], axis=0)
        rows += [[f"{what}, no cache", *cold, 1.0], [f"{what}, from the cache", *warm, warm[0] / cold[0]]]
    head = ["first call in a process", "first [s]", "second [s]", "programs in first", "in second", "ratio of first"]
    table("Elastic rod in H³, Gauss 3, 100 steps", head, rows)


if __name__ == "__main__":
    child(sys.argv[1]) if len(sys.argv) > 1 else main()
