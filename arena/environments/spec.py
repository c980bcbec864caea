"""Environment specs. Torch-free, because the league server and checkpoints use them too."""

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
"""Longest name of a side."""

FIRST_AND_SECOND = ("first", "second")
"""Names of the sides of a turn-based game without other differences."""

HOME_AND_AWAY = ("home", "away")
"""Names of asymmetric sides that have the same roles and act simultaneously."""

IMAGE_AXES = (2, 3)
"""Possible numbers of axes of an image."""


class HeadKind(StrEnum):
    """Distribution of an action head."""

    GAUSSIAN = "gaussian"
    BERNOULLI = "bernoulli"
    CATEGORICAL = "categorical"


@dataclass(frozen=True)
class ObservationBlock:
    """A named slice of the flat observation, with every entry in [low, high]."""

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
        """Fields that are part of the signature."""
        return (self.name, self.shape, self.low, self.high)


class Channels(StrEnum):
    """Channel axis of an image with three axes."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class ImageBlock(ObservationBlock):
    """An image block (height, width), (height, width, channels) or (channels, height, width).

    Images are scaled by the declared bounds, such as 0 to 255, so readers keep no normalisation statistics of them. The
    image property is not part of the signature, because it does not change the values.

    Attributes:
        channels: Channel axis; ignored for two axes.

    Raises:
        ArenaError: The block has other axes, or no finite bounds.
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
        """Largest magnitude of an entry."""
        return max(abs(self.low), abs(self.high))

    @property
    def depth(self) -> int:
        """Number of channels."""
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
    """A block of integers, each the index of one of several options.

    Attributes:
        options: Number of options of each entry, in the order of the flat observation.

    Raises:
        ArenaError: The number of entries or the bounds do not match the options.
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
        """Fields that are part of the signature."""
        return (*super().signed, self.options)


@dataclass(frozen=True)
class MemberMask(ObservationBlock):
    """Membership mask (M,) of a set of at most M members: 1 for a member, 0 for an empty slot.

    The order of members carries no information, and the values of empty slots are undefined. Sets are not part of the
    signature, because they do not change the values.

    Attributes:
        describes: Blocks (M, F); row k describes member k.
        chosen_by: Categorical heads whose last M options choose a member, in the same order.
    """

    describes: tuple[str, ...]
    chosen_by: tuple[str, ...]


@dataclass(frozen=True)
class ActionHead:
    """One factor of the action.

    `size` is K: dimensions of a gaussian head (each action in [-1, 1]), switches of a bernoulli head, options of a
    categorical head. A `masked` head has an action mask `(..., K)` in every observation. False means that the dimension
    does not matter now (gaussian), or that the switch (bernoulli) or option (categorical) is illegal.
    """

    name: str
    kind: HeadKind
    size: int
    masked: bool


@dataclass(frozen=True)
class EnvironmentSpec:
    """Contract between an environment and its players.

    Attributes:
        name: Registry name.
        agents_per_side: (home, away) numbers of agents; home's come first, N = their sum.
        roles: Role of each of the N agents, such as "medium"; ratings and normalisation are per role.
        observation: Layout of one agent's D observation values, in order.
        heads: Action heads of one agent, in order.
        max_decisions: Longest match, in decisions.
        turn_based: Whether sides alternate; an agent that waits for its turn is inactive.
        reproducible: Whether (seed, policies, their seeds) determine a match.
        limit_decides: Whether reaching the decision limit terminates the match, so that values after it are 0.
            Otherwise the limit truncates it.
        reasons: Possible reasons of a match's end; an outcome's reason is an index into this tuple.
        rules: Everything else that must match for two policies to play each other, as JSON values.
        alike_sides: Whether the sides are symmetric, so that players need no rating per side. True and False override
            roles and turn order, None derives it from them. Not part of the signature.
        zero_sum: Whether the rewards of a match sum to 0 over all agents. None if unknown. Not part of the signature.
        chance: Whether the game is stochastic, so that a match depends on its seed. None if unknown. Not part of the
            signature.

    Raises:
        ArenaError: The sides are declared symmetric but differ in their number of agents.
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
                f"{self.name} has alike sides, but its agents_per_side are {self.agents_per_side}: leave "
                "alike_sides out, or give both sides as many"
            )

    @property
    def sides(self) -> int:
        """Number of sides of a match, always two."""
        return SIDES

    @property
    def unlike_sides(self) -> tuple[str, str] | None:
        """Names of home and away if the sides are asymmetric and players are rated on each; None if symmetric.

        Sides are asymmetric if their roles differ or if they alternate, because home moves first, unless `alike_sides`
        overrides it.
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
        """N, the number of agents of both sides."""
        return sum(self.agents_per_side)

    @property
    def observation_size(self) -> int:
        """D, the size of one agent's observation."""
        return sum(block.size for block in self.observation)

    @property
    def layout(self) -> dict[str, slice]:
        """Slice of each block in the flat observation."""
        start, slices = 0, {}
        for block in self.observation:
            slices[block.name] = slice(start, start + block.size)
            start += block.size
        return slices

    def side(self, away: bool) -> slice:
        """Return the slice of the home or away agents on the agent axis."""
        home = self.agents_per_side[0]
        return slice(home, self.num_agents) if away else slice(0, home)

    def describe_spaces(self) -> dict[str, Any]:
        """Return the observation blocks and the heads as JSON values; an unbounded end of a range is null."""
        blocks = [
            {"name": block.name, "shape": list(block.shape), "low": _finite(block.low), "high": _finite(block.high)}
            for block in self.observation
        ]
        heads = [
            {"name": head.name, "kind": str(head.kind), "size": head.size, "masked": head.masked} for head in self.heads
        ]
        return {"observation": blocks, "heads": heads}

    def name_agent(self, agent: int) -> str:
        """Return number, side and role of an agent as text."""
        side = "home" if agent < self.agents_per_side[0] else "away"
        return f"agent {agent} ({side}, {self.roles[agent]})"

    def name_entry(self, column: int) -> str:
        """Return the block and index of an entry of the flat observation as text."""
        for name, part in self.layout.items():
            if part.start <= column < part.stop:
                return f"entry {column - part.start} of block {name!r}"
        return f"entry {column}"

    @property
    def signature(self) -> str:
        """Hash of everything that must match for policies to play each other: 16 hexadecimal digits of a SHA-256."""
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
        # Canonical JSON: every process and version of Python must get the same hash.
        text = json.dumps(declared, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _team(roles: Mapping[str, int]) -> str:
    """Name a side after its roles, such as "2 wolf + dog"."""
    name = " + ".join(role if count == 1 else f"{count} {role}" for role, count in roles.items())
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 3]}..."


ROUNDS_REASONS = ("points", "level")
"""Reasons of a match of several rounds: decided by points, or level (a draw)."""


@dataclass(frozen=True)
class RoundsSpec(EnvironmentSpec):
    """Spec of matches with several rounds, each an episode of its own.

    Attributes:
        game: Spec of one round.
        rounds: Number of rounds per match.
    """

    game: EnvironmentSpec
    rounds: int

    @classmethod
    def of(cls, name: str, game: EnvironmentSpec, rounds: int) -> "RoundsSpec":
        """Return the spec of matches with `rounds` rounds of a game."""
        declared = {field.name: getattr(game, field.name) for field in fields(EnvironmentSpec)}
        declared |= {"name": name, "max_decisions": rounds * game.max_decisions, "reasons": ROUNDS_REASONS}
        return cls(**declared, game=game, rounds=rounds)

    @property
    def signature(self) -> str:
        """Signature of the game: policies play a round like the game and do not observe the number of rounds."""
        return self.game.signature
