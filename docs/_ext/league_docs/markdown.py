"""Markdown of generated pages."""

import re
from collections.abc import Iterable, Sequence

_CODE_SPAN = re.compile(r"(``.+?``|`[^`\n]+`)")
_SPECIAL = re.compile(r"([\\*_<>\[\]#|$])")


def escape(text: str) -> str:
    """Escape text for a cell of a table; spans of code stay code."""
    parts = _CODE_SPAN.split(" ".join(text.split()))
    return "".join(part.replace("|", "\\|") if index % 2 else _escape(part) for index, part in enumerate(parts))


def code(text: str) -> str:
    """Return a span of code for a cell of a table; empty for no text."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown; columns without any text are left out."""
    listed = [[cell.replace("\n", " ") for cell in row] for row in rows]
    used = [index for index in range(len(header)) if any(row[index] for row in listed)]
    lines = [[header[index] for index in used], ["---" for _ in used]]
    lines += [[row[index] for index in used] for row in listed]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def document(*blocks: str) -> str:
    """Join blocks with blank lines; empty blocks are left out."""
    return "\n\n".join(block.strip() for block in blocks if block.strip()) + "\n"


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
