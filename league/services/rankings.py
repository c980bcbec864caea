"""The league table as people look at it: ranked, filtered, searched and sorted by the database, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, Subquery, case, func, or_, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Learner, Player, Rating
from league.services import standings

Sort = Literal["rank", "name", "kind", "role", "standing", "rating", "deviation", "games", "win_rate", "lineage", "age"]
Show = Literal["in_play", "all", "candidate", "commander", "retired", "quarantined"]

_HASH_LEAST = 6
"""So many characters of a checkpoint's hash are searched for."""


@dataclass(frozen=True)
class Choice:
    """Which players of an environment are wanted, and in what order.

    Attributes:
        environment: Whose players.
        search: Part of a name or call-sign, or the beginning of a checkpoint's hash; empty for all.
        kind: None for all.
        show: Of which standing; learners and baselines are in play.
        role: Of their lineage; None for all.
        learner_id: Of which lineage; None for all.
        sort: By what; those that are equal come in order of their rank.
        descending: Whether the most comes first.
    """

    environment: str
    search: str = ""
    kind: wire.Kind | None = None
    show: Show = "in_play"
    role: wire.Role | None = None
    learner_id: int | None = None
    sort: Sort = "rank"
    descending: bool = False


@dataclass(frozen=True)
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
        rating: On the Glicko scale, after the last period.
        deviation: RD.
        games: Rated ones.
        win_rate: Mean score of these, in [0, 1]; None without any.
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
    rating: float
    deviation: float
    games: int
    win_rate: float | None
    learner_id: int | None
    lineage: str | None
    step: int | None
    created_at: datetime


@dataclass(frozen=True)
class Extent:
    """How many players a choice leaves, and the ends of all their 95 % bands; 0 where there are none."""

    players: int
    low: float
    high: float


def table(session: Session, choice: Choice, limit: int, offset: int = 0) -> list[Ranked]:
    """Return a page of the chosen players, in the chosen order."""
    everybody = _ranked(choice.environment)
    query = select(everybody).where(*_chosen(everybody, choice)).order_by(*_order(everybody, choice))
    return [_line(row) for row in session.execute(query.limit(limit).offset(offset))]


def among(session: Session, choice: Choice, ids: Sequence[int]) -> list[Ranked]:
    """Return those of the chosen players that have one of these ids, in the chosen order."""
    everybody = _ranked(choice.environment)
    query = select(everybody).where(*_chosen(everybody, choice), everybody.c.id.in_(ids))
    return [_line(row) for row in session.execute(query.order_by(*_order(everybody, choice)))]


def extent(session: Session, choice: Choice) -> Extent:
    """Measure what a choice leaves."""
    everybody = _ranked(choice.environment)
    ends = [everybody.c.rating + sign * 2.0 * everybody.c.deviation for sign in (-1, 1)]
    query = select(func.count(), func.min(ends[0]), func.max(ends[1])).where(*_chosen(everybody, choice))
    players, low, high = session.execute(query).one()
    return Extent(players, low or 0.0, high or 0.0)


def find(session: Session, player_id: int) -> Ranked:
    """Return one player's line.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    player, _ = standings.require(session, player_id)
    everybody = _ranked(player.environment)
    return _line(session.execute(select(everybody).where(everybody.c.id == player_id)).one())


def lineages(session: Session, environment: str) -> dict[int, str]:
    """Name the environment's lineages, by the id of their learner, in alphabetical order."""
    query = select(Learner.id, Learner.name).where(Learner.environment == environment).order_by(Learner.name)
    return dict(session.execute(query).all())


def strongest(session: Session, environment: str) -> Ranked | None:
    """Return the snapshot in play with the highest rating - 2 RD."""
    return next(iter(table(session, Choice(environment, kind="snapshot"), 1)), None)


def newest(session: Session, environment: str) -> Ranked | None:
    """Return the snapshot in play that was published last."""
    choice = Choice(environment, kind="snapshot", sort="age")
    return next(iter(table(session, choice, 1)), None)


def _ranked(environment: str) -> Subquery:
    """Select an environment's players, each with its rank among those in play."""
    rated = standings.rated().where(Player.environment == environment)
    playing = standings.in_play()
    place = func.row_number().over(partition_by=playing, order_by=(standings.conservative().desc(), Player.id))
    columns = (
        Player.id,
        case((playing, place)).label("rank"),
        Player.name,
        Player.call_sign,
        Player.kind,
        Player.role,
        Player.standing,
        Player.checkpoint,
        func.coalesce(Rating.rating, Player.start_rating).label("rating"),
        func.coalesce(Rating.deviation, Player.start_deviation).label("deviation"),
        func.coalesce(Rating.games, 0).label("games"),
        case((Rating.games > 0, Rating.score / Rating.games)).label("win_rate"),
        Player.learner_id,
        Learner.name.label("lineage"),
        Player.step,
        Player.created_at,
        func.coalesce(Player.call_sign, Player.name).label("shown"),
    )
    return rated.with_only_columns(*columns).outerjoin(Learner, Learner.id == Player.learner_id).subquery()


def _chosen(everybody: Subquery, choice: Choice) -> list[ColumnElement[bool]]:
    column = everybody.c
    equal = ((column.kind, choice.kind), (column.role, choice.role), (column.learner_id, choice.learner_id))
    conditions = [each == value for each, value in equal if value is not None]
    if choice.show == "in_play":
        conditions.append(column.rank.is_not(None))
    elif choice.show != "all":
        conditions.append(column.standing == choice.show)
    if choice.search.strip():
        conditions.append(_named(everybody, choice.search.strip().lower()))
    return conditions


def _named(everybody: Subquery, sought: str) -> ColumnElement[bool]:
    names = everybody.c.name, everybody.c.call_sign
    found = [func.lower(name).contains(sought, autoescape=True) for name in names]
    if len(sought) >= _HASH_LEAST:
        found.append(everybody.c.checkpoint.startswith(sought, autoescape=True))
    return or_(*found)


def _order(everybody: Subquery, choice: Choice) -> tuple[ColumnElement[Any], ...]:
    """Return what to sort by. Who is out of play, or has no value, comes last either way."""
    names = {"name": "shown", "age": "created_at"}
    column: ColumnElement[Any] = everybody.c[names.get(choice.sort, choice.sort)]
    column = func.lower(column) if choice.sort in ("name", "lineage") else column
    by_rank = everybody.c.rank.asc().nulls_last(), everybody.c.id.asc()
    if choice.sort != "age":
        return (column.desc() if choice.descending else column.asc()).nulls_last(), *by_rank
    youth = column, everybody.c.id  # of those that were published in one moment, too, one was the last
    return tuple(each.asc() if choice.descending else each.desc() for each in youth)


def _line(row: "Row[Any]") -> Ranked:
    values = row._asdict()
    return Ranked(**{name: values[name] for name in Ranked.__dataclass_fields__})
