"""Which match a recording shows, and how it ended."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from arena.replay.columns import Name, require

FORMAT: Final = "echelon-replay"
VERSION: Final = 1
"""What every recording says first. Any change to the fields, their units or their meaning is another version."""

SIDES = ("home", "away")


def _read_seed(text: Any) -> int:  # noqa: ANN401  whatever the file holds
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63):
        raise ValueError("a seed is a string of digits below 2^63")
    return int(text)


Seed = Annotated[int, PlainValidator(_read_seed), PlainSerializer(str)]
"""A string in the file: a browser's numbers end at 2^53."""


@dataclass(frozen=True)
class Result:
    """How a match ended.

    Attributes:
        score: Home's, in [0, 1].
        reason: One of the environment's reasons.
        decisions: The match's length.
    """

    score: Annotated[float, Field(ge=0.0, le=1.0)]
    reason: Name
    decisions: Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Header:
    """Which match it is.

    Attributes:
        environment: Its name.
        signature: Its signature.
        seed: What opened the match.
        players: Names of home and away.
        agents_per_side: Agents of home and away; home's come first wherever agents are numbered.
        roles: Role of every agent.
        max_decisions: When time would have been up.
        outcome: How it ended.
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
        """N: agents of both sides."""
        return len(self.roles)

    def side(self, agent: int) -> int:
        """0 for an agent of home, 1 for one of away."""
        return int(agent >= self.agents_per_side[0])
