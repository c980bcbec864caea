"""Every program says which version it is."""

from importlib import import_module
from importlib.metadata import version

import pytest
from typer.testing import CliRunner


@pytest.mark.parametrize("module", ["arena.cli", "league.cli", "trainer.cli.commands"])
def test_version_option_prints_the_version_only(module: str) -> None:
    app = import_module(module).app
    told = CliRunner().invoke(app, ["--version", "nonsense"])
    assert (told.exit_code, told.output) == (0, f"echelon-league {version('echelon-league')}\n")
    assert "--version" in CliRunner().invoke(app, ["--help"]).output
