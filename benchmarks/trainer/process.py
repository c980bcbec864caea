"""A trainer in a process of its own, asked through its standard input."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers.workload import Work

if TYPE_CHECKING:
    from benchmarks.trainer.trainers import Scene

PROJECT = Path(__file__).parent.parent.parent

LAST_WORDS = 5
"""Lines of its standard error that tell why a process has ended."""

QUIET = {"PYTHONWARNINGS": "ignore", "WANDB_MODE": "disabled", "CUDA_VISIBLE_DEVICES": ""}
"""What keeps every library on the processor and from talking."""


class ContestantError(Exception):
    """A process that ended before it answered."""


class Contestant:
    """One trainer doing one piece of work, in a scratch folder: some leave files where they stand.

    Args:
        command: Interpreter and script; the work follows as JSON.
        settings: Environment variables beside those of this process.
    """

    def __init__(self, command: Sequence[str], work: "Work | Scene", settings: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        self._scratch = tempfile.TemporaryDirectory()
        settings = {"OMP_NUM_THREADS": str(work.threads), "PYTHONPATH": str(PROJECT), **QUIET, **settings}
        self._process = subprocess.Popen(
            [*command, json.dumps(asdict(work))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self._scratch.name,
            env={**os.environ, **settings},
        )
        self.introduction = self._hear()

    @property
    def process(self) -> int:
        return self._process.pid

    def ask(self, request: str) -> dict[str, Any]:
        """Send one line, wait for the answer."""
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return self._hear()

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()
        self._errors.close()
        self._scratch.cleanup()

    def _hear(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            reason = self._last_words()
            self.close()
            raise ContestantError(f"it ended: {reason}")
        return json.loads(line)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return " | ".join(lines[-LAST_WORDS:]) or "it said nothing"
