"""Groups of commands that are imported when they run."""

import subprocess
import sys
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from arena.lazy_group import LazyCommand, LazyGroup, lazy_group

ONE = """
import typer
app = typer.Typer()

@app.command()
def greet(name: str) -> None:
    '''Greet somebody.'''
    typer.echo(f"hello {name}")
"""

MANY = """
import typer
app = typer.Typer(help="Many commands.")

@app.command()
def first() -> None:
    typer.echo("first")

@app.command()
def second() -> None:
    typer.echo("second")
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lazy_one.py").write_text(ONE)
    (tmp_path / "lazy_many.py").write_text(MANY)
    commands = {
        "greet": LazyCommand("lazy_one:app", "Greet somebody."),
        "many": LazyCommand("lazy_many:app", "Many commands."),
    }
    made = typer.Typer(cls=lazy_group(commands))
    made.callback()(lambda: None)
    yield made
    for name in ("lazy_one", "lazy_many"):
        sys.modules.pop(name, None)


def run(app, *arguments):
    return CliRunner().invoke(app, list(arguments))


def test_commands_and_groups_run(app):
    assert run(app, "greet", "Ann").stdout == "hello Ann\n"
    assert run(app, "many", "second").stdout == "second\n"


def test_the_list_of_commands_imports_none_of_them(app):
    listed = run(app, "--help").stdout
    assert listed.index("Greet somebody.") < listed.index("Many commands.")
    assert not {"lazy_one", "lazy_many"} & sys.modules.keys()


def test_a_command_imports_its_own_module_alone(app):
    assert "Greet somebody." in run(app, "greet", "--help").stdout
    assert "lazy_many" not in sys.modules


def test_an_unknown_command_is_refused_with_a_suggestion(app):
    answer = run(app, "gret")
    assert answer.exit_code == 2
    assert "greet" in answer.output


APPS = {"league": "league.cli", "trainer": "trainer.cli.commands"}


def group_of(program):
    return typer.main.get_group(import_module(APPS[program]).app)


def lazy_groups(group):
    """Return a lazy group and all lazy groups inside it."""
    own = [group.get_command(typer.Context(group), name) for name in group.lazy]
    return [group, *(deeper for each in own if isinstance(each, LazyGroup) for deeper in lazy_groups(each))]


@pytest.mark.parametrize("program", APPS)
def test_each_list_shows_the_first_paragraph_of_its_commands_help(program):
    for group in lazy_groups(group_of(program)):
        for name, entry in group.lazy.items():
            own = group.get_command(typer.Context(group), name).help
            assert entry.help == " ".join(own.partition("\n\n")[0].split())


@pytest.mark.parametrize("program", APPS)
def test_every_command_of_an_imported_module_is_in_a_list(program):
    groups = lazy_groups(group_of(program))
    listed = {name for group in groups for name in group.lazy}
    for entry in (entry for group in groups for entry in group.lazy.values()):
        module, _, name = entry.path.partition(":")
        app = getattr(import_module(module), name)
        if not app.info.help:
            assert typer.main.get_group(app).commands.keys() <= listed


@pytest.mark.integration
@pytest.mark.parametrize("package", ["numpy", "scipy", "sqlalchemy", "alembic", "httpx2", "torch"])
@pytest.mark.parametrize("module", APPS.values())
def test_the_list_of_commands_needs_no_heavy_package(module, package):
    program = f"import sys, {module}; sys.exit({package!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
