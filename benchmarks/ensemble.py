"""Ensembles: two cores beside one, what `gd.ensemble` adds to bare `jit(vmap)`, files beside memory, processes beside
one, and, asked for, a million rods in a file.

    python benchmarks/ensemble.py [cores] [added] [processes] [million]

Cores are taken away by the affinity of a process (Linux).
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial

CORES = sorted(os.sched_getaffinity(0))
WORDS = sys.argv[1:]
if WORDS[:1] == ["process"]:
    os.sched_setaffinity(0, CORES[int(WORDS[1]) : int(WORDS[1]) + 1])
if WORDS[:1] == ["with"]:
    os.sched_setaffinity(0, CORES[: int(WORDS[1])])

import jax  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)

from problems import elastic_rod, rigid_rod  # noqa: E402
from timing import machine, medians, table  # noqa: E402

import geodyn as gd  # noqa: E402

MEMBERS, STEPS = 8192, 100


def on(cores, call):
    """The call, in threads for the first so many cores."""

    def run():
        os.sched_setaffinity(0, CORES[:cores])
        try:
            return call()
        finally:
            os.sched_setaffinity(0, CORES)

    return run


def rods(steps=STEPS):
    system, q0, v0 = elastic_rod()
    return lambda scale: gd.integrate(system, q0, scale * v0, t1=0.1 * steps, steps=steps, save_every=steps).q[-1]


def rigid_rods():
    system, q0, v0 = rigid_rod()
    options = {"t1": 5.0, "steps": STEPS, "save_every": STEPS, "throw": False}
    return lambda scale: gd.integrate(system, q0, scale * v0, **options).q[-1]


def tops():
    body = gd.rigid.RigidBodies([1.0, 2.0, 3.0])

    def turned(scale):
        q0, v0 = body.state(angular_velocity=[0.02, scale, 0.03])
        options = {"t1": 0.05 * STEPS, "steps": STEPS, "save_every": STEPS, "method": gd.Gauss(2), "throw": False}
        return gd.integrate(body, q0, v0, **options).q[-1]

    return turned


def strokes():
    swimmer, method = gd.swimmers.SymmetricPurcell(), gd.Direct(harmonics=6, steps=32)
    return lambda scale: gd.optimal_stroke(swimmer, [0.5, 0.5], displacement=0.02 * scale, method=method).cost


def scales(count):
    return np.linspace(0.9, 1.1, count)


PROBLEMS = {
    "elastic rods": (rods, 2 * MEMBERS),
    "rigid rods": (rigid_rods, MEMBERS),
    "rigid bodies": (tops, 4 * MEMBERS),
    "optimal strokes": (strokes, 2048),
}


def child(*words):
    """What this file prints, with these words, in a process of its own."""
    return subprocess.Popen([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True)


def median_seconds(count):
    """Of each problem, in a process that never had more than so many cores: XLA has threads of its own."""

    def run(function, members):
        return gd.ensemble(function, members, chunk=len(members) // 16).status

    calls = {name: partial(run, function(), scales(n)) for name, (function, n) in PROBLEMS.items()}
    print("seconds", json.dumps(medians(calls, 4.0)))


def cores():
    one, two = (json.loads(child("with", n).communicate()[0].split("seconds")[1]) for n in (1, 2))
    rows = [[name, n, one[name], two[name], one[name] / two[name]] for name, (_, n) in PROBLEMS.items()]
    table("all members, seconds", ["problem", "members", "one core", "two", "one / two"], rows)


def added():
    function, members = rods(20), scales(100_000)
    bare = jax.jit(jax.vmap(function))
    with tempfile.TemporaryDirectory() as folder:
        count = iter(range(10**6))
        calls = {
            "bare jit(vmap), all at once": on(1, lambda: bare(members)),
            "bare jit(vmap), by 1000": on(1, lambda: [np.asarray(bare(x)) for x in members.reshape(-1, 1000)]),
            "ensemble, one core": on(1, lambda: gd.ensemble(function, members, chunk=1000).status),
            "ensemble, two cores": lambda: gd.ensemble(function, members, chunk=1000).status,
            "… to disk": lambda: gd.ensemble(function, members, chunk=1000, folder=f"{folder}/{next(count)}").status,
        }
        times = medians(calls, 5.0)
    base = times["bare jit(vmap), by 1000"]
    rows = [[name, seconds, seconds / base] for name, seconds in times.items()]
    table("10⁵ elastic rods, 20 steps", ["", "seconds", "/ bare by 1000"], rows)
    print(f"to disk / in memory: {times['… to disk'] / times['ensemble, two cores']:.3g}")


def process(index, count, port, folder):
    """One of several processes, on its own core."""
    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, index)
    function, members = rods(), scales(50_000)
    gd.ensemble(function, members[:4000], chunk=1000, folder=f"{folder}/first")
    begin = time.perf_counter()
    gd.ensemble(function, members, chunk=1000, folder=f"{folder}/all")
    print("seconds", time.perf_counter() - begin)


def processes():
    def longest(count, port):
        with tempfile.TemporaryDirectory() as folder:
            runs = [child("process", i, count, port, folder) for i in range(count)]
            return max(float(run.communicate()[0].split("seconds")[1]) for run in runs)

    times = np.median([[longest(1, 0), longest(2, 5600 + i)] for i in range(3)], axis=0)
    rows = [["one", times[0], 1.0], ["two", times[1], times[0] / times[1]]]
    table("processes of one core, 50,000 rods to a folder", ["processes", "seconds", "one / this"], rows)


def million():
    with tempfile.TemporaryDirectory(dir=".") as folder:
        begin = time.perf_counter()
        found = gd.ensemble(rods(1000), scales(1_000_000), folder=f"{folder}/rods", progress=True)
        seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"10⁶ rods × 1000 steps: {seconds:.0f} s, {peak:.2f} GiB at most, {len(found.failed)} failed")


PARTS = {"cores": cores, "added": added, "processes": processes, "million": million}

if __name__ == "__main__":
    if WORDS[:1] == ["process"]:
        process(*map(int, WORDS[1:4]), WORDS[4])
    elif WORDS[:1] == ["with"]:
        median_seconds(int(WORDS[1]))
    else:
        print(machine())
        for part in WORDS or ["cores", "added", "processes"]:
            PARTS[part]()
