"""The site: `python -m sphinx -W docs site`. Notebooks stand in the repository with their outputs and are not run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages import link_names, name_rows, short_names, short_types, without_markup, write_pages

from geodyn._version import __version__

project, author, copyright = "geodyn", "The geodyn developers", "2026, the geodyn developers"
release = version = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # formulas without a network, in a copy on a disk too
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["site", "**/.ipynb_checkpoints"]
default_role = "code"
html_theme = "furo"
html_title = "geodyn"
html_static_path = ["static"]
html_css_files = ["geodyn.css"]
html_js_files = ["geodyn.js"]
html_theme_options = {
    "top_of_page_buttons": [],  # Many pages are made, and stand nowhere in the repository.
}
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True  # What a cell prints is one block.
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False
napoleon_custom_sections = [("Source", "notes_style")]
suppress_warnings = ["mystnb.unknown_mime_type"]
copybutton_exclude = ".linenos, .gp, .go"


def setup(app):
    """Writes the pages that are made from the package, the gallery and the notebooks, before Sphinx reads."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir)))
    app.connect("doctree-resolved", link_names)
    app.connect("doctree-resolved", name_rows)
    app.connect("doctree-resolved", short_types)
    app.connect("autodoc-process-signature", lambda app, what, name, value, options, *told: short_names(*told))
    app.connect("autodoc-process-docstring", lambda app, what, name, value, options, lines: without_markup(lines))
