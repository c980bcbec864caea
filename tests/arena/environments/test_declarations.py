"""What authors say of their games beyond the rules: whether they are zero-sum, and whether chance plays."""

from dataclasses import replace

import pytest
import zoo_games
from gymnasium.spaces import Box, Discrete

from arena.environments import declare
from arena.environments.adapters.pettingzoo.declare import inspect_game
from arena.environments.adapters.sides import TwoSided
from arena.environments.adapters.vector.declare import inspect_game as look_at_tensors
from arena.environments.adapters.vector.game import TensorGame
from arena.environments.spec import RoundsSpec


class Still:
    observation_space, action_space = Box(0.0, 1.0, (1,)), Discrete(2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seed, options=None):
        return None, {}

    def step(self, actions):
        raise NotImplementedError  # only declared, never played


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ("openspiel:kuhn_poker", (True, True)),
        ("openspiel:matrix_mp", (True, False)),
        ("pettingzoo:connect_four_v3", (True, False)),
        ("pettingzoo:leduc_holdem_v4", (True, True)),
        ("rps:rounds=3", (True, False)),
        ("recall", (None, True)),
        ("mpe2:simple_tag_v3", (None, None)),
    ],
)
def test_game_properties_are_declared(game, said):
    spec = declare(game)
    assert (spec.zero_sum, spec.chance) == said


def test_user_games_declare_their_properties():
    one = inspect_game("game", TwoSided(zoo_games.Meadow, zero_sum=False, chance=True)).spec
    other = look_at_tensors("game", TensorGame(Still, zero_sum=True, chance=False)).spec
    assert (one.zero_sum, one.chance) == (False, True)
    assert (other.zero_sum, other.chance) == (True, False)


def test_checkpoint_signature_ignores_game_properties():
    spec = declare("rps")
    silent = replace(spec, zero_sum=None, chance=None)
    assert silent.signature == spec.signature == "c0a550e24d7d8b16"
    assert RoundsSpec.of("rps:rounds=3", silent, 3).signature == spec.signature
