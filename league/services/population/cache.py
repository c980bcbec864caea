"""Population cache: the players of an environment with their ratings, shared by all requests.

A version consists of the last player id, the last closed period and the last event. New players, ratings and standings
are therefore visible at once in every process, for three index look-ups per request. All three ids commit in ascending
order, and every transaction that writes ratings also writes an event, so nothing changes without a new version. If only
another environment changed, or only a remark was logged, the cached population is reused.
"""

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, String, bindparam, func, or_, select
from sqlalchemy.orm import Session

from arena.ratings.glicko2 import Ratings
from league.db.models import Event, Period, Player, Rating
from league.errors import UnknownPlayerError
from league.services.ratings import pair_predictions, rated_players
from league.services.ratings.pair_predictions import Ancestry, PairPredictor
from league.services.ratings.period import PlayerRating

Version = tuple[int, ...]
T = TypeVar("T")

REMARKS = ("regression", "recovery")
"""Kinds of events that only report an observation and change no player."""

NEWEST = tuple(func.coalesce(select(func.max(table.id)).scalar_subquery(), 0) for table in (Player, Period, Event))
"""Columns of the version, over all environments."""

_NEWEST = select(*NEWEST)
_OWN = bindparam("environment", type_=String)
_CHANGES = select(
    or_(
        select(Player.id).where(Player.id > bindparam("player"), Player.environment == _OWN).exists(),
        select(Event.id)
        .where(
            Event.id > bindparam("event"),
            or_(Event.environment == _OWN, Event.environment.is_(None)),
            Event.kind.not_in((*REMARKS, "period")),
        )
        .exists(),
    ).label("others"),
    select(Period.id).where(Period.id > bindparam("period"), Period.environment == _OWN).exists().label("ratings"),
)


class Member(NamedTuple):
    """A player's immutable columns, its standing and its call-sign."""

    id: int
    kind: str
    name: str
    call_sign: str | None
    signature: str
    standing: str | None
    checkpoint: str | None
    role: str | None
    learner_id: int | None
    step: int | None


@dataclass(frozen=True)
class Filter:
    """A rule for eligible opponents, and the ids of the players that it removed after the preceding filters."""

    name: str
    rule: str
    removed: tuple[int, ...]


class _Value:
    """A lazily computed value: concurrent threads compute it once, and again only after an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value: Any = None  # None: not computed yet

    def get(self, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is computed
        # Double-checked locking: a computed value is read without the lock.
        if self.value is None:
            # One load per change: concurrent requests wait for it instead of reading thousands of players each.
            with self._lock:
                if self.value is None:
                    self.value = make()
        return self.value


@dataclass(frozen=True, eq=False)
class Population:
    """P players of one environment, in ascending order of their ids.

    Attributes:
        environment: Name of the environment.
        members: (P,) the players.
        ratings: (P,) after the last closed period.
        games: (P,) int64 numbers of rated games.
        standard_errors: (P,) how precisely its own games measure each rating, in points; before a fit, its deviation.
        predictor: The newest fit of the pair model; None before the first.
    """

    environment: str
    members: tuple[Member, ...]
    ratings: Ratings
    games: NDArray[np.int64]
    standard_errors: NDArray[np.float64]
    predictor: PairPredictor | None = None
    _values: dict[Hashable, "_Value"] = field(default_factory=dict, repr=False)
    _stored: dict[str, datetime] = field(default_factory=dict, repr=False)

    @cached_property
    def indices(self) -> dict[int, int]:
        """Index of each player in the columns, by id."""
        return {member.id: index for index, member in enumerate(self.members)}

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """(P,) ids of the members."""
        return np.array([member.id for member in self.members], dtype=np.int64)

    def index(self, player_id: int) -> int:
        """Return a player's index in the columns.

        Raises:
            UnknownPlayerError: The environment has no such player.
        """
        if player_id not in self.indices:
            raise UnknownPlayerError(player_id, f"no player of {self.environment} has this id", "see GET /players")
        return self.indices[player_id]

    def rated(self, entries: Mapping[int, PlayerRating]) -> "Population":
        """Return a copy with the ratings and games of these entries, by player id; other players are unchanged."""
        rating, deviation, volatility = (
            column.copy() for column in (self.ratings.rating, self.ratings.deviation, self.ratings.volatility)
        )
        games, errors = self.games.copy(), self.standard_errors.copy()
        for player_id, entry in entries.items():
            index = self.index(player_id)
            rating[index], deviation[index], volatility[index] = entry.rating, entry.deviation, entry.volatility
            games[index] = entry.games
            errors[index] = entry.uncertainty
        ratings = Ratings(rating, deviation, volatility)
        return Population(self.environment, self.members, ratings, games, errors, self.predictor)

    def expected(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the predicted scores of players against others, given K indices each, (K,) in [0, 1].

        The pair model predicts. Glicko-2 does before its first fit, and for players that it does not know.
        """
        return pair_predictions.expected(self.predictor, self.ratings, one, other)

    def expected_matrix(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the (K, K) predicted scores among the players at K indices; 0.5 on the diagonal.

        They leave out the pairs' own records, which `arena.evaluation.payoff.win_rates` adds.
        """
        row, column = (indices[each.ravel()] for each in np.indices((indices.size, indices.size)))
        predicted = pair_predictions.expected(self.predictor, self.ratings, row, column, with_records=False)
        return predicted.reshape(indices.size, indices.size)

    def opponents(self, signature: str, unplayable: frozenset[int]) -> tuple[NDArray[np.int64], tuple[Filter, ...]]:
        """Return the indices of the eligible opponents under a signature, and the filters that removed the others.

        Args:
            signature: Signature of the environment's build.
            unplayable: Ids of players that the requesting worker could not play.
        """
        return self.cached(("opponents", signature, unplayable), lambda: self._opponents(signature, unplayable))

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value that depends on this population only; concurrent callers compute it once.

        `make` may use other keys, but no cycle of keys.
        """
        # `setdefault` is atomic, so concurrent threads share one value and its lock.
        value: T = self._values.setdefault(key, _Value()).get(make)
        return value

    def peek(self, key: Hashable) -> Any | None:  # noqa: ANN401 - whatever was computed
        """Return a cached value, or None if it is not computed yet."""
        found = self._values.get(key)
        return None if found is None else found.value

    def is_stored(self, distribution_id: str, now: datetime) -> bool:
        """Return whether a distribution is certain to be in the database: it outlives the leases drawn from it."""
        return distribution_id in self._stored and now < self._stored[distribution_id]

    def note_stored(self, distribution_id: str, until: datetime) -> None:
        """Record that leases which end at `until` were stored with their distribution."""
        self._stored[distribution_id] = until

    def _opponents(self, signature: str, unplayable: frozenset[int]) -> tuple[NDArray[np.int64], tuple[Filter, ...]]:
        rules: tuple[tuple[str, str, Callable[[Member], bool]], ...] = (
            (
                "frozen",
                "only frozen players are opponents, because a learner's weights change",
                lambda m: m.kind != "learner",
            ),
            (
                "standing",
                "retired and quarantined snapshots are not opponents",
                lambda m: m.standing not in rated_players.OUT_OF_PLAY,
            ),
            (
                "weights",
                "only the worker that entered an external player has its policy",
                lambda m: m.kind != "external",
            ),
            ("signature", f"only policies with signature {signature}", lambda m: m.signature == signature),
            ("playable", "without players that this worker failed to load recently", lambda m: m.id not in unplayable),
        )
        eligible = list(enumerate(self.members))
        filters = []
        for name, rule, passes in rules:
            removed = tuple(member.id for _, member in eligible if not passes(member))
            eligible = [(index, member) for index, member in eligible if passes(member)]
            filters.append(Filter(name, rule, removed))
        return np.array([index for index, _ in eligible], dtype=np.int64), tuple(filters)


@dataclass(frozen=True, eq=False)
class _CacheEntry:
    """A population with its version, and the previous population if the last period changed only ratings."""

    version: Version
    population: Population
    before: Population | None


class PopulationCache:
    """Latest population of each environment; a pure cache, which any process can rebuild."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refreshing: dict[str, threading.Lock] = {}
        self._entries: dict[str, _CacheEntry] = {}
        self._environments: dict[int, str] = {}

    def of_player(self, session: Session, player_id: int) -> Population:
        """Return the population of a player's environment, which never changes.

        Raises:
            UnknownPlayerError: There is no such player.
        """
        if player_id in self._environments:
            found = self.get(session, self._environments[player_id])
            if player_id in found.indices:
                return found
        player, _ = rated_players.require(session, player_id)  # SQLite may reuse the id of a deleted player
        self._environments[player_id] = player.environment
        return self.get(session, player.environment)

    def get(self, session: Session, environment: str) -> Population:
        """Return the population as of the session's snapshot."""
        present = version(session)
        with self._lock:
            entry = self._entries.get(environment)
            # The load below keeps the lock: concurrent requests wait for it instead of each reading all players.
            if entry is not None and entry.version == present:
                return entry.population
            if entry is not None and _is_earlier(present, entry.version):
                return load(session, environment)  # older snapshot: do not replace the newer entry
            entry = self._entries[environment] = _refreshed(session, environment, entry, present)
        return entry.population

    def recent(self, session: Session, player_id: int, present: Version, *, stale: bool) -> list[Population]:
        """Return the cached populations that may serve a player, newest first.

        Args:
            session: Session that sees the changes.
            player_id: The player.
            present: The current version.
            stale: Accept the population before the last rating period, if nothing else has changed since.
        """
        environment = self._environments.get(player_id, "")
        entry = self._entries.get(environment)
        if entry is None or player_id not in entry.population.indices:
            return []
        if entry.version == present:
            return [entry.population, entry.before] if stale and entry.before is not None else [entry.population]
        return [entry.population] if stale and not _changes(session, environment, entry.version).others else []

    def refresh_lock(self, player_id: int) -> threading.Lock:
        """Return the lock for reloading a player's population and the values computed from it."""
        return self._refreshing.setdefault(self._environments.get(player_id, ""), threading.Lock())


def _is_earlier(one: Version, other: Version) -> bool:
    """Return whether a version is older than another.

    Deleting an environment may decrease the last player and period. The deletion is an event, and event ids never
    decrease, so the event decides first.
    """
    if one[-1] != other[-1]:
        return one[-1] < other[-1]
    return any(seen < known for seen, known in zip(one, other, strict=True))


def _refreshed(session: Session, environment: str, entry: _CacheEntry | None, present: Version) -> _CacheEntry:
    if entry is None:
        return _CacheEntry(present, load(session, environment), None)
    changes = _changes(session, environment, entry.version)
    if changes.others:
        return _CacheEntry(present, load(session, environment), None)
    if changes.ratings:
        return _CacheEntry(present, load(session, environment), entry.population)
    return replace(entry, version=present)


def _changes(session: Session, environment: str, since: Version) -> Row[bool, bool]:
    """Return whether an environment changed after a version, by kind: `others` than ratings, and `ratings`."""
    # Only ids after the cached version are examined, which costs three index look-ups even if many events exist.
    marks = dict(zip(("player", "period", "event"), since, strict=True))
    return session.connection().execute(_CHANGES, marks | {"environment": environment}).one()


def version(session: Session) -> Version:
    """Return the version over all environments as of the session's snapshot."""
    return tuple(session.connection().execute(_NEWEST).one())


def load(session: Session, environment: str) -> Population:
    """Read the population as of the session's snapshot."""
    own = Player.id, Player.kind, Player.name, Player.call_sign
    identity = *own, Player.signature, Player.standing, Player.checkpoint, Player.role, Player.learner_id, Player.step
    strength = (
        func.coalesce(Rating.rating, Player.start_rating),
        func.coalesce(Rating.deviation, Player.start_deviation),
        func.coalesce(Rating.volatility, Player.start_volatility),
        func.coalesce(Rating.games, 0),
        rated_players.standard_error_column(),
    )
    query = rated_players.rated().where(Player.environment == environment).order_by(Player.id)
    # Rows instead of ORM objects: thousands of players are read after every change.
    found = session.connection().execute(query.with_only_columns(*identity, *strength))
    rows: list[tuple[Any, ...]] = [tuple(row) for row in found]
    numbers = np.array([row[len(identity) :] for row in rows], dtype=np.float64).reshape(-1, len(strength))
    rating, deviation, volatility, games, errors = numbers.T
    members = tuple(Member(*row[: len(identity)]) for row in rows)
    ancestries = [Ancestry.of(each.id, each.role, each.learner_id, each.step) for each in members]
    ratings = Ratings(rating, deviation, volatility)
    return Population(
        environment=environment,
        members=members,
        ratings=ratings,
        games=games.astype(np.int64),
        standard_errors=errors,
        predictor=pair_predictions.load(session, environment, ancestries, rating),
    )
