"""A curriculum in a run: stages by matches played, unreported until the whole game, saved and resumed."""

import json
from itertools import pairwise

import pytest
from refused import refused

from arena.environments import make
from league.client import LeagueClient
from trainer.config.loading import resolve

SMALL = ["environment.num_envs=4", "environment.self_play=0", "rollout.num_steps=32", "rollout.bptt_horizon=16"]
LESSONS = ["curriculum.matches=12", "curriculum.map_share=0.25", "curriculum.team_share=0.5"]


def duel(*settings):
    return resolve("mech-duel", None, [*SMALL, *LESSONS, "ppo.num_minibatches=2", *settings])


@pytest.fixture
def client(serve):
    return LeagueClient(http=serve())


def spooled(tmp_path):
    return sum(len(file.read_text().splitlines()) for file in (tmp_path / "run" / "spool").glob("results-*"))


def shares(tmp_path):
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    return [(line["charts/episodes"], line["curriculum/team_share"], line["curriculum/map_share"]) for line in lines]


@pytest.mark.holds("J9")
@pytest.mark.timeout(600)
@pytest.mark.integration
def test_lessons_grow_with_matches_are_not_reported_and_go_on_after_a_restart(worker_of, client, tmp_path):
    first = worker_of(client, duel("run.total_timesteps=640"))
    assert first.session._batches[0].stage.team_share == 0.5
    first.run()
    assert 0 < first.statistics.episodes < 12
    assert spooled(tmp_path) == 0
    assert first.statistics.win_rates() == {}
    resumed = worker_of(client, duel("run.total_timesteps=5120"))
    assert resumed.session._batches[0].stage == first.session._batches[0].stage, "matches are opened again as they were"
    resumed.run()
    told = shares(tmp_path)
    assert told == sorted(told)
    for (before, *_), (_, team_share, map_share) in pairwise(told):
        done = min(1.0, before / 12)
        assert (team_share, map_share) == pytest.approx((0.5 + 0.5 * done, 0.25 + 0.75 * done))
    assert told[-1][1:] == (1.0, 1.0)
    whole = resumed.statistics.episodes - 12
    assert 0 < spooled(tmp_path) < whole, "the matches that were opened before the last stage do not count"


def test_a_game_without_lessons_refuses_a_curriculum(worker_of, client):
    with refused("invalid-setting", "rps", 0):
        worker_of(client, resolve("rps", None, ["environment.num_envs=8", "curriculum.matches=5"]))


def test_without_a_curriculum_the_whole_game_is_played(worker_of, client):
    worker = worker_of(client, resolve("mech-duel", None, SMALL))
    assert worker.session._batches[0].stage == make("mech-duel", num_envs=1).stage
