"""The `league` command as a function: arguments in, exit code and both streams out."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from league.cli import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("LEAGUE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def league(capsys: pytest.CaptureFixture[str], bare_environment: None) -> Callable[..., Outcome]:
    """Run `league ARGUMENTS`."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), printed.out, printed.err)

    return run
