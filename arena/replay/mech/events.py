"""Events of a mech match. `at` is the frame after the decision in which the event occurred."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Holder = Literal["home", "away", "contested", "nobody"]
"""Holder of the zone, which scores."""


@dataclass(frozen=True)
class Kill:
    """A mech is destroyed.

    Attributes:
        mech: The destroyed mech.
        by: The mech with the largest share of the killing damage. None if the ground dealt all of it.
        assists: Mechs with other shares of the damage, and mechs whose paint the shooters used.
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
    """Mech `by` paints mech `mech`, which was not painted before."""

    kind: Literal["paint"]
    at: int
    mech: int
    by: int


@dataclass(frozen=True)
class Launch:
    """A mech launches a missile or a smoke cloud."""

    kind: Literal["missile", "smoke"]
    at: int
    mech: int


@dataclass(frozen=True)
class Intercept:
    """The anti-missile system of a mech intercepts missiles."""

    kind: Literal["intercept"]
    at: int
    mech: int
    missiles: int


@dataclass(frozen=True)
class ZoneChange:
    """The holder of the zone changes."""

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
