"""What is seen in pixels is learned from, by the policy and by the critic."""

import torch
from fake_games import ScriptedDealer, never

from arena.environments import make
from arena.policies import NetworkPolicy
from trainer.config.loading import resolve
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector

GAME, UPDATES = "catch_game:catch", 12
SETTINGS = [
    *("environment.num_envs=64", "environment.self_play=1.0", "rollout.num_steps=28", "rollout.bptt_horizon=14"),
    *("network.core=feedforward", "network.encoder_sizes=[32]", "network.recurrent_size=32"),
    *("network.image_channels=8", "optimizer.learning_rate=3e-3", "ppo.target_kl=0.05", "ppo.update_epochs=4"),
    *("ppo.gamma=1.0", "ppo.vf_coef=1.0"),
]


def trained(change):
    """Share of stones that are caught in the last update, and the most of returns that the critic foretold in any."""
    config = resolve(GAME, None, SETTINGS)
    game = make(GAME, num_envs=config.environment.num_envs)
    learner = Learner(config, game.spec)
    (encoder,) = learner.network.images
    change(encoder)
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, GAME, game.spec.signature))
    episodes, explained = [], []
    collector = RolloutCollector(
        [game],
        learner.network,
        ScriptedDealer([live]),
        episodes.append,
        learner.rng,
        self_play=config.environment.self_play_rows,
        device_cache_bytes=0,
    )
    rollout = learner.allocate()
    for _ in range(UPDATES):
        episodes.clear()
        assert collector.collect(rollout, never)
        explained.append(learner.learn(rollout, never)["losses/explained_variance"])
    return sum(episode.mean_return for episode in episodes) / len(episodes), max(explained)


def test_convolutions_learn_to_catch_a_stone_from_images():
    """Three seeds of three caught 0.80 to 0.89 and explained 0.24 to 0.26."""
    caught, explained = trained(lambda encoder: None)
    assert caught > 0.6
    assert explained > 0.12


def test_policy_without_the_image_catches_one_stone_in_eight():
    caught, explained = trained(
        lambda encoder: encoder.register_forward_hook(lambda module, seen, features: torch.zeros_like(features))
    )
    assert caught < 0.3
    assert explained < 0.02
