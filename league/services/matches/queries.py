"""Queries of the match log: one match, and the matches of a player."""

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, aliased

from league import wire
from league.db.models import Match, Period, Player, Replay
from league.errors import UnknownMatchError
from league.services.matches import behaviours, counting

_HOME, _AWAY = aliased(Player), aliased(Player)


def get(session: Session, match_id: int) -> wire.PlayedMatch:
    """Show one match, and how both sides played.

    Raises:
        UnknownMatchError: There is no such match.
    """
    found = _bodies(session, _named().where(Match.id == match_id))
    if not found:
        raise UnknownMatchError(match_id, "no match has this id", "see a player's with GET /players/{id}/matches")
    return wire.PlayedMatch(**dict(found[0]), behaviour=behaviours.of_match(session, match_id))


def of_player(session: Session, player_id: int, limit: int, before: int | None) -> list[wire.Match]:
    """List a player's matches, newest first, before the given one."""
    seats = []
    for seat in (Match.home_id, Match.away_id):  # one index each; an OR would scan
        ids = select(Match.id).where(seat == player_id)
        ids = ids if before is None else ids.where(Match.id < before)
        seats.append(select(ids.order_by(Match.id.desc()).limit(limit).subquery().c.id))
    own = seats[0].union(seats[1])
    return _bodies(session, _named().where(Match.id.in_(own)).order_by(Match.id.desc()).limit(limit))


def _named() -> "Select[Match, str, str, int, bool, bool]":
    took_in = select(Period.id).where(Period.environment == Match.environment, Period.last_match_id >= Match.id)
    first = (
        took_in.where(Period.current_version(), Match.kind != counting.GATE)
        .order_by(Period.last_match_id, Period.id)
        .limit(1)
    )
    period_id = first.correlate(Match).scalar_subquery()
    recorded = select(Replay.match_id).where(Replay.match_id == Match.id).exists()
    query = select(Match, _HOME.name, _AWAY.name, period_id, ~counting.excluded(), recorded)
    return query.join(_HOME, _HOME.id == Match.home_id).join(_AWAY, _AWAY.id == Match.away_id)


def _bodies(session: Session, query: "Select[Match, str, str, int, bool, bool]") -> list[wire.Match]:
    return [
        wire.Match.model_validate(
            {
                "id": match.id,
                "lease_id": match.lease_id,
                "sequence": match.sequence,
                "kind": match.kind,
                "environment": match.environment,
                "home": wire.PlayerName(player_id=match.home_id, name=home),
                "away": wire.PlayerName(player_id=match.away_id, name=away),
                "score": match.score,
                "decisions": match.decisions,
                "reason": match.reason,
                "seed": match.seed,
                "learner_step": match.learner_step,
                "late": match.late,
                "counts": counts,
                "worker_id": match.worker_id,
                "period_id": period_id,
                "recorded": recorded,
                "reported_at": match.reported_at,
            }
        )
        for match, home, away, period_id, counts, recorded in session.execute(query)
    ]
