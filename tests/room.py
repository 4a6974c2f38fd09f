"""Runs the tests of a room of the package.

    python tests/room.py geodyn/_mechanics/rigid            # or of one file, such as geodyn/_scenarios/scenario.py
    python tests/room.py geodyn/_mechanics/rigid -m ""      # what follows is for pytest: those that take long as well

These are the files of tests that notice a fault of the room (tests/faults), and of those in the folder of its name the
ones that import from it.
"""

import re
import sys
from pathlib import Path

import pytest
from faults.planting import FAULTS, PACKAGE

TESTS = Path(__file__).parent


def files_of(room: Path) -> list[Path]:
    """The files of tests of a folder or a file of the package."""
    if not (room.exists() and PACKAGE in room.resolve().parents):
        raise ValueError(f"the room is a folder or a file of geodyn, such as geodyn/_mechanics/rigid, not {room}.")
    place = room.resolve().relative_to(PACKAGE)
    noticing = [fault.tests.split() for fault in FAULTS if Path(fault.file).is_relative_to(place)]
    module = ".".join([PACKAGE.name, *place.with_suffix("").parts])
    folder = TESTS / place.parts[0].lstrip("_")
    importing = [
        path
        for path in (folder if folder.is_dir() else TESTS).rglob("test_*.py")
        if re.search(rf"{re.escape(module)}\b", path.read_text(encoding="utf-8"))
    ]
    return sorted({*importing, *(TESTS / test.split("::")[0] for tests in noticing for test in tests)})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        files = files_of(Path(sys.argv[1]))
    except ValueError as error:
        sys.exit(f"room.py: {error}")
    print("pytest", *files, *sys.argv[2:])
    sys.exit(pytest.main([*map(str, files), *sys.argv[2:]]))
