"""Sphinx extension: docstrings in the house style, which is Google's with Markdown's indented code blocks."""

import re
from typing import Any

_ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[~?(?:numpy\.)?(\w+)\]\]"
)
"""Array of any shape, as autodoc writes it in a signature."""

_BEFORE_NAPOLEON = 400


def mark_code(lines: list[str]) -> None:
    """Turn indented blocks between paragraphs into literal blocks of reStructuredText."""
    marked: list[str] = []
    paragraph = ""
    for line in lines:
        begins = line.startswith("    ") and bool(marked) and not marked[-1].strip()
        if begins and paragraph and not paragraph.startswith((" ", "..")) and not paragraph.endswith("::"):
            marked += ["::", ""]
        marked.append(line)
        paragraph = line if line.strip() else paragraph
    lines[:] = marked


def _process_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    mark_code(lines)
    if what in {"attribute", "data", "property"}:
        lines[:0] = ["..", ""]  # an empty comment: napoleon would take the first line up to a colon for a type


def _process_signature(
    app: Any,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    shortened = [_ARRAY.sub(r"NDArray[\1]", text) if text else text for text in (signature, returned)]
    return shortened[0], shortened[1]


def setup(app: Any) -> dict[str, bool]:
    """Connect the extension."""
    app.connect("autodoc-process-docstring", _process_docstring, priority=_BEFORE_NAPOLEON)
    app.connect("autodoc-process-signature", _process_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
