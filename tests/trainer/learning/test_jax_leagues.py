"""Games of pgx, trained in a league: the last snapshot is rated above the baseline `random`."""

import random

import pytest
from rich.console import Console

from arena.environments import declare
from league.client.result_spool import ResultSpool
from trainer.config.loading import resolve
from trainer.evaluation.env_cache import EnvironmentCache
from trainer.evaluation.evaluator import EvaluationBudget, EvaluationWorker
from trainer.evaluation.replay_upload import ReplayUploader
from trainer.evaluation.session import EvaluatorSession
from trainer.league_client.retrying_client import RetryingClient
from trainer.monitoring.console import RunConsole
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import OpponentPool

pytest.importorskip("pgx")
pytestmark = pytest.mark.slow

SETTINGS = [
    *("environment.num_envs=64", "rollout.num_steps=32", "rollout.bptt_horizon=16"),
    *("network.core=feedforward", "network.encoder_sizes=[64]", "network.recurrent_size=64"),
    "optimizer.learning_rate=3e-3",
]


def evaluate(client, outside, game, folder, matches):
    """Play rating matches between the players of a game, with an evaluator in this process."""
    link = RetryingClient(client, clock=outside.clock, rng=random.Random(0), backoff_max_s=1.0)
    spec = declare(game)
    pool = OpponentPool(
        spec,
        lambda sha256: link.try_call("downloads", lambda client: client.download(sha256)),
        CheckpointCache(folder / "opponents", 2**24),
        memory_limit_bytes=2**24,
        device="cpu",
    )
    spool = ResultSpool(folder / "spool")
    worker = EvaluationWorker(
        EvaluatorSession(link, [spec], name="evaluator", version="0"),
        {game: pool},
        spool,
        EvaluationBudget({game: 64}, 16, 1.0, max_matches=matches),
        ReplayUploader(None, outside.clock),
        EnvironmentCache(0),
        console=RunConsole(Console(quiet=True)),
        run_context=outside.run_context(),
        rng=random.Random(0),
    )
    worker.run()
    spool.close()


@pytest.mark.parametrize(("game", "steps"), [("pgx:tic_tac_toe", 100_000), ("pgx:connect_four", 200_000)])
def test_a_snapshot_is_rated_above_random(game, steps, client, worker_of, outside, tmp_path):
    """With seed 0 the last snapshots were rated 2023 (tic-tac-toe) and 2237 (connect four)."""
    settings = [*SETTINGS, f"league.snapshot_every_steps={steps // 2}", f"run.total_timesteps={steps}"]
    worker_of(client, resolve(game, None, settings)).run()

    evaluate(client, outside, game, tmp_path / "evaluator", matches=256)
    client.close_period(game)

    ratings = {player.name: player.rating for player in client.players(game, kind="snapshot").items}
    assert ratings
    assert max(ratings.values()) > 1600.0, "random is fixed at 1500"
