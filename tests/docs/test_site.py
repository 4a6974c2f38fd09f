"""The documentation is true: pages print what they say, names exist, the site is built without a warning."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import QUICK
from helpers.outputs import texts_differ

import geodyn as gd

ROOT = Path(__file__).parents[2]
DOCS, NOTEBOOKS = ROOT / "docs", sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [DOCS / "start.md", *sorted((DOCS / "howto").glob("[!i]*.md"))]
TEXTS = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "howto").glob("*.md")), *NOTEBOOKS]
REPOSITORY = "https://github.com/geodyn/geodyn"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
HOW = {"capture_output": True, "text": True, "timeout": 280}


@pytest.mark.long
@pytest.mark.notebooks
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
def test_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("furo", reason="pip install '.[docs]'")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "-q", DOCS, tmp_path / "site"], **HOW)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference" / "gd.html").read_text(encoding="utf-8")
    assert all(f'id="{name.replace("_", "-").lower()}"' in reference for name in ("integrate", "check_manifold"))
    thesis = (tmp_path / "site" / "thesis.html").read_text(encoding="utf-8")
    assert '<tr class="row-even" id="figure-2-17"' in thesis or '<tr class="row-odd" id="figure-2-17"' in thesis


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
    version = gd.__version__
    assert f"version: {version}\n" in cited and f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert REPOSITORY in project and REPOSITORY in cited
