"""Match history for the dashboard: newest first, with the ratings of that time, and which have recordings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, or_, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from league import wire
from league.db.models import Match, Period, Player, Rating, Replay
from league.errors import UnknownMatchError
from league.services.matches import counting
from league.services.matches import log as match_log

SEARCHED = 100_000
"""Of how many matches of an environment one page looks for a kind: rare ones must not take a scan of all."""

_HOME, _AWAY = aliased(Player), aliased(Player)
_HOME_RATING, _AWAY_RATING = aliased(Rating), aliased(Rating)


@dataclass(frozen=True)
class MatchPlayer:
    """Who played a side, with the rating before the match."""

    player_id: int
    name: str
    call_sign: str | None
    rating: float
    deviation: float


@dataclass(frozen=True)
class MatchRow:
    """A match.

    Attributes:
        id: Its id.
        environment: Where it was played.
        kind: Of match.
        home: Who played home.
        away: Who played away.
        score: Home's, in [0, 1].
        reason: Why it ended.
        decisions: Its length.
        seed: What opened it.
        learner_step: How far the learner had come, in a training match.
        late: Whether it came after its lease had ended.
        counts: Whether its worker was trusted.
        worker_id: Who played it.
        reported_at: When it came.
        recorded: Whether there is a recording.
    """

    id: int
    environment: str
    kind: str
    home: MatchPlayer
    away: MatchPlayer
    score: float
    reason: str
    decisions: int
    seed: int
    learner_step: int | None
    late: bool
    counts: bool
    worker_id: str
    reported_at: datetime
    recorded: bool


@dataclass(frozen=True)
class MatchFilter:
    """Which matches to list.

    Attributes:
        environment: Of this one.
        kind: Of this kind; None for every kind.
        players: Of this player, or of these two against each other; empty for everybody.
        recorded: Whether only those with a recording.
    """

    environment: str
    kind: wire.MatchKind | None
    players: tuple[int, ...]
    recorded: bool


@dataclass(frozen=True)
class MatchPage:
    """A page of matches, newest first; before `before` are more, unless it is None."""

    matches: list[MatchRow]
    before: int | None


def find(session: Session, match_id: int) -> MatchRow:
    """Look a match up.

    Raises:
        UnknownMatchError: There is no such match.
    """
    found = _read(session, [match_id])
    if not found:
        raise UnknownMatchError(match_id, "no match has this id", "choose one of the page of matches")
    return found[0]


def listing(session: Session, wanted: MatchFilter, limit: int, before: int | None) -> MatchPage:
    """List matches, newest first.

    Where they are of everybody and of one kind, a page looks through the last `SEARCHED` ids and may be short for it.

    Args:
        session: A transaction.
        wanted: Which.
        limit: How many.
        before: Only those with lower ids; None to begin with the last.
    """
    end = before if before is not None else match_log.end(session, wanted.environment) + 1
    floor = end - SEARCHED if wanted.kind is not None and not (wanted.players or wanted.recorded) else 0
    ids = sorted(session.scalars(last_ids(wanted, max(floor, 0), end, limit + 1)), reverse=True)
    if len(ids) > limit:
        return MatchPage(_read(session, ids[:limit]), ids[limit - 1])
    return MatchPage(_read(session, ids), floor if floor > 1 else None)


def last_ids(wanted: MatchFilter, floor: int, end: int, limit: int) -> Select[int]:
    """Select the last `limit` ids in [floor, end) of the matches that are wanted."""
    conditions = [_within(wanted)]
    if wanted.kind is not None:
        conditions.append(Match.kind == wanted.kind)
    ways = [and_(*conditions, *seated) for seated in _seats(wanted.players)]
    return (_recorded if wanted.recorded else _among_all)(ways, floor, end, limit)


def _within(wanted: MatchFilter) -> ColumnElement[bool]:
    """Match an environment: by its players where they are named, so that nothing tempts to walk all its matches."""
    if not wanted.players:
        return Match.environment == wanted.environment
    return select(Player.id).where(Player.id == wanted.players[0], Player.environment == wanted.environment).exists()


def _recorded(ways: Sequence[ColumnElement[bool]], floor: int, end: int, limit: int) -> Select[int]:
    """Select the last ids of matches with a recording, beginning with recordings: of those there are few."""
    match = select(Match.id).where(Match.id == Replay.match_id, or_(*ways))
    recordings = select(Replay.match_id).where(Replay.match_id >= floor, Replay.match_id < end, match.exists())
    return recordings.order_by(Replay.match_id.desc()).limit(limit)


def _among_all(ways: Sequence[ColumnElement[bool]], floor: int, end: int, limit: int) -> Select[int]:
    """Select the last ids of matches, each way of sitting by an index of its own."""
    ids = select(Match.id).where(Match.id >= floor, Match.id < end).order_by(Match.id.desc()).limit(limit)
    found = union_all(*(select(ids.where(way).subquery()) for way in ways)).subquery()
    return select(found.c.id).distinct().order_by(found.c.id.desc()).limit(limit)


def _seats(players: tuple[int, ...]) -> list[list[ColumnElement[bool]]]:
    """Return the ways in which players may sit: a player on either side, two against each other."""
    if not players:
        return [[]]
    sides: tuple[InstrumentedAttribute[int], InstrumentedAttribute[int]] = (Match.home_id, Match.away_id)
    ways = (sides, sides[::-1])
    return [[side == player for side, player in zip(way, players, strict=False)] for way in ways]


def _read(session: Session, ids: Iterable[int]) -> list[MatchRow]:
    wanted = list(ids)
    recorded = select(Replay.match_id).where(Replay.match_id == Match.id).exists()
    query = select(Match, _HOME, _AWAY, _HOME_RATING, _AWAY_RATING, ~counting.excluded(), recorded)
    query = query.join(_HOME, _HOME.id == Match.home_id).join(_AWAY, _AWAY.id == Match.away_id)
    for rating, side in ((_HOME_RATING, Match.home_id), (_AWAY_RATING, Match.away_id)):
        joined = (rating.player_id == side) & (rating.period_id == _last_period(side))
        query = query.outerjoin(rating, joined)
    return [
        MatchRow(
            id=match.id,
            environment=match.environment,
            kind=match.kind,
            home=_seat(home, home_rating),
            away=_seat(away, away_rating),
            score=match.score,
            reason=match.reason,
            decisions=match.decisions,
            seed=match.seed,
            learner_step=match.learner_step,
            late=match.late,
            counts=counts,
            worker_id=match.worker_id,
            reported_at=match.reported_at,
            recorded=is_recorded,
        )
        for match, home, away, home_rating, away_rating, counts, is_recorded in session.execute(
            query.where(Match.id.in_(wanted)).order_by(Match.id.desc())
        )
    ]


def _last_period(player: InstrumentedAttribute[int]) -> ScalarSelect[int]:
    """Select the last period that rated a player before a match."""
    rated = select(Rating.period_id).join(Period, Period.id == Rating.period_id)
    rated = rated.where(Rating.player_id == player, Period.last_match_id < Match.id, Period.current_version())
    return rated.order_by(Rating.period_id.desc()).limit(1).correlate(Match).scalar_subquery()


def _seat(player: Player, rating: Rating | None) -> MatchPlayer:
    return MatchPlayer(
        player_id=player.id,
        name=player.name,
        call_sign=player.call_sign,
        rating=player.start_rating if rating is None else rating.rating,
        deviation=player.start_deviation if rating is None else rating.deviation,
    )
