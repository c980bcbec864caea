"""Profile of a player: its rating curve, and its results against each opponent."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.glicko2 import expected_score
from arena.payoff import wilson_interval
from league.db.bulk_insert import among
from league.db.models import Period, Player, Rating
from league.services.matches import pair_records
from league.services.player_names import display_name
from league.services.ratings import rated_players


@dataclass(frozen=True)
class CurvePoint:
    """A player's rating after a period.

    Attributes:
        number: Of the period.
        closed_at: When it was closed.
        rating: On the Glicko scale.
        deviation: RD.
        games: Rated ones so far.
    """

    number: int
    closed_at: datetime
    rating: float
    deviation: float
    games: int


@dataclass(frozen=True)
class Opponent:
    """An opponent, and a player's record against it up to the last period.

    Attributes:
        id: Of the opponent.
        name: Call-sign, or name.
        kind: What it is.
        standing: Of a snapshot.
        rating: Its own.
        deviation: RD of that.
        matches: Plain number of them.
        win_rate: Mean score, in [0, 1]; matches of a learner fade.
        low: Lower end of the 95 % interval of the win rate.
        high: Upper end.
        expected: Win rate that the ratings predict.
    """

    id: int
    name: str
    kind: str
    standing: str | None
    rating: float
    deviation: float
    matches: int
    win_rate: float
    low: float
    high: float
    expected: float


def curve(session: Session, player_id: int, most: int) -> list[CurvePoint]:
    """Follow a player's rating, oldest period first; of very many points every so many are left out, the last never.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    rated_players.require(session, player_id)
    number = func.row_number().over(order_by=Rating.period_id.desc()).label("number")
    own = select(Rating.period_id, number).join(Period, Period.id == Rating.period_id)
    own = own.where(Rating.player_id == player_id, Period.current_version())
    numbered = own.subquery()
    points = session.scalar(select(func.count()).select_from(numbered)) or 0
    apart = max(1, -(-points // most))
    columns = Period.number, Period.closed_at, Rating.rating, Rating.deviation, Rating.games
    query = select(*columns).join(Period, Period.id == Rating.period_id)
    query = query.join(numbered, numbered.c.period_id == Rating.period_id)
    query = query.where(Rating.player_id == player_id, (numbered.c.number - 1) % apart == 0)
    return [CurvePoint(*row) for row in session.execute(query.order_by(Rating.period_id))]


def opponents(session: Session, player_id: int, limit: int) -> tuple[list[Opponent], int]:
    """Return whom a player met, most matches first, and how many there are in all.

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
    everybody = [found[each] for each in (player_id, *chosen)]
    tally, matches = pair_records.against(records, player_id, chosen)
    low, high = wilson_interval(tally)
    places = np.arange(1, len(everybody))
    expected = expected_score(rated_players.ratings(everybody), np.zeros_like(places), places)
    met = [
        Opponent(
            id=player.id,
            name=display_name(player),
            kind=player.kind,
            standing=player.standing,
            rating=player.start_rating if rating is None else rating.rating,
            deviation=player.start_deviation if rating is None else rating.deviation,
            matches=int(matches[place]),
            win_rate=float(tally.points[place] / tally.games[place]),
            low=float(low[place]),
            high=float(high[place]),
            expected=float(expected[place]),
        )
        for place, (player, rating) in enumerate(everybody[1:])
    ]
    return met, len(records)
