"""The notebooks are lessons, and come out as they are committed."""

import json
from base64 import b64decode
from functools import partial
from pathlib import Path

import pytest
from conftest import QUICK
from helpers.outputs import pictures_differ, texts_differ

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
WHERE = "https://colab.research.google.com/github/geodyn/geodyn/blob/main/notebooks"


@pytest.mark.long
@pytest.mark.notebooks
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_come_out_as_they_are(path, monkeypatch, tmp_path):
    """Run again, texts, numbers and pictures are those that are committed. What a network has learned, or how many
    steps at the limit converge, depends on the last bits: of cells with the tag `sensitive` the words are compared, and
    the size of the numbers."""
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
            is_sensitive = "sensitive" in before.metadata.get("tags", ())
            compare = {"text": partial(texts_differ, digits=0.9) if is_sensitive else texts_differ}
            compare |= {} if is_sensitive else {"picture": pictures_differ}
            for (kind, said), (_, says) in zip(one, other):
                differs = compare[kind](said, says) if kind in compare else ""
                assert not differs, f"cell {number}: {differs}"


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_lessons(path):
    """With outputs, an exercise and its solution, and a link to run it; together they stay small."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "## Exercise" in text and "### Solution" in text
    assert f"({WHERE}/{path.name})" in text
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code) and any(cell["outputs"] for cell in code)
    assert sum(other.stat().st_size for other in NOTEBOOKS) < 8e6
