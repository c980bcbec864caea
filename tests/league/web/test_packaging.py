"""Whatever pages are made of is in the wheel."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_templates_and_files_are_package_data() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["league"]
    package = ROOT / "league"
    needed = [path for folder in ("templates", "static") for path in (package / "web" / folder).rglob("*.*")]
    assert len(needed) > 30
    for path in needed:
        name = path.relative_to(package)
        assert any(fnmatch(path.name, Path(each).name) and name.parent == Path(each).parent for each in patterns), name


def test_others_files_are_those_that_the_list_names() -> None:
    """Each is in the list with its version and licence; nothing minified is there that the list does not tell of."""
    static = ROOT / "league" / "web" / "static"
    told = (static / "VENDORED.md").read_text()
    for path in (*static.rglob("*.min.*"), *static.rglob("swagger-ui*.[cj]s*")):
        if path.suffix != ".txt":
            assert f"| {path.relative_to(static)} |" in told, path.name
    assert (static / "htmx.LICENSE").exists()
    assert (static / "uplot.LICENSE").exists()
    assert (static / "swagger" / "LICENSE").exists()
