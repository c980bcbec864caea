"""Sphinx extension: inserts generated text and the navigation when a page is read."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from league_docs import cli, glossary, http_api, python_api, settings, tables

ROOT = Path(__file__).parents[3]

GENERATORS: Mapping[str, Callable[..., str]] = {
    "cli": cli.render,
    "server-settings": settings.server,
    "trainer-settings": settings.trainer,
    "http-api": http_api.render,
    "server-metrics": tables.server_metrics,
    "health": tables.health_findings,
    "environment-checks": tables.environment_checks,
    "dashboard-addresses": tables.dashboard_addresses,
    "python": python_api.render,
    "repository-page": lambda name: repository_page(name),
}
"""Generated texts by the name in the comment that asks for them; further words of the comment are arguments."""

MARKER = re.compile(r"^<!-- generated: ([\w-]+)(.*) -->$", re.MULTILINE)

_LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")

PAGES_BY_FILE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "CHANGELOG.md": "contributing/changelog.md",
    "docs/contributing/decisions": "contributing/decisions/index.md",
}
"""Pages of the site by the files and folders of the repository that they show."""

WITH_TERMS = ("concepts/", "guides/", "index", "reference/results-protocol", "reference/dashboard", "tutorial/")
"""Beginnings of the names of pages that link terms to the glossary."""

REPOSITORY = "https://github.com/echelon-league/echelon-league/blob/main"
"""Address of the files of the repository that the site does not show."""


def expand(text: str) -> str:
    """Replace every marker of a page by its generated text."""
    return MARKER.sub(lambda marker: GENERATORS[marker[1]](*marker[2].split()), text)


def repository_page(name: str) -> str:
    """Return a page at the root of the repository without its title, with links as from `docs/contributing`."""
    _, _, text = (ROOT / name).read_text(encoding="utf-8").partition("\n")
    return _LINK.sub(lambda link: f"{link[1]}../../{link[2]}{link[3]}", text)


def relink(text: str, folder: Path) -> str:
    """Let links that leave the site lead to the page that shows the file, or else to the file in the repository."""

    def moved(link: re.Match[str]) -> str:
        target = os.path.relpath(os.path.normpath(folder / link[2]), ROOT)
        page = PAGES_BY_FILE.get(target)
        if page:
            return f"{link[1]}{os.path.relpath(ROOT / 'docs' / page, folder)}{link[3]}"
        shown = target.startswith("docs/") or not (ROOT / target).exists()
        return link[0] if shown else f"{link[1]}{REPOSITORY}/{target}{link[3]}"

    return _LINK.sub(moved, text)


def pages(folder: Path, patterns: Sequence[str]) -> list[str]:
    """Return the pages of a folder that match, in the order of the patterns and then by name, without `.md`."""
    found = [page for pattern in patterns for page in sorted(folder.glob(f"{pattern}.md"))]
    return list(dict.fromkeys(page.relative_to(folder).with_suffix("").as_posix() for page in found))


def contents(folder: Path, sections: Mapping[str, Sequence[str]]) -> str:
    """Return the tables of contents of a page, one for each section that has pages."""
    return "".join(_toctree(caption, listed) for caption, listed in listed_pages(folder, sections) if listed)


def listed_pages(folder: Path, sections: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the pages of each section; a page is listed in the first section that matches it."""
    seen: set[str] = set()
    for caption, patterns in sections.items():
        own = [page for page in pages(folder, patterns) if page not in seen]
        seen.update(own)
        yield caption, own


def _toctree(caption: str, listed: Sequence[str]) -> str:
    """Return a table of contents: a section of the sidebar if it has a caption, else a list on the page too."""
    options = f":hidden:\n:caption: {caption}" if caption else ":maxdepth: 1"
    rows = "\n".join(f"/{page}" for page in listed)
    return f"\n\n```{{toctree}}\n{options}\n\n{rows}\n```\n"


def setup(app: Any) -> dict[str, bool]:
    """Connect the extension."""
    app.add_config_value("navigation", {}, "env")

    def read(app: Any, name: str, source: list[str]) -> None:
        sections = app.config.navigation.get(name, {})
        text = source[0]
        if name == "reference/glossary":
            text = glossary.as_directive(text)
        elif name.startswith(WITH_TERMS):
            text = glossary.link_first_uses(text)
        text = relink(expand(text), (Path(app.srcdir) / name).parent)
        source[0] = text + contents(Path(app.srcdir), sections)

    def outdated(app: Any, env: Any, added: Any, changed: Any, removed: Any) -> list[str]:
        generated = (page for page in Path(app.srcdir).rglob("*.md") if MARKER.search(page.read_text(encoding="utf-8")))
        names = [page.relative_to(app.srcdir).with_suffix("").as_posix() for page in generated]
        return [name for name in (*names, *app.config.navigation) if name in env.found_docs]

    app.connect("source-read", read)
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
