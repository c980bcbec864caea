"""`league player lineage`: print a player's ancestors, or draw all snapshots of its learner."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from league import wire
from league.cli.connection import AsJson, Cursor, PlayerArgument, Token, Url, champion_of, connect
from league.cli.output import tables
from league.cli.output.gate_progress import lead
from league.client import DEFAULT_URL, LeagueClient
from league.errors import ConfigurationError, LeagueError
from league.lineage_svg import Descent, picture

app = typer.Typer()


class NoDescentError(LeagueError):
    """A player has no lineage to draw."""

    type: ClassVar[str] = "no-descent"
    title: ClassVar[str] = "no descent of"


_CHANGES = ("promote", "retire", "reinstate", "quarantine")


@app.command(epilog="Example: league player lineage main --out lineage.svg")
def lineage(
    player: PlayerArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of generations.")] = 50,
    cursor: Cursor = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.svg", help="Write a picture of all snapshots of its learner to this file."),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show a player's ancestors with their ratings and gates.

    With --out, write a picture of all snapshots of the learner: rating over steps, parents, resets, promotions,
    retirements and the champion.
    """
    if out is not None and out.suffix != ".svg":
        raise ConfigurationError(f"--out {out}", "its name must end in .svg", "add the suffix")
    with connect(url, token) as client:
        one = client.player(player)
        drawn = None if out is None else _draw(client, one, out)
        page = client.lineage(one.id, limit=limit, cursor=cursor)
    if as_json:
        tables.show_json(page)
    elif drawn is not None:
        tables.show(drawn)
    else:
        more = [] if page.next_cursor is None else [f"more rows: --cursor {page.next_cursor}"]
        tables.show(*tree(page.items, whole=page.next_cursor is None), *more)


def descent(client: LeagueClient, one: wire.Player) -> Descent:
    """Fetch the snapshots, resets and lifecycle changes of a player's learner.

    Raises:
        NoDescentError: The player has no learner, or the learner has no snapshot yet.
    """
    if one.learner_id is None:
        raise NoDescentError(one.name, f"a {one.kind} has no learner", "name a learner or one of its snapshots")
    learner = client.learner(one.learner_id)
    environment = learner.environment
    players = client.iter_players(environment, kind="snapshot")
    snapshots = [each for each in players if each.learner_id == learner.id]
    if not snapshots:
        raise NoDescentError(learner.name, "it has no snapshot yet", "wait for the first one")
    champion = champion_of(client, environment)
    return Descent(
        learner=learner,
        snapshots=sorted(snapshots, key=lambda each: (each.step or 0, each.id)),
        resets=_resets(client, learner),
        champion=None if champion is None else champion.player.id,
        changes=_changes(client, environment),
    )


def _resets(client: LeagueClient, learner: wire.Learner) -> list[int]:
    """Return the steps at which a learner was reset."""
    events = client.iter_events(learner.environment, learner.player_id, "snapshot")
    return sorted(event.details["step"] for event in events if event.details["reset"])


def _changes(client: LeagueClient, environment: str) -> dict[int, list[wire.Event]]:
    """Return the lifecycle events of each player, oldest first."""
    events = [event for kind in _CHANGES for event in client.iter_events(environment, kind=kind)]
    changes: dict[int, list[wire.Event]] = {}
    for event in sorted(events, key=lambda event: event.id):
        if event.player_id is not None:
            changes.setdefault(event.player_id, []).append(event)
    return changes


def _draw(client: LeagueClient, one: wire.Player, out: Path) -> str:
    """Write a picture of a player's learner to a file and return a one-line summary."""
    drawn = descent(client, one)
    try:
        out.write_text(picture(drawn), encoding="utf-8")
    except OSError as error:
        rule = f"it cannot be written ({error.strerror})"
        raise ConfigurationError(f"--out {out}", rule, "choose a writable file") from error
    return f"{out}: {len(drawn.snapshots)} snapshots of {drawn.learner.name}"


def tree(line: Sequence[wire.Ancestor], *, whole: bool) -> Iterator[str]:
    """Yield the lines of a lineage, newest player first; `whole` is True if the last player is the root."""
    for index, ancestor in enumerate(line):
        root = whole and index == len(line) - 1
        yield f"{'╰' if root else '├'}─ {_player(ancestor.player)}"
        for gate in ancestor.gates:
            yield f"{' ' if root else '│'}    gate {gate.id} {_gate(gate)}"


def _player(one: wire.Player) -> str:
    parts = [one.kind if one.standing is None else one.standing, tables.rating(one), f"{one.games} games"]
    parts += [] if one.step is None else [f"step {one.step:,}"]
    return f"{tables.display_name(one)}, id {one.id}: {', '.join(parts)}"


def _gate(one: wire.Gate) -> str:
    text = f"against {one.champion.name}: {one.state}, {one.games} games"
    return f"{text}, lead {lead(one)}" if one.games else text
