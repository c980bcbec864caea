"""Layout of the home folder as commands and workers see it: run folders, and the address of the running league."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from arena.durable import write_atomically

HOME_VARIABLE, DEFAULT_HOME = "LEAGUE_HOME", "var"

_LONGEST = 200  # bytes of a folder's name; file systems take 255
_PLAIN = "=,@"  # beside letters, digits and _ . - ~, which `quote` never changes


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the home folder of this shell: LEAGUE_HOME, or `var`."""
    return Path(environ.get(HOME_VARIABLE) or DEFAULT_HOME)


def address_file(home: Path) -> Path:
    """Return the file in which a server leaves its address for commands and workers of this machine."""
    return home / "league.url"


def publish_address(home: Path, url: str) -> None:
    """Write the address of the server that runs on a home folder.

    Raises:
        OSError: It cannot be written.
    """
    write_atomically(address_file(home), f"{url}\n".encode(), durably=False)


def withdraw_address(home: Path, url: str) -> None:
    """Remove the address of a server that ended, unless another server has written its own since."""
    file = address_file(home)
    with suppress(OSError):
        if file.read_text(encoding="utf-8").strip() == url:
            file.unlink()


def runs_folder() -> Path:
    """Return the folder of the learners' run folders."""
    return home_folder() / "runs"


def evaluator_folder(home: Path, name: str) -> Path:
    """Return the run folder of an evaluator, which may play several environments."""
    return home / "evaluators" / folder_name(name)


def entry_folder(home: Path, environment: str, name: str) -> Path:
    """Return the run folder of an external player."""
    return home / "entries" / folder_name(environment) / folder_name(name)


def run_folder(runs: Path, environment: str, learner: str) -> Path:
    """Return the folder of a learner's run; two environments or learners never share one.

    Args:
        runs: Folder of all run folders.
        environment: The game; learners of several games may have the same name.
        learner: The lineage.
    """
    return runs / folder_name(environment) / folder_name(learner)


def folder_name(name: str) -> str:
    """Write a name as the name of one folder, one-to-one: `:` becomes `+`, other special characters `%` and digits.

    A name that would be too long for a file system is cut, and ends with its hash.
    """
    written = quote(name, safe=_PLAIN + ":", errors="surrogatepass").replace("~", "%7E").replace(":", "+")
    if written.startswith("."):  # neither hidden, nor `.` or `..`
        written = f"%2E{written[1:]}"
    if len(written) <= _LONGEST:
        return written
    digest = hashlib.sha256(written.encode()).hexdigest()[:16]
    return f"{written[: _LONGEST - len(digest) - 1]}~{digest}"
