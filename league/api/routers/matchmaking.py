"""Matchmaking of a learner: the distribution of its next lease, and how another rule would have done."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import ID_LIMIT, Reader, Running
from league.api.routes import ApiRoute
from league.services.matchmaking import off_policy, opponents
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["matchmaking"])


@router.get("/matchmaking/preview")
def preview(player: Annotated[int, Query(ge=1, lt=ID_LIMIT)], league: Running, _: Reader) -> wire.Preview:
    """Show the distribution that a learner's next lease is drawn from."""
    with league.database.read() as session:
        return opponents.preview(session, league.settings, league.population, player)


@router.get("/matchmaking/evaluation")
def evaluation(
    player: Annotated[int, Query(ge=1, lt=ID_LIMIT)],
    rule: Annotated[str, Query(max_length=100, description="a name, as LEAGUE_MATCHMAKING__WEIGHTING takes it")],
    league: Running,
    _: Reader,
    last: Annotated[int, Query(ge=2, le=off_policy.MOST, description="leases of the learner")] = 10_000,
    since: Annotated[wire.Time | None, Query(description="none of them granted earlier; null for any")] = None,
) -> wire.MatchmakingEvaluation:
    """Estimate from its last leases how another rule would have distributed a learner's games, and scored in them."""
    with league.database.read() as session:
        return off_policy.evaluate(session, league.settings, league.population, player, rule, last, since)
