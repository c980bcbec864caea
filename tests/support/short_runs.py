"""Short training runs in self-play, and what the monitor finds in their metrics."""

import json
from dataclasses import replace

import torch
from fake_games import ScriptedDealer, never

from arena.environments import make
from arena.policies import NetworkPolicy
from trainer.config.loading import resolve
from trainer.monitoring.health.history import Setup
from trainer.monitoring.health.monitor import Monitor
from trainer.monitoring.metrics import MatchStatistics
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector


def train(environment, updates, *settings, pays=True):
    """Train with the preset; return the configuration and the metrics of each update."""
    torch.manual_seed(0)
    config = resolve(environment, None, ["environment.num_envs=16", "rollout.num_steps=32", *settings])
    game = make(environment, num_envs=config.environment.num_envs, seed=0)
    if not pays:
        withhold_rewards(game)
    learner, scores = Learner(config, game.spec), MatchStatistics()
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, environment, game.spec.signature))
    collector = RolloutCollector(
        [game],
        learner.network,
        ScriptedDealer([live]),
        scores.add,
        learner.rng,
        self_play=config.environment.self_play_rows,
        device_cache_bytes=0,
    )
    rollout, metrics = learner.allocate(), []
    for update in range(1, updates + 1):
        collector.collect(rollout, never)
        learned = dict(learner.learn(rollout, never))
        metrics.append({**learned, **scores.metrics(), "charts/updates": float(update)})
    return config, metrics


def withhold_rewards(game):
    step = game.step

    def unpaid(actions):
        result = step(actions)
        return replace(result, reward=torch.zeros_like(result.reward))

    game.step = unpaid


def alerts_of(config, metrics):
    """Return every alert that begins, in the order in which they begin."""
    monitor = Monitor(Setup.of(config.model_dump()))
    found = [alert for each in metrics for alert in monitor.update(int(each["charts/updates"]), each)]
    return [alert for alert in found if alert.ended is None]


def as_lines(metrics):
    """Return metrics as lines of metrics.jsonl."""
    return [json.dumps({"step": 512 * place, **each}) + "\n" for place, each in enumerate(metrics, start=1)]
