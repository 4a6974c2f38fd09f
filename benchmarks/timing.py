"""Medians of repeated calls, taken in turns, and tables of them."""

import platform
import statistics
import time

import jax
import numpy as np

TURN = 0.01  # seconds that a turn of one call lasts at least, so that its data is back in the caches


def medians(calls: dict, seconds: float = 2.0) -> dict[str, float]:
    """Median time of each call in seconds. Each is called once before; then they take turns, so that whatever else
    the machine does touches all of them alike, for `seconds` per call, and for three turns at least."""
    for call in calls.values():
        jax.block_until_ready(call())
    times = {name: [] for name in calls}
    begin, turns = time.perf_counter(), 0
    while turns < 3 or time.perf_counter() - begin < seconds * len(calls):
        for name, call in calls.items():
            turn = time.perf_counter()
            while True:
                times[name].append(elapsed(call)[0])
                if time.perf_counter() - turn > TURN:
                    break
        turns += 1
    return {name: statistics.median(samples) for name, samples in times.items()}


def elapsed(call):
    """Seconds of one call, and its result."""
    begin = time.perf_counter()
    result = jax.block_until_ready(call())
    return time.perf_counter() - begin, result


def exponent(sizes, times) -> float:
    """The slope of log(time) over log(size), by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def table(title: str, head: list[str], rows: list[list]) -> None:
    """Print aligned columns: text as it is, numbers to three digits."""
    cells = [head, *([x if isinstance(x, str) else f"{x:.3g}" for x in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for i, row in enumerate(cells):
        first, *rest = (x.ljust(w) if j == 0 else x.rjust(w) for j, (x, w) in enumerate(zip(row, widths)))
        print("  ".join([first, *rest]))
        if i == 0:
            print("  ".join("-" * w for w in widths))


def machine() -> str:
    """The versions and the device that the figures belong to."""
    device = jax.devices()[0]
    return f"JAX {jax.__version__} on {device.platform} ({device.device_kind}), Python {platform.python_version()}"
