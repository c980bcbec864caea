"""The perfect player of a game in turns keeps what it can have, and lines that are lost are counted."""

import numpy as np
import pytest
import torch

from arena.environments import declare
from arena.environments.adapters.openspiel.declare import observations, tree_of
from arena.environments.adapters.openspiel.tree import AWAY, HOME
from arena.play.series import play_series, resolve_policy
from arena.policies import ActorCritic, Architecture, NetworkPolicy
from arena.policies.nn.architecture import CoreKind
from benchmarks.perfect import PerfectPlayer, best_moves, lines_lost

NIM = "openspiel:nim(pile_sizes=1;2)"
"""Whoever takes the last stick loses: the first player wins by taking the whole pile of two."""


def test_moves_that_keep_a_won_game_won_are_the_best():
    tree = tree_of(NIM)
    opening = int(tree.information_state[0, HOME])
    good = best_moves(tree)
    assert (good <= tree.legal).all()
    assert good.any(axis=1).all(), "there is always one that keeps what there is"
    assert good[opening].sum() == 1
    assert tree.legal[opening].sum() == 3


def test_the_perfect_player_wins_what_can_be_won():
    player = PerfectPlayer(tree_of(NIM))
    series = play_series(NIM, player, resolve_policy(NIM, "random"), matches=40, seed=0)
    assert {match.score for match in series.matches if match.a_is_home} == {1.0}
    assert {match.score for match in series.matches if not match.a_is_home} == {0.0, 1.0}


@pytest.fixture
def learner() -> NetworkPolicy:
    """A network that always takes the first legal move."""
    spec = declare(NIM)
    network = ActorCritic(Architecture.of(spec, core=CoreKind.FEEDFORWARD, encoder_sizes=(4,), recurrent_size=4))
    with torch.no_grad():
        network.actor.weight.zero_()
        network.actor.bias.copy_(-torch.arange(len(network.actor.bias)).float())
    return NetworkPolicy(network, NIM, spec.signature)


def test_lines_that_are_lost_are_those_in_which_it_does_what_it_does(learner: NetworkPolicy):
    tree = tree_of(NIM)
    first = tree.legal.argmax(axis=1)

    def count(node: int, side: int) -> int:
        if tree.terminal[node]:
            return int((tree.home_return[node] if side == HOME else -tree.home_return[node]) < 0.0)
        mover = int(tree.acting[node].argmax())
        ahead = np.flatnonzero(tree.parent == node)
        known = tree.information_state[node, mover]
        own = known * tree.legal.shape[1] + first[known]
        return sum(count(int(each), side) for each in ahead if mover != side or tree.choice[each, mover] == own)

    assert len(observations(tree)) == len(tree.legal)
    for side in (HOME, AWAY):
        assert lines_lost(tree, learner, side) == count(0, side)
    assert lines_lost(tree, learner, AWAY) > 0
