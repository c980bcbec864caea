"""Tables and JSON that commands print; times are local."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel
from pydantic_core import to_json
from rich.console import Console, RenderableType

from league import wire
from league.cli.output.grid import Grid, printable

PIPED_WIDTH = 100_000
"""Width without a terminal, large enough that lines never wrap."""

NONE = "–"  # noqa: RUF001 - an en dash for missing values


class Provisional(Protocol):
    """A row with a rating that may be provisional."""

    @property
    def provisional(self) -> bool:
        """Whether its interval is too wide for a promotion."""


def rating(player: wire.Player) -> str:
    """Format a player's rating ± 2 RD, its 95 % interval, with marks if it is provisional or misleads."""
    marks = ("?" if player.provisional else "") + ("≠" if player.rating_misleads else "")
    return interval(player.rating, player.deviation) + marks


def interval(rating: float, deviation: float) -> str:
    """Format a rating ± 2 RD."""
    return f"{rating:.0f} ± {2 * deviation:.0f}"


def moment(at: datetime) -> str:
    """Format a time in the local time zone."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def share(value: float | None) -> str:
    """Format a share in [0, 1] as a percentage."""
    return NONE if value is None else f"{100 * value:.1f} %"


def display_name(player: wire.Player) -> str:
    """Return the player's name, after its call sign if it has one."""
    return player.name if player.call_sign is None else f"{player.call_sign} ({player.name})"


def period_line(period: wire.RatingPeriod) -> str:
    """Return a rating period as one line."""
    counts = f"{period.matches} matches, {period.players} players"
    name = f"{period.number}" if period.id == period.number else f"{period.number} (id {period.id})"
    reason = period.reason.removeprefix("closed: ")
    return f"rating period {name} closed at {period.closed_at.astimezone():%H:%M:%S}: {counts} ({reason})"


def standings(rows: Iterable[wire.StandingsItem], title: str | None = None) -> Grid:
    """Return the standings table, with ratings per side in asymmetric games."""
    lines = list(rows)
    sides = {side.side: f"{side.side}: {side.name}" for row in lines for side in row.sides}
    order = sorted(sides, reverse=True)
    names = [sides[side] for side in order]
    return Grid(
        [["rank", "id"], ["player", "kind", "standing"], ["rating ± 2 RD", *names, "RD", "games", "win rate"]],
        [
            [
                *(str(row.rank), str(row.id), display_name(row), row.kind, row.standing or NONE),
                *(rating(row), *_side_ratings(row, order), f"{row.deviation:.0f}"),
                *(str(row.games), share(row.win_rate)),
            ]
            for row in lines
        ],
        "no ranked players; `league players` lists all players, and `trainer run` registers a learner",
        title,
        brief=["rank", "id", "player", "rating ± 2 RD", *names] if names else (),
    )


def _side_ratings(player: wire.Player, sides: Sequence[str]) -> list[str]:
    known: dict[str, str] = {each.side: interval(each.rating, each.deviation) for each in player.sides}
    return [known.get(side, NONE) for side in sides]


def learners(rows: Sequence[wire.Learner]) -> Grid:
    """Return a table of learners; a single environment becomes the title."""
    environments = {row.environment for row in rows}
    several = len(environments) > 1
    return Grid(
        [
            ["id"],
            ["learner", *(["environment"] if several else []), "role"],
            ["step", "steps/s", "resets", "last at step"],
        ],
        [
            [
                *(str(row.id), row.name, *([row.environment] if several else []), row.role),
                *(NONE if row.step is None else f"{row.step:,}", _per_second(row)),
                *(str(row.resets), f"{row.began_step:,}" if row.resets else NONE),
            ]
            for row in rows
        ],
        "no learners; `trainer run` registers one, and `league up --league-play` registers three",
        environments.pop() if len(environments) == 1 else None,
    )


def _per_second(learner: wire.Learner) -> str:
    speed = learner.metrics.get("charts/SPS")
    return NONE if speed is None else f"{speed:,.0f}"


def explain_provisional(rows: Iterable[Provisional]) -> list[str]:
    """Return the legend of question marks in a table, if it has any."""
    provisional = "?: provisional, the interval is still too wide for a promotion; rating matches narrow it"
    return [provisional] if any(row.provisional for row in rows) else []


def explain_marks(players: Iterable[wire.Player]) -> list[str]:
    """Return the legend of the marks in a table of players, one line each."""
    shown = list(players)
    misleads = "≠: results against single opponents differ from those that ratings predict, beyond chance"
    return explain_provisional(shown) + ([misleads] if any(player.rating_misleads for player in shown) else [])


def show_page(page: wire.Page[Any], as_json: bool, table: Grid, legend: Iterable[str] = ()) -> None:
    """Print a page as JSON or as the given table with its legend."""
    if as_json:
        show_json(page)
    else:
        more = [] if page.next_cursor is None else [f"more rows: --cursor {page.next_cursor}"]
        show(table, *legend, *more)


def show(*parts: RenderableType) -> None:
    """Print to a terminal at its width, otherwise without wrapping."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=PIPED_WIDTH)
    for number, part in enumerate(parts):
        if number and isinstance(part, Grid) and part.title:
            console.print()
        console.print(printable(part) if isinstance(part, str) else part)


def show_json(value: BaseModel | Mapping[str, Any]) -> None:
    """Print the JSON that the server would send."""
    Console().print_json(to_json(value).decode())
