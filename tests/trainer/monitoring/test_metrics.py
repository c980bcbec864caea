import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fake_games import tagged

from league.wire import Lease, Seat
from trainer.disk_retry import DiskRetry
from trainer.monitoring.loggers import TensorBoard
from trainer.monitoring.metrics import MAX_OPPONENTS, MatchStatistics, MetricsLogger
from trainer.opponents.assignment import MatchAssignment
from trainer.rollout.collector import CollectedMatch

LEASE = Lease(
    lease_id="lease",
    kind="training",
    home=Seat(player_id=1, checkpoint=None, name="main"),
    away=Seat(player_id=2, checkpoint="baseline:random", name="random"),
    learner_side="home",
    seed=0,
    budget=2,
    expires_at=datetime(2030, 1, 1, tzinfo=UTC),
    propensity=1.0,
    branch="pfsp",
)


def episode(name="one", score=1.0, away=False, earned=2.0, lease=LEASE, **components):
    opponent = tagged(1.0).__class__(name, name, tagged(1.0).policy)
    return CollectedMatch(
        MatchAssignment(opponent, away, 0, lease, 0, self_play_match=False), score, "over", 10, earned, components
    )


def test_scores_are_the_learners_on_both_sides():
    scores = MatchStatistics()
    for each in (episode(score=1.0), episode(score=1.0, away=True), episode("two", score=0.0, away=True)):
        scores.add(each)
    assert scores.win_rates() == {"one": 0.5, "two": 1.0}
    metrics = scores.metrics()
    assert metrics["charts/score"] == pytest.approx(2 / 3)
    assert metrics["charts/episodes"] == 3.0
    assert metrics["charts/episodic_return"] == 2.0
    assert metrics["charts/episodic_length"] == 10.0
    assert metrics["win_rate/two"] == 1.0


def test_scores_are_averaged_by_matchmaking_branch():
    scores, uniform = MatchStatistics(), LEASE.model_copy(update={"branch": "uniform"})
    for each in (episode(score=1.0), episode("two", score=0.0), episode(score=1.0, lease=uniform), episode(lease=None)):
        scores.add(each)
    metrics = scores.metrics()
    assert metrics["win_rate_by_branch/pfsp"] == 0.5
    assert metrics["win_rate_by_branch/uniform"] == 1.0


def test_self_play_matches_are_counted_without_a_score():
    itself = replace(episode(score=0.0, earned=8.0, lease=None).assignment, self_play_match=True)
    scores = MatchStatistics()
    scores.add(episode(score=0.0, earned=8.0)._replace(assignment=itself))
    alone = scores.metrics()
    assert "charts/score" not in alone
    assert alone["charts/episodic_return"] == 8.0
    scores.add(episode(score=1.0))
    metrics = scores.metrics()
    assert (metrics["charts/episodes"], metrics["charts/self_play_episodes"]) == (2.0, 1.0)
    assert (metrics["charts/score"], metrics["charts/episodic_return"]) == (1.0, 2.0)
    assert scores.win_rates() == {"one": 1.0}


@pytest.mark.holds("K1")
def test_reward_components_add_up_to_the_return():
    scores = MatchStatistics()
    scores.add(episode(earned=2.0, zone=3.0, damage=-1.0))
    scores.add(episode(earned=1.0, zone=0.0, damage=1.0))
    metrics = scores.metrics()
    assert (metrics["reward/zone"], metrics["reward/damage"]) == (1.5, 0.0)
    assert metrics["reward/zone"] + metrics["reward/damage"] == metrics["charts/episodic_return"]


@pytest.mark.holds("K1")
def test_reward_shares_ignore_signs():
    scores = MatchStatistics()
    scores.add(episode(zone=3.0, damage=-1.0, win=1.0))
    scores.add(episode(zone=-2.0, damage=0.0, win=-1.0))
    shares = {name: value for name, value in scores.metrics().items() if name.startswith("reward_share/")}
    assert shares == {"reward_share/zone": 5 / 8, "reward_share/damage": 1 / 8, "reward_share/win": 2 / 8}
    nothing = MatchStatistics()
    nothing.add(episode(zone=0.0))
    assert nothing.metrics()["reward_share/zone"] is None


def test_unrated_matches_count_for_the_score_only():
    scores = MatchStatistics()
    scores.add(episode("random", score=1.0))
    scores.add(episode("f" * 64, score=0.0, lease=None))
    scores.add(episode("self", score=0.0, lease=None))
    assert scores.win_rates() == {"random": 1.0}
    assert scores.metrics()["charts/score"] == pytest.approx(1 / 3)
    assert scores.episodes == 3


def test_opponents_played_least_recently_are_dropped():
    scores = MatchStatistics()
    for number in range(MAX_OPPONENTS + 2):
        scores.add(episode(f"player {number}"))
        scores.add(episode("player 0"))
    assert len(scores.win_rates()) == MAX_OPPONENTS
    assert "player 0" in scores.win_rates()
    assert "player 1" not in scores.win_rates()


def test_the_log_has_every_update_and_null_for_nan(tmp_path):
    metrics_logger = MetricsLogger(tmp_path, [TensorBoard(tmp_path / "tensorboard", 0)], DiskRetry(print))
    metrics_logger.write(8, {"a": 1.5, "b": None, "c": float("nan")})
    metrics_logger.write(16, {"a": 2.5})
    metrics_logger.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 8, "a": 1.5, "b": None, "c": None}, {"step": 16, "a": 2.5}]
    assert any((tmp_path / "tensorboard").iterdir())
