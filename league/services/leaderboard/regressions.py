"""Regressions: learners with the role `main` that lose to snapshots which they beat before.

After a rating period, each main's last matches against every snapshot are split into an older and a newer half. An
alarm is recorded in the audit log once when it starts, and once when it ends because the main no longer loses on
average. It does not end merely because the main's wins have left the older half. The audit log determines which alarms
are active.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena.evaluation.forgetting import regressions
from arena.evaluation.payoff import WinCounts, wilson_interval
from arena.matchmaking.rules import WinRateHistory
from league import wire
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Event, Player
from league.player_names import display_name
from league.services.audit import log as audit_log
from league.services.audit.log import RULE, Cause
from league.services.environments import lookup as environments
from league.services.matches import log as match_log
from league.services.population import cache as population_cache
from league.services.population import role_config, rule_inputs
from league.services.population.cache import REMARKS, Population
from league.services.ratings import rated_players
from league.settings import Settings

FOUND, OVER = REMARKS
"""Kinds of events for the start and end of an alarm."""

_DIGITS = 4  # decimal places of a share

Pair = tuple[int, int]
"""Player ids of a learner and of a snapshot."""


@dataclass(frozen=True, eq=False)
class _MainScores:
    """Scores of a main against snapshots."""

    learner_id: int
    opponents: Sequence[int]
    pasts: WinRateHistory

    def found(self) -> list[int]:
        """Return the indices of the snapshots that it beat before and now loses to."""
        indices: list[int] = np.flatnonzero(regressions(self.pasts.earlier, self.pasts.recent)).tolist()
        return indices

    def losing(self) -> set[int]:
        """Return the ids of the snapshots that it loses to on average, regardless of earlier results."""
        losing = self.pasts.recent.points < 0.5 * self.pasts.recent.games
        return {self.opponents[index] for index in np.flatnonzero(losing).tolist()}


def update_alarms(database: Database, settings: Settings, environment: str, now: datetime) -> None:
    """Start and end the alarms of an environment that are due."""
    with database.read() as session:
        population = population_cache.load(session, environment)
        scores = [_read_scores(session, settings, population, index) for index in _mains(population)]
        known = active(session, environment)
    if not any(_pending_events(each, known) for each in scores):
        return
    with database.write() as session:
        # Every background process analyses, so the log is read again under the lock to record each alarm once.
        locks.acquire(session, Lock.EVENTS)
        known = active(session, environment)
        for each in scores:
            for kind, opponent in _pending_events(each, known):
                _record(session, environment, kind, each, opponent, now)


def list_regressions(session: Session, environment: str | None) -> list[wire.Regression]:
    """List the active alarms, oldest first.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    environments.require_known(session, environment)
    chosen = environments.names(session) if environment is None else [environment]
    found = [event for each in chosen for event in active(session, each).values()]
    return [_body(session, event) for event in sorted(found, key=lambda event: event.id)]


def active(session: Session, environment: str) -> Mapping[Pair, Event]:
    """Return the events of active alarms by learner and snapshot."""
    query = select(Event).where(Event.environment == environment, Event.kind.in_((FOUND, OVER))).order_by(Event.id)
    last = {(event.player_id or 0, event.details["against"]): event for event in session.scalars(query)}
    return {pair: event for pair, event in last.items() if event.kind == FOUND}


def count(session: Session) -> Mapping[str, int]:
    """Return the number of active alarms by environment."""
    columns = Event.environment, Event.player_id, Event.kind, Event.details
    query = select(*columns).where(Event.kind.in_((FOUND, OVER)), Event.environment.is_not(None)).order_by(Event.id)
    last = {(game, player, details["against"]): kind for game, player, kind, details in session.execute(query)}
    return Counter(game for (game, _, _), kind in last.items() if kind == FOUND)


def _mains(population: Population) -> list[int]:
    return [
        index for index, member in enumerate(population.members) if member.kind == "learner" and member.role == "main"
    ]


def _read_scores(session: Session, settings: Settings, population: Population, index: int) -> _MainScores:
    main = population.members[index]
    opponents = [
        member.id
        for member in population.members
        if member.kind == "snapshot"
        and member.signature == main.signature
        and member.standing not in rated_players.OUT_OF_PLAY
    ]
    through = match_log.rated_through(session, population.environment)
    most = settings.matchmaking.past_games
    # A reset learner starts again from other weights, so its earlier results say nothing about forgetting.
    reset_step = role_config.began_step(session, main.id)
    games = match_log.last_of(session, main.id, through, most, from_step=reset_step)
    return _MainScores(main.id, opponents, rule_inputs.win_rate_history(games, main.id, opponents))


def _pending_events(scores: _MainScores, known: Mapping[Pair, Event]) -> list[tuple[str, int]]:
    """Return the events that are not in the audit log yet: kinds with the ids of snapshots."""
    on = {opponent for learner, opponent in known if learner == scores.learner_id}
    found = {scores.opponents[index] for index in scores.found()}
    over = on - found - scores.losing()
    return [*((FOUND, each) for each in sorted(found - on)), *((OVER, each) for each in sorted(over))]


def _record(session: Session, environment: str, kind: str, scores: _MainScores, opponent: int, now: datetime) -> None:
    name = session.scalars(select(Player.name).where(Player.id == opponent)).one()
    reason = f"{name} is no longer active"
    details: dict[str, Any] = {"against": opponent}
    if opponent in scores.opponents:
        index = scores.opponents.index(opponent)
        earlier, recent = (_score(counts, index) for counts in (scores.pasts.earlier, scores.pasts.recent))
        reason = f"against {name}: {_words(earlier)}, then {_words(recent)}"
        details |= {"earlier": earlier.model_dump(), "recent": recent.model_dump()}
    audit_log.record(
        session, kind, Cause(RULE, reason, now), environment=environment, player_id=scores.learner_id, details=details
    )


def _score(counts: WinCounts, index: int) -> wire.Score:
    low, high = wilson_interval(counts)
    games = int(counts.games[index])
    mean = float(counts.points[index]) / games if games else 0.5
    return wire.Score(
        matches=games,
        score=round(mean, _DIGITS),
        low=round(float(low[index]), _DIGITS),
        high=round(float(high[index]), _DIGITS),
    )


def _words(score: wire.Score) -> str:
    return f"{score.score:.2f} [{score.low:.2f}, {score.high:.2f}] in {score.matches} matches"


def _body(session: Session, event: Event) -> wire.Regression:
    learner, opponent = (
        session.scalars(select(Player).where(Player.id == each)).one()
        for each in (event.player_id, event.details["against"])
    )
    return wire.Regression(
        environment=learner.environment,
        learner=wire.PlayerName(player_id=learner.id, name=learner.name),
        opponent=wire.PlayerName(player_id=opponent.id, name=display_name(opponent)),
        earlier=wire.Score.model_validate(event.details["earlier"]),
        recent=wire.Score.model_validate(event.details["recent"]),
        since=event.created_at,
    )
