"""Likelihood of superiority (LOS) between frozen players, with 95 % intervals of their ratings."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.refit import Fit
from league import wire
from league.db.engine import Database
from league.db.models import Period, Player
from league.services.environments import lookup as environments
from league.services.matches import pair_records
from league.services.player_names import display_name
from league.services.population import cache as population_cache
from league.services.population.cache import Version
from league.services.rating_periods import closing
from league.services.ratings import history_fit, rated_players
from league.settings import Settings

MOST = 500
"""Players that are compared: the square of their number is kept and sent."""

_ENVIRONMENTS = 8
_BAND = 1.959964  # standard deviations to either side that hold 95 %


@dataclass(frozen=True, eq=False)
class Comparison:
    """The strongest N frozen players in play, at most `MOST`, strongest first.

    Attributes:
        period_id: The last period whose matches count; None before the first.
        players: Who.
        rating: (N,) in points.
        deviation: (N,) standard deviation of each rating, in points.
        superiority: (N, N) probability that the row's player is stronger than the column's.
    """

    period_id: int | None
    players: Sequence[wire.PlayerName]
    rating: NDArray[np.float64]
    deviation: NDArray[np.float64]
    superiority: NDArray[np.float64]


class SuperiorityCache:
    """The last comparison of some environments, made anew where the population has changed, one at a time."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._kept: OrderedDict[str, tuple[Version, Comparison]] = OrderedDict()

    def of(self, database: Database, settings: Settings, environment: str | None) -> tuple[str, Comparison]:
        """Return the name and the comparison of an environment, None being the only one.

        The fit is the one of `arena.refit`, made of all rating matches up to the last period, also where the league
        stores fits rarely or not at all.

        Raises:
            InvalidRequestError: None is named, and there are several or none.
            UnknownEnvironmentError: The league plays other environments, but not this one.
        """
        with self._making, database.read() as session:
            chosen = environment or environments.only(session)
            environments.require_known(session, chosen)
            version = population_cache.version(session)
            kept = self._kept.pop(chosen, None)
            if kept is None or kept[0] != version:
                kept = version, _compare(session, settings, chosen)
            self._kept[chosen] = kept  # as the last one that was asked for
            if len(self._kept) > _ENVIRONMENTS:
                self._kept.popitem(last=False)
        return chosen, kept[1]


def get_superiority(environment: str, compared: Comparison, limit: int) -> wire.Superiority:
    """Return the `limit` strongest of a comparison as the wire has them."""
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
    rows = session.execute(
        rated_players.rated().where(Player.environment == environment, Player.kind != "learner")
    ).all()
    players = {player.id: player for player, _ in rows}
    records = pair_records.read(session, environment)
    fitted = history_fit.fit(
        {player.id: closing.entry_of(player, rating) for player, rating in rows},
        {player.id: player.parent_id for player, _ in rows},
        records,
        settings.refit,
        closing.offsets(session, environment, records),
    )
    order = np.argsort(-fitted.fit.rating, kind="stable").tolist()
    shown = [place for place in order if players[fitted.ids[place]].standing not in rated_players.OUT_OF_PLAY][:MOST]
    among = Fit(fitted.fit.rating[shown], fitted.fit.covariance[np.ix_(shown, shown)])
    last = select(func.max(Period.id)).where(Period.environment == environment)
    return Comparison(
        period_id=session.scalar(last),
        players=[_name(players[fitted.ids[place]]) for place in shown],
        rating=among.rating,
        deviation=among.deviation,
        superiority=among.superiority(),
    )


def _name(player: Player) -> wire.PlayerName:
    return wire.PlayerName(player_id=player.id, name=display_name(player))
