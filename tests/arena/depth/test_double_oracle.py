import json
from collections.abc import Sequence

import numpy as np
import pytest

from arena.arrays import FloatArray
from arena.depth.double_oracle import Budget, Pool, open_pool, sample_mixture, search
from arena.depth.matches import NamedPolicy, Player
from arena.policies.mech.tactics import PLAIN, Tactic
from arena.policies.scripted import RandomPolicy

BUDGET = Budget(matches=32, rounds=12, candidates=16, screening=4)
NAMED = NamedPolicy("random", RandomPolicy(()))


class Throws:
    """Rock-paper-scissors: the time that a tactic waits says what it throws, and all others lose to every throw."""

    parameters = ("wait_s", "strafe", "leads")
    throws = (8.0, 15.0, 30.0)

    def __init__(self) -> None:
        self.played = 0

    def scores(self, pairs: Sequence[tuple[Player, Player]], seed: int) -> FloatArray:
        self.played += len(pairs)
        return np.array([self._score(*pair) for pair in pairs])

    def _score(self, one: Player, other: Player) -> float:
        first, second = (self._throw(player) for player in (one, other))
        if first < 0 or second < 0:
            return 0.5 + 0.5 * ((first >= 0) - (second >= 0))
        return (0.5, 1.0, 0.0)[(first - second) % 3]

    def _throw(self, player: Player) -> int:
        return self.throws.index(player.wait_s) if isinstance(player, Tactic) and player.wait_s in self.throws else -1


@pytest.fixture
def found() -> Pool:
    matches = Throws()
    pool = open_pool([NAMED, PLAIN], matches, BUDGET.matches, 0)
    search(pool, matches, BUDGET, 1, lambda: None)
    return pool


def weights(pool: Pool) -> dict[float, float]:
    """Weight of each throw in the mixture."""
    share: dict[float, float] = {}
    for player, weight in zip(pool.players, pool.nash, strict=True):
        throw = player.wait_s if isinstance(player, Tactic) else 0.0
        share[throw] = share.get(throw, 0.0) + weight
    return share


def test_the_search_finds_the_circle_of_rock_paper_scissors(found: Pool):
    assert weights(found) == pytest.approx({0.0: 0.0, 8.0: 1 / 3, 15.0: 1 / 3, 30.0: 1 / 3}, abs=1e-3)
    assert found.cyclic > 0.3
    assert found.stalled
    assert not any(each.admitted for each in found.rounds[-3:])


def test_every_player_of_the_pool_meets_every_other_equally_often(found: Pool):
    games = np.full_like(found.games, BUDGET.matches)
    np.fill_diagonal(games, 0.0)
    assert np.array_equal(found.games, games)
    assert np.array_equal(found.points + found.points.T, games)
    assert len(set(found.players)) == len(found.players)


def test_a_saved_search_continues_as_if_it_had_not_stopped(found: Pool):
    matches = Throws()
    pool = open_pool([NAMED, PLAIN], matches, BUDGET.matches, 0)
    search(pool, matches, Budget(BUDGET.matches, 2, BUDGET.candidates, BUDGET.screening), 1, lambda: None)

    saved = json.loads(json.dumps(pool.to_dict()))
    resumed = Pool.from_dict(saved, [NAMED])
    again = Throws()
    search(resumed, again, BUDGET, 1, lambda: None)

    assert resumed.to_dict() == found.to_dict()
    assert again.played > 0


def test_a_finished_search_plays_nothing(found: Pool):
    matches = Throws()
    search(found, matches, BUDGET, 1, lambda: None)
    assert matches.played == 0


def test_a_mixture_is_sampled_in_its_proportions():
    players = [Tactic(distance=float(index)) for index in range(3)]
    drawn = sample_mixture(players, np.array([0.25, 0.0, 0.75]), 100, seed=3)
    assert [drawn.count(player) for player in players] == [25, 0, 75]
    assert drawn != sample_mixture(players, np.array([0.25, 0.0, 0.75]), 100, seed=4)
