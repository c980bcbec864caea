"""Games in turns, with chance and hidden cards, whose exact values say what was learned."""

import torch
from fake_games import ScriptedDealer, never

from arena.environments import make
from arena.exploitability import exploitability, sequence_form, uniform
from arena.exploitability.tabular_policy import to_tabular_policy
from arena.policies import NetworkPolicy
from trainer.config.loading import resolve
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector

KUHN = "openspiel:kuhn_poker"
QUICKER = [
    "environment.num_envs=64",
    "environment.self_play=1.0",
    "optimizer.learning_rate=3e-3",
    "ppo.normalized_ent_coef=0.2",
    "ppo.normalized_ent_coef_final=0.2",
]


def in_self_play(name, settings):
    """A learner, and what collects its rollouts."""
    config = resolve(name, None, settings)
    game = make(name, num_envs=config.environment.num_envs, seed=0)
    learner = Learner(config, game.spec)
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, name, game.spec.signature))
    collector = RolloutCollector(
        [game],
        learner.network,
        ScriptedDealer([live]),
        lambda episode: None,
        learner.rng,
        self_play=config.environment.self_play_rows,
        device_cache_bytes=0,
    )
    return learner, collector


def self_taught(updates):
    """A network after so many updates in self-play."""
    learner, collector = in_self_play(KUHN, QUICKER)
    rollout = learner.allocate()
    for _ in range(updates):
        collector.collect(rollout, never)
        learner.learn(rollout, never)
    return learner.network


def test_self_play_learns_to_be_hard_to_exploit():
    """Three seeds of three were at 0.10 to 0.11 after six updates, and playing at random is at 0.46."""
    game = sequence_form(KUHN)

    assert exploitability(game, uniform(game)) > 0.45
    assert exploitability(game, to_tabular_policy(self_taught(6), KUHN)) < 0.15


def test_folds_calls_and_raises_at_a_rollouts_end_are_left_out_alike():
    """A fold ends the game at once; after a call or a raise the other side may move twice: a round ends, one begins."""
    learner, collector = in_self_play(
        "openspiel:leduc_poker", ["environment.num_envs=64", "environment.self_play=1.0", "rollout.num_steps=32"]
    )
    rollout, taken, left_out = learner.allocate(), torch.zeros(3), torch.zeros(3)
    for _ in range(4):
        collector.collect(rollout, never)
        targets, _ = learner.targets(rollout)
        assert torch.equal(targets.valid[:30], rollout.active[:30])
        assert not targets.valid[30:].any()
        action = rollout.raw_action[..., 0].long()
        taken += torch.bincount(action[rollout.active], minlength=3)
        left_out += torch.bincount(action[rollout.active & ~targets.valid], minlength=3)

    assert taken.min() > 1000
    expected = taken * left_out.sum() / taken.sum()
    rest = (left_out - expected).square() * (1.0 / expected + 1.0 / (taken - expected))
    assert rest.sum().item() < 9.21, "chi-square of three shares at 1 %"
    assert learner.tensors()["longest_wait"] == 2
