"""Games in turns, with chance and hidden cards, whose exact values say what was learned."""

from fake_games import ScriptedDealer, never

from arena.environments import make
from arena.exploitability import exploitability, sequence_form, uniform
from arena.exploitability.tabulate import tabulate
from arena.policies import NetworkPolicy
from trainer.collector import Collector
from trainer.config import resolve
from trainer.learner import Learner
from trainer.opponents import SELF, Opponent

KUHN = "openspiel:kuhn_poker"
QUICKER = [
    "environment.num_envs=64",
    "environment.self_play=1.0",
    "schedules.learning_rate=3e-3",
    "schedules.entropy=0.2",
    "schedules.entropy_final=0.2",
]


def self_taught(updates):
    """A network after so many updates in self-play."""
    config = resolve(KUHN, None, QUICKER)
    game = make(KUHN, num_envs=config.environment.num_envs, seed=0)
    learner = Learner(config, game.spec)
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, KUHN, game.spec.signature))
    collector = Collector(
        [game],
        learner.network,
        ScriptedDealer([live]),
        lambda episode: None,
        learner.rng,
        self_play=config.environment.self_play_rows,
        device_cache_bytes=0,
    )
    rollout = learner.allocate()
    for _ in range(updates):
        collector.collect(rollout, never)
        learner.learn(rollout, never)
    return learner.network


def test_self_play_learns_to_be_hard_to_exploit():
    """Three seeds of three were at 0.10 to 0.11 after six updates, and playing at random is at 0.46."""
    game = sequence_form(KUHN)

    assert exploitability(game, uniform(game)) > 0.45
    assert exploitability(game, tabulate(self_taught(6), KUHN)) < 0.15
