"""The Gymnasium environment of a session plays leased matches and reports their results."""

from collections import deque
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pettingzoo
import pytest
from gymnasium import spaces
from refused import refused

from league import wire
from league.client import Match
from league.client.session.opponent_env import OpponentEnv

LEARNER = wire.Seat(player_id=1, checkpoint=None, name="main")


class FakeSession:
    """Hands out one match per opponent checkpoint, and collects what the environment reports."""

    def __init__(self, *opponents: str | None, side: wire.Side = "home") -> None:
        self.worker = SimpleNamespace(name="gpu-3")
        self.reports: list[tuple[float, int]] = []
        self.rejected: list[str] = []
        self._waiting = deque(self._match(number, each, side) for number, each in enumerate(opponents))

    def _match(self, number: int, checkpoint: str | None, side: wire.Side) -> Match:
        opponent = wire.Seat(player_id=2, checkpoint=checkpoint, name="other")
        home, away = (LEARNER, opponent) if side == "home" else (opponent, LEARNER)
        lease = wire.Lease(
            lease_id=f"lease-{number}",
            kind="training",
            home=home,
            away=away,
            learner_side=side,
            seed=2**40 + number,
            budget=1,
            expires_at=datetime(2030, 1, 1, tzinfo=UTC),
            propensity=None,
            branch="pfsp",
        )
        return Match(lease, 0)

    def next_match(self) -> Match | None:
        return self._waiting.popleft() if self._waiting else None

    def weights(self, player: wire.Seat) -> bytes | None:
        return None if player.checkpoint is None else player.checkpoint.encode()

    def report(self, match: Match, score: float, decisions: int) -> None:
        self.reports.append((score, decisions))

    def reject(self, match: Match, reason: str) -> None:
        self.rejected.append(reason)


def always(column: int) -> Any:
    return lambda checkpoint: lambda observation, mask: column


def connect_four(session: FakeSession, load: Any) -> OpponentEnv:
    return OpponentEnv(session, pettingzoo.make("aec", "classic/connect_four-v3"), load)  # type: ignore[arg-type]


def play(env: OpponentEnv, column: int) -> list[float]:
    """Play one episode in which the learner always chooses a column; return the rewards."""
    observation, _ = env.reset()
    rewards, ended = [], False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(np.int64(column))
        assert observation in env.observation_space
        rewards.append(reward)
        ended = terminated or truncated
    return rewards


@pytest.mark.parametrize(("side", "score", "reward"), [("home", 1.0, 1.0), ("away", 0.0, -1.0)])
def test_the_side_that_begins_fills_its_column_first(side: wire.Side, score: float, reward: float) -> None:
    session = FakeSession("weights", side=side)
    rewards = play(connect_four(session, always(0)), 6)
    assert rewards[-1] == reward
    assert not any(rewards[:-1])
    assert session.reports == [(score, 7)]


def test_an_illegal_action_becomes_a_legal_one() -> None:
    session = FakeSession("weights")
    env = connect_four(session, always(3))
    play(env, 3)  # the column is full after six moves, and a move into it would end the match as a loss
    assert session.reports[0][1] > 7


def test_a_checkpoint_is_loaded_once_and_the_learner_as_it_is_now_in_every_match() -> None:
    loaded: list[bytes | None] = []

    def load(checkpoint: bytes | None) -> Any:
        loaded.append(checkpoint)
        return lambda observation, mask: 0

    env = connect_four(FakeSession("weights", None, "weights", None), load)
    for _ in range(4):
        play(env, 6)
    assert loaded == [b"weights", None, None]


def test_random_baseline_plays_without_weights_and_other_baselines_are_rejected() -> None:
    session = FakeSession("baseline:minimax", "baseline:random")
    env = connect_four(session, lambda checkpoint: pytest.fail("nothing to load"))
    play(env, 6)
    assert len(session.rejected) == len(session.reports) == 1
    assert "baseline:minimax" in session.rejected[0]


def test_legal_actions_are_in_the_info_and_in_action_masks() -> None:
    env = connect_four(FakeSession("weights"), always(0))
    observation, info = env.reset()
    assert observation.shape == (84,)
    assert isinstance(env.action_space, spaces.Discrete)
    assert info["action_mask"].tolist() == [1] * 7
    assert env.action_masks().dtype == bool


def test_reset_without_a_first_match_names_the_worker() -> None:
    with refused("league-error", "gpu-3"):
        connect_four(FakeSession(), always(0)).reset()


def test_a_stopped_worker_plays_on_without_reports(caplog: pytest.LogCaptureFixture) -> None:
    session = FakeSession("weights")
    env = connect_four(session, always(0))
    for _ in range(3):
        play(env, 6)
    assert len(session.reports) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "gpu-3" in caplog.text


def test_a_game_without_discrete_actions_is_rejected() -> None:
    game = SimpleNamespace(
        possible_agents=["a", "b"],
        observation_space=lambda agent: spaces.Box(0, 1, (2,)),
        action_space=lambda agent: spaces.Box(0, 1, (2,)),
    )
    with pytest.raises(TypeError, match="Discrete"):
        OpponentEnv(FakeSession(), game, always(0))  # type: ignore[arg-type]
