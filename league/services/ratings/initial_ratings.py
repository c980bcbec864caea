"""Initial ratings: a snapshot starts at its learner's rating of the moment it was published.

That rating follows from the log, so a start is computed again with it: a result that does not count must not live on in
the players that its learner left behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from league.db.models import Player
from league.services.ratings.period import PlayerRating


@dataclass(frozen=True)
class Inheritance:
    """A snapshot, the learner's own player that it starts from, and the least deviation that it starts with."""

    player_id: int
    ancestor_id: int
    deviation_floor: float


Heirs = Mapping[int, Sequence[Inheritance]]
"""Snapshots by the id of the period whose ratings they start from."""


def heirs(session: Session, environment: str) -> Heirs:
    """Return the snapshots that start from a rating period; those before the first start where their learner does."""
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
    heirs: Sequence[Inheritance], rated: Mapping[int, PlayerRating], newcomers: Mapping[int, PlayerRating]
) -> dict[int, PlayerRating]:
    """Return where snapshots start, by id.

    Args:
        heirs: Who starts from one period.
        rated: Everybody rated up to that period.
        newcomers: Everybody as they start, for learners that were not rated.
    """
    return {heir.player_id: _start(heir, rated, newcomers) for heir in heirs}


def _start(heir: Inheritance, rated: Mapping[int, PlayerRating], newcomers: Mapping[int, PlayerRating]) -> PlayerRating:
    learner = rated.get(heir.ancestor_id, newcomers[heir.ancestor_id])
    deviation = max(learner.deviation, heir.deviation_floor)
    return replace(newcomers[heir.player_id], rating=learner.rating, deviation=deviation)
