"""A game written in JAX is learned like any other."""

import pytest
import torch
from fake_games import ScriptedDealer, never

pytest.importorskip("pgx")

from arena.environments import make
from arena.play.series import play_series, resolve_policy
from arena.policies import NetworkPolicy
from trainer.config.loading import resolve
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector

GAME = "pgx:tic_tac_toe"
SETTINGS = ["environment.num_envs=64", "environment.self_play=1.0", "optimizer.learning_rate=3e-3"]


@pytest.mark.slow
def test_self_play_of_a_pgx_game_beats_random_moves():
    config = resolve(GAME, None, SETTINGS)
    game = make(GAME, num_envs=config.environment.num_envs, seed=0)
    learner = Learner(config, game.spec)
    live = NetworkPolicy(learner.network, GAME, game.spec.signature)
    collector = RolloutCollector(
        [game],
        learner.network,
        ScriptedDealer([Opponent(SELF, "self", live)]),
        lambda episode: None,
        learner.rng,
        self_play=config.environment.self_play_rows,
        device_cache_bytes=0,
    )
    rollout = learner.allocate()
    for _ in range(12):
        collector.collect(rollout, never)
        learner.learn(rollout, never)

    with torch.no_grad():
        score = play_series(GAME, live, resolve_policy(GAME, "random"), matches=400, seed=1).score
    assert score > 0.65, "two random players are level at 0.5"
