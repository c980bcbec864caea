"""`league gate`: sequential tests of whether one frozen player is better than another."""

from collections.abc import Sequence
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, Cursor, Environment, Token, Url, connect
from league.cli.output import tables
from league.cli.output.gate_progress import await_verdict, described, lead
from league.cli.output.grid import Grid
from league.cli.output.tables import NONE, moment
from league.client import DEFAULT_URL

app = typer.Typer(help="Test whether a candidate is better than the champion (SPRT).", no_args_is_help=True)

REJECTED = 3
UNDECIDED = 4
"""Exit codes of `league gate open` without an accepted candidate."""


Reason = Annotated[str, typer.Option("--reason", help="Reason, stored in the audit log.")]


@app.command(
    "open",
    epilog="Example: league gate open 12 7 --elo0 0 --elo1 20\n\n"
    f"Exits with 0 if the candidate is accepted, {REJECTED} if it is rejected, {UNDECIDED} without a verdict.",
)
def open_gate(
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
        int, typer.Option("--min-games", min=0, max=10**9, help="Minimum number of games before a verdict.")
    ] = 20,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Maximum wait.", show_default="none")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Start a new test after a verdict.")] = False,
    reason: Reason = "",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Test whether a candidate is better than the champion.

    The attached evaluators (`trainer evaluate`) play pairs of games with the same seed and swapped sides, until the
    test (SPRT) decides between a lead of --elo0 and a lead of --elo1. Gates have priority over other evaluation. The
    test runs on the server: Ctrl-C leaves it open, and the same command attaches to it again. Its games are not rated.
    `league gate cancel` ends it without a verdict.
    """
    with connect(url, token) as client:
        one = client.player(candidate)
        other = client.champion(one.environment).player if champion is None else client.player(champion)
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
        found = await_verdict(client, client.open_gate(request), timeout_s)
    if as_json:
        tables.show_json(found)
    else:
        tables.show(described(found))
    if found.state != "accepted":
        raise typer.Exit(REJECTED if found.state == "rejected" else UNDECIDED)


@app.command("list", epilog="Example: league gate list --state open")
def list_gates(
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
        player_id = None if player is None else client.player(player).id
        page = client.gates(environment, state, player_id, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, grid(page.items))


@app.command(epilog='Example: league gate cancel 3 --reason "wrong candidate"')
def cancel(
    gate: Annotated[int, typer.Argument(metavar="GATE", min=1, max=2**63 - 1, help="An open gate's id.")],
    reason: Reason = "",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Cancel an open gate without a verdict."""
    with connect(url, token) as client:
        found = client.cancel_gate(gate, reason)
    if as_json:
        tables.show_json(found)
    else:
        tables.show(described(found))


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
        "no gates; `league gate open CANDIDATE` opens one",
    )
