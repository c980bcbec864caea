"""Interpolation of a recording between frames."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from arena.arrays import FloatArray, IntArray
from arena.replay.mech.events import Event, Holder, ZoneChange
from arena.replay.mech.frames import Flag
from arena.replay.recording import MechRecording
from arena.replay.render.scene import Beam, Cloud, Mech, Scene, Shell
from arena.replay.render.text import UNLISTED_EVENTS

SEEN_ALONE = 0.5
"""Share of the interval in which a shell that is in only one of its two frames is shown."""

RECENT_S = 3.0
"""Seconds during which events are recent."""

FADE_FRAMES = 4.0
"""Frames over which smoke fades in and out."""


class Interpolator:
    """Returns the scene at any moment, counted in frames from 0 to `last`, interpolating between frames."""

    def __init__(self, recording: MechRecording) -> None:
        self.recording = recording
        self.last = len(recording.frames) - 1
        self._holders = _follow_zone(recording)
        self._shown_events = [event for event in recording.events if event.kind not in UNLISTED_EVENTS]

    def at(self, moment: float) -> Scene:
        """Return the scene at a moment."""
        frame = math.ceil(moment)
        progress = moment - frame + 1.0
        mechs = self._mechs(frame, progress)
        return Scene(
            frame=frame,
            progress=progress,
            time_s=moment * self.recording.decision_s,
            mechs=mechs,
            beams=self._beams(frame),
            shells=tuple(self._shells(frame, progress, mechs)),
            clouds=tuple(self._clouds(moment)),
            holder=self._holders[frame],
            zone_s=self._zone_seconds(frame, progress),
            recent=tuple(self._recent(moment)),
        )

    def latest(self, frame: int, count: int) -> list[Event]:
        """Return the last important events up to a frame, oldest first."""
        return self._shown_events[: bisect_right(self._shown_events, frame, key=_when)][-count:]

    def _recent(self, moment: float) -> Iterator[tuple[float, Event]]:
        decision_s, events = self.recording.decision_s, self.recording.events
        first = bisect_left(events, moment - RECENT_S / decision_s, key=_when)
        for event in events[first : bisect_right(events, math.ceil(moment), key=_when)]:
            yield max(0.0, moment - event.at + 0.5) * decision_s, event

    def _mechs(self, frame: int, progress: float) -> tuple[Mech, ...]:
        frames, header = self.recording.frames, self.recording.header
        x, y, z, hp, heat = (
            _blend(column, frame, progress) / 100.0 for column in (frames.x, frames.y, frames.z, frames.hp, frames.heat)
        )
        angle = _blend_angle(frames.heading, frame, progress)
        flags = frames.flags[frame if progress >= 0.5 else frame - 1]
        hurt = self._hurt(frame)
        return tuple(
            Mech(
                agent=agent,
                side=header.side(agent),
                role=role,
                x=float(x[agent]),
                y=float(y[agent]),
                z=float(z[agent]),
                angle=float(angle[agent]),
                hp=float(hp[agent]),
                heat=float(heat[agent]),
                flags=Flag(int(flags[agent])),
                hurt=float(hurt[agent]),
            )
            for agent, role in enumerate(header.roles)
        )

    def _hurt(self, frame: int) -> FloatArray:
        hits = self.recording.hits
        rows = hits.rows(frame)
        lost: FloatArray = np.zeros(self.recording.header.agents)
        np.add.at(lost, hits.target[rows], hits.damage[rows] / 10.0)
        return lost

    def _beams(self, frame: int) -> tuple[Beam, ...]:
        beams, names = self.recording.beams, self.recording.weapons
        rows = beams.rows(frame)
        columns = (column[rows].tolist() for column in (beams.weapon, beams.shooter, beams.target))
        return tuple(Beam(names[weapon], shooter, target) for weapon, shooter, target in zip(*columns, strict=True))

    def _shells(self, frame: int, progress: float, mechs: tuple[Mech, ...]) -> Iterator[Shell]:
        """Yield interpolated shells; new ones start at their owner."""
        before, after = self._shells_of(frame - 1), self._shells_of(frame)
        for key, (x, y) in after.items():
            owner = mechs[key[0]]
            start_x, start_y = before.get(key, (owner.x, owner.y))
            way = (start_x + progress * (x - start_x), start_y + progress * (y - start_y))
            yield Shell(self.recording.weapons[key[2]], key[0], *way, start_x, start_y)
        for key in before.keys() - after.keys() if progress < SEEN_ALONE else ():
            x, y = before[key]
            yield Shell(self.recording.weapons[key[2]], key[0], x, y, x, y)

    def _shells_of(self, frame: int) -> dict[tuple[int, int, int], tuple[float, float]]:
        """Return the positions of a frame's shells, by owner, slot and weapon."""
        shells = self.recording.shells
        rows = shells.rows(frame)
        keys = (column[rows].tolist() for column in (shells.owner, shells.slot, shells.weapon))
        x, y = (column[rows] / 100.0 for column in (shells.x, shells.y))
        return dict(zip(zip(*keys, strict=True), zip(x.tolist(), y.tolist(), strict=True), strict=True))

    def _clouds(self, moment: float) -> Iterator[Cloud]:
        smoke = self.recording.smoke
        for first, last, x, y in zip(*(c.tolist() for c in (smoke.frame, smoke.last, smoke.x, smoke.y)), strict=True):
            density = min(1.0, (moment - first + 1.0) / FADE_FRAMES, (last + 1.0 - moment) / FADE_FRAMES)
            if density > 0.0:
                yield Cloud(x / 100.0, y / 100.0, density)

    def _zone_seconds(self, frame: int, progress: float) -> tuple[float, float]:
        frames = self.recording.frames
        home, away = (_blend(column, frame, progress) / 100.0 for column in (frames.home_zone, frames.away_zone))
        return float(home), float(away)


def _when(event: Event) -> int:
    return event.at


def _blend(column: IntArray, frame: int, progress: float) -> FloatArray:
    blended: FloatArray = column[max(frame - 1, 0)] * (1.0 - progress) + column[frame] * progress
    return blended


def _blend_angle(heading: IntArray, frame: int, progress: float) -> FloatArray:
    """Interpolate angles in the shorter direction, in radians."""
    before = heading[max(frame - 1, 0)]
    turn = (heading[frame] - before + 180) % 360 - 180
    angle: FloatArray = np.radians(before + turn * progress)
    return angle


def _follow_zone(recording: MechRecording) -> list[Holder]:
    """Return the holder of the zone in every frame."""
    holders: list[Holder] = ["nobody"]
    changes = {event.at: event.after for event in recording.events if isinstance(event, ZoneChange)}
    for frame in range(1, len(recording.frames)):
        holders.append(changes.get(frame, holders[-1]))
    return holders
