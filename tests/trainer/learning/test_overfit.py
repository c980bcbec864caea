"""One match, over and over again, is learned by heart. Where it is not, learning itself is broken."""

from dataclasses import replace

import pytest
from fake_games import never

from arena.environments import make, make_baseline
from trainer.config.loading import resolve
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.pool import Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector

UPDATES, LAST = 16, 4
SEED_OF_ALL_MATCHES = 7
UNTRAINED = 0.6
"""More than who walks about at random wins of this match: 0.34 to 0.42."""


class OneMatch:
    """Deals the same match again and again: the learner is at home, the opponent stands and shoots."""

    def __init__(self):
        self._opponent = Opponent("turret", "turret", make_baseline("mech-duel", "turret"))
        self._dealt = 0

    def next_match(self, row):
        self._dealt += 1
        return MatchAssignment(
            self._opponent,
            away=False,
            seed=SEED_OF_ALL_MATCHES,
            lease=None,
            sequence=self._dealt,
            self_play_match=False,
        )


def share_of_wins(*settings):
    """Wins over the last of so many updates with the preset, but for a learning rate that is in a hurry."""
    hurry = ["environment.self_play=0", "optimizer.learning_rate=1e-3", "optimizer.learning_rate_final=1e-3"]
    config = resolve("mech-duel", None, [*hurry, *settings])
    game = make("mech-duel", num_envs=config.environment.num_envs, seed=0)
    learner, episodes = Learner(config, game.spec), []
    collector = RolloutCollector(
        [game], learner.network, OneMatch(), episodes.append, learner.rng, self_play=frozenset(), device_cache_bytes=0
    )
    rollout = learner.allocate()
    for update in range(UPDATES):
        if update == UPDATES - LAST:
            episodes.clear()
        collector.collect(rollout, never)
        learner.learn(rollout, never)
    return sum(episode.learner_score == 1.0 for episode in episodes) / len(episodes)


@pytest.mark.holds("K5")
@pytest.mark.slow
def test_a_single_match_is_learned_by_heart():
    """Six seeds of six won 0.98 or more."""
    assert share_of_wins() > 0.9


@pytest.mark.holds("K5")
@pytest.mark.slow
def test_pure_exploration_does_not_learn_it():
    assert share_of_wins("ppo.normalized_ent_coef=10.0", "ppo.normalized_ent_coef_final=10.0") < UNTRAINED


@pytest.mark.holds("K5")
@pytest.mark.slow
def test_wrong_sign_of_the_advantage_does_not_learn_it(monkeypatch):
    targets = Learner.targets

    def wrong(*given):
        found, metrics = targets(*given)
        return replace(found, advantage=-found.advantage), metrics

    monkeypatch.setattr(Learner, "targets", wrong)
    assert share_of_wins() < UNTRAINED
