from dataclasses import replace

import pytest
import torch
from refused import refused

from arena.environments import make
from arena.environments.classic.matrix_game import RPS_PAYOFF

ROCK, PAPER, SCISSORS = range(3)
EQUILIBRIUM = torch.tensor([1 / 2, 1 / 6, 1 / 3])


def test_no_strategy_beats_the_equilibrium():
    payoff_of_each_answer = torch.tensor(RPS_PAYOFF) @ EQUILIBRIUM

    torch.testing.assert_close(payoff_of_each_answer, torch.zeros(3))


@pytest.mark.parametrize(
    ("home", "away", "payoff"),
    [(ROCK, SCISSORS, 1.0), (PAPER, ROCK, 2.0), (SCISSORS, PAPER, 3.0), (ROCK, ROCK, 0.0), (ROCK, PAPER, -2.0)],
)
def test_rewards_are_zero_sum(home: int, away: int, payoff: float):
    env = make("rps", num_envs=1)
    env.reset()

    step = env.step({"choice": torch.tensor([[home, away]])})

    assert step.reward.tolist() == [[payoff, -payoff]]
    assert step.outcome.score.item() == pytest.approx(0.5 + payoff / 6.0)
    assert step.terminated.all()
    assert not step.truncated.any()


def test_choice_outside_the_options_is_refused_by_value():
    env = make("rps", num_envs=2)
    env.reset()

    with refused("invalid-action", "[0, 3]", "rps", 0, 2):
        env.step({"choice": torch.tensor([[0, 1], [3, 0]])})


def test_whether_the_limit_decides_is_part_of_the_signature():
    spec = make("rps", num_envs=1).spec

    assert replace(spec, limit_decides=True).signature != spec.signature


def test_actions_of_the_wrong_shape_or_name_are_refused():
    env = make("rps", num_envs=2)
    env.reset()

    with refused("invalid-action", "(2, 3)", "rps", "(2, 2)"):
        env.step({"choice": torch.zeros(2, 3, dtype=torch.int64)})
    with refused("invalid-action", "hand"):
        env.step({"choice": torch.zeros(2, 2, dtype=torch.int64), "hand": torch.zeros(2, 2)})


@pytest.mark.parametrize(("kwargs", "value"), [({"num_envs": 0}, 0), ({"device": "gpu"}, "gpu")])
def test_impossible_batch_is_refused(kwargs: dict, value: str):
    with refused("invalid-input", value):
        make("rps", **{"num_envs": 1, **kwargs})
