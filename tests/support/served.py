"""`league serve` in a process of its own, for tests that look at its output or kill it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """A running server, and the file that it prints to."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def serving(home: Path, **environment: str) -> Iterator[Served]:
    """Serve a home folder until the block ends; the server may be killed before."""
    log = home / "server.log"
    command = [sys.executable, "-m", "league", "serve", "--port", "0", "--home", str(home)]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=stream, stderr=stream)
    try:
        yield Served(_address(process, log), process, log)
    finally:
        process.terminate()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        words = log.read_text().split()
        if "listening" in words:
            return words[words.index("listening") + 2].rstrip(";")
        time.sleep(0.05)
    raise AssertionError(log.read_text())
