"""Analyses of the players in play: payoffs, superiority, regressions and redundancy."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import Filter, Reader, Running
from league.api.routes import ApiRoute
from league.services.environments import lookup as environments
from league.services.leaderboard import payoff_matrix, regressions, superiority
from league.services.promotion import redundancy
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["tables"])

_PAYOFF_MAX = 500


@router.get("/payoff")
def payoff(
    league: Running, _: Reader, environment: Filter = None, limit: Annotated[int, Query(ge=1, le=_PAYOFF_MAX)] = 100
) -> wire.Payoff:
    """Show who beats whom among the strongest players in play; `total` says how many are."""
    with league.database.read() as session:
        return payoff_matrix.get_payoff(session, environment or environments.only(session), limit)


@router.get("/superiority")
def likely_order(
    league: Running,
    _: Reader,
    environment: Filter = None,
    limit: Annotated[int, Query(ge=1, le=superiority.MOST)] = 100,
) -> wire.Superiority:
    """Show how sure the order of the frozen players in play is: 95 % bands, and who is likely stronger than whom."""
    chosen, compared = league.comparisons.of(league.database, league.settings, environment)
    return superiority.get_superiority(chosen, compared, limit)


@router.get("/regressions")
def list_regressions(league: Running, _: Reader, environment: Filter = None) -> wire.Page[wire.Regression]:
    """List the main learners that lose to snapshots which they used to beat, oldest finding first."""
    with league.database.read() as session:
        return wire.Page(items=regressions.listing(session, environment), next_cursor=None)


@router.get("/redundancy")
def list_redundant(league: Running, _: Reader, environment: Filter = None) -> wire.Page[wire.Redundancy]:
    """List the snapshots that another one, which is no weaker, scores like; most alike first."""
    with league.database.read() as session:
        found = redundancy.listing(session, league.settings, environment)
    return wire.Page(items=found, next_cursor=None)
