"""Rows of the league as tables for a terminal: every rating stands as rating ± 2 RD beside its number of games.

Times are this machine's, as the options that take a time read one without a zone.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import to_json
from rich.console import Console, RenderableType
from rich.table import Table

from league import wire
from league.storage.store import Leftover, Stored

if TYPE_CHECKING:
    from league.config import Setting
    from league.services.checking import Violation
    from league.services.rerating import Comparison
    from league.services.tokens import TokenListing

PIPED_WIDTH = 200
_WRAPPED = ("player", "about", "finding", "when", "what", "by", "reason and details")

NONE = "–"  # noqa: RUF001 - an en dash, where there is nothing to say


def rating(player: wire.Player) -> str:
    """Write rating ± 2 RD, the interval that holds the true strength 19 times out of 20."""
    return f"{player.rating:.0f} ± {2 * player.deviation:.0f}"


def moment(at: datetime) -> str:
    """Write a moment in this machine's time."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def share(value: float | None) -> str:
    """Write a share in [0, 1] as a percentage."""
    return NONE if value is None else f"{100 * value:.1f} %"


def display_name(player: wire.Player) -> str:
    """Write the name, led by the call-sign where there is one."""
    return player.name if player.call_sign is None else f"{player.call_sign} ({player.name})"


def period_line(period: wire.RatingPeriod) -> str:
    """Describe a rating period."""
    counts = f"{period.matches} matches, {period.players} players"
    name = f"{period.number}" if period.id == period.number else f"{period.number} (id {period.id})"
    return f"rating period {name}: {counts}, at {period.closed_at.astimezone():%H:%M:%S} ({period.reason})"


def standings(rows: Iterable[wire.StandingsItem], title: str | None = None) -> Table:
    """Make the league table."""
    table = _table(title, ["rank", "id"], ["player", "kind", "standing"], ["rating ± 2 RD", "RD", "games", "win rate"])
    for row in rows:
        name = [str(row.rank), str(row.id), display_name(row), row.kind, row.standing or NONE]
        table.add_row(*name, rating(row), f"{row.deviation:.0f}", str(row.games), share(row.win_rate))
    return table


def players(rows: Iterable[wire.Player], title: str | None = None) -> Table:
    """Make a list of players."""
    left = ["player", "environment", "kind", "standing"]
    table = _table(title, ["id"], left, ["rating ± 2 RD", "RD", "games", "step"])
    for row in rows:
        name = [str(row.id), display_name(row), row.environment, row.kind, row.standing or NONE]
        step = NONE if row.step is None else f"{row.step:,}"
        table.add_row(*name, rating(row), f"{row.deviation:.0f}", str(row.games), step)
    return table


def champion(one: wire.Champion) -> str:
    """Describe who is champion since when."""
    holder = f"{display_name(one.player)}, id {one.player.id}"
    return f"champion of {one.environment}: {holder}, since {moment(one.since)} by {one.actor}"


def champions(rows: Iterable[wire.ChampionChange], title: str | None = None) -> Table:
    """Make a list of champions, newest first."""
    table = _table(title, ["number"], ["since", "player"], ["id"], ["by", "reason"])
    for row in rows:
        name, player_id = (NONE, NONE) if row.player is None else (row.player.name, str(row.player.player_id))
        table.add_row(str(row.number), moment(row.since), name, player_id, row.actor, row.reason)
    return table


def events(rows: Iterable[wire.Event], title: str | None = None) -> Table:
    """Make an audit log."""
    table = _table(title, ["event"], ["when", "environment", "what", "by", "reason and details"])
    for row in rows:
        what = row.kind if row.player_id is None else f"{row.kind} player {row.player_id}"
        cells = [str(row.id), moment(row.created_at), row.environment or NONE, what, row.actor]
        details = ", ".join(f"{name} {value}" for name, value in row.details.items() if value is not None)
        table.add_row(*cells, "; ".join(part for part in (row.reason, details) if part))
    return table


def ratings(rows: Iterable[wire.RatingPoint], title: str | None = None) -> Table:
    """Make a rating curve, one row a period, named by the id that `league standings --as-of` takes."""
    table = _table(title, ["period"], ["closed"], ["rating ± 2 RD", "RD", "volatility", "games"])
    for row in rows:
        interval = f"{row.rating:.0f} ± {2 * row.deviation:.0f}"
        measures = [interval, f"{row.deviation:.0f}", f"{row.volatility:.4f}", str(row.games)]
        table.add_row(str(row.period_id), moment(row.closed_at), *measures)
    return table


def matches(rows: Iterable[wire.Match], title: str | None = None) -> Table:
    """Make a match log; a score is home's."""
    table = _table(title, ["match"], ["reported", "kind", "home", "away"], ["score", "decisions"], ["ended by"])
    for row in rows:
        sides = [row.kind, row.home.name, row.away.name, f"{row.score:g}", str(row.decisions)]
        table.add_row(str(row.id), moment(row.reported_at), *sides, row.reason)
    return table


def tokens(rows: "Iterable[TokenListing]", title: str | None = None) -> Table:
    """Make a list of tokens."""
    table = _table(title, [], ["token", "scope", "created", "last used", "expires", "revoked"])
    for row in rows:
        moments = (row.created_at, row.used_at, row.expires_at, row.revoked_at)
        table.add_row(row.name, row.scope, *(NONE if each is None else moment(each) for each in moments))
    return table


def garbage(rows: Iterable[Stored | Leftover], title: str | None = None) -> Table:
    """Make a list of bytes that nobody needs."""
    table = _table(title, [], ["object"], ["bytes"], ["last touched"])
    for row in rows:
        touched = row.stored_at if isinstance(row, Stored) else row.touched_at
        table.add_row(garbage_name(row), f"{row.size_bytes:,}", moment(touched))
    return table


def garbage_name(one: Stored | Leftover) -> str:
    """Name a checkpoint by its hash, a leftover by its place in the store."""
    return one.sha256 if isinstance(one, Stored) else one.name


def comparison(one: "Comparison", title: str | None = None) -> Table:
    """Make a table of players as they are rated and as another rule would rate them."""
    ranks, ratings = ["rank", "was", "id"], ["rating ± 2 RD", "was", "change", "games"]
    table = _table(title, ranks, ["player", "kind"], ratings)
    for line in one.items:
        was, then = line.present, line.proposed
        name = [str(then.rank), str(was.rank), str(line.player_id), line.name, line.kind]
        measures = [f"{place.rating:.0f} ± {2 * place.deviation:.0f}" for place in (then, was)]
        table.add_row(*name, *measures, f"{then.rating - was.rating:+.0f}", str(then.games))
    return table


def superiority(order: wire.Superiority, title: str | None = None) -> Table:
    """Make a table of the frozen players with 95 % bands, each beside the next one and the first."""
    right = ["rating", "95 % band", "above next", "above first"]
    table = _table(title, ["rank", "id"], ["player"], right)
    for place, (player, rating) in enumerate(zip(order.players, order.ratings, strict=True)):
        band = f"{order.low[place]:.0f} to {order.high[place]:.0f}"
        odds = order.superiority[place]
        after = share(odds[place + 1]) if place + 1 < len(odds) else NONE
        before = share(odds[0]) if place else NONE
        table.add_row(str(place + 1), str(player.player_id), player.name, f"{rating:.0f}", band, after, before)
    return table


def violations(found: "Iterable[Violation]", title: str | None = None) -> Table:
    """Make a list of what is wrong with a league's books."""
    table = _table(title, [], ["invariant", "environment", "finding"])
    for one in found:
        table.add_row(one.invariant, one.environment or NONE, one.finding)
    return table


def settings(rows: "Iterable[Setting]", title: str | None = None) -> Table:
    """Make a list of settings, with the default of those that differ from it."""
    table = _table(title, [], ["setting", "value", "default", "about"])
    for row in rows:
        default = "" if row.value == row.default else row.default or NONE
        table.add_row(row.variable, row.value or NONE, default, row.about)
    return table


def workers(rows: Iterable[wire.ListedWorker], title: str | None = None) -> Table:
    """Make a list of workers; what is odd about one stands last."""
    table = _table(title, [], ["worker", "kind", "seen"], ["results", "refused"], ["remarks"])
    for row in rows:
        name = [row.name, row.kind, moment(row.seen_at), str(row.results), str(row.refused)]
        table.add_row(*name, "; ".join(worker_remarks(row)) or NONE)
    return table


def worker_remarks(worker: wire.ListedWorker) -> list[str]:
    """Say what a person should know of a worker: that it is quarantined, and what does not fit."""
    quarantine = worker.quarantine
    remarks = [] if quarantine is None else [f"quarantined since {moment(quarantine.since)}"]
    for check in worker.checks:
        if check.suspect:
            about = " ".join(part for part in (check.environment, check.kind, check.measure) if part)
            seen = f"{check.observed:.3g} where {check.expected:.3g} is expected"
            remarks.append(f"suspect {about}: {seen} ({check.results} results, p = {check.p_value:.1g})")
    return remarks


def player(one: wire.Player) -> Table:
    """Make the description of one player."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    strength = f"{rating(one)}{' (provisional)' if one.provisional else ''}, volatility {one.volatility:.4f}"
    optional = {
        "role": one.role,
        "standing": one.standing,
        "checkpoint": one.checkpoint,
        "step": one.step,
        "learner": one.learner_id,
        "parent": one.parent_id,
    }
    rows = {
        "player": f"{one.id}  {display_name(one)}",
        "kind": one.kind,
        **{name: value for name, value in optional.items() if value is not None},
        "environment": f"{one.environment}  {one.signature}",
        "rating ± 2 RD": strength,
        "games": one.games,
        "created": moment(one.created_at),
        **one.metadata,
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


def show_page(page: wire.Page[Any], as_json: bool, table: Table) -> None:
    """Print a page of a list as the table made of it, or as JSON."""
    if as_json:
        show_json(page)
    elif page.next_cursor is None:
        show(table)
    else:
        show(table, f"more rows: --cursor {page.next_cursor}")


def show(*parts: RenderableType) -> None:
    """Print to a terminal at its own width, elsewhere wide enough for every column."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=PIPED_WIDTH)
    for part in parts:
        console.print(part)


def show_json(value: BaseModel | Mapping[str, Any]) -> None:
    """Print JSON as the server would send it."""
    Console().print_json(to_json(value).decode())


def _table(title: str | None, *blocks: Sequence[str]) -> Table:
    """Make an empty table; blocks of columns are justified right, left, right, left."""
    table = Table(title=title, box=None, padding=(0, 1), header_style="bold", title_justify="left")
    for number, block in enumerate(blocks):
        for name in block:
            wrapped = name in _WRAPPED
            table.add_column(
                name,
                justify="right" if number % 2 == 0 else "left",
                no_wrap=not wrapped,
                overflow="fold" if wrapped else "ellipsis",
            )
    return table
