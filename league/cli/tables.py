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
from league.cli.grid import Grid, printable, record
from league.storage.store import Leftover, Stored

if TYPE_CHECKING:
    from league.config import Setting
    from league.services.checking import Violation
    from league.services.rerating import Comparison
    from league.services.tokens import TokenListing

PIPED_WIDTH = 100_000
"""Wide enough that nothing is wrapped which a program reads line by line."""

_BLOCKS = "▁▂▃▄▅▆▇█"
NONE = "–"  # noqa: RUF001 - an en dash, where there is nothing to say


def rating(player: wire.Player) -> str:
    """Write rating ± 2 RD, the interval that holds the true strength 19 times out of 20."""
    return _interval(player.rating, player.deviation)


def _interval(rating: float, deviation: float) -> str:
    return f"{rating:.0f} ± {2 * deviation:.0f}"


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


def standings(rows: Iterable[wire.StandingsItem], title: str | None = None) -> Grid:
    """Make the league table; where sides are unlike, with what players are rated on each."""
    lines = list(rows)
    sides = {side.side: f"{side.side}: {side.name}" for row in lines for side in row.sides}
    places = sorted(sides, reverse=True)
    names = [sides[side] for side in places]
    return Grid(
        [["rank", "id"], ["player", "kind", "standing"], ["rating ± 2 RD", *names, "RD", "games", "win rate"]],
        [
            [
                *(str(row.rank), str(row.id), display_name(row), row.kind, row.standing or NONE),
                *(rating(row), *_side_ratings(row, places), f"{row.deviation:.0f}"),
                *(str(row.games), share(row.win_rate)),
            ]
            for row in lines
        ],
        "nobody is ranked here; `league players` lists everybody, and `trainer run` attaches a learner",
        title,
        brief=["rank", "id", "player", "rating ± 2 RD", *names] if names else (),
    )


def _side_ratings(player: wire.Player, sides: Sequence[str]) -> list[str]:
    known: dict[str, str] = {each.side: _interval(each.rating, each.deviation) for each in player.sides}
    return [known.get(side, NONE) for side in sides]


def learners(rows: Sequence[wire.Learner]) -> Grid:
    """Make a list of lineages; where all play one environment, it stands above."""
    environments = {row.environment for row in rows}
    several = len(environments) > 1
    return Grid(
        [
            ["id"],
            ["learner", *(["environment"] if several else []), "role"],
            ["step", "steps/s", "began anew", "at step"],
        ],
        [
            [
                *(str(row.id), row.name, *([row.environment] if several else []), row.role),
                *(NONE if row.step is None else f"{row.step:,}", _per_second(row)),
                *(str(row.resets), f"{row.began_step:,}" if row.resets else NONE),
            ]
            for row in rows
        ],
        "no learner yet; `trainer run` registers one, and `league up --league` three",
        environments.pop() if len(environments) == 1 else None,
    )


def _per_second(learner: wire.Learner) -> str:
    speed = learner.metrics.get("charts/SPS")
    return NONE if speed is None else f"{speed:,.0f}"


def metrics(learner: wire.Learner, told: wire.LearnerMetrics) -> Grid:
    """Make a list of metrics over steps."""
    span = f"steps {told.steps[0]:,} to {told.steps[-1]:,}" if told.steps else "no steps"
    rows = [
        [name, _figure(known[-1]), _figure(min(known)), _figure(max(known)), course(values)]
        for name, values in told.metrics.items()
        if (known := [value for value in values if value is not None])
    ]
    return Grid(
        [[], ["metric"], ["last", "least", "greatest"], ["course"]],
        rows,
        "nothing of that name was reported yet; `league learners --json` has the names",
        f"{learner.name} of {learner.environment}, {span}",
    )


def course(values: Sequence[float | None]) -> str:
    """Draw values as one block each, from the least to the greatest; a gap where there is none."""
    known = [value for value in values if value is not None]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    top = len(_BLOCKS) - 1
    return "".join(" " if each is None else _BLOCKS[round((each - low) / span * top) if span else 0] for each in values)


def _figure(value: float) -> str:
    return f"{value:.4g}"


def players(rows: Sequence[wire.Player]) -> Grid:
    """Make a list of players; where all play one environment, it stands above."""
    environments = {row.environment for row in rows}
    several = len(environments) > 1
    return Grid(
        [
            ["id"],
            ["player", *(["environment"] if several else []), "kind", "standing"],
            ["rating ± 2 RD", "RD", "games", "step"],
        ],
        [
            [
                *(str(row.id), display_name(row), *([row.environment] if several else [])),
                *(row.kind, row.standing or NONE, rating(row), f"{row.deviation:.0f}", str(row.games)),
                NONE if row.step is None else f"{row.step:,}",
            ]
            for row in rows
        ],
        "no such player; `trainer run` attaches a learner, and its game brings the scripted players",
        environments.pop() if len(environments) == 1 else None,
    )


def champion(one: wire.Champion) -> str:
    """Describe who is champion since when."""
    holder = f"{display_name(one.player)}, id {one.player.id}"
    return f"champion of {one.environment}: {holder}, since {moment(one.since)} by {one.actor}"


def champions(rows: Iterable[wire.ChampionChange]) -> Grid:
    """Make a list of champions, newest first."""
    return Grid(
        [["number"], ["since", "player"], ["id"], ["by", "reason"]],
        [
            [
                *(str(row.number), moment(row.since)),
                *((NONE, NONE) if row.player is None else (row.player.name, str(row.player.player_id))),
                *(row.actor, row.reason),
            ]
            for row in rows
        ],
        "nobody has been champion yet; `league promote PLAYER --champion` makes one",
    )


def events(rows: Iterable[wire.Event], nothing: str, title: str | None = None) -> Grid:
    """Make an audit log, or say `nothing`; where all is of one environment, it stands above."""
    lines = list(rows)
    environments = {row.environment for row in lines}
    several = len(environments) > 1
    return Grid(
        [["event"], ["when", *(["environment"] if several else []), "what", "by", "reason and details"]],
        [
            [
                *(str(row.id), moment(row.created_at), *([row.environment or NONE] if several else [])),
                row.kind if row.player_id is None else f"{row.kind} player {row.player_id}",
                *(row.actor, "; ".join(part for part in (row.reason, _details(row)) if part)),
            ]
            for row in lines
        ],
        nothing,
        title if several or not lines else title or environments.pop(),
    )


def _details(event: wire.Event) -> str:
    """Write details out; columns of numbers are left to --json."""
    shown = {name: value for name, value in event.details.items() if value is not None and not _has_columns(value)}
    return _named(shown)


def _named(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_in_words(value)}" for name, value in values.items())


def _in_words(value: object) -> str:
    """Write what a detail says: numbers as exact as people read them, what has parts within brackets."""
    if isinstance(value, Mapping):
        return f"({_named(value)})"
    if isinstance(value, list):
        return f"({', '.join(map(_in_words, value))})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return str(value)


def _has_columns(value: object) -> bool:
    return isinstance(value, Mapping) and any(isinstance(each, list) for each in value.values())


def ratings(rows: Iterable[wire.RatingPoint], title: str) -> Grid:
    """Make a rating curve, one row a period, named by the id that `league standings --as-of` takes."""
    return Grid(
        [["period"], ["closed"], ["rating ± 2 RD", "RD", "volatility", "games"]],
        [
            [
                *(str(row.period_id), moment(row.closed_at), _interval(row.rating, row.deviation)),
                *(f"{row.deviation:.0f}", f"{row.volatility:.4f}", str(row.games)),
            ]
            for row in rows
        ],
        "none has rated it yet; `league close-period` closes one now",
        title,
    )


def matches(rows: Iterable[wire.Match], title: str) -> Grid:
    """Make a match log; a score is home's."""
    return Grid(
        [["match"], ["reported", "kind", "home - away"], ["score", "decisions"], ["ended by"]],
        [
            [
                *(str(row.id), moment(row.reported_at), row.kind, f"{row.home.name} - {row.away.name}"),
                *(f"{row.score:g}", str(row.decisions), row.reason),
            ]
            for row in rows
        ],
        "none yet; a trainer or `trainer evaluate` plays them",
        title,
    )


def tokens(rows: "Iterable[TokenListing]") -> Grid:
    """Make a list of tokens."""
    return Grid(
        [[], ["token", "scope", "created", "last used", "expires", "revoked"]],
        [
            [row.name, row.scope, *map(_moment, (row.created_at, row.used_at, row.expires_at, row.revoked_at))]
            for row in rows
        ],
        "no token exists, so the league is open to this machine; `league token create NAME --scope admin` closes it",
    )


def _moment(at: datetime | None) -> str:
    return NONE if at is None else moment(at)


def garbage(rows: Iterable[Stored | Leftover]) -> Grid:
    """Make a list of bytes that nobody needs."""
    return Grid(
        [[], ["object"], ["bytes"], ["last touched"]],
        [
            [
                *(garbage_name(row), f"{row.size_bytes:,}"),
                moment(row.stored_at if isinstance(row, Stored) else row.touched_at),
            ]
            for row in rows
        ],
        "every object of the store is needed, or too young to tell",
    )


def garbage_name(one: Stored | Leftover) -> str:
    """Name a checkpoint by its hash, a leftover by its place in the store."""
    return one.sha256 if isinstance(one, Stored) else one.name


def comparison(one: "Comparison") -> Grid:
    """Make a table of players as they are rated and as another rule would rate them."""
    return Grid(
        [["rank", "was", "id"], ["player", "kind"], ["rating ± 2 RD", "was", "change", "games"]],
        [
            [
                *(str(line.proposed.rank), str(line.present.rank), str(line.player_id), line.name, line.kind),
                *(_interval(place.rating, place.deviation) for place in (line.proposed, line.present)),
                *(_change(line.proposed.rating - line.present.rating), str(line.proposed.games)),
            ]
            for line in one.items
        ],
        "no player is rated, so no rule could change anything",
    )


def _change(points: float) -> str:
    """Write a difference of ratings in whole points; what rounds to none has no sign."""
    return f"{round(points):+d}" if round(points) else "0"


def superiority(order: wire.Superiority) -> Grid:
    """Make a table of the frozen players with 95 % bands, each beside the next one and the first."""
    places = enumerate(zip(order.players, order.ratings, order.low, order.high, order.superiority, strict=True))
    return Grid(
        [["rank", "id"], ["player"], ["rating", "95 % band", "above next", "above first"]],
        [
            [
                *(str(place + 1), str(player.player_id), player.name, f"{rating:.0f}", f"{low:.0f} to {high:.0f}"),
                share(above[place + 1]) if place + 1 < len(above) else NONE,
                share(above[0]) if place else NONE,
            ]
            for place, (player, rating, low, high, above) in places
        ],
        "no rating match of frozen players was rated yet; `trainer evaluate` plays them",
        order.environment,
    )


def violations(found: "Iterable[Violation]") -> Grid:
    """Make a list of what is wrong with a league's books."""
    return Grid(
        [[], ["invariant", "environment", "finding"]],
        [[one.invariant, one.environment or NONE, one.finding] for one in found],
        "all is right",
    )


def settings(rows: "Iterable[Setting]") -> Grid:
    """Make a list of settings, with the default of those that differ from it."""
    return Grid(
        [[], ["setting", "value", "default", "about"]],
        [
            [row.variable, row.value or NONE, "" if row.value == row.default else row.default or NONE, row.about]
            for row in rows
        ],
        "no setting exists",
    )


def workers(rows: Iterable[wire.ListedWorker]) -> Grid:
    """Make a list of workers; what is odd about one stands last."""
    return Grid(
        [[], ["worker", "kind", "seen"], ["results", "refused"], ["remarks"]],
        [
            [
                *(row.name, row.kind, moment(row.seen_at), str(row.results), str(row.refused)),
                "; ".join(worker_remarks(row)) or NONE,
            ]
            for row in rows
        ],
        "no worker has attached yet; `trainer run` and `trainer evaluate` do, and `league up` starts both",
    )


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
    strength = f"{rating(one)}{' (provisional)' if one.provisional else ''}, volatility {one.volatility:.4f}"
    optional = {
        "role": one.role,
        "standing": one.standing,
        "checkpoint": one.checkpoint,
        "step": one.step,
        "learner": one.learner_id,
        "parent": one.parent_id,
    }
    fields = {
        "player": f"{one.id}  {display_name(one)}",
        "kind": one.kind,
        **{name: value for name, value in optional.items() if value is not None},
        "environment": f"{one.environment}  {one.signature}",
        "rating ± 2 RD": strength,
        **{f"  {each.side}, as {each.name}": _on_side(each) for each in one.sides},
        "games": one.games,
        "created": moment(one.created_at),
        **{name: value for name, value in one.metadata.items() if value is not None},
    }
    return record({name: str(value) for name, value in fields.items()})


def _on_side(rated: wire.SideRating) -> str:
    games = f"{rated.games} games, win rate {share(rated.win_rate)}"
    return f"{_interval(rated.rating, rated.deviation)}, {games}"


def show_page(page: wire.Page[Any], as_json: bool, table: Grid) -> None:
    """Print a page of a list as the table made of it, or as JSON."""
    if as_json:
        show_json(page)
    elif page.next_cursor is None:
        show(table)
    else:
        show(table, f"more rows: --cursor {page.next_cursor}")


def show(*parts: RenderableType) -> None:
    """Print to a terminal at its own width, elsewhere without wrapping anything."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=PIPED_WIDTH)
    for number, part in enumerate(parts):
        if number and isinstance(part, Grid) and part.title:
            console.print()
        console.print(printable(part) if isinstance(part, str) else part)


def show_json(value: BaseModel | Mapping[str, Any]) -> None:
    """Print JSON as the server would send it."""
    Console().print_json(to_json(value).decode())
