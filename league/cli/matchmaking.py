"""Whom a learner meets next, why a lease was drawn as it was, and what another rule would have done."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from league import wire
from league.cli.connection import AsJson, Token, Url, connect, find_player, moment
from league.cli.output import tables
from league.cli.output.grid import Grid, record
from league.cli.output.tables import NONE, share
from league.client import DEFAULT_URL, LeagueClient
from league.errors import InvalidRequestError

app = typer.Typer()

_WHICH = "A learner's name, or its id in `league players`"
Learner = Annotated[str, typer.Argument(metavar="LEARNER", help=f"{_WHICH}.")]
Rows = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most opponents to print, the likeliest first.")]

EVALUATION_PATIENCE_S = 600.0
"""A million leases, or many equilibria, take minutes."""

_NAMED_MAX = 5  # of those whom a filter took out


@app.command(epilog="Example: league opponents main")
def opponents(
    learner: Learner, limit: Rows = 20, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Show a learner's opponent distribution: each opponent's probability and the rule behind it.

    It also lists the players that are left out, with the reason.
    """
    with connect(url, token) as client:
        player = _learner(client, learner)
        preview = client.preview(player.id)
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
    """Show a lease, its result, and the distribution that its opponent was drawn from."""
    with connect(url, token) as client:
        told = client.explain_lease(lease)
    if as_json:
        tables.show_json(told)
    else:
        tables.show(_lease(told), *_account(told, limit))


@app.command("evaluate-matchmaking", epilog="Example: league evaluate-matchmaking main --rule nash --last 10000")
def evaluate_matchmaking(
    rule: Annotated[
        str, typer.Option("--rule", help="The other rule's name, as LEAGUE_MATCHMAKING__WEIGHTING has it.")
    ],
    learner: Annotated[
        str | None,
        typer.Argument(metavar="LEARNER", help=f"{_WHICH}; may be left out where the league has only one."),
    ] = None,
    last: Annotated[
        int, typer.Option("--last", min=2, max=1_000_000, help="How many of its last leases to look at.")
    ] = 10_000,
    since: Annotated[
        str | None,
        typer.Option("--since", help="None granted before this time, ISO 8601; without a zone it is this machine's."),
    ] = None,
    limit: Rows = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Estimate how a learner would have scored under another matchmaking rule.

    No matches are played. Recorded leases are weighted by the ratio of their probabilities under both rules
    (off-policy evaluation, see docs/matchmaking.md).
    """
    start = None if since is None else moment(since)
    with connect(url, token, EVALUATION_PATIENCE_S) as client:
        player = _only_learner(client) if learner is None else _learner(client, learner)
        found = client.evaluate_matchmaking(player.id, rule, last, start)
    if as_json:
        tables.show_json(found)
    else:
        tables.show(f"{player.name} of {found.environment} by {rule}: {found.prefers}", *_evaluation(found, limit))


def _only_learner(client: LeagueClient) -> wire.Player:
    learners = client.players(kind="learner", limit=2).items
    if len(learners) != 1:
        rule = "the league has several" if learners else "the league has none yet"
        raise InvalidRequestError("without LEARNER", rule, "name one; `league players --kind learner` lists them")
    return learners[0]


def _learner(client: LeagueClient, who: str) -> wire.Player:
    player = find_player(client, who)
    if player.kind != "learner":
        rule = f"it is a {player.kind}, and opponents are drawn for learners"
        raise InvalidRequestError(f"player {player.id}", rule, "`league players --kind learner` lists them")
    return player


def _evaluation(found: wire.MatchmakingEvaluation, limit: int) -> Sequence[Table | Grid | str]:
    """Make the tables of an evaluation: the scores, how much they rest upon, and the shares."""
    rows = {
        "leases": f"{found.leases} looked at; {found.unplayed} unplayed, {found.unknown} drawn from whom is not known",
        "draws": f"{found.draws}, with {found.matches} matches",
        "score": _estimate(found.logged_score),
        "by the rule": _estimate(found.score),
        "effective": f"{found.effective_draws:.0f} draws of the rule itself would tell as much",
        "uncovered": f"{share(found.uncovered)} of the rule's draws were never made; nothing is known of them",
    }
    parts: list[Table | Grid | str] = [record(rows)]
    if found.too_few:
        parts.append("too few effective draws, so the interval is too narrow: raise --last")
    shares = [[str(each.player_id), each.name, share(each.logged), share(each.target)] for each in found.shares[:limit]]
    parts.append(Grid([["id"], ["player"], ["share", "by the rule"]], shares, "nobody", "shares of the games"))
    if len(found.shares) > limit:
        rest = share(sum(each.target for each in found.shares[limit:]))
        parts.append(f"and {len(found.shares) - limit} more, {rest} by the rule; --limit {len(found.shares)} shows all")
    return parts


def _estimate(estimate: wire.Estimate | None) -> str:
    if estimate is None:
        return "unknown: the rule draws nobody whom the learner met"
    return f"{share(estimate.value)}, 95 % interval {share(estimate.low)} to {share(estimate.high)}"


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
