"""Programs and packages that an installation without extras has."""

import subprocess
import sys

import pytest

LIGHT = """
import sys
import league.client, league.wire
heavy = {"sqlalchemy", "fastapi", "scipy", "numpy", "typer", "rich", "torch"} & set(sys.modules)
sys.exit(f"loaded {heavy}" if heavy else 0)
"""

WITHOUT = """
import sys
sys.modules[{package!r}] = None
sys.argv = [{program!r}, "--help"]
from {program}.__main__ import main
main()
"""


def run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_client_imports_nothing_of_the_server() -> None:
    ran = run(LIGHT)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("program", "extra"), [("arena", "arena"), ("league", "server"), ("trainer", "train")])
def test_program_without_its_extra_names_it_in_one_line(program: str, extra: str) -> None:
    ran = run(WITHOUT.format(program=program, package="typer"))
    assert ran.returncode == 78, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert f"pip install 'echelon-league[{extra}]'" in ran.stderr


def test_league_without_a_package_of_the_server_names_the_extra() -> None:
    program = WITHOUT.format(program="league", package="sqlalchemy").replace('"--help"', '"db", "check"')
    ran = run(program)
    assert ran.returncode == 78, ran.stderr
    assert "pip install 'echelon-league[server]'" in ran.stderr
    assert ran.stderr.count("\n") == 1
