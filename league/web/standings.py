"""Standings page: all players of an environment, ranked, filtered and sorted."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import ID_LIMIT, TEXT, Running
from league.api.state import AppState
from league.services.leaderboard import standings
from league.services.leaderboard.standings import Extent, Sort, Standings, StandingsFilter, StandingsRow
from league.services.lifecycle import champions
from league.web.layout import OFFERED_MAX, PageRoute, Visit, Visiting, is_part
from league.web.templating import query

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 100
"""Rows loaded at a time; further ones follow as the visitor scrolls."""

SHEET = 500
"""Maximum rows of a page, because browsers become slow with more; links lead to the previous and next ones."""

_IDS_MAX = 300
_MOST_FIRST: frozenset[Sort] = frozenset({"rating", "home", "away", "games", "win_rate"})


class PageQuery(BaseModel):
    """Query of the page; forms send an empty string for no value."""

    q: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    kind: wire.Kind | Literal[""] = ""
    show: Literal["in_play", "all", "candidate", "commander", "retired", "quarantined"] = "in_play"
    role: wire.Role | Literal[""] = ""
    lineage: Annotated[int, Field(ge=1, lt=ID_LIMIT)] | Literal[""] = ""
    sort: Sort = "rank"
    order: Literal["", "ascending", "descending"] = ""

    @property
    def descending(self) -> bool:
        """Whether the order is descending, which is the default for numeric results."""
        return self.order == "descending" if self.order else self.sort in _MOST_FIRST

    @property
    def filtered(self) -> bool:
        """Whether the filter may exclude active players."""
        return any((self.q, self.kind, self.role, self.lineage, self.show not in ("in_play", "all")))

    def choice(self) -> StandingsFilter:
        """Return the filter of the query."""
        return StandingsFilter(
            search=self.q,
            kind=self.kind or None,
            standing=None if self.show == "all" else self.show,
            role=self.role or None,
            learner_id=self.lineage or None,
            sort=self.sort,
            descending=self.descending,
        )

    def address(self, visit: Visit, path: str = "/standings", **changes: Any) -> str:  # noqa: ANN401 - parameters of an address
        """Return the URL of this query with some changes, without default values."""
        params = self.model_copy(update=changes).model_dump(exclude_defaults=True, exclude=set(changes) - set(FIELDS))
        beside = {name: value for name, value in changes.items() if name not in FIELDS}
        return query(path, environment=visit.chosen, **params, **beside)

    def sorted_by(self, visit: Visit, column: Sort) -> str:
        """Return the URL of the table sorted by a column, in reverse order if it is sorted by it already."""
        turned = "ascending" if self.descending else "descending"
        return self.address(visit, sort=column, order=turned if column == self.sort else "")


FIELDS = frozenset(PageQuery.model_fields)
QueryParams = Annotated[PageQuery, Query()]
Offset = Annotated[int, Query(ge=0, lt=ID_LIMIT)]


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        sort: Sort key.
        label: Heading.
        style: CSS classes of its cells: `number` aligns right, `wide` is hidden on narrow screens.
        about: Explanation.
    """

    sort: Sort
    label: str
    style: str
    about: str


COLUMNS = (
    Column("rank", "#", "number", "Rank among active players, by rating - 2 RD"),
    Column("name", "Player", "", "Call-sign, or name"),
    Column("kind", "Kind", "wide", "Learner (in training), snapshot (frozen) or baseline (scripted)"),
    Column("role", "Role", "wider", "Role of its learner"),
    Column("standing", "Standing", "wide", "Candidate, commander, retired or quarantined"),
    Column("rating", "Rating", "number", "Glicko-2, with its 95 % interval: ± 2 RD"),
    Column("games", "Games", "number", "Rated games"),
    Column("win_rate", "Win rate", "number wide", "Expected score against the active frozen players"),
    Column("age", "Age", "number wide", "Time since it was published"),
)


def columns(sides: tuple[str, str] | None) -> list[Column]:
    """Return the columns of the table, with ratings on each side for asymmetric games."""
    home, away = sides or ("", "")
    of_sides = (
        Column("home", f"Home, {home}", "number wide side", "Rating at home, against players away"),
        Column("away", f"Away, {away}", "number wide side", "Rating away, against players at home"),
    )
    after = next(index for index, column in enumerate(COLUMNS, start=1) if column.sort == "rating")
    return [*COLUMNS[:after], *(of_sides if sides else ()), *COLUMNS[after:]]


@dataclass(frozen=True)
class Lines:
    """Rows of the table.

    Attributes:
        players: The players in order.
        extent: Range of the ratings of all selected players, for drawing intervals.
        champion: Id of the environment's champion, if there is one.
        columns: Columns of the table.
        offset: Number of preceding rows.
        more: Offset of the next rows; None after the last.
    """

    players: list[StandingsRow]
    extent: Extent
    champion: int | None
    columns: list[Column]
    offset: int
    more: int | None

    @property
    def before(self) -> int:
        """Offset of the previous page."""
        return max(0, self.offset - 1) // SHEET * SHEET

    @property
    def follow(self) -> bool:
        """Whether the next rows belong to the same page."""
        return self.more is not None and self.more % SHEET != 0

    @property
    def sided(self) -> bool:
        """Whether there are columns for sides."""
        return len(self.columns) > len(COLUMNS)


@dataclass(frozen=True)
class Highlights:
    """Players at the top of the page."""

    champion: StandingsRow | None
    strongest: StandingsRow | None
    newest: StandingsRow | None


@router.get("/standings")
def show(request: Request, league: Running, visit: Visiting, params: QueryParams, offset: Offset = 0) -> HTMLResponse:
    """Show the table; a script receives only the part below the filters."""
    with league.database.read() as session:
        table, champion = _table(session, league, visit)
        lines = _lines(table, params, offset, champion)
        values: dict[str, Any] = {"lines": lines, "params": params}
        if is_part(request):
            return visit.part("_standings.html", **values)
        offered = standings.list_lineages(session, visit.environment, OFFERED_MAX, params.lineage or None)
        values["lineages"] = {"": "every lineage", **offered}
        values["highlights"] = _highlights(table, champion)
    return visit.page("standings.html", "standings", "Standings", **values)


@router.get("/standings/rows")
def rows(league: Running, visit: Visiting, params: QueryParams, offset: Offset = 0) -> HTMLResponse:
    """Return further rows of the table."""
    with league.database.read() as session:
        table, champion = _table(session, league, visit)
    return visit.part("_standings_rows.html", lines=_lines(table, params, offset, champion), params=params)


@router.get("/standings/now")
def now(
    league: Running,
    visit: Visiting,
    params: QueryParams,
    ids: Annotated[str, Query(pattern=r"^[0-9]{1,18}(,[0-9]{1,18})*$", max_length=19 * _IDS_MAX)],
) -> HTMLResponse:
    """Return the current state and order of the rows that a page shows."""
    wanted = {int(each) for each in ids.split(",")}
    with league.database.read() as session:
        table, champion = _table(session, league, visit)
    chosen = table.select(params.choice())
    shown = [one for one in chosen if one.id in wanted]
    lines = Lines(shown, standings.measure_extent(chosen), champion, columns(table.sides), offset=0, more=None)
    return visit.part("_standings_now.html", lines=lines, params=params)


@router.get("/standings/highlights")
def highlights(league: Running, visit: Visiting) -> HTMLResponse:
    """Return the highlighted players."""
    with league.database.read() as session:
        found = _highlights(*_table(session, league, visit))
    return visit.part("_highlights.html", highlights=found)


def _table(session: Session, league: AppState, visit: Visit) -> tuple[Standings, int | None]:
    """Return the standings and the champion's id."""
    table = standings.get_standings(session, league.settings, league.population, visit.environment)
    return table, champions.champion_id(session, visit.environment)


def _lines(table: Standings, params: PageQuery, offset: int, champion: int | None) -> Lines:
    """Return rows of the table, from its beginning if the offset is past its end."""
    chosen = table.select(params.choice())
    # Players may have left the selection since the visitor received the link.
    first = offset if offset < len(chosen) else 0
    end = first + PAGE if first + PAGE < len(chosen) else None
    return Lines(chosen[first:end], standings.measure_extent(chosen), champion, columns(table.sides), first, more=end)


def _highlights(table: Standings, champion: int | None) -> Highlights:
    holder = None if champion is None else table.find(champion)
    return Highlights(champion=holder, strongest=table.strongest(), newest=table.newest())
