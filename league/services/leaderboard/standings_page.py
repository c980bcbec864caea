"""Standings for the dashboard: ranked, filtered, searched and sorted.

It is read once between two changes of the population, whoever looks: after a period all open pages ask for it at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Learner, Player, Rating
from league.errors import UnknownPlayerError
from league.services.environments import lookup as environments
from league.services.player_names import display_name
from league.services.population.cache import PopulationCache
from league.services.ratings import rated_players, side_ratings
from league.services.ratings.side_ratings import OnSide

Sort = Literal[
    "rank",
    "name",
    "kind",
    "role",
    "standing",
    "rating",
    "home",
    "away",
    "deviation",
    "games",
    "win_rate",
    "lineage",
    "age",
]
Show = Literal["in_play", "all", "candidate", "commander", "retired", "quarantined"]

_HASH_LEAST = 6
"""So many characters of a checkpoint's hash are searched for."""


@dataclass(frozen=True)
class Choice:
    """Which players of a table are wanted, and in what order.

    Attributes:
        search: Part of a name or call-sign, or the beginning of a checkpoint's hash; empty for all.
        kind: None for all.
        show: Of which standing; learners and baselines are in play.
        role: Of their lineage; None for all.
        learner_id: Of which lineage; None for all.
        sort: By what; those that are equal come in order of their rank.
        descending: Whether the most comes first.
    """

    search: str = ""
    kind: wire.Kind | None = None
    show: Show = "in_play"
    role: wire.Role | None = None
    learner_id: int | None = None
    sort: Sort = "rank"
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Ranked:
    """A line of the table.

    Attributes:
        id: Of the player.
        rank: Among the environment's players in play, by rating - 2 RD, from 1; None for who is out of play.
        name: Unique in its environment and signature.
        call_sign: Of who was a commander once.
        kind: What it is.
        role: Of its lineage, if it has one.
        standing: Of a snapshot.
        checkpoint: Hash of its weights, or the name of a baseline's; None for learners.
        rating: On the Glicko scale, after the last period.
        deviation: RD.
        games: Rated ones.
        win_rate: Mean score of these, in [0, 1]; None without any.
        home: What it is rated at home, where sides are unlike and it is; None else.
        away: Likewise.
        learner_id: Of its lineage.
        lineage: Name of it.
        step: At which a snapshot was published.
        created_at: When.
    """

    id: int
    rank: int | None
    name: str
    call_sign: str | None
    kind: wire.Kind
    role: wire.Role | None
    standing: wire.Standing | None
    checkpoint: str | None
    rating: float
    deviation: float
    games: int
    win_rate: float | None
    home: OnSide | None
    away: OnSide | None
    learner_id: int | None
    lineage: str | None
    step: int | None
    created_at: datetime


@dataclass(frozen=True)
class Extent:
    """How many players there are, and the ends of all their 95 % bands; 0 where there are none."""

    players: int
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Table:
    """Everybody of an environment, in order of their ranks; who has none comes last.

    Attributes:
        players: In that order.
        sides: What home and away are called where they are unlike; None where they are alike.
    """

    players: Sequence[Ranked]
    sides: tuple[str, str] | None

    def chosen(self, choice: Choice) -> list[Ranked]:
        """Return the chosen players, in the chosen order."""
        return _ordered([one for one in self.players if _is_chosen(one, choice)], choice)

    def find(self, player_id: int) -> Ranked:
        """Return one player's line.

        Raises:
            UnknownPlayerError: It has none in this table.
        """
        if player_id not in self._by_id:
            raise UnknownPlayerError(player_id, "no player of this environment has this id", "see GET /players")
        return self._by_id[player_id]

    def strongest(self) -> Ranked | None:
        """Return the snapshot in play with the highest rating - 2 RD."""
        return next(self._snapshots_in_play(), None)

    def newest(self) -> Ranked | None:
        """Return the snapshot in play that was published last."""
        return max(self._snapshots_in_play(), key=lambda one: (one.created_at, one.id), default=None)

    def _snapshots_in_play(self) -> Iterator[Ranked]:
        return (one for one in self.players if one.kind == "snapshot" and one.rank is not None)

    @cached_property
    def _by_id(self) -> dict[int, Ranked]:
        return {one.id: one for one in self.players}


def table(session: Session, cache: PopulationCache, environment: str) -> Table:
    """Return the table of an environment as the session sees it."""
    return cache.get(session, environment).cached("table", lambda: _read(session, environment))


def extent(players: Iterable[Ranked]) -> Extent:
    """Measure some players."""
    ends = [(one.rating - 2.0 * one.deviation, one.rating + 2.0 * one.deviation) for one in players]
    return Extent(len(ends), min((low for low, _ in ends), default=0.0), max((high for _, high in ends), default=0.0))


def lineages(session: Session, environment: str, limit: int, chosen: int | None = None) -> dict[int, str]:
    """Name the environment's newest lineages and a chosen one, by the id of their learner, in alphabetical order."""
    of_environment = Learner.environment == environment
    newest = select(Learner.id).where(of_environment).order_by(Learner.id.desc()).limit(limit)
    shown = or_(Learner.id.in_(newest), Learner.id == chosen)
    query = select(Learner.id, Learner.name).where(of_environment, shown).order_by(Learner.name)
    return dict(session.execute(query).all())


def _read(session: Session, environment: str) -> Table:
    columns = (
        Player.id,
        Player.name,
        Player.call_sign,
        Player.kind,
        Player.role,
        Player.standing,
        Player.checkpoint,
        func.coalesce(Rating.rating, Player.start_rating).label("rating"),
        func.coalesce(Rating.deviation, Player.start_deviation).label("deviation"),
        func.coalesce(Rating.games, 0).label("games"),
        Rating.score,
        Player.learner_id,
        Learner.name.label("lineage"),
        Player.step,
        Player.created_at,
    )
    everybody = rated_players.rated().where(Player.environment == environment)
    query = everybody.with_only_columns(*columns).outerjoin(Learner, Learner.id == Player.learner_id)
    playing = rated_players.in_play().label("in_play")
    ranked = query.add_columns(playing).order_by(playing.desc(), rated_players.conservative().desc(), Player.id)
    sides = environments.sides(session, environment)
    on_sides = side_ratings.of_environment(session, environment) if sides else {}
    lines = enumerate(session.execute(ranked), start=1)
    return Table([_line(rank, row._asdict(), on_sides.get(row.id, {})) for rank, row in lines], sides)


def _line(rank: int, values: dict[str, Any], on_sides: Mapping[str, OnSide]) -> Ranked:
    score, games = values.pop("score"), values["games"]
    return Ranked(
        rank=rank if values.pop("in_play") else None,
        win_rate=score / games if games else None,
        home=on_sides.get("home"),
        away=on_sides.get("away"),
        **values,
    )


def _is_chosen(one: Ranked, choice: Choice) -> bool:
    wanted = ((one.kind, choice.kind), (one.role, choice.role), (one.learner_id, choice.learner_id))
    if any(asked is not None and value != asked for value, asked in wanted):
        return False
    shown = one.rank is not None if choice.show == "in_play" else choice.show in ("all", one.standing)
    return shown and _is_named(one, choice.search.strip().lower())


def _is_named(one: Ranked, sought: str) -> bool:
    if not sought or sought in one.name.lower() or (one.call_sign is not None and sought in one.call_sign.lower()):
        return True
    return len(sought) >= _HASH_LEAST and (one.checkpoint or "").startswith(sought)


def _ordered(players: list[Ranked], choice: Choice) -> list[Ranked]:
    """Sort players that come by rank. Who is out of play, or has no value, comes last either way."""
    if choice.sort == "age":
        return sorted(players, key=lambda one: (one.created_at, one.id), reverse=not choice.descending)
    value: Callable[[Ranked], Any] = _VALUES.get(choice.sort, attrgetter(choice.sort))
    known = [one for one in players if value(one) is not None]
    unknown = [one for one in players if value(one) is None]
    return sorted(known, key=value, reverse=choice.descending) + unknown


_VALUES: dict[Sort, Callable[[Ranked], Any]] = {
    "name": lambda one: display_name(one).lower(),
    "lineage": lambda one: None if one.lineage is None else one.lineage.lower(),
    "home": lambda one: None if one.home is None else one.home.rating,
    "away": lambda one: None if one.away is None else one.away.rating,
}
"""What those columns are sorted by that are not sorted by just what they hold."""
