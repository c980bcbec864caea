"""Profile of a player: its rating curve, and its results against each opponent."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from arena.evaluation.payoff import wilson_interval
from league import wire
from league.db.bulk_insert import among
from league.db.models import Period, Player, Rating
from league.pagination import Page, paginate
from league.player_names import display_name
from league.provisional import is_provisional
from league.services.leaderboard import deviations
from league.services.leaderboard.deviations import PairDeviation
from league.services.matches import pair_records
from league.services.population.cache import PopulationCache
from league.services.ratings import rated_players
from league.services.ratings.period import RatingConfig
from league.settings import Settings


@dataclass(frozen=True)
class Opponent:
    """An opponent with a player's record against it up to the last period.

    Attributes:
        id: Id of the opponent.
        name: Its call-sign or name.
        kind: Its kind.
        standing: Its standing, for snapshots.
        rating: Its rating.
        deviation: Its rating deviation (RD).
        provisional: Whether its interval is too wide for a promotion.
        matches: Number of matches.
        win_rate: Mean score, in [0, 1]; a learner's older matches are discounted.
        low: Lower end of the 95 % interval of the win rate.
        high: Upper end.
        expected: Win rate predicted by the pair model.
        disagreement: The deviation of the results from ratings or prediction; None if chance explains it.
    """

    id: int
    name: str
    kind: str
    standing: str | None
    rating: float
    deviation: float
    provisional: bool
    matches: int
    win_rate: float
    low: float
    high: float
    expected: float
    disagreement: PairDeviation | None


def list_ratings(session: Session, player_id: int, limit: int, cursor: int = 0) -> Page[wire.RatingPoint]:
    """List a player's ratings over the periods that changed them, oldest first, after the cursor.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    rated_players.require(session, player_id)
    query = paginate(_ratings(player_id), Rating.period_id, cursor, limit)
    return Page.cut(_points(session, query), limit, attrgetter("period_id"))


def get_rating_curve(session: Session, player_id: int, max_points: int) -> list[wire.RatingPoint]:
    """Return a player's ratings, oldest first, thinned to every k-th one, counted back from the last.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    rated_players.require(session, player_id)
    own = _ratings(player_id).with_only_columns(
        # Counted from the newest, so that the last point is always shown and earlier ones do not move as points are
        # added.
        Rating.period_id,
        func.row_number().over(order_by=Rating.period_id.desc()).label("number"),
    )
    numbered = own.subquery()
    points = session.scalar(select(func.count()).select_from(numbered)) or 0
    step = max(1, -(-points // max_points))
    query = _ratings(player_id).join(numbered, numbered.c.period_id == Rating.period_id)
    return _points(session, query.where((numbered.c.number - 1) % step == 0).order_by(Rating.period_id))


def list_opponents(
    session: Session, settings: Settings, cache: PopulationCache, player_id: int, limit: int
) -> tuple[list[Opponent], int]:
    """Return a player's opponents, most matches first, and their total number.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    rated_players.require(session, player_id)
    records = pair_records.of_player(session, player_id)
    ids = np.where(records.low == player_id, records.high, records.low)
    most = np.lexsort((ids, -records.matches))[:limit]
    chosen = ids[most].tolist()
    rows = session.execute(rated_players.rated().where(among(session, Player.id, [player_id, *chosen]))).all()
    found = {row[0].id: row for row in rows}
    players = [found[each] for each in (player_id, *chosen)]
    counts, matches = pair_records.against(records, player_id, chosen)
    low, high = wilson_interval(counts)
    population = cache.of_player(session, player_id)
    indices = np.array([population.index(each) for each in chosen], dtype=np.int64)
    expected = population.expected(np.full(indices.size, population.index(player_id)), indices)
    deviating = deviations.get_deviations(session, cache, population.environment)
    ratings = rated_players.ratings(players[1:])
    opponents = [
        Opponent(
            id=player.id,
            name=display_name(player),
            kind=player.kind,
            standing=player.standing,
            rating=float(ratings.rating[index]),
            deviation=float(ratings.deviation[index]),
            provisional=is_provisional(player.kind, rated_players.standard_error(player, rating), settings),
            matches=int(matches[index]),
            win_rate=float(counts.points[index] / counts.games[index]),
            low=float(low[index]),
            high=float(high[index]),
            expected=float(expected[index]),
            disagreement=deviating.find(player_id, player.id),
        )
        for index, (player, rating) in enumerate(players[1:])
    ]
    return opponents, len(records)


def _ratings(player_id: int) -> "Select[Rating, Period]":
    query = select(Rating, Period).join(Period, Period.id == Rating.period_id)
    return query.where(Rating.player_id == player_id, Rating.side.is_(None), Period.current_version())


def _points(session: Session, query: "Select[Rating, Period]") -> list[wire.RatingPoint]:
    return [
        wire.RatingPoint.of(
            rating,
            period_id=period.id,
            number=period.number,
            config_id=RatingConfig.restored(period.rule).id,
            closed_at=period.closed_at,
        )
        for rating, period in session.execute(query)
    ]
