"""Reads a run directory: `metrics.jsonl` and the settings."""

import json
import tomllib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from trainer.errors import NoRunError
from trainer.monitoring.health.history import HORIZON, OPENING_UPDATES, Metrics, Setup

RECENT_UPDATES = 4 * HORIZON
"""Number of last updates that the monitor of a resumed run reads."""


@dataclass(frozen=True)
class Record:
    """Metrics of one update."""

    update: int
    step: int
    metrics: Metrics


@dataclass(frozen=True)
class RunRecords:
    """Updates of a run in order, and the number of unreadable lines; a crash can leave one incomplete."""

    updates: list[Record]
    unreadable: int


def read_setup(folder: Path) -> Setup:
    """Read the settings that the monitor needs.

    Raises:
        NoRunError: The folder has no settings of a run.
    """
    try:
        settings = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        for name, section in settings.items():
            if not isinstance(section, dict):
                raise _no_run(folder, f"config.toml has {name} = {section!r}, but {name} is a section")
        return Setup.of(settings)
    except OSError as error:
        raise _no_run(folder, f"config.toml cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _no_run(folder, f"config.toml is not TOML ({error})") from error
    except (KeyError, TypeError, ValueError) as error:
        raise _no_run(folder, f"a setting in config.toml is missing or invalid: {error}") from error


def read_records(folder: Path) -> RunRecords:
    """Read all updates of a run.

    Raises:
        NoRunError: The folder has no metrics.
    """
    try:
        with (folder / "metrics.jsonl").open(encoding="utf-8", errors="replace") as lines:
            records = parse(lines)
    except OSError as error:
        raise _no_run(folder, f"metrics.jsonl cannot be read ({error.strerror})") from error
    if not records.updates:
        raise NoRunError(f"{folder} has no update yet: try again after the first one, in a minute")
    return records


def read_recent(folder: Path) -> list[Record]:
    """Read the first and the last updates, which is all a monitor needs; empty without metrics."""
    try:
        with (folder / "metrics.jsonl").open(encoding="utf-8", errors="replace") as lines:
            opening = list(islice(lines, OPENING_UPDATES))
            return parse(chain(opening, deque(lines, maxlen=RECENT_UPDATES))).updates
    except OSError:
        return []


def parse(lines: Iterable[str]) -> RunRecords:
    """Parse lines; updates that a crash undid are replaced by the later ones with the same number."""
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
    return RunRecords(updates, unreadable)


def _record(line: str, after: int) -> Record | None:
    """Parse a line; NaN and infinity become None."""
    try:
        values = json.loads(line, parse_constant=lambda constant: None)
        metrics = {name: None if value is None else float(value) for name, value in values.items() if name != "step"}
        return Record(int(metrics.get("charts/updates") or after + 1), int(values["step"]), metrics)
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
        return None


def _no_run(folder: Path, reason: str) -> NoRunError:
    return NoRunError(f"{folder} is not a run folder: {reason}; give the --run folder of `trainer run`")
