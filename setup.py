"""The parts of the build that pyproject.toml cannot describe: where the migrations are, and the README's links."""

import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]


def readme() -> str:
    """Return the README with absolute links, because a package index has no other files of the repository."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\1{URLS['Repository']}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)", rf"\1{URLS['Repository']}/blob/main/", text)


setup(
    # /migrations is league.migrations in a wheel: a top-level `migrations` would collide with that of other projects.
    packages=[
        *find_packages(include=["arena*", "league*", "trainer*"]),
        *(f"league.{name}" for name in find_packages(include=["migrations*"])),
    ],
    package_dir={"league.migrations": "migrations"},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
