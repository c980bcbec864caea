"""Statistics of every mech up to a frame."""

from dataclasses import dataclass

import numpy as np

from arena.arrays import IntArray
from arena.replay.mech.events import Kill, Launch, Paint, StatusChange
from arena.replay.mech.frames import Flag
from arena.replay.recording import MechRecording


@dataclass(frozen=True)
class MechStats:
    """Counts per mech (N,); damage in tenths of a hit point.

    Attributes:
        dealt: Damage to enemies.
        friendly: Damage to the own side including itself.
        taken: Damage from mechs and from the ground.
        kills: Kills of enemies.
        assists: Assists in kills of enemies.
        paints: Enemies newly painted.
        missiles: Missiles launched.
        falls: Its own falls; `shutdowns` likewise.
        zone_frames: Frames in the zone.
    """

    dealt: IntArray
    friendly: IntArray
    taken: IntArray
    kills: IntArray
    assists: IntArray
    paints: IntArray
    missiles: IntArray
    falls: IntArray
    shutdowns: IntArray
    zone_frames: IntArray


def count_up(recording: MechRecording, frame: int) -> MechStats:
    """Return the statistics of all decisions up to a frame."""
    events = [event for event in recording.events if event.at <= frame]
    kills = [event for event in events if isinstance(event, Kill)]
    side = recording.header.side
    hostile = [event for event in kills if event.by is not None and side(event.by) != side(event.mech)]
    mishaps = [event for event in events if isinstance(event, StatusChange)]
    return MechStats(
        *_sum_damage(recording, frame),
        kills=_count(recording, [event.by for event in hostile if event.by is not None]),
        assists=_count(recording, [who for event in kills for who in event.assists if side(who) != side(event.mech)]),
        paints=_count(recording, [event.by for event in events if isinstance(event, Paint)]),
        missiles=_count(recording, [e.mech for e in events if isinstance(e, Launch) and e.kind == "missile"]),
        falls=_count(recording, [event.mech for event in mishaps if event.kind == "fall"]),
        shutdowns=_count(recording, [event.mech for event in mishaps if event.kind == "shutdown"]),
        zone_frames=recording.frames.has(Flag.IN_ZONE)[: frame + 1].sum(axis=0),
    )


def _sum_damage(recording: MechRecording, frame: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return damage dealt to enemies, dealt to the own side, and taken."""
    hits, home = recording.hits, recording.header.agents_per_side[0]
    rows = slice(0, hits.rows(frame).stop)
    shooter, target, damage = hits.shooter[rows], hits.target[rows], hits.damage[rows]
    by_mech = shooter >= 0
    hostile = by_mech & ((shooter < home) != (target < home))
    friendly = by_mech & ~hostile
    mechs = recording.header.agents
    dealt, hurt, taken = (np.zeros(mechs, dtype=np.int64) for _ in range(3))
    np.add.at(dealt, shooter[hostile], damage[hostile])
    np.add.at(hurt, shooter[friendly], damage[friendly])
    np.add.at(taken, target, damage)
    return dealt, hurt, taken


def _count(recording: MechRecording, mechs: list[int]) -> IntArray:
    return np.bincount(np.array(mechs, dtype=np.int64), minlength=recording.header.agents).astype(np.int64)
