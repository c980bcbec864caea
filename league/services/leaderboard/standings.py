"""Standings of an environment, now or at a past period: ranked, filtered, searched and sorted.

The current ones are cached with the population, because after a period all open pages request them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from sqlalchemy import SQLColumnExpression, func, or_, select
from sqlalchemy.orm import Session

from arena.ratings.glicko2 import Ratings
from league import wire
from league.db.models import Event, Learner, Period, Player, PlayerTag, Rating
from league.errors import InvalidRequestError, UnknownPeriodError, UnknownPlayerError
from league.player_names import display_name
from league.provisional import is_provisional
from league.services.environments import lookup as environments
from league.services.leaderboard import deviations
from league.services.leaderboard.population_win_rate import population_win_rates
from league.services.population.cache import PopulationCache
from league.services.ratings import pair_predictions, rated_players, side_ratings
from league.services.ratings.pair_predictions import Ancestry
from league.services.ratings.side_ratings import OnSide, OnSides
from league.settings import Settings

Sort = Literal[
    "conservative",
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

_HASH_LEAST = 6
"""Minimum length of a search term that is compared with the start of checkpoint hashes."""


@dataclass(frozen=True)
class StandingsFilter:
    """Filter and order of the listed players.

    Attributes:
        search: Part of a name or call-sign, or the start of a checkpoint's hash; empty for all.
        kind: None for all.
        standing: Standing of snapshots; "in_play" includes learners and baselines; None for all.
        role: Role of the learner; None for all.
        learner_id: Id of the learner; None for all.
        sort: Column to sort by; ties are in order of rank.
        descending: Whether the largest value comes first.
    """

    search: str = ""
    kind: wire.Kind | None = None
    standing: wire.Standing | Literal["in_play"] | None = None
    role: wire.Role | None = None
    learner_id: int | None = None
    sort: Sort = "rank"
    descending: bool = False


@dataclass(frozen=True, slots=True)
class StandingsRow:
    """A player in the standings.

    Attributes:
        id: Id of the player.
        place: Position among all players of the environment, by rating - 2 RD, from 1.
        rank: Position among active players, from 1; None for inactive ones.
        name: Unique in its environment and signature.
        call_sign: Call-sign of a current or former commander.
        kind: Learner, snapshot, baseline or external.
        role: Role of its learner, if any.
        standing: Standing of a snapshot.
        checkpoint: Hash of its weights, or the baseline's name; None for learners.
        rating: On the Glicko scale, after the last period.
        deviation: Rating deviation (RD).
        provisional: Whether the interval is too wide for a promotion.
        rating_misleads: Whether the player's results differ from those that ratings predict; None for past standings.
        games: Number of rated games.
        win_rate: Expected score against the current population, in [0, 1]; None for a player without games.
        home: Rating at home in asymmetric games; None without one.
        away: Rating away, likewise.
        learner_id: Id of its learner.
        lineage: Name of its learner.
        step: Step at which a snapshot was published.
        tags: Tags in alphabetical order.
        created_at: Time of creation.
    """

    id: int
    place: int
    rank: int | None
    name: str
    call_sign: str | None
    kind: wire.Kind
    role: wire.Role | None
    standing: wire.Standing | None
    checkpoint: str | None
    rating: float
    deviation: float
    provisional: bool
    rating_misleads: bool | None
    games: int
    win_rate: float | None
    home: OnSide | None
    away: OnSide | None
    learner_id: int | None
    lineage: str | None
    step: int | None
    tags: Sequence[str]
    created_at: datetime


@dataclass(frozen=True)
class Extent:
    """Number of players and the range of their 95 % intervals; 0 without players."""

    players: int
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Standings:
    """All players of an environment in order of rank; inactive ones come last.

    Attributes:
        rows: The players in that order.
        sides: Names of home and away in asymmetric games, else None.
    """

    rows: Sequence[StandingsRow]
    sides: tuple[str, str] | None

    def select(self, wanted: StandingsFilter) -> list[StandingsRow]:
        """Return the players that pass the filter, in its order."""
        rows: Iterable[StandingsRow] = self.rows
        for column in ("kind", "role", "learner_id"):
            if (value := getattr(wanted, column)) is not None:
                rows = [row for row in rows if getattr(row, column) == value]
        if wanted.standing == "in_play":
            rows = [row for row in rows if row.rank is not None]
        elif wanted.standing is not None:
            rows = [row for row in rows if row.standing == wanted.standing]
        if text := wanted.search.strip().lower():
            rows = [row for row in rows if _is_found(row, text)]
        return _sorted(rows, wanted)

    def find(self, player_id: int) -> StandingsRow:
        """Return one player's row.

        Raises:
            UnknownPlayerError: The standings do not contain it.
        """
        if player_id not in self._by_id:
            raise UnknownPlayerError(player_id, "no player of this environment has this id", "see GET /players")
        return self._by_id[player_id]

    def strongest(self) -> StandingsRow | None:
        """Return the active snapshot with the highest rating - 2 RD."""
        return next(self._snapshots_in_play(), None)

    def newest(self) -> StandingsRow | None:
        """Return the active snapshot that was published last."""
        return max(self._snapshots_in_play(), key=lambda row: (row.created_at, row.id), default=None)

    def _snapshots_in_play(self) -> Iterator[StandingsRow]:
        return (row for row in self.rows if row.kind == "snapshot" and row.rank is not None)

    @cached_property
    def _by_id(self) -> dict[int, StandingsRow]:
        return {row.id: row for row in self.rows}


def get_standings(session: Session, settings: Settings, cache: PopulationCache, environment: str) -> Standings:
    """Return the standings of an environment as of the session's snapshot."""

    def read() -> Standings:
        misleading = deviations.get_deviations(session, cache, environment).players
        return _read(session, settings, environment, misleading)

    return cache.get(session, environment).cached("standings", read)


def get_past_standings(session: Session, settings: Settings, environment: str, period_id: int) -> Standings:
    """Return the standings at the end of a past period: ratings, games, standings and call-signs of that time.

    Raises:
        UnknownPeriodError: There is no such period.
        InvalidRequestError: It belongs to another environment.
    """
    period = session.get(Period, period_id)
    if period is None:
        raise UnknownPeriodError(period_id, "no rating period has this id", "list them with GET /rating-periods")
    if period.environment != environment:
        rule = f"it is a rating period of {period.environment}, not of {environment}"
        raise InvalidRequestError(f"as_of={period_id}", rule, "use a rating period of the same environment")
    return _read(session, settings, environment, None, period)


def show(
    session: Session, settings: Settings, rows: Sequence[StandingsRow], ranks: Mapping[int, int], as_of: int | None
) -> list[wire.StandingsItem]:
    """Return rows with the other fields of their players, such as metadata, under the given ranks by player id."""
    query = rated_players.rated(as_of).where(Player.id.in_([row.id for row in rows]))
    found = {player.id: (player, rating) for player, rating in session.execute(query)}
    sides = side_ratings.of_players(session, [player for player, _ in found.values()], as_of)
    return [
        wire.StandingsItem.model_validate(
            rated_players.fields(*found[row.id], settings)
            | {
                "rank": ranks[row.id],
                "win_rate": row.win_rate,
                "rating_misleads": row.rating_misleads,
                "sides": sides.get(row.id, []),
                "tags": list(row.tags),
                "standing": row.standing,
                "call_sign": row.call_sign,
            }
        )
        for row in rows
    ]


def measure_extent(rows: Iterable[StandingsRow]) -> Extent:
    """Return the number of players and the range of their intervals."""
    ends = [(row.rating - 2.0 * row.deviation, row.rating + 2.0 * row.deviation) for row in rows]
    return Extent(len(ends), min((low for low, _ in ends), default=0.0), max((high for _, high in ends), default=0.0))


def list_lineages(session: Session, environment: str, limit: int, chosen: int | None = None) -> dict[int, str]:
    """Return the names of the environment's newest learners and a chosen one, by learner id, in alphabetical order."""
    of_environment = Learner.environment == environment
    newest = select(Learner.id).where(of_environment).order_by(Learner.id.desc()).limit(limit)
    shown = or_(Learner.id.in_(newest), Learner.id == chosen)
    query = select(Learner.id, Learner.name).where(of_environment, shown).order_by(Learner.name)
    return dict(session.execute(query).all())


def _read(
    session: Session,
    settings: Settings,
    environment: str,
    misleading: frozenset[int] | None,
    past: Period | None = None,
) -> Standings:
    """Read the standings, now or at a past period; `misleading` are the players whose rating misleads."""
    as_of = None if past is None else past.id
    query = rated_players.rated(as_of).where(Player.environment == environment)
    logged: tuple[SQLColumnExpression[str | None], ...] = Player.standing, Player.call_sign
    if past is not None:
        # A past standing is not in the player's row, but in the last audit event before the period was closed.
        change = Event.id == rated_players.last_change(past.closed_at)
        query = query.where(Player.created_at <= past.closed_at).outerjoin(Event, change)
        logged = rated_players.logged_standing(), rated_players.logged_call_sign()
    columns: tuple[SQLColumnExpression[Any], ...] = (
        Player.id,
        Player.name,
        Player.kind,
        Player.role,
        Player.checkpoint,
        Player.learner_id,
        Player.step,
        Player.created_at,
        func.coalesce(Rating.rating, Player.start_rating).label("rating"),
        func.coalesce(Rating.deviation, Player.start_deviation).label("deviation"),
        func.coalesce(Rating.games, 0).label("games"),
        rated_players.standard_error_column().label("standard_error"),
        Learner.name.label("lineage"),
        logged[0].label("standing"),
        logged[1].label("call_sign"),
    )
    named = query.with_only_columns(*columns).outerjoin(Learner, Learner.id == Player.learner_id)
    ranked = named.order_by(rated_players.conservative().desc(), Player.id)
    own = select(Player.id).where(Player.environment == environment)
    tags = rated_players.get_tags(session, PlayerTag.player_id.in_(own))
    found = []
    for place, row in enumerate(session.execute(ranked), start=1):
        values = row._asdict()
        standard_error = values.pop("standard_error")
        values |= {
            "place": place,
            "provisional": is_provisional(row.kind, standard_error, settings),
            "rating_misleads": None if misleading is None else row.id in misleading,
            "tags": tags.get(row.id, ()),
        }
        found.append(values)
    sides = environments.sides(session, environment)
    on_sides = side_ratings.of_environment(session, environment, as_of) if sides else {}
    in_play = [values for values in found if values["standing"] not in rated_players.OUT_OF_PLAY]
    others = [values for values in found if values["standing"] in rated_players.OUT_OF_PLAY]
    rates = _win_rates(session, None if past is not None else environment, in_play, others)
    rows = [
        _row(rank if rank <= len(in_play) else None, values | {"win_rate": rate}, on_sides.get(values["id"], {}))
        for rank, (values, rate) in enumerate(zip(in_play + others, rates, strict=True), start=1)
    ]
    return Standings(rows, sides)


def _win_rates(
    session: Session, environment: str | None, in_play: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]
) -> list[float | None]:
    """Return the win rates of active and other players against the active frozen ones; None without games.

    The environment's pair model predicts. For past standings (None) Glicko-2 does, because old fits are not stored.
    """
    players = [*in_play, *others]
    columns = ([values[name] for values in players] for name in ("rating", "deviation"))
    rating, deviation = (np.array(column, dtype=np.float64) for column in columns)
    ratings = Ratings(rating, deviation, np.zeros_like(rating))
    # Learners are left out: their weights change, so the same player would score differently a minute later.
    frozen = [index for index, values in enumerate(in_play) if values["kind"] != "learner"]
    predictor = None
    if environment is not None:
        ancestries = [
            Ancestry.of(*(values[name] for name in ("id", "role", "learner_id", "step"))) for values in players
        ]
        predictor = pair_predictions.load(session, environment, ancestries, rating)
    predict = partial(pair_predictions.expected, predictor, ratings)
    rates = population_win_rates(predict, len(players), np.array(frozen, dtype=np.int64))
    return [rate if values["games"] else None for values, rate in zip(players, rates, strict=True)]


def _row(rank: int | None, values: dict[str, Any], on_sides: OnSides) -> StandingsRow:
    return StandingsRow(rank=rank, home=on_sides.get("home"), away=on_sides.get("away"), **values)


def _is_found(row: StandingsRow, text: str) -> bool:
    if text in row.name.lower() or (row.call_sign is not None and text in row.call_sign.lower()):
        return True
    if any(text in tag.lower() for tag in row.tags):
        return True
    return len(text) >= _HASH_LEAST and (row.checkpoint or "").startswith(text)


def _sorted(rows: Iterable[StandingsRow], wanted: StandingsFilter) -> list[StandingsRow]:
    """Sort rows given in order of rank. Inactive players and rows without a value come last in either direction."""
    if wanted.sort in ("age", "conservative"):
        key = attrgetter("place") if wanted.sort == "conservative" else attrgetter("created_at", "id")
        # A place or a time of creation grows in the opposite direction to the rating or the age that it stands for.
        return sorted(rows, key=key, reverse=not wanted.descending)
    value: Callable[[StandingsRow], Any] = _VALUES.get(wanted.sort, attrgetter(wanted.sort))
    known = [row for row in rows if value(row) is not None]
    unknown = [row for row in rows if value(row) is None]
    return sorted(known, key=value, reverse=wanted.descending) + unknown


_VALUES: dict[Sort, Callable[[StandingsRow], Any]] = {
    "name": lambda row: display_name(row).lower(),
    "lineage": lambda row: None if row.lineage is None else row.lineage.lower(),
    "home": lambda row: None if row.home is None else row.home.rating,
    "away": lambda row: None if row.away is None else row.away.rating,
}
"""Sort keys of columns that are not sorted by their plain value."""
