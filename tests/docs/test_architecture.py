"""The page on the architecture walks through the code: every file and every name on the way exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
WALKS = TEXT[TEXT.index("## Find your way in the league") :]
FOLDERS = ("", "league/", "trainer/", "arena/", "arena/policies/")


def paths() -> Iterator[str]:
    """Yield the paths that code blocks and backticks name."""
    for line in WALKS.splitlines():
        text = line.strip() if line.startswith("    ") else " ".join(re.findall(r"`([^`]+)`", line))
        yield from re.findall(r"(?<![\w/])[a-z_0-9]+(?:/[a-z_0-9]+)+(?:\.py)?", text)


def names() -> set[str]:
    """Return the functions, classes and methods between backticks."""
    found = re.findall(r"`((?:[A-Z]\w+)(?:\.\w+)?|[a-z_]+\(\))`", WALKS)
    return {name.rstrip("()") for name in found}


@pytest.mark.parametrize("path", sorted(set(paths())))
def test_every_file_of_a_walk_exists(path: str) -> None:
    places = [ROOT / folder / path for folder in FOLDERS]
    assert any(place.exists() or place.with_suffix(".py").exists() for place in places), path


@pytest.mark.parametrize("name", sorted(names()))
def test_every_name_of_a_walk_is_defined(name: str) -> None:
    sources = (
        file.read_text(encoding="utf-8")
        for top in ("arena", "league", "trainer")
        for file in (ROOT / top).rglob("*.py")
    )
    *_, last = name.split(".")
    defined = re.compile(rf"^\s*(?:def|class) {re.escape(last)}\b", re.MULTILINE)
    assert any(defined.search(source) for source in sources), name
