"""The page as one text: the template with its style, its scripts and its data inside."""

from importlib.resources import files
from json import dumps

SCRIPTS = ("numbers.js", "swim.js", "stroke.js", "panels.js", "map.js", "view.js", "app.js")


def assembled(data: dict, nonce: str = "") -> str:
    """The page with these data. Scripts carry the nonce by which the server allows them."""
    folder = files("geodyn._studio") / "page"
    parts = {name: (folder / name).read_text(encoding="utf-8") for name in ("studio.html", "studio.css", *SCRIPTS)}
    script = "\n".join(parts[name] for name in SCRIPTS)
    told = dumps(data).replace("<", "\\u003c")  # nothing in the data can end its element or open another
    page = parts["studio.html"].replace("__STYLE__", parts["studio.css"]).replace("__NONCE__", nonce)
    return page.replace("__SCRIPT__", script).replace("__DATA__", told)
