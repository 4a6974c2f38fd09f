"""Runs the tests of a room of the package.

    python tests/room.py geodyn/_mechanics/rigid            # or of one file, such as geodyn/_scenarios/scenario.py
    python tests/room.py geodyn/_mechanics/rigid -m ""      # what follows is for pytest: those that take long as well

These are the files of tests that notice a fault of the room (tests/faults), and of those in the folder of its name the
ones that take something from it: by an import, or by a public name such as `gd.rigid.RigidBody`. A file that has none
is run with the tests of its room: of the nearest folder around it that has any.
"""

import ast
import re
import sys
from pathlib import Path

import pytest
from faults.planting import FAULTS, PACKAGE

TESTS = Path(__file__).parent


def _public_names() -> list[tuple[Path, str]]:
    """(home, name) of each public name, as (_mechanics/rigid/bodies, gd.rigid.RigidBody): its door imports it."""
    found = []
    for door in [*PACKAGE.glob("[!_]*.py"), PACKAGE / "__init__.pyi"]:
        prefix = "gd" if door.suffix == ".pyi" else f"gd.{door.stem}"
        for node in ast.parse(door.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                home = Path(*node.module.removeprefix("geodyn.").split("."))
                found += [(home, f"{prefix}.{alias.name}") for alias in node.names]
    return found


PUBLIC = _public_names()


def files_of(room: Path) -> list[Path]:
    """The files of tests of a folder or a file of the package."""
    if not (room.exists() and PACKAGE in room.resolve().parents):
        raise ValueError(f"the room is a folder or a file of geodyn, such as geodyn/_mechanics/rigid, not {room}.")
    place = room.resolve().relative_to(PACKAGE)
    noticing = [fault.tests.split() for fault in FAULTS if Path(fault.file).is_relative_to(place)]
    inner = place.with_suffix("")
    module = ".".join([PACKAGE.name, *inner.parts])
    names = [name for home, name in PUBLIC if home.is_relative_to(inner)]
    taken = re.compile(rf"\b(?:{'|'.join(map(re.escape, [module, *names]))})\b")
    folder = TESTS / place.parts[0].lstrip("_")
    taking = [
        path
        for path in (folder if folder.is_dir() else TESTS).rglob("test_*.py")
        if taken.search(path.read_text(encoding="utf-8"))
    ]
    return sorted({*taking, *(TESTS / test.split("::")[0] for tests in noticing for test in tests)})


def room_with_tests(room: Path) -> Path:
    """The folder or file itself if it has tests, else the nearest folder around it in the package that has any."""
    places = [room, *(folder for folder in room.resolve().parents if PACKAGE in folder.parents)]
    found = next((place for place in places if files_of(place)), None)
    if found is None:
        raise LookupError(f"{room} has no tests of its own, nor has a folder around it; run pytest on those you mean.")
    return found


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asked = Path(sys.argv[1])
    try:
        room = room_with_tests(asked)
    except ValueError as error:
        sys.exit(f"room.py: {error}")
    except LookupError as error:
        # pytest without files would run all of them.
        print(f"room.py: {error}", file=sys.stderr)
        sys.exit(2)
    if room != asked:
        print(f"room.py: {asked} has no tests of its own; those of {room} follow.")
    files = files_of(room)
    print("pytest", *files, *sys.argv[2:])
    sys.exit(pytest.main([*map(str, files), *sys.argv[2:]]))
