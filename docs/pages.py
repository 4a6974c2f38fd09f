"""Pages that are made: the reference from the public names, the gallery from its scripts, tutorials from notebooks."""

import ast
import inspect
import json
import re
import shutil
from pathlib import Path

from docutils import nodes

import geodyn as gd

FACES = [
    name for name in gd.__all__ if inspect.ismodule(getattr(gd, name)) and getattr(gd, name).__name__ != "geodyn.plot"
]


def write_pages(docs: Path) -> None:
    """Writes all of them into folders that git ignores."""
    for made in ("reference", "tutorials"):
        shutil.rmtree(docs / made, ignore_errors=True)
    _reference(docs / "reference")
    _gallery(docs / "gallery")
    _tutorials(docs.parent / "notebooks", docs / "tutorials")


def _reference(folder: Path) -> None:
    """A page for each room of public names, and an index of all."""
    folder.mkdir(exist_ok=True)
    rooms = {"gd": (gd, "What a first page needs: spaces, bodies, time, motion, purpose.")}
    rooms |= {f"gd.{name}": (getattr(gd, name), _first(getattr(gd, name))) for name in FACES}
    rooms["gd.plot"] = (gd.plot, _first(gd.plot))
    lines = ["# Reference", "", "Every public name, by room; `import geodyn as gd`.", ""]
    for room, (module, idea) in rooms.items():
        names = [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
        lines += [
            f"## [{room}]({room}.md)",
            "",
            idea,
            "",
            ", ".join(f"[`{n}`](#{_anchor(room, n, getattr(module, n))})" for n in names),
            "",
        ]
        text = [f"# {room}", "", idea, ""]
        for name in names:
            value = getattr(module, name)
            text += [f"({_anchor(room, name, value)})=", f"## {name}", "", *_documented(value, module, name), ""]
        (folder / f"{room}.md").write_text("\n".join(text))
    pages = "\n".join(f"{room}" for room in rooms)
    (folder / "index.md").write_text("\n".join([*lines, "```{toctree}", ":hidden:", "", pages, "```", ""]))


def _documented(value, module, name) -> list[str]:
    if not callable(value):
        return [inspect.cleandoc(f"A constant: `{value!r}`")[:400]]
    directive = "autoclass" if inspect.isclass(value) else "autofunction"
    path = f"{module.__name__}.{name}"  # as users write it, also in what a search finds
    options = [":members:", ":exclude-members: __init__"] if inspect.isclass(value) else []
    return ["```{eval-rst}", f".. {directive}:: {path}", *(f"   {option}" for option in options), "```"]


def without_markup(lines: list[str]) -> None:
    """Escapes what reStructuredText takes for markup in the formulas of a docstring: |x| outside of code."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("`")
            parts[::2] = [re.sub(r"\|", r"\\|", part) for part in parts[::2]]
            lines[k] = "`".join(parts)


def short_names(*told: str | None) -> tuple[str | None, ...]:
    """A signature and what it returns, with the names of types without their modules, and of functions that are
    defaults without what Python says around them."""
    short = (text and re.sub(r"~?\b(?:\w+\.)+(?=[A-Z]\w*)|~(?=[A-Z])", "", text) for text in told)
    return tuple(text and re.sub(r"<function ([\w.<>]+)>", r"\1", text).replace("_itself", "itself") for text in short)


def short_types(app, tree, page: str) -> None:
    """The same for the types of properties and fields, which Sphinx asks nobody about."""
    for text in list(tree.findall(nodes.Text)):
        if "jaxlib._jax." in text:
            text.parent.replace(text, nodes.Text(text.replace("jaxlib._jax.", "")))


def _anchor(room: str, name: str, value) -> str:
    """Labels do not tell capitals from small letters, names do."""
    return f"{room}.{name}" + "-class" * inspect.isclass(value)


def _first(module) -> str:
    return inspect.getdoc(module).split("\n\n")[0].replace("\n", " ")


def _gallery(folder: Path) -> None:
    """A card for each picture, and a page with the picture and the script that made it."""
    cards, names = [], []
    for script in sorted(folder.glob("*.py")):
        title, _, rest = (ast.get_docstring(ast.parse(script.read_text())) or script.stem).partition("\n")
        picture = next(
            folder / f"{script.stem}{kind}" for kind in (".gif", ".png") if (folder / f"{script.stem}{kind}").exists()
        )
        cards += [
            f":::{{grid-item-card}} {title}",
            f":link: {script.stem}",
            ":link-type: doc",
            f":img-top: {picture.name}",
            ":::",
            "",
        ]
        page = [
            f"# {title}",
            "",
            rest.strip(),
            "",
            f"![{title}]({picture.name})",
            "",
            f"```{{literalinclude}} {script.name}",
            ":language: python",
            "```",
            "",
        ]
        (folder / f"{script.stem}.md").write_text("\n".join(page))
        names.append(script.stem)
    head = ["# Gallery", "", "Each picture with the lines that made it.", "", "::::{grid} 1 2 3 3", ":gutter: 2", ""]
    tail = ["::::", "", "```{toctree}", ":hidden:", "", *names, "```", ""]
    (folder / "index.md").write_text("\n".join([*head, *cards, *tail]))


def _tutorials(notebooks: Path, folder: Path) -> None:
    """The notebooks, and an index with the first sentence of each."""
    folder.mkdir(exist_ok=True)
    names = []
    lines = ["# Tutorials", "", "Lessons, with their outputs; each ends with an exercise and its solution.", ""]
    for path in sorted(notebooks.glob("*.ipynb")):
        shutil.copy(path, folder / path.name)
        text = "".join(json.loads(path.read_text())["cells"][0]["source"])
        title = next(line.lstrip("# ") for line in text.splitlines() if line.startswith("# "))
        first = next(
            part for part in text.split("\n\n") if part and not part.startswith(("#", "[Open in Colab]", "!["))
        )
        lines += [f"- [{title}]({path.name}). {first.split('. ')[0].replace(chr(10), ' ').rstrip('.')}."]
        names.append(path.stem)
    (folder / "index.md").write_text("\n".join([*lines, "", "```{toctree}", ":hidden:", "", *names, "```", ""]))


def name_rows(app, tree, page: str) -> None:
    """Gives each row of a table an anchor made of its first cell, with a link to it; for a number also of the head of
    the column, as in `#figure-2-17`."""
    known = {i for node in tree.findall(nodes.Element) for i in node.get("ids", ())}
    for row in list(tree.findall(nodes.row)):
        if not isinstance(row.parent, nodes.tbody) or not row[0].children:
            continue
        text, (head, *_) = row[0].astext(), [*row.parent.parent.findall(nodes.entry)]
        anchor = nodes.make_id(text if text[:1].isalpha() else f"{head.astext()} {text}")[:60].strip("-")
        if not anchor or anchor in known:
            continue
        known.add(anchor)
        row["ids"].append(anchor)
        row[0][-1] += nodes.reference("", "#", refid=anchor, classes=["headerlink"])


def link_names(app, tree, page: str) -> None:
    """Makes links to the reference of the names in code, such as gd.integrate; `tree` is the page as Sphinx read it."""
    start = app.builder.get_relative_uri(page, "index").removesuffix("index.html")
    for literal in list(tree.findall(nodes.literal)):
        found = re.match(r"gd\.(?:(\w+)\.)?(\w+)", literal.astext())
        if found is None or isinstance(literal.parent, nodes.reference):
            continue
        face, name = found.groups()
        module = getattr(gd, face, None) if face else gd
        if inspect.ismodule(module) and name in module.__all__:
            room, value = f"gd.{face}" if face else "gd", getattr(module, name)
            place, anchor = f"gd.{name}.html", nodes.make_id(_anchor(room, name, value))
            if not inspect.ismodule(value):
                place = f"{room}.html#{anchor}"
            if page == f"reference/{room}" and anchor in _sections(literal):
                continue
            link = nodes.reference("", "", literal.deepcopy(), refuri=f"{start}reference/{place}", internal=True)
            literal.replace_self(link)


def _sections(node) -> list[str]:
    """The ids of the sections that hold a node: a description need not link to itself."""
    found = []
    while node is not None:
        found += node.get("ids", ())
        node = node.parent
    return found
