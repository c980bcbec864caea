"""Text that a program prints, in a file under tests/snapshots, written anew with `--update-snapshots`."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "snapshots"


def check(name: str, text: str, config: pytest.Config) -> None:
    """Compare a text with its snapshot, or make it the snapshot where that is asked for."""
    file = FOLDER / name
    if config.option.update_snapshots:
        file.write_text(text, encoding="utf-8")
    stored = file.read_text(encoding="utf-8") if file.exists() else ""
    assert text == stored, f"tests/snapshots/{name} differs: run `make snapshots` and look at the difference"
