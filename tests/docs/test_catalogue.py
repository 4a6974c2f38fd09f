"""The page of the catalogue: its commands name bodies, all bodies are on it, and each does what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

from geodyn.__main__ import main
from geodyn._catalogue.bodies import BODIES
from geodyn._catalogue.options import body_of, parse
from geodyn._studio.bodies import describe, kind_of, made

PAGE = (Path(__file__).parents[2] / "docs" / "catalogue.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`geodyn stroke ([a-z][^`]*)`", PAGE)) - {"satellite", "twin-rotor"})
WITHOUT_CONNECTION = ("carreau-links",)
ELSEWHERE = (
    *("pmpy", "nlink", "symmetric-purcell", "three-sphere", "falling-cat", "satellite", "beanie", "pendulum-raft"),
    *("rolling-disc", "car", "two-legged"),
)
"""Bodies that the page does not compare with others."""


def test_every_body_is_on_the_page():
    named = {words.split()[0] for words in COMMANDS} | {"twin-rotor"}
    assert named <= set(BODIES) and set(BODIES) - named == set(ELSEWHERE)


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_make_bodies(words):
    name, *rest = words.split()
    body, options = parse(name, body_of(name), rest)
    assert np.all(np.isfinite(body.group.identity())) and options["displacement"] == BODIES[name].displacement


@pytest.mark.parametrize("name", [name for name in BODIES if name not in (*WITHOUT_CONNECTION, "beanie")])
def test_the_studio_knows_what_to_draw(name):
    kind = kind_of(name)
    body, python = made(kind, {})
    about = describe(kind, body, python)
    lower, start, upper = (np.array(about[key]) for key in ("lower", "start", "upper"))
    assert np.all(lower < start) and np.all(start < upper) and len(about["variables"]) == start.size >= 2


@pytest.mark.parametrize("name", WITHOUT_CONNECTION)
def test_the_studio_refuses_what_has_no_connection(name):
    with pytest.raises(ValueError, match=f"it has no connection and no height functions.*geodyn stroke {name}"):
        made(kind_of(name), {})


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", [words for words in COMMANDS if words not in WITHOUT_CONNECTION])
def test_commands_find_strokes(words, tmp_path, capsys):
    """Each by its defaults; seen to take 10 to 60 seconds on two cores."""
    assert main(["stroke", *words.split(), "--out", str(tmp_path)]) == 0
    assert "what was asked for was computed\n" in capsys.readouterr().out


@pytest.mark.long
def test_two_rotors_on_one_axis_enclose_nothing(tmp_path, capsys):
    assert main(["stroke", "twin-rotor", "--out", str(tmp_path)]) == 2
    assert "none of 32 strokes" in capsys.readouterr().err
