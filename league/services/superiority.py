"""How sure the league is of its order: bands around ratings, and who is likely to be stronger than whom."""

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league import wire
from league.config import Settings
from league.db.models import Period, Player
from league.services import learners, payoffs, periods, refit, standings

_BAND = 1.959964  # standard deviations to either side that hold 95 %


def table(session: Session, settings: Settings, environment: str, limit: int) -> wire.Superiority:
    """Fit all rating matches up to the last period, and compare those in play, the `limit` highest ratings first.

    The fit is the one of `arena.refit`, made now and therefore of the last period, also where the league stores fits
    rarely or not at all.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    learners.require_environment(session, environment)
    rows = session.execute(standings.rated().where(Player.environment == environment, Player.kind != "learner")).all()
    players = {player.id: player for player, _ in rows}
    fitted = refit.fit(
        {player.id: periods.entry_of(player, rating) for player, rating in rows},
        {player.id: player.parent_id for player, _ in rows},
        payoffs.read(session, environment),
        settings.refit,
    )
    order = np.argsort(-fitted.fit.rating, kind="stable").tolist()
    shown = [place for place in order if players[fitted.ids[place]].standing not in standings.OUT_OF_PLAY][:limit]
    rating, deviation = fitted.fit.rating[shown], fitted.fit.deviation[shown]
    last = select(func.max(Period.id)).where(Period.environment == environment)
    return wire.Superiority(
        environment=environment,
        period_id=session.scalar(last),
        players=[_name(players[fitted.ids[place]]) for place in shown],
        ratings=rating.tolist(),
        deviations=deviation.tolist(),
        low=(rating - _BAND * deviation).tolist(),
        high=(rating + _BAND * deviation).tolist(),
        superiority=fitted.fit.superiority()[np.ix_(shown, shown)].tolist(),
    )


def _name(player: Player) -> wire.PlayerName:
    return wire.PlayerName(player_id=player.id, name=player.call_sign or player.name)
