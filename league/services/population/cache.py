"""Population cache: the players of an environment, loaded when something changed and shared by all requests.

A version is the last player, the last closed period and the last event, so that publishing, rating and every change of
standing show at once, in every process, for the price of three index look-ups. All three commit in the order of their
ids, and whatever writes ratings writes an event in the same transaction: nothing can change behind a version. A new
version that another environment, or a mere remark, has brought leaves the population as it is.
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

from arena.glicko2 import Ratings
from league.db.models import Event, Period, Player, Rating
from league.errors import UnknownPlayerError
from league.services.ratings import rated_players
from league.services.ratings.period import PlayerRating

Version = tuple[int, ...]
T = TypeVar("T")

REMARKS = ("regression", "recovery")
"""Kinds of events that say what was seen, and change nobody."""

NEWEST = tuple(func.coalesce(select(func.max(table.id)).scalar_subquery(), 0) for table in (Player, Period, Event))
"""Columns of the version of everybody, in all environments."""

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
    """A player's unchanging side, its standing and the call-sign that came with it."""

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
    """A rule about who is drawn, and the ids of those whom it took out of what the filters before it left."""

    name: str
    rule: str
    removed: tuple[int, ...]


class _Made:
    """A value that is made once, however many ask for it at the same time; again where that failed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value: Any = None  # None: not yet

    def get(self, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is made
        if self.value is None:
            with self._lock:
                if self.value is None:
                    self.value = make()
        return self.value


@dataclass(frozen=True, eq=False)
class Population:
    """P players of one environment, in order of their ids.

    Attributes:
        environment: Which.
        members: Who.
        ratings: (P,) after the last closed period.
        games: (P,) int64 rated games of each.
    """

    environment: str
    members: tuple[Member, ...]
    ratings: Ratings
    games: NDArray[np.int64]
    _made: dict[Hashable, "_Made"] = field(default_factory=dict, repr=False)
    _kept: dict[str, datetime] = field(default_factory=dict, repr=False)

    @cached_property
    def places(self) -> dict[int, int]:
        """Where in the columns a player stands, by its id."""
        return {member.id: place for place, member in enumerate(self.members)}

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """(P,) ids of the members."""
        return np.array([member.id for member in self.members], dtype=np.int64)

    def place(self, player_id: int) -> int:
        """Return a player's place in the columns.

        Raises:
            UnknownPlayerError: It is not one of this environment.
        """
        if player_id not in self.places:
            raise UnknownPlayerError(player_id, f"no player of {self.environment} has this id", "see GET /players")
        return self.places[player_id]

    def rated(self, entries: Mapping[int, PlayerRating]) -> "Population":
        """Return everybody with the ratings and games of these entries, by id; the others keep theirs."""
        rating, deviation, volatility = (
            column.copy() for column in (self.ratings.rating, self.ratings.deviation, self.ratings.volatility)
        )
        games = self.games.copy()
        for player_id, entry in entries.items():
            place = self.place(player_id)
            rating[place], deviation[place], volatility[place] = entry.rating, entry.deviation, entry.volatility
            games[place] = entry.games
        return Population(self.environment, self.members, Ratings(rating, deviation, volatility), games)

    def opponents(self, signature: str, unplayable: frozenset[int]) -> tuple[NDArray[np.int64], tuple[Filter, ...]]:
        """Return the places of everybody who is drawn as an opponent under a signature, and who is not and why.

        Args:
            signature: Of the environment's build.
            unplayable: Ids of players that who asks could not play.
        """
        return self.cached(("opponents", signature, unplayable), lambda: self._opponents(signature, unplayable))

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what follows from this population alone, made when it is first asked for; others wait for it.

        What makes it may ask for others in its turn, as long as they never ask back.
        """
        value: T = self._made.setdefault(key, _Made()).get(make)
        return value

    def peek(self, key: Hashable) -> Any | None:  # noqa: ANN401 - whatever was made
        """Return what `once` has made; None where it has not."""
        kept = self._made.get(key)
        return None if kept is None else kept.value

    def keeps(self, draw_id: str, now: datetime) -> bool:
        """Say whether a draw is certain to be in the database: it is not pruned while a lease from it lasts."""
        return draw_id in self._kept and now < self._kept[draw_id]

    def note_kept(self, draw_id: str, until: datetime) -> None:
        """Note that leases were stored with their draw that end at a time."""
        self._kept[draw_id] = until

    def _opponents(self, signature: str, unplayable: frozenset[int]) -> tuple[NDArray[np.int64], tuple[Filter, ...]]:
        rules: tuple[tuple[str, str, Callable[[Member], bool]], ...] = (
            ("frozen", "a learner's weights move: only frozen players are leased", lambda m: m.kind != "learner"),
            (
                "standing",
                "retired and quarantined snapshots are out of play",
                lambda m: m.standing not in rated_players.OUT_OF_PLAY,
            ),
            (
                "weights",
                "an external player is played by its own entry alone: nobody else has it",
                lambda m: m.kind != "external",
            ),
            ("signature", f"policies of signature {signature} only", lambda m: m.signature == signature),
            ("playable", "not those that this worker could not play", lambda m: m.id not in unplayable),
        )
        left = list(enumerate(self.members))
        filters = []
        for name, rule, passes in rules:
            removed = tuple(member.id for _, member in left if not passes(member))
            left = [(place, member) for place, member in left if passes(member)]
            filters.append(Filter(name, rule, removed))
        return np.array([place for place, _ in left], dtype=np.int64), tuple(filters)


@dataclass(frozen=True, eq=False)
class _Kept:
    """A population, of which version it is, and what it was before the last period where that changed ratings alone."""

    version: Version
    population: Population
    before: Population | None


class PopulationCache:
    """The last version of each environment's population; nothing is lost with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._renewing: dict[str, threading.Lock] = {}
        self._kept: dict[str, _Kept] = {}
        self._environments: dict[int, str] = {}

    def of_player(self, session: Session, player_id: int) -> Population:
        """Return the population that a player belongs to, which it never leaves.

        Raises:
            UnknownPlayerError: There is no such player.
        """
        if player_id in self._environments:
            found = self.get(session, self._environments[player_id])
            if player_id in found.places:
                return found
        player, _ = rated_players.require(session, player_id)  # SQLite may give the id of a deleted player to another
        self._environments[player_id] = player.environment
        return self.get(session, player.environment)

    def get(self, session: Session, environment: str) -> Population:
        """Return the population as the session sees it."""
        present = version(session)
        with self._lock:
            kept = self._kept.get(environment)
            if kept is not None and kept.version == present:
                return kept.population
            if kept is not None and _is_earlier(present, kept.version):
                return load(session, environment)  # the session began before the last change
            renewed = _renewed(session, environment, kept, present)
            self._kept[environment] = renewed
        return renewed.population

    def known(self, session: Session, player_id: int, present: Version, *, lately: bool) -> list[Population]:
        """Return the population that a player belongs to as far as it is known, at best the present one.

        Args:
            session: Sees what has changed.
            player_id: Who.
            present: The version that there is.
            lately: Whether one from before the last rating period will do, as long as nothing else has changed since.
        """
        environment = self._environments.get(player_id, "")
        kept = self._kept.get(environment)
        if kept is None or player_id not in kept.population.places:
            return []
        if kept.version == present:
            known = [kept.population, kept.before if lately else None]
        else:
            known = [kept.population if lately and not _changes(session, environment, kept.version).others else None]
        return [population for population in known if population is not None]

    def renewing(self, player_id: int) -> threading.Lock:
        """Return what is held by whoever reads a player's population anew, or makes something that follows from it."""
        return self._renewing.setdefault(self._environments.get(player_id, ""), threading.Lock())


def _is_earlier(one: Version, other: Version) -> bool:
    """Return whether a version is of a time before another's.

    Where an environment was deleted the last player and period may go back. That is an event, and events never do.
    """
    if one[-1] != other[-1]:
        return one[-1] < other[-1]
    return any(seen < known for seen, known in zip(one, other, strict=True))


def _renewed(session: Session, environment: str, kept: _Kept | None, present: Version) -> _Kept:
    if kept is None:
        return _Kept(present, load(session, environment), None)
    changes = _changes(session, environment, kept.version)
    if changes.others:
        return _Kept(present, load(session, environment), None)
    if changes.ratings:
        return _Kept(present, load(session, environment), kept.population)
    return replace(kept, version=present)


def _changes(session: Session, environment: str, since: Version) -> Row[bool, bool]:
    """Say what about the population of an environment has changed after a version: others than ratings, and ratings."""
    marks = dict(zip(("player", "period", "event"), since, strict=True))
    return session.connection().execute(_CHANGES, marks | {"environment": environment}).one()


def version(session: Session) -> Version:
    """Return the version of everybody, in all environments, as the session sees it."""
    return tuple(session.connection().execute(_NEWEST).one())


def load(session: Session, environment: str) -> Population:
    """Read the population as the session sees it."""
    own = Player.id, Player.kind, Player.name, Player.call_sign
    who = *own, Player.signature, Player.standing, Player.checkpoint, Player.role, Player.learner_id, Player.step
    strength = (
        func.coalesce(Rating.rating, Player.start_rating),
        func.coalesce(Rating.deviation, Player.start_deviation),
        func.coalesce(Rating.volatility, Player.start_volatility),
        func.coalesce(Rating.games, 0),
    )
    everybody = rated_players.rated().where(Player.environment == environment).order_by(Player.id)
    found = session.connection().execute(everybody.with_only_columns(*who, *strength))
    rows: list[tuple[Any, ...]] = [tuple(row) for row in found]
    numbers = np.array([row[len(who) :] for row in rows], dtype=np.float64).reshape(-1, len(strength))
    rating, deviation, volatility, games = numbers.T
    return Population(
        environment=environment,
        members=tuple(Member(*row[: len(who)]) for row in rows),
        ratings=Ratings(rating, deviation, volatility),
        games=games.astype(np.int64),
    )
