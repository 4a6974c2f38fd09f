"""Faults that a person might make, planted one at a time; every one must make a test fail.

    python tests/faults                    # all of them
    python tests/faults saltation _plot/   # those with one of these words in the name or file
    python tests/faults --part 2/6         # the second sixth of them: every sixth one from the second on

The package and its tests are copied to a temporary folder, where one fault after the other is planted and the tests
that should notice are run. Prints a line for each: killed, by which test, or SURVIVED; the exit status is 1 if any
survived, or could not be planted. Compiled programs are kept in .pytest_cache/faults between runs. `planting.py` says
how a fault is written down.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from planting import FAULTS, Fault, planted

ROOT = Path(__file__).parents[2]


def outcome(fault: Fault, copy: Path) -> str:
    """What the tests say about the copy with the fault in it."""
    path = copy / "geodyn" / fault.file
    sound = path.read_text()
    try:
        path.write_text(planted(sound, fault))
    except ValueError as error:
        return f"NOT PLANTED: {error}"
    tests = [f"tests/{test}" for test in fault.tests.split()]
    options = ["-x", "-q", "--tb=no", "-m", "", "-o", f"cache_dir={ROOT / '.pytest_cache' / 'faults'}"]
    # Python would take a file of the same size and second for unchanged.
    where = {"cwd": copy, "env": os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}}
    try:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests], capture_output=True, text=True, **where
        )
    finally:
        path.write_text(sound)
    by = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    if run.returncode == 1 and by:
        return "killed by " + by[0].removeprefix("FAILED tests/").split(" - ")[0]
    if run.returncode == 0 and " passed" not in run.stdout:
        return "NO RESULT, all of its tests were skipped"
    return "SURVIVED" if run.returncode == 0 else f"NO RESULT, pytest ended with {run.returncode}"


def main(chosen: list[Fault]) -> bool:
    """Whether all of these are killed."""
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("geodyn", "tests", "docs"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / part, folder)
        for fault in chosen:
            begin = time.monotonic()
            said = outcome(fault, Path(folder))
            killed += said.startswith("killed")
            print(f"{fault.file}: {fault.name}: {said} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{killed} of {len(chosen)} killed")
    return killed == len(chosen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python tests/faults", description="Plants faults; a test must notice each.")
    parser.add_argument("words", nargs="*", help="only faults with one of these in the name or file")
    parser.add_argument("--part", default="1/1", help="only every n-th from the k-th on: k/n")
    given = parser.parse_args()
    k, n = map(int, given.part.split("/"))
    named = {word: [f for f in FAULTS if word in f.name or word in f.file] for word in given.words}
    for word, faults in named.items():
        if not faults:
            parser.error(f"no fault has {word!r} in its name or file")
    chosen = [f for f in FAULTS if not named or any(f in faults for faults in named.values())]
    sys.exit(not main(chosen[k - 1 :: n]))
