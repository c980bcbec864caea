"""Numbers of players, matches and periods in each environment, for monitoring."""

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

OTHERS = "(others)"
"""Stands for the environments that are not shown one by one."""

Group = tuple[str, str, str]
"""An environment, a kind of players and a standing, empty where they have none."""


@dataclass(frozen=True)
class PopulationCounts:
    """Numbers by environment; those that are not shown one by one are together under `OTHERS`.

    Attributes:
        environments: How many there are.
        players: Their number by environment, kind and standing.
        periods: Closed rating periods.
        lag_s: Age of the oldest match that is to be rated, 0 where there is none; of `OTHERS` the greatest.
        regressions: Alarms that are on.
    """

    environments: int
    players: Mapping[Group, int]
    periods: Mapping[str, int]
    lag_s: Mapping[str, float]
    regressions: Mapping[str, int]


def count(session: Session, shown_max: int, now: datetime) -> PopulationCounts:
    """Count everything, in a number of statements that does not depend on the number of environments.

    Args:
        session: Reads the tables.
        shown_max: How many environments are shown one by one: those that were played last.
        now: The time of the call.
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
    return PopulationCounts(environments.count(session), players, periods, lag_s, alarms)


def _label(environment: str, shown: set[str]) -> str:
    return environment if environment in shown else OTHERS


def _grouped(session: Session, *columns: Any) -> list[Any]:  # noqa: ANN401 - columns of one table, and its rows
    """Return each combination of values of these columns with its number of rows."""
    return list(session.execute(select(*columns, func.count()).group_by(*columns)))


def _lags_s(session: Session, now: datetime) -> dict[str, float]:
    """Return the age of the oldest match of each environment that is to be rated and that no period has taken in."""
    name = Environment.name
    last = select(func.max(Period.last_match_id)).where(Period.environment == name).correlate(Environment)
    after = Match.id > func.coalesce(last.scalar_subquery(), 0)
    waiting = Match.environment == name, after, *counting.rated(session)
    oldest = select(Match.reported_at).where(*waiting).order_by(Match.id).limit(1).correlate(Environment)
    rows = session.execute(select(name, oldest.scalar_subquery()).where(Environment.signature.is_not(None)))
    return {name: 0.0 if since is None else (now - since).total_seconds() for name, since in rows}
