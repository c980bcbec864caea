"""Games that others bring train in a league like the arena's own."""

import pytest
import torch
from fake_games import ScriptedDealer, never
from small_runs import logged, same_results, spooled

from arena.environments import declare
from arena.play.series import play_series, resolve_policy
from arena.policies import NetworkPolicy
from arena.policies.scripted import RandomPolicy
from trainer.config.loading import resolve
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector
from trainer.rollout.make_envs import make_env_batches

SMALL = ["environment.num_envs=8", "rollout.num_steps=20", "rollout.bptt_horizon=10", "league.lease_budget=2"]
SHORT = [*SMALL, "network.encoder_sizes=[16]", "network.recurrent_size=16", "league.snapshot_every_steps=320"]


@pytest.mark.parametrize(
    "game",
    [
        "pettingzoo:connect_four_v3",
        "pettingzoo:tictactoe_v3",
        "pettingzoo:leduc_holdem_v4",
        "mpe2:simple_tag_v3",
        "magent2:battle_v4(map_size=16,max_cycles=30)",
        "openspiel:kuhn_poker",
        "openspiel:leduc_poker",
        "zoo_games:relay",
        "zoo_games:meadow",
        "zoo_games:box",
    ],
)
def test_a_short_run_reports_publishes_and_can_be_played_with(worker_of, client, tmp_path, game):
    worker = worker_of(client, resolve(game, None, [*SHORT, "run.total_timesteps=640"]))
    worker.run()
    assert worker.learner.steps == 640
    matches = logged(client, game)
    assert same_results(spooled(tmp_path), matches)
    assert len(matches) >= 4
    assert {match.reason for match in matches} <= {"end", "limit"}
    assert client.players(game, kind="snapshot").items
    assert client.learners(game).items[0].sides == declare(game).unlike_sides
    trained, random = resolve_policy(game, str(tmp_path / "run")), resolve_policy(game, "random")
    assert len(play_series(game, trained, random, matches=2, seed=0).matches) == 2


@pytest.mark.integration
def test_run_uses_the_configured_number_of_processes():
    config = resolve("zoo_games:relay", None, [*SHORT, "environment.processes=2", "run.threads=2"])
    batches = make_env_batches(config.environment, config.run)
    assert [batch.num_envs for batch in batches] == [4, 4]
    assert all(batch._workers is batches[0]._workers for batch in batches)
    assert [worker.rows for worker in batches[0]._workers.each] == [slice(0, 4), slice(4, 8)]


def played_by(processes):
    """What two rollouts come to, and which matches ended in them."""
    config = resolve(
        "zoo_games:relay", None, [*SHORT, f"environment.processes={processes}", "environment.self_play=0.5"]
    )
    batches = make_env_batches(config.environment, config.run)
    spec = batches[0].spec
    learner, episodes = Learner(config, spec), []
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, spec.name, spec.signature))
    chance = Opponent("chance", "chance", RandomPolicy(spec.heads))
    collector = RolloutCollector(
        batches,
        learner.network,
        ScriptedDealer([live, chance]),
        episodes.append,
        learner.rng,
        self_play=config.environment.self_play_rows,
        device_cache_bytes=0,
    )
    rollout, parts = learner.allocate(), []
    for _ in range(2):
        assert collector.collect(rollout, never)
        parts += [tensor.clone() for tensor in vars(rollout).values() if isinstance(tensor, torch.Tensor)]
    return parts, [(each.assignment.seed, each.score, each.decisions, each.mean_return) for each in episodes]


@pytest.mark.integration
def test_rollouts_do_not_depend_on_the_number_of_processes():
    (one, played), (three, again) = played_by(1), played_by(3)
    assert all(map(torch.equal, one, three))
    assert played == again
    assert len(played) > 8
