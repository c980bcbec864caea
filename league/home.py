"""Layout of the home folder: run folders and the address of the running league."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from arena.atomic_files import write_atomically

HOME_VARIABLE, DEFAULT_HOME = "LEAGUE_HOME", "var"

_MAX_BYTES = 200  # of a folder name; file systems allow 255
_PLAIN = "=,@"  # besides letters, digits and _ . - ~, which `quote` never changes


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the home folder: LEAGUE_HOME, or `var`."""
    return Path(environ.get(HOME_VARIABLE) or DEFAULT_HOME)


def address_file(home: Path) -> Path:
    """Return the file in which a server publishes its address for commands and workers on this machine."""
    return home / "league.url"


def publish_address(home: Path, url: str) -> None:
    """Write the server's address to the home folder.

    Raises:
        OSError: The file cannot be written.
    """
    write_atomically(address_file(home), f"{url}\n".encode(), durably=False)


def withdraw_address(home: Path, url: str) -> None:
    """Remove the address of a stopped server, unless another server has overwritten it."""
    file = address_file(home)
    with suppress(OSError):
        # Another server may have started in this home meanwhile.
        if file.read_text(encoding="utf-8").strip() == url:
            file.unlink()


def runs_folder() -> Path:
    """Return the folder of the learners' run folders."""
    return home_folder() / "runs"


def evaluator_folder(home: Path, name: str) -> Path:
    """Return the run folder of an evaluator."""
    return home / "evaluators" / folder_name(name)


def entry_folder(home: Path, environment: str, name: str) -> Path:
    """Return the run folder of an external player."""
    return home / "entries" / folder_name(environment) / folder_name(name)


def attached_folder(home: Path, environment: str, learner: str, worker: str) -> Path:
    """Return the folder of a worker that is attached by `league.client`."""
    return home / "attached" / folder_name(environment) / folder_name(learner) / folder_name(worker)


def run_folder(runs: Path, environment: str, learner: str) -> Path:
    """Return the run folder of a learner, unique per environment and learner.

    Args:
        runs: Folder of all run folders.
        environment: Name of the environment.
        learner: Name of the learner.
    """
    return runs / folder_name(environment) / folder_name(learner)


def folder_name(name: str) -> str:
    """Return an injective folder name: `:` becomes `+`, other special characters are percent-encoded.

    A name that is too long for a file system is truncated and ends with its hash.
    """
    encoded = quote(name, safe=_PLAIN + ":", errors="surrogatepass").replace("~", "%7E").replace(":", "+")
    if encoded.startswith("."):  # neither hidden, nor `.` or `..`
        encoded = f"%2E{encoded[1:]}"
    if len(encoded) <= _MAX_BYTES:
        return encoded
    # "~" is encoded above, so a shortened name cannot equal the encoding of another name.
    digest = hashlib.sha256(encoded.encode()).hexdigest()[:16]
    return f"{encoded[: _MAX_BYTES - len(digest) - 1]}~{digest}"
