"""The pictures of the gallery come out as they are committed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import QUICK
from helpers.outputs import frames, pictures_differ

SCRIPTS = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("*.py"))


@pytest.mark.long
@pytest.mark.notebooks
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_pictures_come_out_as_they_are(script, tmp_path):
    """At most 20 lines besides the head, and the committed picture again."""
    text = script.read_text(encoding="utf-8")
    body = text.split('jax.config.update("jax_enable_x64", True)\n')[1]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20
    (kept,) = [path for path in script.parent.glob(f"{script.stem}.*") if path.suffix in (".png", ".gif")]
    assert kept.stat().st_size < 600_000
    env = os.environ | QUICK | {"MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    for before, now in zip(frames(kept), frames(tmp_path / kept.name), strict=True):
        assert not (differs := pictures_differ(before, now)), differs


def test_there_is_a_gallery():
    assert len(SCRIPTS) >= 30
