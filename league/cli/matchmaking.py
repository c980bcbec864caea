"""Whom a learner meets next, and why a lease was drawn as it was."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from league import wire
from league.cli import tables
from league.cli.connection import AsJson, Token, Url, Who, connect, find_player
from league.cli.grid import Grid, record
from league.cli.tables import NONE, share
from league.client import DEFAULT_URL, LeagueClient
from league.errors import InvalidRequestError

app = typer.Typer()

Rows = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most opponents to print, the likeliest first.")]

_NAMED_MAX = 5  # of those whom a filter took out


@app.command(epilog="Example: league opponents main")
def opponents(
    learner: Who, limit: Rows = 20, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Show whom a learner meets next: how likely each opponent is, by which rule, and who is left out."""
    with connect(url, token) as client:
        player = find_player(client, learner)
        preview = _preview(client, player)
    if as_json:
        tables.show_json(preview)
    else:
        tables.show(f"{player.name} of {preview.environment}: the next opponents", *_account(preview, limit))


@app.command("lease", epilog="Example: league lease 19b0c2f1a3e4d5c6b7a8f9e")
def lease_command(
    lease: Annotated[str, typer.Argument(metavar="LEASE", help="A lease's id, as a match names it.")],
    limit: Rows = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show a lease, what became of it, and the distribution that its opponent was drawn from."""
    with connect(url, token) as client:
        told = client.explain_lease(lease)
    if as_json:
        tables.show_json(told)
    else:
        tables.show(_lease(told), *_account(told, limit))


def _preview(client: LeagueClient, player: wire.Player) -> wire.Preview:
    if player.kind != "learner":
        rule = f"it is a {player.kind}, and opponents are drawn for learners"
        raise InvalidRequestError(f"player {player.id}", rule, "`league players --kind learner` lists them")
    return client.preview(player.id)


def _lease(told: wire.LeaseExplanation) -> Table:
    lease = told.lease
    return record(
        {
            "lease": f"{lease.lease_id}  {lease.kind}, {told.state}, {told.matches} of {lease.budget} matches reported",
            "match": f"{lease.home.name} (home) against {lease.away.name} (away), seed {lease.seed}",
            "worker": told.worker_id,
            "granted": f"{tables.moment(told.granted_at)}, until {tables.moment(lease.expires_at)}",
            "drawn by": f"{told.branch}: {lease.reason}" if lease.reason else told.branch,
            "propensity": share(told.propensity),
        }
    )


def _account(account: wire.DrawAccount, limit: int) -> Sequence[Grid | str]:
    """Make the tables of a distribution: its branches, its filters, its opponents."""
    drawn = sorted(account.items, key=lambda item: (-(item.propensity or 0.0), item.player_id))
    parts: list[Grid | str] = [_branches(account), _filters(account), _opponents(drawn[:limit])]
    rest = drawn[limit:]
    if rest:
        together = None if rest[0].propensity is None else sum(item.propensity or 0.0 for item in rest)
        parts.append(f"and {len(rest)} more, {share(together)} together; --limit {len(drawn)} shows all")
    return parts


def _branches(account: wire.DrawAccount) -> Grid:
    """Show what the distribution is made of, and upon whom the weight of each branch falls."""
    groups = list(dict.fromkeys(group.group for branch in account.branches for group in branch.groups))
    rows = []
    for branch in account.branches:
        falls = {group.group: f"{share(group.share)} on {group.players}" for group in branch.groups}
        effective = NONE if branch.effective_opponents is None else f"{branch.effective_opponents:.1f}"
        cells = [falls.get(group, NONE) for group in groups]
        rows.append([branch.name, share(branch.share), str(branch.opponents), effective, *cells, branch.rule])
    blocks = [[], ["branch"], ["share", "opponents", "effective", *groups], ["rule"]]
    return Grid(blocks, rows, "none: the learner plays itself alone", "branches")


def _filters(account: wire.DrawAccount) -> Grid:
    rows = []
    for each in account.filters:
        named = ", ".join(str(player) for player in each.removed[:_NAMED_MAX])
        more = ", ..." if len(each.removed) > _NAMED_MAX else ""
        rows.append([each.name, str(len(each.removed)), f"{named}{more}" or NONE, each.rule])
    return Grid([[], ["filter"], ["removed"], ["players", "rule"]], rows, "none", "filters, in order")


def _opponents(items: Sequence[wire.OpponentChance]) -> Grid:
    """Show the opponents; what only some rules look at has columns where a rule did."""
    looked_at = [name for name in ("among", "earlier", "recent") if any(getattr(item, name) for item in items)]
    rows = [
        [
            *(str(item.player_id), item.name, share(item.propensity), share(item.win_rate), str(item.games)),
            f"{item.rating:.0f} ± {2 * item.deviation:.0f}",
            *(_record(getattr(item, name)) for name in looked_at),
        ]
        for item in items
    ]
    blocks = [["id"], ["player"], ["chance", "win rate", "games", "rating ± 2 RD", *looked_at]]
    brief = ["id", "player", "chance", "win rate", *looked_at]
    return Grid(blocks, rows, "nobody else is there to play", "opponents", brief if looked_at else ())


def _record(record: wire.Record | None) -> str:
    return NONE if record is None else f"{share(record.score)} of {record.matches}"
