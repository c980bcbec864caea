"""Crash-safe files. Torch-free, because the checkpoint store of the league uses them, too."""

import os
import re
import secrets
from pathlib import Path

READABLE = 0o666
"""Mode of new files, before the umask of the process."""

ASIDE_BYTES = 8
ASIDE = re.compile(rf"\..+\.[0-9a-f]{{{2 * ASIDE_BYTES}}}")
"""Name of a temporary file of `write_atomically`."""


def write_atomically(path: Path, data: bytes, *, durably: bool = True) -> None:
    """Write a file atomically (temporary file, sync, rename, sync): after a crash it has the old or the new content.

    Args:
        path: The file.
        data: Its whole content.
        durably: Wait for the disk. Otherwise the content survives a crash of this process, but after a crash of the
            machine the file may be empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(ASIDE_BYTES)}")
    try:
        # O_EXCL: the random name belongs to this write alone.
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READABLE), "wb") as file:
            file.write(data)
            if durably:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(path)
    # Also after Ctrl-C: a leftover of a large file could fill the disk.
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if durably:
        sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that crashes left in a folder; no process may be writing to it."""
    for file in folder.glob(".*"):
        if ASIDE.fullmatch(file.name):
            file.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder, so that created and renamed files survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
