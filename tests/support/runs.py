"""Runs to diagnose: a recorded healthy one, and folders with whatever metrics a test wants."""

import gzip
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded_run"
"""The first 200 updates of `trainer run --environment mech-duel` against a fresh league."""

SOLVED = Path(__file__).parent / "solved_run"
"""The 74 updates of `trainer run --environment recall --total-timesteps 600000`."""

HEALTHY: Mapping[str, float | None] = {
    "losses/approx_kl": 0.005,
    "losses/clipfrac": 0.06,
    "losses/ratio_deviation": 0.06,
    "losses/ratio_alarms": 0.0,
    "losses/normalized_entropy": 4.0,
    "losses/explained_variance": 0.7,
    "losses/kl_stop": 0.0,
    "losses/gradient_norm": 0.6,
    "losses/gradient_clipped": 0.8,
    "losses/rejected_steps": 0.0,
    "heads/move/samples": 1000.0,
    "heads/move/entropy": 1.5,
    "heads/move/std": 0.6,
    "heads/move/saturated": 0.01,
    "heads/move/gradient_norm": 0.5,
    "heads/target/samples": 500.0,
    "heads/target/entropy": 0.9,
    "heads/target/gradient_norm": 0.1,
    "scales/advantage_std": 1.0,
    "scales/return_std": 2.0,
    "scales/value_std": 1.8,
    "scales/reward_std": 0.3,
    "win_rate/lieutenant": 0.6,
    "matches/lieutenant": 200.0,
    "win_rate/main@100": 0.8,
    "matches/main@100": 200.0,
    "charts/learning_rate": 3e-4,
}


def recorded_lines() -> list[str]:
    return gzip.decompress((RECORDED / "metrics.jsonl.gz").read_bytes()).decode().splitlines(keepends=True)


def solved_run() -> list[dict[str, float | None]]:
    return [json.loads(line) for line in gzip.decompress((SOLVED / "metrics.jsonl.gz").read_bytes()).splitlines()]


def recorded_components() -> list[dict[str, float]]:
    """What 200 matches of `mech-duel` brought, by component, from the middle of half a million steps."""
    return json.loads(gzip.decompress((RECORDED / "components.json.gz").read_bytes()))


def run_folder(path: Path, lines: Iterable[str]) -> Path:
    path.mkdir()
    shutil.copy(RECORDED / "config.toml", path)
    (path / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    return path


def line(update: int, **changes: float | None) -> str:
    metrics = {**HEALTHY, "charts/updates": float(update), **changes}
    return json.dumps({"step": 1000 * update, **metrics}) + "\n"
