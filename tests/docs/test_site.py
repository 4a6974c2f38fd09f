"""The documentation is true: its pages print what they say, its pictures and notebooks come out as they are committed,
its names exist, and the site is built without a warning."""

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest
from conftest import QUICK
from helpers.outputs import frames, pictures_differ, texts_differ

import geodyn as gd

ROOT = Path(__file__).parents[2]
DOCS, NOTEBOOKS = ROOT / "docs", sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [DOCS / "start.md", *sorted((DOCS / "howto").glob("[!i]*.md"))]
TEXTS = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "howto").glob("*.md")), *NOTEBOOKS]
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))
REPOSITORY = "https://github.com/geodyn/geodyn"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
HOW = {"capture_output": True, "text": True, "timeout": 280}


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_print_what_they_say(page, tmp_path):
    """The blocks of a page run one after the other, as a reader would."""
    blocks, mark = BLOCK.findall(page.read_text(encoding="utf-8")), "\x1e"
    code = f"\nprint({mark!r})\n".join(code for code, _ in blocks)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | QUICK, **HOW)
    assert done.returncode == 0, done.stderr
    printed = [part.removeprefix("\n") for part in done.stdout.split(mark)]
    for (_, said), now in zip(blocks, printed, strict=True):
        assert not (differs := texts_differ(said, now)), differs


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_pictures_come_out_as_they_are(script, tmp_path):
    """At most 20 lines besides the head, and the committed picture again."""
    text = script.read_text(encoding="utf-8")
    body = text.split('jax.config.update("jax_enable_x64", True)\n')[1]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20
    (kept,) = [path for path in script.parent.glob(f"{script.stem}.*") if path.suffix in (".png", ".gif")]
    assert kept.stat().st_size < 600_000
    env = os.environ | QUICK | {"MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, **HOW)
    assert done.returncode == 0, done.stderr
    for before, now in zip(frames(kept), frames(tmp_path / kept.name), strict=True):
        assert not (differs := pictures_differ(before, now)), differs


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_come_out_as_they_are(path, monkeypatch, tmp_path):
    """Run again, texts, numbers and pictures are those that are committed."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for name, value in (QUICK | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}).items():
        monkeypatch.setenv(name, value)
    kept = nbformat.read(path, as_version=4)
    again = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(again, timeout=600, kernel_name="python3", resources=resources).execute()
    for number, (before, now) in enumerate(zip(kept.cells, again.cells, strict=True)):
        if before.cell_type == "code":
            one, other = outputs(before), outputs(now)
            assert [kind for kind, _ in one] == [kind for kind, _ in other], f"cell {number}"
            for (kind, said), (_, says) in zip(one, other):
                differ = {"text": texts_differ, "picture": pictures_differ}.get(kind)
                assert not (differs := differ(said, says) if differ else ""), f"cell {number}: {differs}"


def outputs(cell) -> list:
    """What a cell shows: texts, pictures, and that there is something else, such as a page."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if found and found[-1][0] == "text":
                found[-1] = "text", found[-1][1] + output.text
            else:
                found.append(("text", output.text))
        elif "image/png" in output.get("data", {}):
            found.append(("picture", b64decode(output.data["image/png"])))
        elif set(output.get("data", {})) == {"text/plain"}:
            found.append(("text", output.data["text/plain"]))
        else:
            found.append(("else", None))
    return found


@pytest.mark.long
def test_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("furo", reason="pip install '.[docs]'")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "-q", DOCS, tmp_path / "site"], **HOW)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference" / "gd.html").read_text(encoding="utf-8")
    assert all(f'id="{name.replace("_", "-").lower()}"' in reference for name in ("integrate", "check_manifold"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_lessons(path):
    """With outputs, an exercise and its solution, and a link to run it; together they stay small."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "## Exercise" in text and "### Solution" in text
    where = f"github/{REPOSITORY.removeprefix('https://github.com/')}/blob/main/notebooks/{path.name}"
    assert f"(https://colab.research.google.com/{where})" in text
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code) and any(cell["outputs"] for cell in code)
    assert sum(other.stat().st_size for other in NOTEBOOKS) < 8e6


def test_there_is_a_gallery():
    assert len(SCRIPTS) >= 30


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_names_exist(path):
    """Every gd.… that a text names can be reached."""
    for name in set(re.findall(r"\bgd((?:\.[A-Za-z]\w*)+)", path.read_text(encoding="utf-8"))):
        value = gd
        for part in name.split(".")[1:]:
            assert part in dir(value) or part in getattr(value, "__dataclass_fields__", ()), f"gd{name}"
            value = getattr(value, part, None)


def test_the_papers_agree():
    """The version, the address and the names of the files are the same everywhere."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
    assert f"version: {version}\n" in cited and f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert gd.__version__ == version
    assert REPOSITORY in project and REPOSITORY in cited
