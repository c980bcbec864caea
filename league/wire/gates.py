"""Bodies of gates: sequential tests of whether one frozen player is better than another."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from league.wire.base import PLAIN, Answer, Id, Real, Request, Text
from league.wire.players import PlayerName

GateState = Literal["open", "accepted", "rejected", "cancelled"]


class GateCreate(Request):
    """A sequential test (SPRT) of two frozen players; see docs/guides/judge/gates.md.

    A repeated request for the same test returns the existing gate.
    """

    candidate_id: Id
    """Player id of the candidate."""
    champion_id: Id
    """Player id of its opponent."""
    elo0: Real = 0.0
    """Lead in Elo points under the null hypothesis."""
    elo1: Real = 20.0
    """Lead in Elo points under the alternative hypothesis."""
    alpha: Real = 0.05
    """Probability of accepting a candidate at `elo0`."""
    beta: Real = 0.05
    """Probability of rejecting a candidate at `elo1`."""
    least_games: Annotated[int, Field(lt=2**53), PLAIN] = 20
    """Games before the first decision."""
    reason: Text = ""
    """Reason in words."""
    again: Annotated[bool, Field(strict=True)] = False
    """Whether to open a new gate if the existing one is decided."""


class GateCancel(Request):
    """Cancellation of a gate."""

    reason: Text = ""
    """Reason in words."""


class Gate(Answer):
    """A gate and its progress."""

    id: int
    """Its id."""
    environment: str
    """Name of the environment."""
    candidate: PlayerName
    """The candidate."""
    champion: PlayerName
    """Its opponent."""
    elo0: float
    """Lead under the null hypothesis."""
    elo1: float
    """Lead under the alternative hypothesis."""
    alpha: float
    """Probability of a wrong acceptance."""
    beta: float
    """Probability of a wrong rejection."""
    least_games: int
    """Games before the first decision."""
    state: GateState
    """`open` until it is decided or cancelled."""
    games: int
    """Games that count: pairs on one seed with sides swapped."""
    counts: list[float]
    """Pairs in which the candidate scored 0, 1/4, 1/2, 3/4 and 1."""
    llr: float
    """Log-likelihood ratio of `elo1` to `elo0`."""
    lower: float
    """The candidate is rejected below this `llr`."""
    upper: float
    """The candidate is accepted above this `llr`."""
    elo: float
    """Estimated lead in Elo points."""
    elo_low: float
    """Lower end of its 95 % interval."""
    elo_high: float
    """Upper end of its 95 % interval."""
    lost_pairs: int
    """Leased pairs that were never finished."""
    waiting_pairs: int
    """Leased pairs that do not count yet."""
    evaluators: int
    """Attached evaluators that can play it."""
    busy_evaluators: int
    """Evaluators of these that first finish other matches."""
    actor: str
    """Token, rule or process that opened it."""
    reason: str
    """Reason in words."""
    opened_at: datetime
    """Time of opening."""
    closed_reason: str | None
    """Reason for the end; null while it is open."""
    closed_at: datetime | None
    """Time of the end; null while it is open."""
    predicted_score: float | None = None
    """Score of the candidate that the pair model predicts; null if closed."""
    expected_games: int | None = None
    """Expected games until the verdict; null if closed."""
