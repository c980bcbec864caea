"""Export of an environment's results: rating matches of all frozen players, for `arena report`."""

from importlib.metadata import version

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.evaluation.results_file import PairResults
from league.db.models import Period
from league.services.environments import lookup as environments
from league.services.matches import pair_records
from league.services.ratings import history_fit, rated_players
from league.settings import Settings


def read_results(session: Session, settings: Settings, environment: str | None) -> PairResults:
    """Return the rating matches of an environment's frozen players up to the last period.

    Args:
        session: A transaction.
        settings: Settings of the whole-history fit.
        environment: Name of the environment; None for the only one.

    Raises:
        InvalidRequestError: No environment is named, and the league has several or none.
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    chosen = environment or environments.only(session)
    environments.require_known(session, chosen)
    rows = rated_players.list_frozen(session, chosen)
    names = {player.id: player.name for player, _ in rows}
    history = history_fit.history(
        {player.id: rated_players.entry_of(player, rating) for player, rating in rows},
        {player.id: player.parent_id for player, _ in rows},
        pair_records.read(session, chosen),
    )
    period = session.scalar(select(func.max(Period.number)).where(Period.environment == chosen))
    return PairResults(
        environment=chosen,
        names=tuple(names[player_id] for player_id in history.ids),
        start=history.start,
        anchor=history.anchor,
        parent=history.parent,
        games=history.results,
        config=settings.refit,
        source={
            "command": "league export --results",
            "rating_period": period,
            "player_ids": list(history.ids),
            "version": version("echelon-league"),
        },
    )
