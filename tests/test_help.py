"""The help of each program and of each of its commands is the one in tests/snapshots."""

from collections.abc import Iterator

import pytest
import snapshots
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

WIDTH = 100


def commands(name: str, command: typer.core.TyperCommand | TyperGroup) -> Iterator[tuple[str, ...]]:
    """Arguments of a program for each of its commands, groups before what is in them."""
    yield ()
    if isinstance(command, TyperGroup):
        context = typer.Context(command, info_name=name)
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            if not inner.hidden:
                yield from ((each, *rest) for rest in commands(each, inner))


def program(name: str) -> typer.Typer:
    """The application of a program, loaded only by the test that needs it."""
    if name == "league":
        from league.cli import app
    elif name == "trainer":
        from trainer.cli.commands import app
    else:
        from arena.cli import app
    return app


@pytest.mark.parametrize("name", ["arena", "league", "trainer"])
def test_help_is_that_of_the_snapshot(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = program(name)
    monkeypatch.setattr(app, "rich_markup_mode", "markdown")  # as `main` sets it in a terminal of this width
    runner = CliRunner(env={"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"})
    pages = []
    for arguments in commands(name, typer.main.get_command(app)):
        shown = runner.invoke(app, [*arguments, "--help"], prog_name=name)
        assert shown.exit_code == 0, shown.output
        lines = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
        pages.append(f"$ {' '.join([name, *arguments, '--help'])}\n\n{lines}\n")
    snapshots.check(f"{name}-help.txt", "\n\n".join(pages), request.config)


@pytest.mark.parametrize(
    ("name", "words", "completed"),
    [
        ("league", "league gate ", ["open", "list", "cancel"]),
        ("league", "league pla", ["players", "player"]),
        ("trainer", "trainer run --env", ["--environment"]),
        ("arena", "arena t", ["tournament"]),
    ],
)
def test_shell_completion_lists_commands_and_options(name: str, words: str, completed: list[str]) -> None:
    variables = {f"_{name.upper()}_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    result = CliRunner(env=variables).invoke(program(name), prog_name=name)
    assert result.output.split() == completed


def test_help_of_trainer_run_fits_on_two_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    app = program("trainer")
    monkeypatch.setattr(app, "rich_markup_mode", "markdown")
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, ["run", "--help"], prog_name="trainer")
    assert len(shown.output.strip().splitlines()) <= 80
