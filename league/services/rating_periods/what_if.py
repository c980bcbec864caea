"""What-if: rate the match log under another configuration, compare by log loss, and apply it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena.ratings.glicko2 import expected_score
from league.db.engine import Database
from league.db.models import Period, Player
from league.errors import ConfigurationError, InvalidRequestError, reason
from league.player_names import display_name
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.matches import log as match_log
from league.services.matches import pair_records
from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import PairRecords
from league.services.rating_periods import closing
from league.services.rating_periods import queries as period_queries
from league.services.rating_periods.rebuild import Cut, Step, replay
from league.services.ratings import input_version, rated_players, store
from league.services.ratings.input_version import InputVersion
from league.services.ratings.period import PlayerRating, RatingConfig, Roster, as_ratings
from league.services.ratings.sides import SideState
from league.services.ratings.state import EMPTY
from league.settings import Settings

_RULE = ("tau", "deviation_floor", "deviation_cap", "volatility_cap", "burst_games", "refit")
_PROBABILITY_MAX = 1.0 - 1e-6  # clips predictions, so that one surprise does not dominate the log loss


@dataclass(frozen=True)
class Proposal:
    """Another configuration; `period_games` also splits the log into other periods, None leaves them as they are."""

    rule: RatingConfig
    period_games: int | None


@dataclass(frozen=True)
class Backtest:
    """Log loss of a configuration, with its id, settings and number of periods.

    `log_loss` is in nats per match, predicted by the ratings before the match's period; None without matches.
    """

    config_id: str
    config: Mapping[str, Any]
    periods: int
    log_loss: float | None


@dataclass(frozen=True)
class Place:
    """A player's position under a configuration; ranks count from 1, in order of rating - 2 RD."""

    rank: int
    rating: float
    deviation: float
    games: int


@dataclass(frozen=True)
class Line:
    """A player's current and proposed position."""

    player_id: int
    name: str
    kind: str
    present: Place
    proposed: Place


@dataclass(frozen=True)
class Comparison:
    """Current and proposed configuration; players in order of the proposed ranks."""

    environment: str
    present: Backtest
    proposed: Backtest
    items: Sequence[Line]


@dataclass(frozen=True, eq=False)
class _Rerated:
    """Computed periods of a new version that are not written yet."""

    inputs: InputVersion
    periods: Sequence[Period]
    entries: Sequence[Mapping[int, PlayerRating]]
    records: PairRecords
    sides: Sequence[SideState]


def propose(database: Database, settings: Settings, environment: str, changes: Mapping[str, Any]) -> Proposal:
    """Return the current configuration with changes.

    Args:
        database: Database of the league.
        settings: Settings with the default configuration, used before the first period.
        environment: Name of the environment.
        changes: New values by name: those of a rating configuration, and `period_games`.

    Raises:
        ConfigurationError: A name or value is invalid.
    """
    with database.read() as session:
        last = period_queries.newest(session, environment)
        present = closing.rule_of(session, settings, environment)
    in_force = present if last is None else RatingConfig.restored(last.rule)
    base = in_force.stored()
    del base["unlike_sides"]  # a property of the game
    refit = changes.get("refit", {})
    _require_known("", changes, (*_RULE, "period_games"))
    _require_known("refit.", refit if isinstance(refit, Mapping) else {}, base["refit"])
    given = {**base, **changes, "refit": {**base["refit"], **refit} if isinstance(refit, Mapping) else refit}
    try:
        checked = Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{name} = {first['input']}", reason(first), "correct it in the file") from error
    rule = RatingConfig.of(checked, unlike_sides=present.unlike_sides)
    return Proposal(rule, checked.period_games if "period_games" in changes else None)


def compare(database: Database, environment: str, proposal: Proposal) -> Comparison:
    """Compare a proposed configuration with the current one; changes nothing.

    Raises:
        InvalidRequestError: No period was closed yet.
    """
    with database.read() as session:
        stored = _present_periods(session, environment)
        roster = closing.roster(session, environment)
        players = session.execute(rated_players.rated().where(Player.environment == environment)).all()
        now = [(period.last_match_id, RatingConfig.restored(period.rule)) for period in stored]
        present, _ = _follow(replay(session, environment, now), now, roster)
        cuts = _cuts(session, environment, stored, proposal)
        proposed, entries = _follow(replay(session, environment, cuts), cuts, roster)
    ranked_now = _ranked({player.id: rated_players.entry_of(player, rating) for player, rating in players})
    ranked_then = _ranked({**roster.newcomers, **entries})
    lines = [
        Line(player.id, display_name(player), player.kind, ranked_now[player.id], ranked_then[player.id])
        for player, _ in players
    ]
    return Comparison(environment, present, proposed, sorted(lines, key=lambda line: line.proposed.rank))


def apply(
    database: Database, environment: str, proposal: Proposal, *, actor: str, reason: str, now: datetime
) -> Comparison:
    """Rate the log again under a proposed configuration, as a new version; old versions remain as history.

    Raises:
        InvalidRequestError: No period was closed yet.
    """
    comparison = compare(database, environment, proposal)
    input_version.compute_then_commit(
        database,
        environment,
        lambda session: _rerate(session, environment, proposal, reason),
        lambda session, rerated: _write(session, environment, rerated, actor, reason, now),
    )
    return comparison


def _require_known(prefix: str, given: Mapping[str, Any], known: Mapping[str, Any] | Sequence[str]) -> None:
    for name, value in given.items():
        if name not in known:
            names = ", ".join(prefix + each for each in known)
            if isinstance(value, Mapping):
                raise ConfigurationError(
                    f"[{prefix}{name}]",
                    f"a rating config has only {names}",
                    "remove the table's heading from the file",
                )
            raise ConfigurationError(f"{prefix}{name}", f"a rating config has {names}", "correct it in the file")


def _present_periods(session: Session, environment: str) -> list[Period]:
    query = select(Period).where(Period.environment == environment, Period.current_version()).order_by(Period.number)
    found = list(session.scalars(query))
    if not found:
        rule = "no rating period has been closed yet"
        raise InvalidRequestError(environment, rule, "close one with `league close-period`")
    return found


def _cuts(session: Session, environment: str, stored: Sequence[Period], proposal: Proposal) -> list[Cut]:
    """Return the periods of a proposal; the last one ends with the last rated match."""
    last = stored[-1].last_match_id
    if proposal.period_games is None:
        return [(period.last_match_id, proposal.rule) for period in stored]
    games = match_log.read(session, environment, 0, last)
    ids = match_log.ids(session, environment, 0, last)
    ends = ids[_ends(games, proposal.period_games)].tolist()
    return [(end, proposal.rule) for end in ends if end != last] + [(last, proposal.rule)]


def _ends(games: MatchArrays, period_games: int) -> list[int]:
    """Return the index of each period's last match, as if the threshold were checked after every match."""
    ends: list[int] = []
    active: set[int] = set()
    start = 0
    for index, (home, away) in enumerate(zip(games.home.tolist(), games.away.tolist(), strict=True)):
        active.add(home)
        active.add(away)
        if 2 * (index + 1 - start) >= period_games * len(active):
            ends.append(index)
            active.clear()
            start = index + 1
    return ends


def _follow(steps: Iterator[Step], cuts: Sequence[Cut], roster: Roster) -> tuple[Backtest, Mapping[int, PlayerRating]]:
    """Run through periods; return the backtest and the ratings after the last one."""
    entries: Mapping[int, PlayerRating] = {}
    matches, log_loss = 0, 0.0
    for step in steps:
        count, total = _log_loss({**roster.newcomers, **step.before.entries}, step.games)
        matches, log_loss = matches + count, log_loss + total
        entries = step.after.entries
    rule = cuts[-1][1]
    return Backtest(rule.id, rule.stored(), len(cuts), log_loss / matches if matches else None), entries


def _log_loss(entries: Mapping[int, PlayerRating], games: MatchArrays) -> tuple[int, float]:
    """Return the number of matches between two players and the sum of their log losses."""
    ids = np.array(games.players, dtype=np.int64)
    ratings = as_ratings([entries[player] for player in ids.tolist()])
    different = games.home != games.away
    home, away = np.searchsorted(ids, games.home[different]), np.searchsorted(ids, games.away[different])
    expected = np.clip(expected_score(ratings, home, away), 1.0 - _PROBABILITY_MAX, _PROBABILITY_MAX)
    score = games.score[different]
    loss = -(score * np.log(expected) + (1.0 - score) * np.log1p(-expected))
    return int(different.sum()), float(loss.sum())


def _ranked(entries: Mapping[int, PlayerRating]) -> dict[int, Place]:
    order = sorted(entries, key=lambda player: (2 * entries[player].deviation - entries[player].rating, player))
    return {
        player: Place(rank, entries[player].rating, entries[player].deviation, entries[player].games)
        for rank, player in enumerate(order, start=1)
    }


def _rerate(session: Session, environment: str, proposal: Proposal, reason: str) -> _Rerated:
    base = input_version.read(session, environment)
    stored = _present_periods(session, environment)
    cuts = _cuts(session, environment, stored, proposal)
    made: list[Period] = []
    entries: list[Mapping[int, PlayerRating]] = []
    sides: list[SideState] = []
    records = EMPTY.records
    for (last_match_id, rule), step in zip(cuts, replay(session, environment, cuts), strict=True):
        made.append(
            Period(
                environment=environment,
                version=stored[-1].version + 1,
                number=stored[-1].number + len(made) + 1,
                last_match_id=last_match_id,
                matches=len(step.games),
                players=len(step.games.players),
                rule=rule.stored(),
                refitted=step.closing.refitted,
                reason=reason,
                # The time at which these matches were first rated.
                closed_at=next(period.closed_at for period in stored if period.last_match_id >= last_match_id),
            )
        )
        entries.append(step.closing.entries)
        sides.append(step.closing.sides)
        records = step.after.records
    return _Rerated(base, made, entries, records, sides)


def _write(session: Session, environment: str, rerated: _Rerated, actor: str, reason: str, now: datetime) -> None:
    for period, entries, sides in zip(rerated.periods, rerated.entries, rerated.sides, strict=True):
        session.add(period)
        # Ratings refer to the period's id, which the database assigns.
        session.flush()
        store.write(session, period.id, entries, sides.entries)
    pair_records.rewrite(session, environment, rerated.records)
    store.rewrite_side_records(session, environment, rerated.sides[-1].records)
    last = rerated.periods[-1]
    audit_log.record(
        session,
        "rerate",
        Cause(actor, reason, now),
        environment=environment,
        details={"version": last.version, "periods": len(rerated.periods), "config": last.rule},
    )
