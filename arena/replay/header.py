"""Header of a recording: the match and its result."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from arena.replay.columns import Name, require

FORMAT: Final = "echelon-replay"
VERSION: Final = 1
"""First fields of every recording. Any change to the fields, their units or their meaning requires a new version."""

SIDES = ("home", "away")


def _read_seed(text: Any) -> int:  # noqa: ANN401  any content
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63):
        raise ValueError("a seed is a string of digits below 2^63")
    return int(text)


Seed = Annotated[int, PlainValidator(_read_seed), PlainSerializer(str)]
"""Stored as a string, because JavaScript numbers are exact only up to 2^53."""


@dataclass(frozen=True)
class Result:
    """Result of a match.

    Attributes:
        score: Home's score, in [0, 1].
        reason: One of the environment's reasons.
        decisions: Length in decisions.
    """

    score: Annotated[float, Field(ge=0.0, le=1.0)]
    reason: Name
    decisions: Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Header:
    """Identity and result of the recorded match.

    Attributes:
        environment: Name of the environment.
        signature: Its signature.
        seed: Seed of the match.
        players: Names of home and away.
        agents_per_side: Agents of home and away; home's have the lower indices.
        roles: Role of every agent.
        max_decisions: Decision limit.
        outcome: Result of the match.
    """

    format: Literal["echelon-replay"]
    version: Literal[1]
    environment: Name
    signature: Name
    seed: Seed
    players: tuple[Name, Name]
    agents_per_side: tuple[int, int]
    roles: tuple[Name, ...]
    max_decisions: Annotated[int, Field(gt=0)]
    outcome: Result

    def __post_init__(self) -> None:
        require(min(self.agents_per_side) >= 1, "each side needs an agent")
        require(len(self.roles) == sum(self.agents_per_side), "every agent needs a role")

    @property
    def agents(self) -> int:
        """N, the number of agents of both sides."""
        return len(self.roles)

    def side(self, agent: int) -> int:
        """Return 0 for an agent of home, 1 for one of away."""
        return int(agent >= self.agents_per_side[0])
