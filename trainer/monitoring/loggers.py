"""Metric writers beside the run's own log: TensorBoard, and optionally Weights & Biases."""

import importlib
import io
import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from arena.atomic_files import write_atomically
from arena.durable_log import AppendFile
from trainer.errors import ConfigError

WANDB_FILE = "wandb.json"
"""File with the Weights & Biases run id of a run directory."""


@runtime_checkable
class Tracker(Protocol):
    """A writer of metrics and text, by tag and environment step."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the metrics of an update, all of them finite."""
        ...

    def log_text(self, step: int, tag: str, text: str) -> None:
        """Write text."""
        ...

    def close(self) -> None:
        """Flush buffered data and close."""
        ...


class TensorBoard:
    """TensorBoard event files, one per session; a full disk delays events and loses none.

    `torch.utils.tensorboard.SummaryWriter` cannot replace it: its writer thread ends at the first I/O error and drops
    all later events.

    Args:
        folder: Folder of the event files.
        from_step: Step at which the session starts. TensorBoard hides events of earlier sessions at later steps, which
            a crash has undone.
    """

    def __init__(self, folder: Path, from_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 10**9}.{socket.gethostname()}.{os.getpid()}.{time.time_ns()}"
        self._file = AppendFile(folder / name)
        self._add(file_version="brain.Event:2")
        self._add(step=from_step + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the metrics of an update.

        Raises:
            OSError: The write failed; the next call retries it.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._add(step=step, summary=Summary(value=scalars))
        self._file.write(durably=False)

    def log_text(self, step: int, tag: str, text: str) -> None:
        """Queue text, which is written with the next metrics."""
        from torch.utils.tensorboard.summary import text as text_summary  # slow: it imports tensorboard

        self._add(step=step, summary=text_summary(tag, text))  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Flush buffered data and close."""
        try:
            self._file.write(durably=False)
        finally:
            self._file.close()

    def _add(self, **fields: object) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        event = Event(wall_time=time.time(), **fields)
        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        self._file.add(record.getvalue())


class WeightsAndBiases:
    """A Weights & Biases run; a run directory keeps the same one when it is resumed.

    The package's own variables apply, for example WANDB_PROJECT and WANDB_MODE=offline.

    Args:
        folder: The run directory.
        name: Name of the run.
        settings: Resolved settings.

    Raises:
        ConfigError: The package is missing, there is no login, or the service cannot be reached.
    """

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        package = load_wandb()
        file = folder / WANDB_FILE
        try:
            self._run = package.init(
                project=os.environ.get("WANDB_PROJECT", "echelon-league"),
                name=name,
                id=_known_run(file),
                resume="allow",
                dir=str(folder),
                config=dict(settings),
            )
        except package.Error as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                f"--wandb cannot start ({reason}): run `wandb login`, set WANDB_MODE=offline, or omit --wandb"
            ) from error
        self._run.define_metric("*", step_metric="env_step")
        write_atomically(file, json.dumps({"id": self._run.id}).encode())

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the metrics of an update."""
        self._run.log({"env_step": step, **values})

    def log_text(self, step: int, tag: str, text: str) -> None:
        """Send an alert."""
        self._run.alert(title=tag, text=text)

    def close(self) -> None:
        """Upload buffered data and finish."""
        self._run.finish()


def _known_run(file: Path) -> str | None:
    """Run id of a directory; None if it is not known, which starts a new run."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_wandb() -> ModuleType:
    """Import wandb.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        package = importlib.import_module("wandb")
    except ImportError as error:
        raise ConfigError(
            f"--wandb needs the package wandb ({error}): run pip install 'echelon-league[track]', or omit --wandb"
        ) from error
    return package
