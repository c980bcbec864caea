"""Gates: is one frozen player better than another, by a test that plays no longer than it must."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

from league import wire
from league.cli import tables
from league.cli.connection import AsJson, Cursor, Environment, Token, Url, connect, find_player, pages
from league.cli.grid import Grid, printable
from league.cli.tables import NONE, moment
from league.client import DEFAULT_URL, LeagueClient
from league.errors import LeagueError, UnknownGateError

app = typer.Typer()

REJECTED = 3
UNDECIDED = 4
"""Exit codes of `league gate` without an accepted candidate."""

POLL_S = 1.0

_SERVER_FAULT = 500
"""From this status on an error is the server's own: it is waited out."""

_NO_EVALUATOR = "and no evaluator is attached: start one with `trainer evaluate`"


@app.command(
    epilog="Example: league gate 12 7 --elo0 0 --elo1 20\n\n"
    f"Exits with 0 where the candidate is accepted, {REJECTED} where it is rejected, {UNDECIDED} without a verdict."
)
def gate(
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="A snapshot's id, call-sign or name.")],
    champion: Annotated[
        str | None,
        typer.Argument(metavar="[CHAMPION]", help="Whom it is to beat.", show_default="the champion of its game"),
    ] = None,
    elo0: Annotated[float, typer.Option("--elo0", help="Lead at which the candidate is rejected, in points.")] = 0.0,
    elo1: Annotated[float, typer.Option("--elo1", help="Lead at which it is accepted.")] = 20.0,
    alpha: Annotated[float, typer.Option("--alpha", help="Chance of accepting at --elo0.")] = 0.05,
    beta: Annotated[float, typer.Option("--beta", help="Chance of rejecting at --elo1.")] = 0.05,
    least_games: Annotated[
        int, typer.Option("--least-games", min=0, max=10**9, help="No verdict before so many games.")
    ] = 20,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Wait no longer.", show_default="none")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Start anew where there is a verdict.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give the open test up instead.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the league's event log.")] = "",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Test whether a candidate is better than the champion, on the evaluators that are attached (`trainer evaluate`).

    They play pairs of games on one seed with sides swapped, before anything else, until the results decide between a
    lead of --elo0 and one of --elo1. The test is the league's: Ctrl-C leaves it open, and the same command looks at it
    again. Its games are not rated.
    """
    with connect(url, token) as client:
        one = find_player(client, candidate)
        other = client.champion(one.environment).player if champion is None else find_player(client, champion)
        request = wire.GateCreate(
            candidate_id=one.id,
            champion_id=other.id,
            elo0=elo0,
            elo1=elo1,
            alpha=alpha,
            beta=beta,
            least_games=least_games,
            reason=reason,
            again=again,
        )
        found = _cancelled(client, request) if cancel else _awaited(client, client.gate(request), timeout_s)
    if as_json:
        tables.show_json(found)
    else:
        tables.show(described(found))
    if not cancel and found.state != "accepted":
        raise typer.Exit(REJECTED if found.state == "rejected" else UNDECIDED)


@app.command("gates", epilog="Example: league gates --state open")
def gates_command(
    environment: Environment = None,
    state: Annotated[wire.GateState | None, typer.Option("--state", help="Only gates in this state.")] = None,
    player: Annotated[str | None, typer.Option("--player", help="Either of the two.", show_default="anybody")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most rows to print.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List gates and where they stand, newest first."""
    with connect(url, token) as client:
        player_id = None if player is None else find_player(client, player).id
        page = client.gates(environment, state, player_id, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, grid(page.items))


def grid(rows: Sequence[wire.Gate]) -> Grid:
    """Make a list of gates."""
    return Grid(
        [["gate"], ["candidate", "against", "state"], ["games", "LLR", "lead"], ["test", "opened", "by"]],
        [
            [
                *(str(row.id), row.candidate.name, row.champion.name, row.state),
                *(str(row.games), f"{row.llr:+.2f}", lead(row) if row.games else NONE),
                *(f"{row.elo0:g} or {row.elo1:g}", moment(row.opened_at), row.actor),
            ]
            for row in rows
        ],
        "no such gate; `league gate CANDIDATE CHAMPION` opens one",
    )


def lead(one: wire.Gate) -> str:
    """Write the candidate's estimated lead with its 95 % interval."""
    return f"{one.elo:+.0f} [{one.elo_low:+.0f}, {one.elo_high:+.0f}]"


def described(one: wire.Gate) -> str:
    """Describe a gate and where it stands in one line."""
    parts = [
        f"gate {one.id}: {one.candidate.name} against {one.champion.name}: {one.state}",
        f"{one.games} games",
        f"LLR {one.llr:+.2f} of {one.lower:.2f} to {one.upper:.2f}",
    ]
    parts += [f"lead {lead(one)} points"] if one.games else []
    parts += [f"{one.lost_pairs} pairs lost"] if one.lost_pairs else []
    if one.state == "open":
        parts += [f"{one.waiting_pairs} pairs under way"] if one.waiting_pairs else []
        parts.append(f"{one.evaluators} attached to play it" if one.evaluators else _NO_EVALUATOR)
    if one.state == "cancelled" and one.closed_reason:
        parts.append(one.closed_reason)
    return ", ".join(parts)


def _awaited(client: LeagueClient, opened: wire.Gate, timeout_s: float | None) -> wire.Gate:
    """Look at a gate until it is closed, the time is up or somebody stops it; return it as it was seen last."""
    end = None if timeout_s is None else time.monotonic() + timeout_s
    console = Console(stderr=True, highlight=False)
    gate, wait_s = opened, POLL_S
    with console.status("") as status:
        try:
            _tell(console, status, gate, told=None)
            while gate.state == "open" and (end is None or time.monotonic() < end):
                time.sleep(wait_s if end is None else max(0.0, min(wait_s, end - time.monotonic())))
                seen, wait_s = _look(client, gate, status)
                _tell(console, status, seen, told=gate)
                gate = seen
        except KeyboardInterrupt:
            pass
    if gate.state == "open":
        _say(console, f"gate {gate.id} goes on at the league; the same command looks at it again, --cancel ends it")
    return gate


def _look(client: LeagueClient, gate: wire.Gate, status: Status) -> tuple[wire.Gate, float]:
    """Look at a gate, and say after how many seconds to look again; a league that is away or busy is waited out."""
    try:
        return client.show_gate(gate.id), POLL_S
    except LeagueError as error:
        if error.retry_after_s is None and error.status < _SERVER_FAULT:
            raise
        status.update(Text(printable(f"gate {gate.id}: {error.rule}; waiting")))
        return gate, max(POLL_S, error.retry_after_s or 0.0)


def _tell(console: Console, status: Status, gate: wire.Gate, told: wire.Gate | None) -> None:
    """Show where a gate stands; where there is no terminal, say who plays it when that changes."""
    status.update(Text(printable(described(gate))))
    changed = told is None or (gate.evaluators > 0) != (told.evaluators > 0)
    if changed and gate.state == "open" and not console.is_terminal:
        _say(console, described(gate))


def _say(console: Console, line: str) -> None:
    console.print(Text(printable(line)), soft_wrap=True)


def _cancelled(client: LeagueClient, test: wire.GateCreate) -> wire.Gate:
    """Cancel the open gate of a test.

    Raises:
        UnknownGateError: There is none.
    """
    asked = test.model_dump(exclude={"reason", "again"})
    for gate in pages(lambda cursor: client.gates(state="open", player_id=test.candidate_id, cursor=cursor)):
        own = gate.model_dump() | {
            "candidate_id": gate.candidate.player_id,
            "champion_id": gate.champion.player_id,
        }
        if asked.items() <= own.items():
            return client.cancel_gate(gate.id, test.reason)
    value = f"of player {test.candidate_id} against {test.champion_id}, {test.elo0:g} or {test.elo1:g}"
    raise UnknownGateError(value, "none of this test is open", "`league gates --state open` lists those that are")
