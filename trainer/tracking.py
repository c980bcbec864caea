"""Where a run's metrics go beside its own file: TensorBoard, and Weights & Biases on request."""

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

from arena.durable import write_atomically
from trainer.errors import ConfigError
from trainer.lines import GrowingFile

WANDB_FILE = "wandb.json"
"""Which run at Weights & Biases a run folder belongs to."""


@runtime_checkable
class Tracker(Protocol):
    """Takes in metrics and words, by tag and environment step."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add an update's metrics, all of them finite."""
        ...

    def note(self, step: int, tag: str, text: str) -> None:
        """Add words."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class TensorBoard:
    """An event file of its own for every session. A full disk delays what it says and loses nothing of it.

    Args:
        folder: Where event files are.
        from_step: Where the session begins; what an earlier one said of later steps, which a crash undid, is not shown.
    """

    def __init__(self, folder: Path, from_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 10**9}.{socket.gethostname()}.{os.getpid()}.{time.time_ns()}"
        self._file = GrowingFile(folder / name)
        self._add(file_version="brain.Event:2")
        self._add(step=from_step + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add an update's metrics.

        Raises:
            OSError: The disk refuses; the next call tries again.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._add(step=step, summary=Summary(value=scalars))
        self._file.write(durably=False)

    def note(self, step: int, tag: str, text: str) -> None:
        """Add words; they are written with the next metrics."""
        from torch.utils.tensorboard.summary import text as words  # takes a second to import

        self._add(step=step, summary=words(tag, text))  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Write what is left."""
        try:
            self._file.write(durably=False)
        finally:
            self._file.close()

    def _add(self, **facts: object) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        event = Event(wall_time=time.time(), **facts)
        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        self._file.add(record.getvalue())


class WeightsAndBiases:
    """One run at Weights & Biases for one run folder, however often it is resumed.

    Where it sends to, and whether it does, is the package's own business: WANDB_PROJECT, WANDB_MODE=offline and
    the others work.

    Args:
        folder: The run folder.
        name: Of the run.
        settings: Resolved configuration.

    Raises:
        ConfigError: The package is not installed, or it refuses: nobody has logged in, or the service is not there.
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
                f"--wandb cannot begin ({reason}): run `wandb login`, set WANDB_MODE=offline, or leave --wandb out"
            ) from error
        self._run.define_metric("*", step_metric="env_step")
        write_atomically(file, json.dumps({"id": self._run.id}).encode())

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add an update's metrics."""
        self._run.log({"env_step": step, **values})

    def note(self, step: int, tag: str, text: str) -> None:
        """Raise an alert."""
        self._run.alert(title=tag, text=text)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


def _known_run(file: Path) -> str | None:
    """Which run a folder belongs to; None where that is not known, and a new one begins."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_wandb() -> ModuleType:
    """The package, loaded when it is asked for.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        package = importlib.import_module("wandb")
    except ImportError as error:
        raise ConfigError(
            f"--wandb needs the package wandb ({error}): run pip install 'echelon-league[track]', or leave --wandb out"
        ) from error
    return package
