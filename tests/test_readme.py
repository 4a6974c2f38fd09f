"""The README is true: its Python runs and prints what stands under it, and its two shell lines are there to be run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import QUICK

from geodyn.scenario import read_scenario

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README, re.DOTALL)


def marks(place):
    """A spring in a known space and in one's own, and the gradient in a metric stay; the others take long."""
    return (pytest.mark.newest, *([] if place in (1, 2, 3) else [pytest.mark.long]))


@pytest.mark.parametrize(
    "code, printed",
    [pytest.param(*example, marks=marks(place), id=str(place)) for place, example in enumerate(EXAMPLES)],
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
    """The TOML block is a scenario, for the metric that the README defines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (torus,) = re.findall(r"def torus.*?\n\n", README, re.DOTALL)
    (tmp_path / "my_spaces.py").write_text("import jax.numpy as jnp\n\n\n" + torus)
    (tmp_path / "torus.toml").write_text(re.findall(r"```toml\n(.*?)```", README, re.DOTALL)[0])
    given = read_scenario("torus.toml")
    assert given.q0.shape == (2, 2) and given.options["steps"] == 400


def test_pictures_are_there():
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert 0 < (Path(__file__).parents[1] / picture).stat().st_size < 600_000
