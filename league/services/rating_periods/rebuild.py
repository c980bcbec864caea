"""Rebuild: recompute ratings and payoffs from the match log, each period under its own configuration."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from league.db.engine import Database
from league.db.models import Period, Player, Rating
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.environments import lookup as environments
from league.services.matches import log as match_log
from league.services.matches import pair_records
from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import PairRecords
from league.services.rating_periods import closing as rating_periods_closing
from league.services.rating_periods.differences import Difference, Differences, Kind, Row, Rows
from league.services.ratings import initial_ratings, store
from league.services.ratings import state as rating_state
from league.services.ratings.initial_ratings import Inheritance
from league.services.ratings.input_version import InputVersion, compute_then_commit
from league.services.ratings.input_version import read as read_inputs
from league.services.ratings.period import PlayerRating, RatingConfig, Roster
from league.services.ratings.state import EMPTY, RatingState, RatingUpdate
from league.wire import Side

_RATING = ("rating", "deviation", "volatility", "games", "score", "standard_error")
_SUMMARY = ("matches", "players", "refitted")
_KINDS: Mapping[Side | None, Kind] = {None: "rating", "home": "rating at home", "away": "rating away"}

Cut = tuple[int, RatingConfig]
"""Last match id of a period, and its rating configuration."""


@dataclass(frozen=True)
class Rebuilt:
    """Result of rebuilding an environment; `differing` rows were not bit-identical to the recomputed ones."""

    environment: str
    periods: int
    ratings: int
    differing: int
    first: Difference | None


@dataclass(frozen=True, eq=False)
class Step:
    """A recomputed period.

    Attributes:
        before: State before the period.
        games: Its matches.
        closing: Its changes.
        after: State after the period.
        starts: Initial ratings of the snapshots that inherit from it.
    """

    before: RatingState
    games: MatchArrays
    closing: RatingUpdate
    after: RatingState
    starts: Mapping[int, PlayerRating]


@dataclass(frozen=True, eq=False)
class _Correction:
    """A period as recomputed from the match log."""

    period_id: int
    matches: int
    players: int
    refitted: bool
    entries: Mapping[int, PlayerRating]
    side_entries: Mapping[int, PlayerRating]


@dataclass(frozen=True, eq=False)
class _Audit:
    """Recomputed rows of an environment; `records` and `side_records` are None if the stored ones are right.

    `starts` contains the players whose initial rating is wrong.
    """

    inputs: InputVersion
    outcome: Rebuilt
    corrections: Sequence[_Correction]
    starts: Mapping[int, PlayerRating]
    records: PairRecords | None
    side_records: PairRecords | None


def rebuild(database: Database, now: datetime, environment: str | None = None) -> list[Rebuilt]:
    """Recompute every period and store the result.

    The result differs only if rows were modified outside the league, or if results were excluded or included again.

    Args:
        database: Database of the league.
        now: Time of a change in the audit log.
        environment: Name of an environment; None for all, each in its own transaction.
    """
    with database.read() as session:
        chosen = environments.names(session) if environment is None else [environment]
    return [_rebuild(database, each, now) for each in chosen]


def inspect(session: Session, environment: str) -> Rebuilt:
    """Recompute every period of an environment and return the differences without changing anything."""
    return _audit(session, environment).outcome


def replay(session: Session, environment: str, cuts: Iterable[Cut]) -> Iterator[Step]:
    """Recompute periods from the first match on."""
    return _replay(
        session, environment, rating_periods_closing.roster(session, environment), ((*cut, ()) for cut in cuts)
    )


def _replay(
    session: Session, environment: str, roster: Roster, cuts: Iterable[tuple[int, RatingConfig, Sequence[Inheritance]]]
) -> Iterator[Step]:
    """Recompute periods from the first match on, each with the snapshots that inherit from its ratings."""
    before, start = EMPTY, 0
    for last_match_id, rule, inheritances in cuts:
        games = match_log.read(session, environment, start, last_match_id)
        closing = rating_state.apply_period(before, roster, games, rule)
        after = before.after(closing)
        starts = initial_ratings.starts(inheritances, after.entries, roster.newcomers)
        yield Step(before, games, closing, after, starts)
        # A corrected rating also changes the initial ratings of snapshots that inherit from it in later periods.
        before, start, roster = after, last_match_id, roster.starting(starts)


def _rebuild(database: Database, environment: str, now: datetime) -> Rebuilt:
    return compute_then_commit(
        database,
        environment,
        lambda session: _audit(session, environment),
        lambda session, audit: _correct(session, environment, audit, now),
    )


def _audit(session: Session, environment: str) -> _Audit:
    """Compare the stored rows with recomputed ones, version by version."""
    inputs = read_inputs(session, environment)
    corrections: list[_Correction] = []
    found = Differences()
    state, count, ratings = EMPTY, 0, 0
    roster, inheritances = (
        rating_periods_closing.roster(session, environment),
        initial_ratings.inheritances(session, environment),
    )
    changed_starts: dict[int, PlayerRating] = {}
    # Every version rates the log from its first match on, so the state after the last version is the current one.
    for stored in _versions(session, environment):
        cuts = [
            (each.last_match_id, RatingConfig.restored(each.rule), inheritances.get(each.id, ())) for each in stored
        ]
        steps = _replay(session, environment, roster.starting(changed_starts), cuts)
        for period, step in zip(stored, steps, strict=True):
            correction = _Correction(
                period.id,
                len(step.games),
                len(step.games.players),
                step.closing.refitted,
                step.closing.entries,
                step.closing.sides.entries,
            )
            if _differs(session, period, correction, found):
                corrections.append(correction)
            changed_starts |= {
                player: start for player, start in step.starts.items() if start != roster.newcomers[player]
            }
            state, count = step.after, count + 1
            ratings += len(step.closing.entries)
    found.compare(
        "start", None, _starts({player: roster.newcomers[player] for player in changed_starts}), _starts(changed_starts)
    )
    records = _right("payoff", pair_records.read(session, environment), state.records, found)
    stored_records = store.read_side_records(session, environment)
    side_records = _right("side payoff", stored_records, state.sides.records, found)
    outcome = Rebuilt(environment, count, ratings, found.count, found.first)
    return _Audit(inputs, outcome, corrections, changed_starts, records, side_records)


def _versions(session: Session, environment: str) -> list[list[Period]]:
    """Return the periods of each version, oldest first."""
    query = select(Period).where(Period.environment == environment).order_by(Period.version, Period.number)
    versions: dict[int, list[Period]] = {}
    for period in session.scalars(query):
        versions.setdefault(period.version, []).append(period)
    return list(versions.values())


def _differs(session: Session, period: Period, right: _Correction, found: Differences) -> bool:
    """Return whether stored rows of a period differ."""
    stored: dict[Side | None, dict[tuple[int, ...], Row]] = {side: {} for side in _KINDS}
    computed: dict[Side | None, dict[tuple[int, ...], Row]] = {side: {} for side in _KINDS}
    query = select(Rating.side, Rating.player_id, *store.NUMBERS).where(Rating.period_id == period.id)
    for side, player, *numbers in session.execute(query):
        stored[side][(player,)] = dict(zip(_RATING, numbers, strict=True))
    for side, player, entry in store.by_side(right.entries, right.side_entries):
        computed[side][(player,)] = _named(entry, _RATING)
    ratings = [found.compare(kind, period.number, stored[side], computed[side]) for side, kind in _KINDS.items()]
    summary = found.compare("period", period.number, {(): _named(period, _SUMMARY)}, {(): _named(right, _SUMMARY)})
    return any(ratings) or summary


def _right(kind: Kind, stored_records: PairRecords, right: PairRecords, found: Differences) -> PairRecords | None:
    """Return the recomputed pair records, or None if the stored ones are equal."""
    return right if found.compare(kind, None, _columns(stored_records), _columns(right)) else None


def _starts(entries: Mapping[int, PlayerRating]) -> Rows:
    return {(player,): _named(entry, ("rating", "deviation")) for player, entry in entries.items()}


def _columns(records: PairRecords) -> Rows:
    return {pair: vars(count) for pair, count in records.counts().items()}


def _named(row: object, names: Sequence[str]) -> Row:
    return {name: getattr(row, name) for name in names}


def _correct(session: Session, environment: str, audit: _Audit, now: datetime) -> Rebuilt:
    """Replace the stored rows that differ."""
    if not audit.outcome.differing:
        return audit.outcome
    for right in audit.corrections:
        summary = {"matches": right.matches, "players": right.players, "refitted": right.refitted}
        session.execute(update(Period).where(Period.id == right.period_id).values(summary))
        # Replaced as a whole: a correction may also add or remove players.
        session.execute(delete(Rating).where(Rating.period_id == right.period_id))
        store.write(session, right.period_id, right.entries, right.side_entries)
    for player_id, start in audit.starts.items():
        values = {"start_rating": start.rating, "start_deviation": start.deviation}
        session.execute(update(Player).where(Player.id == player_id).values(values))
    if audit.records is not None:
        pair_records.rewrite(session, environment, audit.records)
    if audit.side_records is not None:
        store.rewrite_side_records(session, environment, audit.side_records)
    audit_log.record(
        session,
        "rebuild",
        Cause("league rebuild", "computed again from the match log", now),
        environment=environment,
        details={"periods": len(audit.corrections), "differing": audit.outcome.differing},
    )
    return audit.outcome
