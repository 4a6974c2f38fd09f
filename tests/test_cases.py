"""The index of the reference cases, cases/README.md, is complete, and every case is used."""

import re
from pathlib import Path

from helpers.cases import case

TESTS = Path(__file__).parent
ROWS = re.findall(r"^\| ([A-Z]\d\d) \|.*\| (.*) \|$", (TESTS / "cases" / "README.md").read_text(encoding="utf-8"), re.M)


def test_every_case_is_in_the_index():
    assert [name for name, _ in ROWS] == sorted(path.stem for path in (TESTS / "cases").glob("*.json"))
    for name, _ in ROWS:
        assert case(name)["id"] == name and case(name)["source"]


def test_the_index_names_the_tests_that_use_a_case():
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__)}
    readers = {path: text for path, text in texts.items() if "from helpers.cases import case" in text}
    for name, tests in ROWS:
        using = {path.relative_to(TESTS).as_posix() for path, text in readers.items() if f'"{name}"' in text}
        assert using and using == set(re.findall(r"`(.*?)`", tests)), name
