"""Configuration of the documentation site; `make docs` builds it."""

import logging
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

from league_docs.navigation import NAVIGATION  # noqa: E402 - it is on the path only now

project = "Echelon League"
author = "the contributors of Echelon League"
version = release = installed_version("echelon-league")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "league_docs.docstrings", "league_docs.site"]
exclude_patterns = ["_ext"]
root_doc = "index"
navigation = NAVIGATION

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_attr_annotations = False  # the signature has the types
default_role = "code"  # docstrings write code between single backticks
maximum_signature_line_length = 88
python_use_unqualified_type_names = True

highlight_language = "none"  # of blocks that name no language

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
smartquotes = False  # they would turn --option into a dash

logging.getLogger("alembic").setLevel(logging.WARNING)
