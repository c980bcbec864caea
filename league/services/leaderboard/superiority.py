"""Likelihood of superiority (LOS) between frozen players, with 95 % intervals of their ratings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league import wire
from league.db.engine import Database
from league.db.models import Period, Player
from league.player_names import display_name
from league.services.environments import lookup as environments
from league.services.matches import pair_records
from league.services.population.cache import PopulationCache
from league.services.ratings import history_fit, rated_players
from league.settings import Settings

MOST = 500
"""Maximum number of compared players; the matrix grows with its square."""

_BAND = 1.959964  # half-width of a 95 % interval in standard deviations


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of the strongest N active frozen players, at most `MOST`, strongest first.

    Attributes:
        period_id: Last rated period; None before the first.
        players: The players.
        rating: (N,) in points.
        deviation: (N,) standard deviation of each rating, in points.
        superiority: (N, N) probability that the row player is stronger than the column player.
    """

    period_id: int | None
    players: Sequence[wire.PlayerName]
    rating: NDArray[np.float64]
    deviation: NDArray[np.float64]
    superiority: NDArray[np.float64]


def compare(
    database: Database, settings: Settings, cache: PopulationCache, environment: str | None
) -> tuple[str, Comparison]:
    """Return the name and the comparison of an environment, None for the only one; cached with the population.

    It is the fit of `arena.ratings.bradley_terry` to all rating matches up to the last period, even if the league does
    not store fits or does so rarely.

    Raises:
        InvalidRequestError: No environment is named, and the league has several or none.
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    with database.read() as session:
        chosen = environment or environments.only(session)
        environments.require_known(session, chosen)
        population = cache.get(session, chosen)
        # The fit is expensive and changes only with the population.
        return chosen, population.cached("superiority", lambda: _compare(session, settings, chosen))


def get_superiority(environment: str, compared: Comparison, limit: int) -> wire.Superiority:
    """Return the `limit` strongest players of a comparison as a response body."""
    rating, deviation = compared.rating[:limit], compared.deviation[:limit]
    return wire.Superiority(
        environment=environment,
        period_id=compared.period_id,
        players=list(compared.players[:limit]),
        ratings=rating.tolist(),
        deviations=deviation.tolist(),
        low=(rating - _BAND * deviation).tolist(),
        high=(rating + _BAND * deviation).tolist(),
        superiority=compared.superiority[:limit, :limit].tolist(),
    )


def _compare(session: Session, settings: Settings, environment: str) -> Comparison:
    rows = rated_players.list_frozen(session, environment)
    players = {player.id: player for player, _ in rows}
    fitted = history_fit.fit(
        {player.id: rated_players.entry_of(player, rating) for player, rating in rows},
        {player.id: player.parent_id for player, _ in rows},
        pair_records.read(session, environment),
        settings.refit,
    )
    order = np.argsort(-fitted.fit.rating, kind="stable").tolist()
    shown = [index for index in order if players[fitted.ids[index]].standing not in rated_players.OUT_OF_PLAY][:MOST]
    last = select(func.max(Period.id)).where(Period.environment == environment)
    return Comparison(
        period_id=session.scalar(last),
        players=[_name(players[fitted.ids[index]]) for index in shown],
        rating=fitted.fit.rating[shown],
        deviation=fitted.fit.deviation[shown],
        superiority=fitted.fit.superiority(np.array(shown, dtype=np.int64)),
    )


def _name(player: Player) -> wire.PlayerName:
    return wire.PlayerName(player_id=player.id, name=display_name(player))
