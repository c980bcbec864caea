"""Change a snapshot's standing, or tags and notes; the server records changes in the audit log."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AnyEnvironment, AsJson, PlayerArgument, Token, Url, champion_of, connect
from league.cli.output import tables
from league.cli.output.grid import Grid, printable, record
from league.client import DEFAULT_URL, LeagueClient
from league.errors import StandingConflictError

app = typer.Typer()

Reason = Annotated[str, typer.Option("--reason", help="Reason, stored in the audit log.")]
Transition = Callable[[LeagueClient, int, str, wire.Standing | None], wire.Player]


@app.command(epilog='Example: league promote 7 --reason "beats every baseline"')
def promote(
    player: PlayerArgument,
    reason: Reason = "",
    champion: Annotated[bool, typer.Option("--champion", help="Also make it the champion of its environment.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Promote a candidate to commander.

    A commander gets a call sign and remains an opponent permanently. The champion is an alias for one commander of
    each environment, so that scripts can refer to it. A champion that retires loses the title. After each rating
    period, a commander that is very probably better becomes champion.
    """
    if champion:
        _set_champion(player, reason, as_json, url, token)
    else:
        _change(LeagueClient.promote, player, reason, as_json, url, token)


@app.command(epilog='Example: league retire 7 --reason "superseded"')
def retire(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Retire a snapshot. Its matches and ratings stay."""
    _change(LeagueClient.retire, player, reason, as_json, url, token)


@app.command(epilog="Example: league reinstate 7")
def reinstate(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Make a retired or quarantined snapshot a candidate again."""
    _change(LeagueClient.reinstate, player, reason, as_json, url, token)


@app.command(epilog='Example: league quarantine 7 --reason "exploits the zone bug"')
def quarantine(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Quarantine a suspicious snapshot until you have examined it."""
    _change(LeagueClient.quarantine, player, reason, as_json, url, token)


@app.command(
    "dismiss-reports", epilog='Example: league player dismiss-reports 7 --reason "it plays on every other machine"'
)
def dismiss_reports(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Dismiss false reports that a snapshot cannot be played.

    The tokens that sent them are flagged. To confirm the reports instead, quarantine the snapshot.
    """
    with connect(url, token) as client:
        found = client.player(player)
        dismissed = client.dismiss_reports(found.id, reason)
    if as_json:
        tables.show_json(dismissed)
    else:
        flagged = ", ".join(sorted({each.token for each in dismissed.items if each.token is not None})) or "none"
        tables.show(f"{tables.display_name(found)}: {len(dismissed.items)} dismissed; flagged tokens: {flagged}")


@app.command(epilog='Example: league player annotate main@65536 --tag paper --note "figure 3"')
def annotate(
    player: PlayerArgument,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Tag to add. May be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="Tag to remove. May be repeated.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="New note. An empty one removes it.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Add or remove tags of a player or learner, or set its note.

    `league players --tag` and the search on the standings page find players by tag.
    """
    with connect(url, token) as client:
        found = client.player(player)
        tags = (set(found.tags) | set(tag or ())) - set(remove or ())
        changed = client.annotate(found.id, sorted(tags) if tag or remove else None, note)
    if as_json:
        tables.show_json(changed)
    else:
        shown = {"player": tables.display_name(changed), "tags": ", ".join(changed.tags), "note": changed.note or ""}
        tables.show(record({name: value or tables.NONE for name, value in shown.items()}))


def _change(transition: Transition, key: str, reason: str, as_json: bool, url: str, token: str | None) -> None:
    with connect(url, token) as client:
        before = client.player(key)
        champion = champion_of(client, before.environment)
        after = transition(client, before.id, reason, before.standing)
    name = tables.display_name(after)
    if as_json:
        tables.show_json(after)
    else:
        tables.show(f"{name}: {before.standing} -> {after.standing}")
        if champion is not None and champion.player.id == after.id and after.standing != "commander":
            tables.show(f"champion of {after.environment}: {name} -> none")


def _set_champion(key: str, reason: str, as_json: bool, url: str, token: str | None) -> None:
    with connect(url, token) as client:
        wanted = client.player(key)
        before = champion_of(client, wanted.environment)
        after = client.set_champion(wanted.id, reason, expected=None if before is None else before.player.id)
    if as_json:
        tables.show_json(after)
    else:
        old = "none" if before is None else tables.display_name(before.player)
        tables.show(f"champion of {after.environment}: {old} -> {tables.display_name(after.player)}")


@app.command("retire-redundant", epilog="Example: league player retire-redundant --dry-run")
def retire_redundant(
    environment: AnyEnvironment = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the snapshots and change nothing.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Retire snapshots that score like another snapshot that is no weaker.

    If behaviour measurements of both exist, they must also play alike. Baselines, the champion and players with few
    games stay. The server's settings LEAGUE_REDUNDANCY_DISTANCE and LEAGUE_REDUNDANCY_BEHAVIOUR are the thresholds.
    With LEAGUE_RETIRE_REDUNDANT=true the server retires such snapshots after each period.
    """
    with connect(url, token) as client:
        found = client.redundancies(environment)
        rows, conflicts = (found.items, []) if dry_run else _retire_all(client, found.items)
    tables.show_page(found.model_copy(update={"items": rows}), as_json, redundant_grid(found.items))
    if not as_json and found.items:
        tables.show("nothing changed; run without --dry-run to retire them" if dry_run else f"{len(rows)} retired")
    for conflict in conflicts:
        typer.echo(f"not retired: {printable(str(conflict))}", err=True)
    if conflicts:
        raise typer.Exit(1)


def _retire_all(
    client: LeagueClient, rows: Sequence[wire.Redundancy]
) -> tuple[list[wire.Redundancy], list[StandingConflictError]]:
    """Retire snapshots; return the retired ones and the errors of those whose standing changed concurrently."""
    retired, conflicts = [], []
    for row in rows:
        try:
            comparison = "scores like it" if row.behaviour is None else "scores and plays like it"
            client.retire(row.player.player_id, f"{row.representative.name} {comparison}", row.standing)
        except StandingConflictError as conflict:
            conflicts.append(conflict)
        else:
            retired.append(row)
    return retired, conflicts


def redundant_grid(rows: Iterable[wire.Redundancy]) -> Grid:
    """Return a table of redundant snapshots."""
    return Grid(
        [
            ["id"],
            ["player", "standing", "scores like", "environment"],
            ["difference", "at most", "opponents", "play differs (sd)", "measures"],
        ],
        [
            [
                *(str(row.player.player_id), row.player.name, row.standing, row.representative.name, row.environment),
                *(f"{row.distance:.3f}", f"{row.bound:.3f}", str(row.opponents)),
                *_play(row.behaviour),
            ]
            for row in rows
        ],
        "no redundant snapshots",
    )


def _play(behaviour: wire.Likeness | None) -> tuple[str, str]:
    return (tables.NONE, "0") if behaviour is None else (f"at most {behaviour.bound:.2f}", str(behaviour.measures))
