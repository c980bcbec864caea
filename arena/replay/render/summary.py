"""Summary of a recording as tables for a terminal and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from arena.replay.header import SIDES, Header
from arena.replay.recording import MechRecording, Recording, StepsRecording
from arena.replay.render.stats import MechStats, count_up
from arena.replay.render.text import UNLISTED_EVENTS, describe, describe_outcome, name_mech, write_plainly

MECH_COLUMNS = ("mech", "hp", "damage", "friendly", "taken", "kills", "assists", "paints", "missiles", "zone s")
"""Columns of the table of mechs, for a width of 80. Friendly: damage to the own side. Zone s: seconds inside."""


def tabulate(recording: Recording) -> RenderableType:
    """Return the whole recording as tables."""
    if isinstance(recording, StepsRecording):
        return Group(_head(recording.header, ""), _tabulate_steps(recording))
    duration = f" ({recording.header.outcome.decisions * recording.decision_s:g} s)"
    return Group(
        _head(recording.header, duration),
        _zone_line(recording),
        _tabulate_mechs(recording),
        *_list_events(recording),
    )


def summarise(recording: Recording) -> dict[str, Any]:
    """Return the recording without its frames as JSON values; damage is in hit points."""
    header = recording.header
    summary: dict[str, Any] = {
        "kind": recording.kind,
        **asdict(header),
        "seed": str(header.seed),
        "players": dict(zip(SIDES, header.players, strict=True)),
    }
    if isinstance(recording, StepsRecording):
        return summary | {"steps": [asdict(step) for step in recording.steps]}
    last, stats = len(recording.frames) - 1, count_up(recording, len(recording.frames) - 1)
    return summary | {
        "duration_s": last * recording.decision_s,
        "zone_s": dict(zip(SIDES, _zone_seconds(recording), strict=True)),
        "mechs": [_summarise_mech(recording, stats, agent) for agent in range(header.agents)],
        "events": [asdict(event) | {"text": write_plainly(describe(event, header))} for event in recording.events],
    }


def _summarise_mech(recording: MechRecording, stats: MechStats, agent: int) -> dict[str, Any]:
    header = recording.header
    counts = {
        name: int(getattr(stats, name)[agent])
        for name in ("kills", "assists", "paints", "missiles", "falls", "shutdowns")
    }
    damage = {name: float(getattr(stats, name)[agent] / 10.0) for name in ("dealt", "friendly", "taken")}
    return {
        "agent": agent,
        "side": SIDES[header.side(agent)],
        "role": header.roles[agent],
        "pack": recording.packs[agent],
        "hp_percent": int(recording.frames.hp[-1, agent]),
        **damage,
        **counts,
        "zone_s": float(stats.zone_frames[agent] * recording.decision_s),
    }


def _head(header: Header, duration: str) -> Table:
    home, away = header.players
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("environment", f"{header.environment} {header.signature}"),
        ("seed", str(header.seed)),
        ("home", home),
        ("away", away),
        ("outcome", f"{write_plainly(describe_outcome(header))}; home's score {header.outcome.score:g}"),
        ("decisions", f"{header.outcome.decisions}{duration}"),
    ):
        table.add_row(name, Text(value, overflow="fold"))
    return table


def _zone_seconds(recording: MechRecording) -> tuple[float, float]:
    frames = recording.frames
    return float(frames.home_zone[-1] / 100.0), float(frames.away_zone[-1] / 100.0)


def _zone_line(recording: MechRecording) -> Text:
    home, away = _zone_seconds(recording)
    return Text(f"zone seconds: home {home:.1f}, away {away:.1f}, {recording.battlefield.zone_goal / 100.0:.1f} win")


def _tabulate_mechs(recording: MechRecording) -> Table:
    header, last = recording.header, len(recording.frames) - 1
    stats = count_up(recording, last)
    table = Table(box=SIMPLE_HEAD, padding=0)
    for index, heading in enumerate(MECH_COLUMNS):
        table.add_column(heading, justify="right" if index else "left", no_wrap=not index)
    for agent in range(header.agents):
        hp = int(recording.frames.hp[last, agent])
        damage = [f"{counted[agent] / 10:.0f}" for counted in (stats.dealt, stats.friendly, stats.taken)]
        counts = [str(counted[agent]) for counted in (stats.kills, stats.assists, stats.paints, stats.missiles)]
        zone_s = f"{stats.zone_frames[agent] * recording.decision_s:.1f}"
        name = write_plainly((name_mech(header, agent),))
        table.add_row(name, f"{hp} %" if hp else "lost", *damage, *counts, zone_s)
    return table


def _list_events(recording: MechRecording) -> Iterator[Text]:
    for event in recording.events:
        if event.kind not in UNLISTED_EVENTS:
            sentence = write_plainly(describe(event, recording.header))
            yield Text(f"{event.at * recording.decision_s:7.2f} s  {sentence}")


def _tabulate_steps(recording: StepsRecording) -> Table:
    table = Table("decision", "agent", "role", "actions", "reward", box=SIMPLE_HEAD, pad_edge=False)
    header = recording.header
    for number, step in enumerate(recording.steps, start=1):
        for agent in (agent for agent in range(header.agents) if step.active[agent]):
            actions = ", ".join(f"{name} {_write(taken[agent])}" for name, taken in step.actions.items())
            side = SIDES[header.side(agent)]
            table.add_row(str(number), f"{side} {agent}", header.roles[agent], actions, f"{step.rewards[agent]:g}")
    return table


def _write(action: float | tuple[float, ...]) -> str:
    numbers = action if isinstance(action, tuple) else (action,)
    return " ".join(f"{number:g}" for number in numbers)
