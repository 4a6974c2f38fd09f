"""The README and the tour are true: their Python runs and prints what stands under it, the shell lines of the README
are there to be run, and the scenario of the page of the command line is one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import QUICK

from geodyn._scenarios.scenario import read_scenario

ROOT = Path(__file__).parents[1]
README, TOUR, COMMANDS = ((ROOT / page).read_text() for page in ("README.md", "docs/tour.md", "docs/commands.md"))
EXAMPLES = {
    f"{page} {place}": example
    for page, text in {"README": README, "tour": TOUR}.items()
    for place, example in enumerate(re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL))
}
SHORT = ("README 1", "README 2")


def marks(name):
    return (pytest.mark.newest, *([] if name in SHORT else [pytest.mark.long]))


@pytest.mark.parametrize(
    "code, printed", [pytest.param(*example, marks=marks(name), id=name) for name, example in EXAMPLES.items()]
)
def test_examples_print_what_they_say(code, printed, tmp_path):
    """In a fresh process without the strictness of these tests, as a newcomer would; digits shown must all agree."""
    assert len(code.splitlines()) <= 15
    command, how = [sys.executable, "-c", code], {"capture_output": True, "text": True, "timeout": 200}
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | QUICK, **how)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


@pytest.mark.parametrize("mark, command", [("main job", ".venv/bin/geodyn demo"), ("tests", ".venv/bin/pytest -n 2")])
def test_shell_lines(mark, command):
    """One line each, directly under its mark, that starts from a bare Python and ends with the command itself."""
    (line,) = re.findall(rf"^<!-- {mark} -->\n```\w*\n(.*)\n```$", README, re.MULTILINE)
    assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ") and line.endswith(command)


def test_scenario(tmp_path, monkeypatch):
    """For the metric that the tour defines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (torus,) = re.findall(r"def torus.*?\n\n", TOUR, re.DOTALL)
    (tmp_path / "my_spaces.py").write_text("import jax.numpy as jnp\n\n\n" + torus)
    (tmp_path / "torus.toml").write_text(re.findall(r"```toml\n(.*?)```", COMMANDS, re.DOTALL)[0])
    given = read_scenario("torus.toml")
    assert given.q0.shape == (2, 2) and given.options["steps"] == 400


def test_pictures_are_there():
    for folder, text in ((ROOT, README), (ROOT / "docs", TOUR)):
        for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
            assert 0 < (folder / picture).stat().st_size < 600_000


def test_links_lead_somewhere():
    """Those of the README and of the papers beside it to files of the repository."""
    for page in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\((?!http)(.*?)\)", (ROOT / page).read_text()):
            assert (ROOT / link).exists(), f"{page}: {link}"
