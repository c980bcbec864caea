"""What an environment declares about itself. Torch-free: the league server and the checkpoint file read it too."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from arena.errors import GameError

SIDES = 2

NAME_MAX = 64
"""The longest name of a side."""

FIRST_AND_SECOND = ("first", "second")
"""What the sides of turn-based games are called where nothing else tells them apart."""

HOME_AND_AWAY = ("home", "away")
"""What unlike sides are called that have the same roles and act at once."""

IMAGE_AXES = (2, 3)
"""How many axes an image may have."""


class HeadKind(StrEnum):
    """How an action head is distributed."""

    GAUSSIAN = "gaussian"
    BERNOULLI = "bernoulli"
    CATEGORICAL = "categorical"


@dataclass(frozen=True)
class ObservationBlock:
    """A named slice of the flat observation; every entry lies in [low, high]."""

    name: str
    shape: tuple[int, ...]
    low: float
    high: float

    @property
    def size(self) -> int:
        """Number of floats in the block."""
        return math.prod(self.shape)

    @property
    def signed(self) -> tuple[Any, ...]:
        """What of it is part of the signature."""
        return (self.name, self.shape, self.low, self.high)


class Channels(StrEnum):
    """Where an image of three axes has its channels."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class ImageBlock(ObservationBlock):
    """A block (height, width), (height, width, channels) or (channels, height, width) whose neighbours hang together.

    Its scale is the one that it declares, such as 0 to 255: whoever reads it as an image keeps no statistics of it. The
    signature leaves out that it is one: that says how it may be read, not what it is.

    Attributes:
        channels: Which axis they are; without meaning where there are two axes.

    Raises:
        ArenaError: It has other axes, or no bounds to be scaled by.
    """

    channels: Channels

    def __post_init__(self) -> None:
        if len(self.shape) not in IMAGE_AXES or not 0.0 < self.limit < math.inf:
            raise GameError(
                f"image {self.name!r} has shape {self.shape} within [{self.low:g}, {self.high:g}]: give it height and "
                "width and maybe channels, and finite bounds that are not both 0; or declare an ObservationBlock"
            )

    @property
    def limit(self) -> float:
        """The largest magnitude that an entry may have."""
        return max(abs(self.low), abs(self.high))

    @property
    def depth(self) -> int:
        """How many channels there are."""
        if len(self.shape) < max(IMAGE_AXES):
            return 1
        return self.shape[0 if self.channels is Channels.FIRST else -1]

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width."""
        first = int(self.channels is Channels.FIRST and len(self.shape) == max(IMAGE_AXES))
        return self.shape[first], self.shape[first + 1]


@dataclass(frozen=True)
class ChoiceBlock(ObservationBlock):
    """A block of whole numbers, each of which names one of so many things, counted from 0.

    Attributes:
        options: How many things each entry may name, entry by entry as the flat observation has them.

    Raises:
        ArenaError: There are not as many numbers as entries, or they do not fit the bounds.
    """

    options: tuple[int, ...]

    def __post_init__(self) -> None:
        most = max(self.options, default=0) - 1
        if len(self.options) != self.size or min(self.options, default=0) < 1 or (self.low, self.high) != (0, most):
            raise GameError(
                f"choices {self.name!r} have shape {self.shape} within [{self.low:g}, {self.high:g}] and "
                f"{self.options} options: give each of the {self.size} entries a number of at least 1, and bounds of 0 "
                f"and {most}"
            )

    @property
    def signed(self) -> tuple[Any, ...]:
        """What of it is part of the signature."""
        return (*super().signed, self.options)


@dataclass(frozen=True)
class MemberMask(ObservationBlock):
    """A block (M,) that says who is there of a set of at most M members: 1 for a member, 0 for an empty place.

    Whoever reads the members need not know their order. What stands in empty places has no meaning. The signature
    leaves sets out: they say how an observation may be read, not what it is.

    Attributes:
        describes: Blocks (M, F); row k is of member k.
        chosen_by: Categorical heads whose last M options choose a member, in the same order.
    """

    describes: tuple[str, ...]
    chosen_by: tuple[str, ...]


@dataclass(frozen=True)
class ActionHead:
    """One factor of the action.

    `size` is K: dimensions of a gaussian head (each action in [-1, 1]), switches of a bernoulli head, options of a
    categorical head. A `masked` head comes with a mask `(..., K)` in every observation; false means: this dimension
    does not matter now (gaussian), may not be switched on (bernoulli), may not be chosen (categorical).
    """

    name: str
    kind: HeadKind
    size: int
    masked: bool


@dataclass(frozen=True)
class EnvironmentSpec:
    """The contract between an environment and everything that plays it.

    Attributes:
        name: Registry name.
        agents_per_side: (home, away) agents; agents are ordered home first, N = their sum.
        roles: Role of each of the N agents, such as "medium"; roles are rated and normalised apart.
        observation: Layout of the D observation floats of one agent, in order.
        heads: Action heads of one agent, in order.
        max_decisions: Longest match, in decisions.
        turn_based: Whether sides alternate; an agent that is not to move is inactive.
        reproducible: Whether a match repeats from (seed, policies, their seeds).
        limit_decides: Whether the decision limit itself decides the match: what ends there is over, and nothing is owed
            after it. Elsewhere the limit cuts off what would have gone on.
        reasons: Why a match can end; an outcome's reason indexes this tuple.
        rules: Everything else that must match for two policies to meet, as JSON values.
        alike_sides: Whether both sides are alike, so that players are rated on neither apart: True whatever their roles
            are called and whoever moves first, False whatever they look like; None where roles and turns decide. No
            part of the signature.
        zero_sum: Whether the rewards of a match add up to 0 over all agents; None where the author does not say. No
            part of the signature.
        chance: Whether anything of a match follows from its seed; None where the author does not say. No part of the
            signature.

    Raises:
        ArenaError: The sides are said to be alike and have unlike numbers of agents.
    """

    name: str
    agents_per_side: tuple[int, int]
    roles: tuple[str, ...]
    observation: tuple[ObservationBlock, ...]
    heads: tuple[ActionHead, ...]
    max_decisions: int
    turn_based: bool
    reproducible: bool
    limit_decides: bool
    reasons: tuple[str, ...]
    rules: Mapping[str, Any]
    alike_sides: bool | None = field(default=None, kw_only=True)
    zero_sum: bool | None = field(default=None, kw_only=True)
    chance: bool | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.alike_sides and len(set(self.agents_per_side)) > 1:
            raise GameError(
                f"{self.name} is said to have alike sides, and its agents_per_side are {self.agents_per_side}: leave "
                "alike_sides out, or give both sides as many"
            )

    @property
    def sides(self) -> int:
        """Sides of a match: home and away, always two."""
        return SIDES

    @property
    def unlike_sides(self) -> tuple[str, str] | None:
        """What home and away are called where they are unlike, so that players are rated on each; None where not.

        They are where they have other roles, and where they alternate, as home then begins, unless `alike_sides` says
        otherwise.
        """
        if self.alike_sides:
            return None
        home, away = (Counter(self.roles[self.side(away=each)]) for each in (False, True))
        if home != away:
            return _team(home), _team(away)
        if self.turn_based:
            return FIRST_AND_SECOND
        return None if self.alike_sides is None else HOME_AND_AWAY

    @property
    def num_agents(self) -> int:
        """N: agents of both sides."""
        return sum(self.agents_per_side)

    @property
    def observation_size(self) -> int:
        """D: floats in one agent's observation."""
        return sum(block.size for block in self.observation)

    @property
    def layout(self) -> dict[str, slice]:
        """Where each block lies in the flat observation."""
        start, slices = 0, {}
        for block in self.observation:
            slices[block.name] = slice(start, start + block.size)
            start += block.size
        return slices

    def side(self, away: bool) -> slice:
        """Agents of the home or the away side, as a slice of the agent axis."""
        home = self.agents_per_side[0]
        return slice(home, self.num_agents) if away else slice(0, home)

    def name_agent(self, agent: int) -> str:
        """Number, side and role of an agent."""
        side = "home" if agent < self.agents_per_side[0] else "away"
        return f"agent {agent} ({side}, {self.roles[agent]})"

    def name_entry(self, column: int) -> str:
        """Block of an entry of the flat observation, and its place in it."""
        for name, part in self.layout.items():
            if part.start <= column < part.stop:
                return f"entry {column - part.start} of block {name!r}"
        return f"entry {column}"

    @property
    def signature(self) -> str:
        """Hash of everything that must match for two policies to meet: 16 hexadecimal digits of a SHA-256."""
        declared = {
            "name": self.name,
            "agents_per_side": self.agents_per_side,
            "roles": self.roles,
            "observation": [block.signed for block in self.observation],
            "heads": [(h.name, h.kind, h.size, h.masked) for h in self.heads],
            "max_decisions": self.max_decisions,
            "turn_based": self.turn_based,
            "limit_decides": self.limit_decides,
            "rules": dict(self.rules),
        }
        text = json.dumps(declared, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _team(roles: Mapping[str, int]) -> str:
    """Name a side after its roles, such as "2 wolf + dog"."""
    name = " + ".join(role if count == 1 else f"{count} {role}" for role, count in roles.items())
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 3]}..."


ROUNDS_REASONS = ("points", "level")
"""Why a match of rounds is won or lost, and why it is drawn."""


@dataclass(frozen=True)
class RoundsSpec(EnvironmentSpec):
    """Matches of several rounds of a game, each an episode of its own.

    Attributes:
        game: What one round is.
        rounds: How many of them a match has.
    """

    game: EnvironmentSpec
    rounds: int

    @classmethod
    def of(cls, name: str, game: EnvironmentSpec, rounds: int) -> "RoundsSpec":
        """Matches of so many rounds of a game."""
        declared = {field.name: getattr(game, field.name) for field in fields(EnvironmentSpec)}
        declared |= {"name": name, "max_decisions": rounds * game.max_decisions, "reasons": ROUNDS_REASONS}
        return cls(**declared, game=game, rounds=rounds)

    @property
    def signature(self) -> str:
        """That of the game: a policy plays a round as it plays the game, and neither knows how many there are."""
        return self.game.signature
