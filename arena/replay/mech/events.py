"""What happens in a match of mechs. `at` is the frame of the decision in which it happened."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Holder = Literal["home", "away", "contested", "nobody"]
"""Who scores in the zone."""


@dataclass(frozen=True)
class Kill:
    """A mech is destroyed.

    Attributes:
        mech: Who is destroyed.
        by: Who had the largest share of the killing damage; none where the ground did all of it.
        assists: Who else had a share of it, and whose paint the others shot at.
    """

    kind: Literal["kill"]
    at: int
    mech: int
    by: int | None
    assists: tuple[int, ...]


@dataclass(frozen=True)
class StatusChange:
    """A mech falls, shuts down or loses its legs."""

    kind: Literal["fall", "shutdown", "legs"]
    at: int
    mech: int


@dataclass(frozen=True)
class Paint:
    """Mech `mech`, on which no paint was, is painted by mech `by`."""

    kind: Literal["paint"]
    at: int
    mech: int
    by: int


@dataclass(frozen=True)
class Launch:
    """A mech launches a missile or a cloud of smoke."""

    kind: Literal["missile", "smoke"]
    at: int
    mech: int


@dataclass(frozen=True)
class Intercept:
    """The anti-missile system of a mech downs missiles."""

    kind: Literal["intercept"]
    at: int
    mech: int
    missiles: int


@dataclass(frozen=True)
class ZoneChange:
    """The zone goes from one holder to another."""

    kind: Literal["zone"]
    at: int
    before: Holder
    after: Holder


@dataclass(frozen=True)
class End:
    """The match is over."""

    kind: Literal["end"]
    at: int


Event = Annotated[Kill | StatusChange | Paint | Launch | Intercept | ZoneChange | End, Field(discriminator="kind")]
