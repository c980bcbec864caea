"""Training of a team battle end to end: speed, time per phase, and memory."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.trainer.idle_gate import IdleGate, idle_note, read_load
from benchmarks.trainer.paired import median
from benchmarks.trainer.process import TrainerProcess
from benchmarks.trainer.trainers import BattleSetup

WARM_UP = 1
PHASES = ("arena", "acting", "opponents", "update")


def measure(scene: BattleSetup, repeats: int, max_wait_s: float | None) -> tuple[dict[str, Any], IdleGate]:
    """Return the medians of the counted iterations, and the peak memory of their process."""
    gpu = {} if scene.device == "cpu" else {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}
    battle = TrainerProcess([sys.executable, "-m", "benchmarks.trainer.team_battle_process"], scene, gpu)
    gate = IdleGate(max_wait_s, lambda: read_load([os.getpid(), battle.process]))
    for _ in range(WARM_UP):
        battle.ask("iterate")
    measured = [gate.measure(lambda: battle.ask("iterate")) for _ in range(repeats)]
    peak = battle.ask("memory")["peak_bytes"]
    battle.close()
    counted = [summarise(battle.info, each) for each in measured if each is not None]
    medians = {name: median([each[name] for each in counted]) for name in METRICS}
    return {**medians, "peak_gb": peak / 1e9, "counted": len(counted)}, gate


METRICS = ("env_steps_per_s", "agent_steps_per_s", "decisions_per_s", *PHASES, "rest")


def summarise(info: Mapping[str, int], times: Mapping[str, float]) -> dict[str, float]:
    """Return speeds, and the share of each phase."""
    seconds = times["rollout_s"] + times["update_s"]
    env_steps = info["env_steps"]
    shares = {name: times[f"{name}_s"] / seconds for name in PHASES}
    return {
        "env_steps_per_s": env_steps / seconds,
        "agent_steps_per_s": env_steps * info["agents"] / seconds,
        "decisions_per_s": times["decisions"] / seconds,
        **shares,
        "rest": 1.0 - sum(shares.values()),
    }


def show(console: Console, scene: BattleSetup, figures: Mapping[str, Any], gate: IdleGate) -> None:
    """Print one table."""
    title = f"{scene.environment}, {scene.environments} environments, {scene.opponents} opponents, "
    title += f"{scene.threads} thread(s), {scene.device}"
    table = Table(title=title, title_justify="left", box=SIMPLE, show_header=False)
    for name, value in lines(figures):
        table.add_row(name, value)
    console.print(table)
    console.print(f"  {idle_note(gate)}\n", style="dim")


def lines(figures: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the rows of the table."""
    shares = ", ".join(f"{name} {figures[name]:.0%}" for name in (*PHASES, "rest"))
    return [
        ("agent steps/s, all agents of an environment", f"{figures['agent_steps_per_s']:,.0f}"),
        ("environment steps/s", f"{figures['env_steps_per_s']:,.0f}"),
        ("decisions/s of the learner's agents", f"{figures['decisions_per_s']:,.0f}"),
        ("time", shares),
        ("resident memory at its highest, GB", f"{figures['peak_gb']:.2f}"),
    ]
