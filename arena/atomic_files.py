"""Files that outlive a crash. Torch-free: the league's store and the trainer's run folder write with it too."""

import os
import re
import secrets
from pathlib import Path

READABLE = 0o666
"""Mode of new files, less what the process's mask takes away."""

ASIDE_BYTES = 8
ASIDE = re.compile(rf"\..+\.[0-9a-f]{{{2 * ASIDE_BYTES}}}")
"""Name of a file that is being written aside."""


def write_atomically(path: Path, data: bytes, *, durably: bool = True) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part: write aside, sync, rename, sync.

    Args:
        path: The file.
        data: All that is in it.
        durably: Wait for the disk. Otherwise only a crash of this process is survived so; one of the machine may leave
            the file empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(ASIDE_BYTES)}")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READABLE), "wb") as file:
            file.write(data)
            if durably:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if durably:
        sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove what crashes left of files that were being written aside in a folder; nobody may be writing in it."""
    for file in folder.glob(".*"):
        if ASIDE.fullmatch(file.name):
            file.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring a folder's entries to the disk: a file that was made or renamed in it is found there after a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
