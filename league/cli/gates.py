"""`league gate` and `league gates`: sequential tests of whether one frozen player is better than another."""

from collections.abc import Sequence
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, Cursor, Environment, Token, Url, connect, find_player, pages
from league.cli.output import tables
from league.cli.output.gate_progress import await_verdict, described, lead
from league.cli.output.grid import Grid
from league.cli.output.tables import NONE, moment
from league.client import DEFAULT_URL, LeagueClient
from league.errors import UnknownGateError

app = typer.Typer()

REJECTED = 3
UNDECIDED = 4
"""Exit codes of `league gate` without an accepted candidate."""


@app.command(
    epilog="Example: league gate 12 7 --elo0 0 --elo1 20\n\n"
    f"Exits with 0 if the candidate is accepted, {REJECTED} if it is rejected, {UNDECIDED} without a verdict."
)
def gate(
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="A snapshot's id, call sign or name.")],
    champion: Annotated[
        str | None,
        typer.Argument(metavar="[CHAMPION]", help="Opponent to beat.", show_default="the environment's champion"),
    ] = None,
    elo0: Annotated[float, typer.Option("--elo0", help="Lead of the null hypothesis, in rating points.")] = 0.0,
    elo1: Annotated[float, typer.Option("--elo1", help="Lead of the alternative hypothesis.")] = 20.0,
    alpha: Annotated[float, typer.Option("--alpha", help="Probability of accepting at --elo0 (type I error).")] = 0.05,
    beta: Annotated[float, typer.Option("--beta", help="Probability of rejecting at --elo1 (type II error).")] = 0.05,
    least_games: Annotated[
        int, typer.Option("--least-games", min=0, max=10**9, help="Minimum number of games before a verdict.")
    ] = 20,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Maximum wait.", show_default="none")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Start a new test after a verdict.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the open test instead.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Reason, stored in the audit log.")] = "",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Test whether a candidate is better than the champion.

    The attached evaluators (`trainer evaluate`) play pairs of games with the same seed and swapped sides, until the
    test (SPRT) decides between a lead of --elo0 and a lead of --elo1. Gates have priority over other evaluation. The
    test runs on the server: Ctrl-C leaves it open, and the same command attaches to it again. Its games are not rated.
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
        found = _cancelled(client, request) if cancel else await_verdict(client, client.gate(request), timeout_s)
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
    player: Annotated[str | None, typer.Option("--player", help="Only of this player.", show_default="all")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List gates with their states, newest first."""
    with connect(url, token) as client:
        player_id = None if player is None else find_player(client, player).id
        page = client.gates(environment, state, player_id, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, grid(page.items))


def grid(rows: Sequence[wire.Gate]) -> Grid:
    """Return a table of gates."""
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
        "no gates; `league gate CANDIDATE CHAMPION` opens one",
    )


def _cancelled(client: LeagueClient, test: wire.GateCreate) -> wire.Gate:
    """Cancel the open gate of a test.

    Raises:
        UnknownGateError: No gate of this test is open.
    """
    wanted = test.model_dump(exclude={"reason", "again"})
    for gate in pages(lambda cursor: client.gates(state="open", player_id=test.candidate_id, cursor=cursor)):
        own = gate.model_dump() | {
            "candidate_id": gate.candidate.player_id,
            "champion_id": gate.champion.player_id,
        }
        if wanted.items() <= own.items():
            return client.cancel_gate(gate.id, test.reason)
    value = f"of player {test.candidate_id} against {test.champion_id}, {test.elo0:g} or {test.elo1:g}"
    raise UnknownGateError(value, "no gate of this test is open", "`league gates --state open` lists the open gates")
