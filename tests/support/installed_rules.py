"""Distributions that bring rules of matchmaking of their own, as if they were installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MODULE = "stranger_rules"


@contextmanager
def brought(folder: Path, code: str, *names: str) -> Iterator[None]:
    """Install a module with this code, whose names are entry points of rules."""
    (folder / f"{MODULE}.py").write_text(code)
    metadata = folder / f"{MODULE}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger-rules\nVersion: 1.0\n")
    points = "".join(f"{name} = {MODULE}:{name}\n" for name in names)
    (metadata / "entry_points.txt").write_text(f"[echelon_league.matchmaking]\n{points}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
    sys.modules.pop(MODULE, None)
