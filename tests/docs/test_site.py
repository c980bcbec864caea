"""Pages of the site: their links and their place in the navigation."""

from pathlib import Path

import pytest
from league_docs import site

DOCS = site.ROOT / "docs"


@pytest.mark.parametrize(
    ("folder", "link", "moved"),
    [
        ("", "../CONTRIBUTING.md#tests", "contributing/index.md#tests"),
        ("guides", "../../README.md", "../index.md"),
        ("", "contributing/decisions", "contributing/decisions/index.md"),
        ("guides", "../ratings.md#intervals", "../ratings.md#intervals"),
        ("guides", "../../studies/README.md", f"{site.REPOSITORY}/studies/README.md"),
        ("guides", "../../missing.md", "../../missing.md"),
        ("", "https://example.org/README.md", "https://example.org/README.md"),
    ],
)
def test_links_to_files_of_the_repository_lead_to_their_pages(folder: str, link: str, moved: str) -> None:
    assert site.relink(f"[text]({link})", DOCS / folder) == f"[text]({moved})"


def test_contents_list_existing_pages_once_in_the_order_of_the_patterns(tmp_path: Path) -> None:
    for name in ("b", "a", "first"):
        (tmp_path / f"{name}.md").touch()
    sections = {"One": ["first", "missing", "*"], "Two": ["a"]}
    assert list(site.listed_pages(tmp_path, sections)) == [("One", ["first", "a", "b"]), ("Two", [])]
    assert site.contents(tmp_path, sections).count("toctree") == 1
