"""Reads back what a run wrote of itself: `metrics.jsonl` and its settings."""

import json
import math
import tomllib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from trainer.errors import NoRunError
from trainer.history import HORIZON, OPENING_UPDATES, Metrics, Setup

REMEMBERED = 4 * HORIZON
"""Last updates that a resumed run's monitor reads again."""


@dataclass(frozen=True)
class Record:
    """An update's metrics."""

    update: int
    step: int
    metrics: Metrics


@dataclass(frozen=True)
class Records:
    """A run's updates in order, and how many lines could not be read: a crash tears at most the last one it wrote."""

    updates: list[Record]
    unreadable: int


def read_settings(folder: Path) -> dict[str, dict[str, Any]]:
    """The settings that a run was made with.

    Raises:
        NoRunError: The folder has none.
    """
    try:
        settings = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except OSError as error:
        raise _no_run(folder, f"config.toml cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _no_run(folder, f"config.toml is not TOML ({error})") from error
    for name, section in settings.items():
        if not isinstance(section, dict):
            raise _no_run(folder, f"config.toml says {name} = {section!r}, and {name} is a section")
    return settings


def read_setup(folder: Path) -> Setup:
    """What a monitor must know of a run.

    Raises:
        NoRunError: The folder has no settings of a run.
    """
    try:
        return Setup.of(read_settings(folder))
    except (KeyError, TypeError, ValueError) as error:
        raise _no_run(folder, f"config.toml lacks or garbles {error}") from error


def read_records(folder: Path) -> Records:
    """Every update of a run.

    Raises:
        NoRunError: The folder has no metrics.
    """
    try:
        with (folder / "metrics.jsonl").open(encoding="utf-8", errors="replace") as lines:
            records = parse(lines)
    except OSError as error:
        raise _no_run(folder, f"metrics.jsonl cannot be read ({error.strerror})") from error
    if not records.updates:
        raise _no_run(folder, "metrics.jsonl holds no update yet")
    return records


def remembered(folder: Path) -> list[Record]:
    """The first and the last updates of a run: enough for a monitor to go on; none where nothing was written."""
    try:
        with (folder / "metrics.jsonl").open(encoding="utf-8", errors="replace") as lines:
            opening = list(islice(lines, OPENING_UPDATES))
            return parse(chain(opening, deque(lines, maxlen=REMEMBERED))).updates
    except OSError:
        return []


def parse(lines: Iterable[str]) -> Records:
    """Read lines; updates that a crash undid are replaced by those made in their place."""
    updates: list[Record] = []
    unreadable = 0
    for line in lines:
        record = _record(line, after=updates[-1].update if updates else 0)
        if record is None:
            unreadable += 1
            continue
        while updates and updates[-1].update >= record.update:
            updates.pop()
        updates.append(record)
    return Records(updates, unreadable)


def _record(line: str, after: int) -> Record | None:
    try:
        values = json.loads(line)
        metrics = {name: _number(value) for name, value in values.items() if name != "step"}
        return Record(int(metrics.get("charts/updates") or after + 1), int(values["step"]), metrics)
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
        return None


def _number(value: Any) -> float | None:  # noqa: ANN401  whatever the line holds
    """A metric; what is not finite is as if it had not been measured."""
    number = None if value is None else float(value)
    return None if number is None or not math.isfinite(number) else number


def _no_run(folder: Path, reason: str) -> NoRunError:
    return NoRunError(f"{folder} is no run folder: {reason}; give the folder that `trainer run` names as --run")
