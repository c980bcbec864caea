"""Analysis endpoints for active players: payoffs, superiority, regressions and redundancy."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import After, Filter, Limit, Reader, Running
from league.api.routes import ApiRoute
from league.pagination import Page
from league.player_names import display_name
from league.services.environments import lookup as environments
from league.services.leaderboard import deviations, payoff_matrix, predicted_cycle, regressions, superiority
from league.services.leaderboard.payoff_matrix import PayoffFilter
from league.services.promotion import redundancy
from league.services.ratings import pair_predictions
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["analysis"])

_PAYOFF_MAX = 500


@router.get("/payoff")
def get_payoff(
    league: Running,
    _: Reader,
    environment: Filter = None,
    limit: Annotated[int, Query(ge=1, le=_PAYOFF_MAX, description="Maximum number of players, strongest first")] = 100,
    learners: Annotated[bool, Query(description="Whether to include learners, which never play each other")] = True,
) -> wire.Payoff:
    """Return the payoff matrix of the strongest active players; `total` is the number of all active players."""
    with league.database.read() as session:
        chosen = environment or environments.only(session)
        environments.require_known(session, chosen)
        wanted = PayoffFilter(limit, learners=learners, open_matches=True)
        matrix = payoff_matrix.get_payoff_matrix(session, league.settings, league.population, chosen, wanted)
        deviating = deviations.get_deviations(session, league.population, chosen)
    names = {player.id: wire.PlayerName(player_id=player.id, name=player.name) for player in matrix.players}
    return wire.Payoff(
        environment=chosen,
        total=matrix.total,
        players=list(names.values()),
        names=[display_name(player) for player in matrix.players],
        win_rates=matrix.win_rate.tolist(),
        counts=matrix.matches.tolist(),
        intransitivity=matrix.cyclic,
        nash_weights=[player.weight for player in matrix.players],
        deviations=[
            wire.PairScore(player=names[low], opponent=names[high], **asdict(pair))
            for (low, high), pair in deviating.pairs.items()
            if low in names and high in names
        ],
    )


@router.get("/pair-model")
def get_pair_model(league: Running, _: Reader, environment: Filter = None) -> wire.PairModel:
    """Return the model that predicts the scores of pairs, and how well it does."""
    with league.database.read() as session:
        chosen = environment or environments.only(session)
        environments.require_known(session, chosen)
        model = pair_predictions.describe(session, chosen)
        cycle = predicted_cycle.get_predicted_cycle(session, league.population, chosen)
    return model.model_copy(update={"strongest_cycle": predicted_cycle.to_wire(cycle)})


@router.get("/superiority")
def get_superiority(
    league: Running,
    _: Reader,
    environment: Filter = None,
    limit: Annotated[
        int, Query(ge=1, le=superiority.MOST, description="Maximum number of players, strongest first")
    ] = 100,
) -> wire.Superiority:
    """Return the certainty of the order of active frozen players: 95 % intervals and likelihoods of superiority."""
    chosen, compared = superiority.compare(league.database, league.settings, league.population, environment)
    return superiority.get_superiority(chosen, compared, limit)


@router.get("/regressions", response_model=wire.Page[wire.Regression])
def list_regressions(
    league: Running, _: Reader, environment: Filter = None, limit: Limit = 100, cursor: After = 0
) -> Page[wire.Regression]:
    """List the main learners that lose to snapshots which they beat before, oldest finding first."""
    with league.database.read() as session:
        return Page.at(regressions.list_regressions(session, environment), cursor, limit)


@router.get("/redundancy", response_model=wire.Page[wire.Redundancy])
def list_redundant_snapshots(
    league: Running, _: Reader, environment: Filter = None, limit: Limit = 100, cursor: After = 0
) -> Page[wire.Redundancy]:
    """List the snapshots whose scores resemble those of another one that is no weaker, most similar first."""
    with league.database.read() as session:
        return Page.at(redundancy.list_redundant(session, league.settings, environment), cursor, limit)
