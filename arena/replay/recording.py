"""Recordings: mech matches frame by frame, other games decision by decision."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import FailFast, Field

from arena.replay.columns import Name, require, require_within
from arena.replay.header import SIDES, Header
from arena.replay.mech.battlefield import Battlefield, Hull
from arena.replay.mech.events import Event, Kill, Paint
from arena.replay.mech.frames import Frames
from arena.replay.mech.tables import SLOTS, Beams, Hits, Shells, Smoke


@dataclass(frozen=True)
class MechRecording:
    """Recording of a mech match.

    Attributes:
        decision_ms: Time between two frames.
        packs: Pack of every mech, numbered over both sides.
        hulls: Hull of each class.
        weapons: Names by the index in the column `weapon` of the tables.
    """

    kind: Literal["mech"]
    header: Header
    decision_ms: Annotated[int, Field(gt=0)]
    packs: tuple[int, ...]
    hulls: dict[Name, Hull]
    weapons: tuple[Name, ...]
    battlefield: Battlefield
    frames: Frames
    shells: Shells
    beams: Beams
    hits: Hits
    smoke: Smoke
    events: Annotated[tuple[Event, ...], FailFast()]

    def __post_init__(self) -> None:
        mechs, frames = self.header.agents, self.header.outcome.decisions + 1
        require(len(self.packs) == mechs, "every mech needs a pack")
        require(set(self.header.roles) <= self.hulls.keys(), "every class needs a hull")
        require_within(self.packs, mechs, "pack")
        self.frames.require_shape(frames, mechs)
        for column in (self.frames.x, self.frames.y):
            require_within(column.ravel() + 50 * self.battlefield.side, 100 * self.battlefield.side + 1, "place")
        for table in (self.shells, self.beams, self.hits, self.smoke):
            require_within(table.frame, frames, "frame")
        for column in (self.shells.owner, self.beams.shooter, self.beams.target, self.hits.target):
            require_within(column, mechs, "mech")
        require_within(self.hits.shooter + 1, mechs + 1, "shooter")
        require_within(self.smoke.side, len(SIDES), "side")
        require_within(self.shells.slot, SLOTS, "slot")
        for column in (self.shells.weapon, self.beams.weapon):
            require_within(column, len(self.weapons), "weapon")
        self._require_events(frames, mechs)

    def _require_events(self, frames: int, mechs: int) -> None:
        named = [getattr(event, "mech", 0) for event in self.events]
        for event in self.events:
            if isinstance(event, Kill):
                named += [*event.assists, event.by or 0]
            elif isinstance(event, Paint):
                named.append(event.by)
        require_within(named, mechs, "mech of an event")
        times = [event.at for event in self.events]
        require_within(times, frames, "frame of an event")
        require(times == sorted(times), "events are out of order")

    @property
    def decision_s(self) -> float:
        """Time between two frames, in seconds."""
        return self.decision_ms / 1000.0


@dataclass(frozen=True)
class Step:
    """One decision of a game without a recording format of its own.

    Attributes:
        active: Agents that acted.
        actions: Action of each agent by head, a number or a list of numbers.
        rewards: Reward of each agent.
    """

    active: tuple[bool, ...]
    actions: dict[Name, tuple[float | tuple[float, ...], ...]]
    rewards: tuple[float, ...]


@dataclass(frozen=True)
class StepsRecording:
    """Recording of a match of any other game as its decisions."""

    kind: Literal["steps"]
    header: Header
    steps: Annotated[tuple[Step, ...], FailFast()]

    def __post_init__(self) -> None:
        require(len(self.steps) == self.header.outcome.decisions, "every decision needs a step")
        for step in self.steps:
            lengths = {len(step.active), len(step.rewards), *map(len, step.actions.values())}
            require(lengths == {self.header.agents}, "every step needs an entry for every agent")


Recording = MechRecording | StepsRecording
