"""A trainer in its own process, controlled by lines of JSON over standard input and output."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers.workload import Workload

if TYPE_CHECKING:
    from benchmarks.trainer.trainers import BattleSetup

PROJECT = Path(__file__).parent.parent.parent

ERROR_LINES = 5
"""Last lines of standard error that an error message shows."""

CPU_ONLY = {"PYTHONWARNINGS": "ignore", "WANDB_MODE": "disabled", "CUDA_VISIBLE_DEVICES": ""}
"""Environment variables that keep every library on the CPU and quiet."""


class TrainerProcessError(Exception):
    """A trainer process ended before it answered."""


class TrainerProcess:
    """One trainer on one workload, in a scratch folder because some libraries write files into the working directory.

    Args:
        command: Interpreter and script; the workload follows as JSON.
        settings: Additional environment variables.
    """

    def __init__(self, command: Sequence[str], work: "Workload | BattleSetup", settings: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        self._scratch = tempfile.TemporaryDirectory()
        settings = {"OMP_NUM_THREADS": str(work.threads), "PYTHONPATH": str(PROJECT), **CPU_ONLY, **settings}
        self._process = subprocess.Popen(
            [*command, json.dumps(asdict(work))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self._scratch.name,
            env={**os.environ, **settings},
        )
        self.info = self._read_answer()

    @property
    def process(self) -> int:
        return self._process.pid

    def ask(self, request: str) -> dict[str, Any]:
        """Send a request and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return self._read_answer()

    def close(self) -> None:
        """Close standard input and wait until the process has ended."""
        self._process.communicate()
        self._errors.close()
        self._scratch.cleanup()

    def _read_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            reason = self._error_tail()
            self.close()
            raise TrainerProcessError(f"process ended: {reason}")
        return json.loads(line)

    def _error_tail(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return " | ".join(lines[-ERROR_LINES:]) or "no message on standard error"
