"""Queries of the match log: one match, and matches newest first by kind, players and recording."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, or_, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from league import wire
from league.db.models import Match, Period, Player, Rating, Replay
from league.errors import UnknownMatchError
from league.pagination import Page
from league.provisional import is_provisional
from league.services.matches import counting
from league.services.matches import log as match_log
from league.settings import Settings

SEARCHED = 100_000
"""Number of ids that one page searches for matches of a kind, so that a rare kind does not scan the whole log."""

_HOME, _AWAY = aliased(Player), aliased(Player)
_HOME_RATING, _AWAY_RATING = aliased(Rating), aliased(Rating)
LAST_ID = 2**63 - 1
"""Above the id of any match."""


@dataclass(frozen=True)
class MatchPlayer:
    """The player of a side, with its rating before the match."""

    player_id: int
    name: str
    call_sign: str | None
    rating: float
    deviation: float
    provisional: bool


@dataclass(frozen=True)
class MatchRow:
    """A match of the log.

    Attributes:
        lease_id: Lease of the match.
        sequence: Number of the match in its lease, from 0.
        score: Home score, in [0, 1].
        reason: Reason for the end of the match.
        decisions: Length of the match.
        learner_step: Step of the learner in a training match.
        late: Whether it was reported after its lease expired.
        counts: Whether its worker was trusted.
        period_id: Rating period of the match; None before it is rated, and for gate matches.
        recorded: Whether there is a recording.
    """

    id: int
    lease_id: str
    sequence: int
    environment: str
    kind: wire.MatchKind
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
    period_id: int | None
    recorded: bool


@dataclass(frozen=True)
class MatchFilter:
    """Conditions on the listed matches.

    Attributes:
        environment: None for all, if players are given.
        kind: None for every kind.
        players: Matches of this player, or of these two against each other; empty for all players.
        recorded: Whether to list only matches with a recording.
    """

    environment: str | None
    kind: wire.MatchKind | None = None
    players: tuple[int, ...] = ()
    recorded: bool = False


def get_match(session: Session, settings: Settings, match_id: int) -> MatchRow:
    """Return the match with an id.

    Raises:
        UnknownMatchError: There is no such match.
    """
    found = _read(session, settings, [match_id])
    if not found:
        raise UnknownMatchError(match_id, "no match has this id", "list matches with GET /matches")
    return found[0]


def list_matches(
    session: Session, settings: Settings, wanted: MatchFilter, limit: int, cursor: int | None = None
) -> Page[MatchRow]:
    """List matches newest first, before the cursor.

    For all players and one kind, a page searches the last `SEARCHED` ids and may therefore have fewer than `limit`
    matches.
    """
    floor, end = 0, LAST_ID if cursor is None else cursor
    if wanted.kind is not None and not (wanted.players or wanted.recorded):
        end = end if cursor is not None else match_log.end(session, wanted.environment or "") + 1
        floor = max(end - SEARCHED, 0)
    ids = sorted(session.scalars(last_ids(wanted, floor, end, limit + 1)), reverse=True)
    page = Page.cut(ids, limit, int)
    further = page.next_cursor or (str(floor) if floor > 1 else None)
    return Page(_read(session, settings, page.items), further)


def last_ids(wanted: MatchFilter, floor: int, end: int, limit: int) -> Select[int]:
    """Select the last `limit` ids in [floor, end) of the matches that pass the filter."""
    conditions = [_within(wanted)]
    if wanted.kind is not None:
        conditions.append(Match.kind == wanted.kind)
    ways = [and_(*conditions, *seated) for seated in _seats(wanted.players)]
    return (_recorded if wanted.recorded else _among_all)(ways, floor, end, limit)


def _within(wanted: MatchFilter) -> ColumnElement[bool]:
    """Return the condition on the environment; with players it does not refer to matches, so no plan scans them all."""
    if not wanted.players:
        return Match.environment == wanted.environment
    player = select(Player.id).where(Player.id == wanted.players[0])
    return (player if wanted.environment is None else player.where(Player.environment == wanted.environment)).exists()


def _recorded(ways: Sequence[ColumnElement[bool]], floor: int, end: int, limit: int) -> Select[int]:
    """Select the last ids of matches with a recording, starting from the recordings, which are few."""
    match = select(Match.id).where(Match.id == Replay.match_id, or_(*ways))
    recordings = select(Replay.match_id).where(Replay.match_id >= floor, Replay.match_id < end, match.exists())
    return recordings.order_by(Replay.match_id.desc()).limit(limit)


def _among_all(ways: Sequence[ColumnElement[bool]], floor: int, end: int, limit: int) -> Select[int]:
    """Select the last ids of matches, with one index scan per assignment of sides."""
    ids = select(Match.id).where(Match.id >= floor, Match.id < end).order_by(Match.id.desc()).limit(limit)
    # Each branch has the limit: its index scan stops there, while a condition with OR over both sides would scan more.
    found = union_all(*(select(ids.where(way).subquery()) for way in ways)).subquery()
    # A match of a player against itself is found once for each side.
    return select(found.c.id).distinct().order_by(found.c.id.desc()).limit(limit)


def _seats(players: tuple[int, ...]) -> list[list[ColumnElement[bool]]]:
    """Return the possible assignments of sides: one player on either side, two players either way round."""
    if not players:
        return [[]]
    sides: tuple[InstrumentedAttribute[int], InstrumentedAttribute[int]] = (Match.home_id, Match.away_id)
    ways = (sides, sides[::-1])
    return [[side == player for side, player in zip(way, players, strict=False)] for way in ways]


def _read(session: Session, settings: Settings, ids: Iterable[int]) -> list[MatchRow]:
    wanted = list(ids)
    recorded = select(Replay.match_id).where(Replay.match_id == Match.id).exists()
    entities = Match, _HOME, _AWAY, _HOME_RATING, _AWAY_RATING
    query = select(*entities, ~counting.excluded(), _rating_period(), recorded)
    query = query.join(_HOME, _HOME.id == Match.home_id).join(_AWAY, _AWAY.id == Match.away_id)
    for rating, side in ((_HOME_RATING, Match.home_id), (_AWAY_RATING, Match.away_id)):
        query = query.outerjoin(rating, rating.id == _last_rating(side))
    return [
        MatchRow(
            id=match.id,
            lease_id=match.lease_id,
            sequence=match.sequence,
            environment=match.environment,
            kind=match.kind,
            home=_seat(home, home_rating, settings),
            away=_seat(away, away_rating, settings),
            score=match.score,
            reason=match.reason,
            decisions=match.decisions,
            seed=match.seed,
            learner_step=match.learner_step,
            late=match.late,
            counts=counts,
            worker_id=match.worker_id,
            reported_at=match.reported_at,
            period_id=period_id,
            recorded=is_recorded,
        )
        for match, home, away, home_rating, away_rating, counts, period_id, is_recorded in session.execute(
            query.where(Match.id.in_(wanted)).order_by(Match.id.desc())
        )
    ]


def _rating_period() -> ScalarSelect[int]:
    """Select the rating period of a match."""
    # Periods are ranges of match ids, so the first one that ends at or after the match includes it.
    including = select(Period.id).where(Period.environment == Match.environment, Period.last_match_id >= Match.id)
    current = including.where(Period.current_version(), Match.kind != counting.GATE)
    return current.order_by(Period.last_match_id, Period.id).limit(1).correlate(Match).scalar_subquery()


def _last_rating(player: InstrumentedAttribute[int]) -> ScalarSelect[int]:
    """Select a player's last overall rating before a match."""
    rated = select(Rating.id).join(Period, Period.id == Rating.period_id)
    rated = rated.where(Rating.player_id == player, Rating.side.is_(None))
    rated = rated.where(Period.last_match_id < Match.id, Period.current_version())
    return rated.order_by(Rating.period_id.desc()).limit(1).correlate(Match).scalar_subquery()


def _seat(player: Player, rating: Rating | None, settings: Settings) -> MatchPlayer:
    deviation = player.start_deviation if rating is None else rating.deviation
    return MatchPlayer(
        player_id=player.id,
        name=player.name,
        call_sign=player.call_sign,
        rating=player.start_rating if rating is None else rating.rating,
        deviation=deviation,
        provisional=is_provisional(player.kind, deviation if rating is None else rating.uncertainty, settings),
    )
