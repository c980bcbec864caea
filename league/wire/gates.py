"""Gates: sequential tests of whether one frozen player is better than another."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from league.wire.base import PLAIN, Answer, Id, Real, Request, Text
from league.wire.players import PlayerName

GateState = Literal["open", "accepted", "rejected", "cancelled"]


class GateCreate(Request):
    """Ask whether a candidate is `elo1` points better than a champion, rather than `elo0`; docs/gates.md.

    The same test of the same two again is the gate that there is, open or with its verdict; with `again` a gate that
    has its verdict is followed by a new one, which knows nothing of it.
    """

    candidate_id: Id
    champion_id: Id
    elo0: Real = 0.0
    elo1: Real = 20.0
    alpha: Real = 0.05
    beta: Real = 0.05
    least_games: Annotated[int, Field(lt=2**53), PLAIN] = 20
    reason: Text = ""
    again: Annotated[bool, Field(strict=True)] = False


class GateCancel(Request):
    """Why a gate is given up without a verdict."""

    reason: Text = ""


class Gate(Answer):
    """A gate and where it stands.

    `games` are those that the verdict rests on, in pairs on one seed with sides swapped: `counts` says how many pairs
    the candidate scored 0, 1/4, 1/2, 3/4 and 1 in. `llr` is the log-likelihood ratio of `elo1` to `elo0`; below `lower`
    the candidate is rejected, above `upper` accepted. `elo` is its estimated lead, from `elo_low` to `elo_high` with
    95 % confidence, each within 1,000 points.

    `lost_pairs` were leased before the last one that counts and never finished; `waiting_pairs` are leased and not
    counted yet. `evaluators` are attached and can play the gate; `busy_evaluators` of them first finish matches that
    they leased for something else. Once the gate is no longer open these three are 0, and all other figures are those
    that it ended with. `actor` opened it, or asked for it after the rule of promotion had.
    """

    id: int
    environment: str
    candidate: PlayerName
    champion: PlayerName
    elo0: float
    elo1: float
    alpha: float
    beta: float
    least_games: int
    state: GateState
    games: int
    counts: list[float]
    llr: float
    lower: float
    upper: float
    elo: float
    elo_low: float
    elo_high: float
    lost_pairs: int
    waiting_pairs: int
    evaluators: int
    busy_evaluators: int
    actor: str
    reason: str
    opened_at: datetime
    closed_reason: str | None
    closed_at: datetime | None
