"""Opponent distributions of learners and the explanation of a lease."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from league import wire
from league.cli.connection import AsJson, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid, record
from league.cli.output.tables import NONE, share
from league.client import DEFAULT_URL, LeagueClient
from league.errors import InvalidRequestError

app = typer.Typer()

_WHICH = "A learner's name, or its id in `league players`"
Learner = Annotated[str, typer.Argument(metavar="LEARNER", help=f"{_WHICH}.")]
Rows = Annotated[
    int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of opponents, most probable first.")
]

_NAMED_MAX = 5  # players listed per filter


@app.command(epilog="Example: league learner opponents main")
def opponents(
    learner: Learner, limit: Rows = 20, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Show a learner's opponent distribution: each opponent's probability and the rule behind it.

    It also lists the excluded players with the reason.
    """
    with connect(url, token) as client:
        player = _learner(client, learner)
        preview = client.preview(player.id)
    if as_json:
        tables.show_json(preview)
    else:
        tables.show(f"{player.name} of {preview.environment}: opponent distribution", *_tables(preview, limit))


@app.command("lease", epilog="Example: league match lease 19b0c2f1a3e4d5c6b7a8f9e")
def lease_command(
    lease: Annotated[str, typer.Argument(metavar="LEASE", help="A lease's id, as shown with a match.")],
    limit: Rows = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show a lease, its result, and the distribution that its opponent was drawn from."""
    with connect(url, token) as client:
        explanation = client.explain_lease(lease)
    if as_json:
        tables.show_json(explanation)
    else:
        tables.show(_lease(explanation), *_tables(explanation, limit))


def _learner(client: LeagueClient, key: str) -> wire.Player:
    player = client.player(key)
    if player.kind != "learner":
        rule = f"it is a {player.kind}, but only learners have an opponent distribution"
        raise InvalidRequestError(f"player {player.id}", rule, "`league players --kind learner` lists them")
    return player


def _lease(explanation: wire.LeaseExplanation) -> Table:
    lease = explanation.lease
    return record(
        {
            "lease": f"{lease.lease_id}  {lease.kind}, {explanation.state}, "
            f"{explanation.matches} of {lease.budget} matches reported",
            "match": f"{lease.home.name} (home) against {lease.away.name} (away), seed {lease.seed}",
            "worker": explanation.worker_id,
            "granted": f"{tables.moment(explanation.granted_at)}, until {tables.moment(lease.expires_at)}",
            "branch": f"{explanation.branch}: {lease.reason}" if lease.reason else explanation.branch,
            "propensity": share(explanation.propensity),
        }
    )


def _tables(account: wire.DrawAccount, limit: int) -> Sequence[Grid | str]:
    """Return the tables of an opponent distribution: its branches, filters and opponents."""
    drawn = sorted(account.items, key=lambda item: (-(item.propensity or 0.0), item.player_id))
    shown = drawn[:limit]
    parts: list[Grid | str] = [_branches(account), _filters(account), _opponents(shown)]
    parts += tables.explain_provisional(shown)
    rest = drawn[limit:]
    if rest:
        together = None if rest[0].propensity is None else sum(item.propensity or 0.0 for item in rest)
        parts.append(f"and {len(rest)} more, {share(together)} together; --limit {len(drawn)} shows all")
    return parts


def _branches(account: wire.DrawAccount) -> Grid:
    """Return a table of the distribution's branches with their shares per group of opponents."""
    groups = list(dict.fromkeys(group.group for branch in account.branches for group in branch.groups))
    rows = []
    for branch in account.branches:
        shares = {group.group: f"{share(group.share)} on {group.players}" for group in branch.groups}
        effective = NONE if branch.effective_opponents is None else f"{branch.effective_opponents:.1f}"
        cells = [shares.get(group, NONE) for group in groups]
        rows.append([branch.name, share(branch.share), str(branch.opponents), effective, *cells, branch.rule])
    blocks = [[], ["branch"], ["share", "opponents", "effective", *groups], ["rule"]]
    return Grid(blocks, rows, "none: self-play only", "branches")


def _filters(account: wire.DrawAccount) -> Grid:
    rows = []
    for each in account.filters:
        named = ", ".join(str(player) for player in each.removed[:_NAMED_MAX])
        more = ", ..." if len(each.removed) > _NAMED_MAX else ""
        rows.append([each.name, str(len(each.removed)), f"{named}{more}" or NONE, each.rule])
    return Grid([[], ["filter"], ["removed"], ["players", "rule"]], rows, "none", "filters, in order")


def _opponents(items: Sequence[wire.OpponentChance]) -> Grid:
    """Return a table of opponents, with columns for the records that the rules used."""
    used = [name for name in ("among", "earlier", "recent") if any(getattr(item, name) for item in items)]
    rows = [
        [
            *(str(item.player_id), item.name, share(item.propensity), share(item.win_rate), str(item.games)),
            tables.interval(item.rating, item.deviation) + ("?" if item.provisional else ""),
            *(_record(getattr(item, name)) for name in used),
        ]
        for item in items
    ]
    blocks = [["id"], ["player"], ["probability", "win rate", "games", "rating ± 2 RD", *used]]
    brief = ["id", "player", "probability", "win rate", *used]
    return Grid(blocks, rows, "no other players", "opponents", brief if used else ())


def _record(record: wire.Record | None) -> str:
    return NONE if record is None else f"{share(record.score)} of {record.matches}"
