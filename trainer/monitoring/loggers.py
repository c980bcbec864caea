"""Metric writers beside the run's own log: TensorBoard, and optionally Weights & Biases and MLflow."""

import importlib
import io
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from arena.atomic_files import write_atomically
from arena.durable_log import AppendFile
from trainer.errors import ConfigError

WANDB_FILE = "wandb.json"
"""File with the Weights & Biases run id of a run directory."""

MLFLOW_FILE = "mlflow.json"
"""File with the MLflow run id of a run directory."""

_MLFLOW_METRICS, _MLFLOW_PARAMS, _MLFLOW_VALUE = 1000, 100, 6000
"""MLflow's maxima: metrics and parameters of a batch, characters of a value."""


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


class MLflow:
    """An MLflow run; a run directory keeps the same one when it is resumed.

    The package's own variables apply, for example MLFLOW_TRACKING_URI. Metrics are sent in the background, so that an
    unreachable server does not stop the training.

    Args:
        folder: The run directory.
        name: Name of the run.
        settings: Resolved settings; stored when the run is created, because MLflow rejects later changes.

    Raises:
        ConfigError: The package is missing, or the tracking server cannot be used.
    """

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._package = load_mlflow()
        file = folder / MLFLOW_FILE
        try:
            self._client = self._package.MlflowClient()
            self._run = self._resumed(_known_run(file)) or self._created(name, settings)
        except self._package.MlflowException as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                f"--mlflow cannot start ({reason}): set MLFLOW_TRACKING_URI to a server that answers, or omit --mlflow"
            ) from error
        write_atomically(file, json.dumps({"id": self._run}).encode())

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Queue the metrics of an update."""
        now_ms = time.time_ns() // 10**6
        metric = self._package.entities.Metric
        metrics = [metric(_mlflow_name(tag), value, now_ms, step) for tag, value in values.items()]
        for start in range(0, len(metrics), _MLFLOW_METRICS):
            part = metrics[start : start + _MLFLOW_METRICS]
            self._client.log_batch(self._run, metrics=part, synchronous=False)

    def log_text(self, step: int, tag: str, text: str) -> None:
        """Queue text as a tag of the run."""
        value = f"step {step}: {text}"[:_MLFLOW_VALUE]
        self._client.set_tag(self._run, _mlflow_name(tag), value, synchronous=False)

    def close(self) -> None:
        """Send queued data and finish, unless the server is unreachable."""
        with suppress(self._package.MlflowException):
            self._package.flush_async_logging()
            self._client.set_terminated(self._run)

    def _resumed(self, run: str | None) -> str | None:
        if run is None:
            return None
        self._client.update_run(run, status="RUNNING")
        return run

    def _created(self, name: str, settings: Mapping[str, Any]) -> str:
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME", "echelon-league")
        experiment = self._client.get_experiment_by_name(title)
        experiment_id = self._client.create_experiment(title) if experiment is None else experiment.experiment_id
        run = str(self._client.create_run(experiment_id, run_name=name).info.run_id)
        params = [self._package.entities.Param(*each) for each in _flat(settings)]
        for start in range(0, len(params), _MLFLOW_PARAMS):
            self._client.log_batch(run, params=params[start : start + _MLFLOW_PARAMS])
        return run


def _mlflow_name(tag: str) -> str:
    """Return a tag with only the characters that MLflow accepts, and without empty or relative parts."""
    parts = (re.sub(r"[^\w .:-]", "_", part, flags=re.ASCII) for part in tag.split("/"))
    return "/".join("_" if part.strip(".") == "" else part for part in parts)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Return settings by their dotted names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield _mlflow_name(f"{prefix}{name}"), str(value)[:_MLFLOW_VALUE]


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
    return _load("wandb", "--wandb", "track")


def load_mlflow() -> ModuleType:
    """Import MLflow.

    Raises:
        ConfigError: It is not installed.
    """
    return _load("mlflow", "--mlflow", "mlflow")


def _load(package: str, option: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(
            f"{option} needs the package {package} ({error}): run pip install 'echelon-league[{extra}]', "
            f"or omit {option}"
        ) from error
