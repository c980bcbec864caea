"""The reader's own game of tensors: what docs/guides/games/tensors.md says is so."""

import re
import sys
from pathlib import Path

import pytest
from small_runs import logged

from arena.environments import declare
from arena.environments.adapters.vector.env import TensorMatches
from arena.play.series import play_series, resolve_policy
from trainer.config.loading import resolve
from trainer.rollout.make_envs import make_env_batches

ROOT = Path(__file__).parents[3]
EXAMPLE = (ROOT / "examples" / "tug.py").read_text(encoding="utf-8")
SMALL = ["environment.num_envs=8", "rollout.num_steps=16", "rollout.bptt_horizon=8", "network.recurrent_size=16"]


@pytest.fixture
def game(tmp_path, monkeypatch):
    """The page's game in a folder of its own, in which the reader works."""
    (tmp_path / "readers_tug.py").write_text(EXAMPLE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "readers_tug:Tug"
    sys.modules.pop("readers_tug", None)


def test_the_page_has_the_example():
    found = re.search(
        r"```python\n(.+?)```", (ROOT / "docs/guides/games" / "tensors.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    assert found[1] == EXAMPLE


def test_it_is_trained_and_played_by_name_from_the_readers_folder(game, worker_of, client, tmp_path):
    config = resolve(game, None, [*SMALL, "league.lease_budget=2", "run.total_timesteps=2048"])
    (batch,) = make_env_batches(config.environment, config.run)
    assert isinstance(batch, TensorMatches)
    worker_of(client, config).run()
    matches = logged(client, game)
    assert {match.reason for match in matches} <= {"end", "limit"}
    assert len(matches) >= 8
    assert declare(game).max_decisions == 100
    trained, random = resolve_policy(game, str(tmp_path / "run")), resolve_policy(game, "random")
    assert len(play_series(game, trained, random, matches=4, seed=0).matches) == 4
