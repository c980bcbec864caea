"""Results of a benchmark as JSON, with the commit and the machine that they belong to."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

Row = Mapping[str, Any]
"""`work` and `measured`, optionally `reference` and `aim`. Other keys are stored but not shown."""


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--json FILE`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")


def write(path: Path | None, benchmark: str, rows: Sequence[Row]) -> None:
    """Write the rows with commit, machine, time and command; without a path, do nothing."""
    if path is None:
        return
    record = {
        "benchmark": benchmark,
        "commit": commit(),
        "machine": machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", f"benchmarks.{benchmark}", *sys.argv[1:]]),
        "rows": list(rows),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def commit() -> str:
    """Return the short id of the checked-out commit, with `+` if files differ from it."""
    try:
        ran = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty=+"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return ran.stdout.strip()


def machine() -> str:
    """Return processor, usable cores, memory and versions in one line."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{processor()}, {cores} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def processor() -> str:
    """Return the processor's name as Linux gives it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
