"""Numbers of players, matches and periods per environment, for monitoring."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league.db.models import Environment, Match, Period, Player
from league.services.environments import lookup as environments
from league.services.leaderboard import regressions
from league.services.matches import counting
from league.services.ratings import pair_predictions

OTHERS = "(others)"
"""Label of the sum over environments that are not shown one by one."""

Group = tuple[str, str, str]
"""Environment, kind of player and standing; empty without one."""


@dataclass(frozen=True)
class PopulationCounts:
    """Counts by environment; environments that are not shown one by one are summed under `OTHERS`.

    Attributes:
        environments: Number of environments.
        players: Number of players by environment, kind and standing.
        periods: Number of closed rating periods.
        lag_s: Age of the oldest match still to be rated, 0 without one; the maximum for `OTHERS`.
        regressions: Number of active regression alarms.
        rms_z: Root mean square of z of the pair model, by environment that is shown and has enough games.
    """

    environments: int
    players: Mapping[Group, int]
    periods: Mapping[str, int]
    lag_s: Mapping[str, float]
    regressions: Mapping[str, int]
    rms_z: Mapping[str, float]


def count(session: Session, shown_max: int, now: datetime) -> PopulationCounts:
    """Count everything with a number of statements that does not depend on the number of environments.

    Args:
        session: A read transaction.
        shown_max: Number of environments shown one by one, most recently played first.
        now: Time of the call.
    """
    shown = set(environments.last_played(session, shown_max))
    players: Counter[Group] = Counter()
    for environment, kind, standing, number in _grouped(session, Player.environment, Player.kind, Player.standing):
        players[_label(environment, shown), kind, standing or ""] += number
    periods: Counter[str] = Counter()
    for environment, number in _grouped(session, Period.environment):
        periods[_label(environment, shown)] += number
    lag_s: dict[str, float] = {}
    alarms = dict.fromkeys(shown, 0)
    for environment, seconds in _lags_s(session, now).items():
        label = _label(environment, shown)
        lag_s[label] = max(lag_s.get(label, 0.0), seconds)
    for environment, number in regressions.count(session).items():
        label = _label(environment, shown)
        alarms[label] = alarms.get(label, 0) + number
    rms_z = {name: value for name, value in pair_predictions.all_rms_z(session).items() if name in shown}
    return PopulationCounts(environments.count(session), players, periods, lag_s, alarms, rms_z)


def _label(environment: str, shown: set[str]) -> str:
    return environment if environment in shown else OTHERS


def _grouped(session: Session, *columns: Any) -> list[Any]:  # noqa: ANN401 - columns of one table, and its rows
    """Return each combination of values of these columns with its number of rows."""
    return list(session.execute(select(*columns, func.count()).group_by(*columns)))


def _lags_s(session: Session, now: datetime) -> dict[str, float]:
    """Return the age of the oldest match still to be rated, by environment."""
    name = Environment.name
    last = select(func.max(Period.last_match_id)).where(Period.environment == name).correlate(Environment)
    after = Match.id > func.coalesce(last.scalar_subquery(), 0)
    waiting = Match.environment == name, after, *counting.rated(session)
    # Correlated with LIMIT 1: one index look-up per environment instead of a scan of the log.
    oldest = select(Match.reported_at).where(*waiting).order_by(Match.id).limit(1).correlate(Environment)
    rows = session.execute(select(name, oldest.scalar_subquery()).where(Environment.signature.is_not(None)))
    return {name: 0.0 if since is None else (now - since).total_seconds() for name, since in rows}
