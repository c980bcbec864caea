"""Initial ratings of snapshots: their learner's rating at the time of publication.

That rating is derived from the match log. It is recomputed in a rebuild, so that excluded results have no effect on the
initial ratings of snapshots either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from league.db.models import Player
from league.services.ratings.period import PlayerRating


@dataclass(frozen=True)
class Inheritance:
    """A snapshot, its learner's player id, and the minimum of its initial deviation."""

    player_id: int
    ancestor_id: int
    deviation_floor: float


Inheritances = Mapping[int, Sequence[Inheritance]]
"""Snapshots by the id of the period from which they inherit their rating."""


def inheritances(session: Session, environment: str) -> Inheritances:
    """Return the snapshots that inherit from a rating period; earlier ones have their learner's initial rating."""
    own = aliased(Player)
    query = select(Player.start_period_id, Player.id, own.id, Player.start_deviation_floor)
    query = query.join(own, (own.learner_id == Player.learner_id) & (own.kind == "learner"))
    query = query.where(Player.environment == environment, Player.kind == "snapshot").order_by(Player.id)
    found: dict[int, list[Inheritance]] = {}
    for period_id, player_id, ancestor_id, floor in session.execute(query):
        if period_id is not None and floor is not None:
            found.setdefault(period_id, []).append(Inheritance(player_id, ancestor_id, floor))
    return found


def starts(
    inheritances: Sequence[Inheritance], rated: Mapping[int, PlayerRating], newcomers: Mapping[int, PlayerRating]
) -> dict[int, PlayerRating]:
    """Return the initial ratings of snapshots, by id.

    Args:
        inheritances: Snapshots that inherit from one period.
        rated: All players rated up to that period.
        newcomers: Initial ratings of all players, for learners without a rating.
    """
    return {inheritance.player_id: _start(inheritance, rated, newcomers) for inheritance in inheritances}


def _start(
    inheritance: Inheritance, rated: Mapping[int, PlayerRating], newcomers: Mapping[int, PlayerRating]
) -> PlayerRating:
    learner = rated.get(inheritance.ancestor_id, newcomers[inheritance.ancestor_id])
    deviation = max(learner.deviation, inheritance.deviation_floor)
    return replace(newcomers[inheritance.player_id], rating=learner.rating, deviation=deviation)
