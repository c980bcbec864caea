"""Code blocks marked as runnable work: those of a page run in their order in one folder."""

import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if BLOCK.search(page.read_text(encoding="utf-8"))
]


@cache
def programs() -> dict[str, typer.Typer]:
    from arena.cli import app as arena
    from league.cli import app as league
    from trainer.cli.commands import app as trainer

    return {"arena": arena, "league": league, "trainer": trainer}


def run_command(command: str) -> str:
    """Run a command, one of the project's own in this process."""
    words = shlex.split(command, comments=True)
    if words[0] not in programs():
        return subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=True).stdout
    result = CliRunner().invoke(programs()[words[0]], words[1:])
    assert result.exit_code == 0, f"{command}: {result.output}{result.exception!r}"
    return result.output


def check_output(command: str, written: str) -> None:
    """Run a command and compare each line of its output with that of the page; `...` stands for anything."""
    output = run_command(command)
    pattern = ".*".join(re.escape(part) for part in written.strip().split("..."))
    assert re.fullmatch(pattern, output.strip(), re.DOTALL) or not written.strip(), f"{command} prints:\n{output}"


def run_console(block: str) -> None:
    for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = session.replace("\\\n", " ").partition("\n")
        check_output(command, output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_runnable_blocks_of_a_page_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, f"{page.name}, a runnable block", "exec"), namespace)
        else:
            run_console(block)


def test_some_page_has_runnable_blocks() -> None:
    assert PAGES
