"""Pairs of rating leases: players with a provisional rating come first."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from league_scene import ENVIRONMENT, SIGNATURE, Scene

from league import wire
from league.db.engine import Database
from league.services.matchmaking.rating_pairs import Evaluator, plan_pairs
from league.services.population import cache as populations
from league.services.ratings.period import PlayerRating

Plan = Callable[[Sequence[wire.Player], Sequence[float], int], list[set[int]]]

MAX_DEVIATION = 37.5


@pytest.fixture
def plan(scene: Scene, database: Database) -> Plan:
    """Pair snapshots that are rated 1500 with these deviations, without the baselines; return the pairs of ids."""

    def pair(players: Sequence[wire.Player], deviations: Sequence[float], count: int) -> list[set[int]]:
        entries = {
            player.id: PlayerRating("snapshot", 1500.0, deviation, 0.06, 50, 25.0)
            for player, deviation in zip(players, deviations, strict=True)
        }
        with database.read() as session:
            population = populations.load(session, ENVIRONMENT).rated(entries)
            known = {player.id for player in players}
            others = frozenset(member.id for member in population.members if member.id not in known)
            evaluator = Evaluator([SIGNATURE], others, None)
            planned = plan_pairs(session, population, evaluator, count, MAX_DEVIATION, np.random.default_rng(0))
            return [{population.members[index].id for index in two} for two in planned.pairs]

    return pair


def test_half_of_the_pairs_serve_provisional_players_first(scene: Scene, plan: Plan) -> None:
    players = [scene.publish(step) for step in range(4)]
    assert all(players[1].id in two for two in plan(players, [10.0, 40.0, 10.0, 10.0], 6)[:3])
    assert plan(players, [10.0] * 4, 2)[0].isdisjoint(plan(players, [10.0] * 4, 2)[1])
