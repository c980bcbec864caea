"""What pairs of players scored against each other: kept up to the last closed period, read up to now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from league import wire
from league.db.models import Payoff, Period, Player
from league.db.upsert import insert_into
from league.services import match_log, standings
from league.services.match_log import Games

Pair = tuple[int, int]
_CHUNK = 500


@dataclass(frozen=True)
class Count:
    """A pair's record from the view of the lower id; see `league.db.models.Payoff`."""

    matches: int = 0
    games: float = 0.0
    points: float = 0.0
    wins: float = 0.0
    draws: float = 0.0
    losses: float = 0.0

    def turned(self) -> "Count":
        """Return the record from the other side."""
        return Count(self.matches, self.games, self.games - self.points, self.losses, self.draws, self.wins)


UNPLAYED = Count()


def advance(counts: Mapping[Pair, Count], games: Games) -> dict[Pair, Count]:
    """Add matches, newest last, to the records; return those that changed."""
    apart = games.home != games.away
    home, away, learning = games.home[apart], games.away[apart], games.training[apart]
    low, high = np.minimum(home, away), np.maximum(home, away)
    score = np.where(home == low, games.score[apart], 1.0 - games.score[apart])
    pairs, cell = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    new = arithmetic.tally(cell, score, learning, len(pairs))
    matches = np.bincount(cell, minlength=len(pairs))
    kept = arithmetic.DECAY ** np.bincount(cell, weights=learning, minlength=len(pairs))
    changed: dict[Pair, Count] = {}
    for place, (first, second) in enumerate(pairs.tolist()):
        old, share = counts.get((first, second), UNPLAYED), float(kept[place])
        changed[first, second] = Count(
            matches=old.matches + int(matches[place]),
            games=old.games * share + float(new.games[place]),
            points=old.points * share + float(new.points[place]),
            wins=old.wins * share + float(new.wins[place]),
            draws=old.draws * share + float(new.draws[place]),
            losses=old.losses * share + float(new.losses[place]),
        )
    return changed


def stored(session: Session, environment: str) -> dict[Pair, Count]:
    """Read the records up to the last closed period."""
    numbers = Payoff.matches, Payoff.games, Payoff.points, Payoff.wins, Payoff.draws, Payoff.losses
    rows = session.execute(select(Payoff.low_id, Payoff.high_id, *numbers).where(Payoff.environment == environment))
    return {(row[0], row[1]): Count(*row[2:]) for row in rows}


def current(session: Session, environment: str) -> dict[Pair, Count]:
    """Read the records up to now, open matches included."""
    closed = session.scalar(select(func.max(Period.last_match_id)).where(Period.environment == environment))
    counts = stored(session, environment)
    return counts | advance(counts, match_log.read(session, environment, closed or 0, None))


def write(session: Session, environment: str, changed: Mapping[Pair, Count]) -> None:
    """Keep changed records."""
    rows = [_row(environment, pair, count) for pair, count in sorted(changed.items())]
    columns = ("matches", "games", "points", "wins", "draws", "losses")
    for start in range(0, len(rows), _CHUNK):
        statement = insert_into(session, Payoff).values(rows[start : start + _CHUNK])
        update = {column: statement.excluded[column] for column in columns}
        session.execute(statement.on_conflict_do_update(index_elements=["low_id", "high_id"], set_=update))


def rewrite(session: Session, environment: str, counts: Mapping[Pair, Count]) -> None:
    """Replace all records of an environment."""
    session.execute(delete(Payoff).where(Payoff.environment == environment))
    write(session, environment, counts)


def against(counts: Mapping[Pair, Count], player: int, opponents: Iterable[int]) -> list[Count]:
    """Return a player's record against each opponent, from its view."""
    return [
        counts.get((player, other), UNPLAYED) if player < other else counts.get((other, player), UNPLAYED).turned()
        for other in opponents
    ]


def tally(counts: Sequence[Count]) -> arithmetic.Tally:
    """Return K records as columns of shape (K,)."""
    rows = np.array([_numbers(count) for count in counts], dtype=np.float64).reshape(-1, 5)
    return arithmetic.Tally(*rows.T)


def matrix(counts: Mapping[Pair, Count], players: Sequence[int]) -> tuple[arithmetic.Tally, NDArray[np.int64]]:
    """Return the records among P players as a tally of shape (P, P), and the plain numbers of matches."""
    place = {player: index for index, player in enumerate(players)}
    table = np.zeros((5, len(players), len(players)))
    matches = np.zeros((len(players), len(players)), dtype=np.int64)
    for (low, high), count in counts.items():
        if low in place and high in place:
            row, column = place[low], place[high]
            table[:, row, column], table[:, column, row] = _numbers(count), _numbers(count.turned())
            matches[row, column] = matches[column, row] = count.matches
    return arithmetic.Tally(*table), matches


def table(session: Session, environment: str, limit: int) -> wire.Payoff:
    """Show who beats whom among those in play, the `limit` highest conservative ratings first."""
    query = standings.rated().where(Player.environment == environment, standings.in_play())
    found = session.execute(query.order_by(standings.conservative().desc(), Player.id).limit(limit)).all()
    players = [player for player, _ in found]
    counts, matches = matrix(current(session, environment), [player.id for player in players])
    joined = arithmetic.payoff(counts, standings.ratings(found))
    return wire.Payoff(
        environment=environment,
        players=[wire.PlayerName(player_id=player.id, name=player.name) for player in players],
        names=[player.call_sign or player.name for player in players],
        win_rates=joined.win_rate.tolist(),
        counts=matches.tolist(),
        intransitivity=joined.cyclic,
    )


def _numbers(count: Count) -> tuple[float, float, float, float, float]:
    return count.games, count.points, count.wins, count.draws, count.losses


def _row(environment: str, pair: Pair, count: Count) -> dict[str, Any]:
    low, high = pair
    return {
        "low_id": low,
        "high_id": high,
        "environment": environment,
        "matches": count.matches,
        "games": count.games,
        "points": count.points,
        "wins": count.wins,
        "draws": count.draws,
        "losses": count.losses,
    }
