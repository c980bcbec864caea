"""Ranks of one run: their shares, what they say to each other, and a league that hears of one trainer alone.

Here ranks are threads; tests/trainer/distributed/test_processes.py has real ones.
"""

import os
import threading
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from ranks import ThreadGroup
from refused import refused
from small_runs import logged, rps, same_results, spooled
from two_ranks import SECOND_OF_TWO, Run, together
from typer.testing import CliRunner

from arena.environments import make_baseline
from league.wire import Lease, LeaseAnswer, ReleaseRequest, Seat, UnplayablePlayer
from trainer.cli.commands import app
from trainer.config.loading import resolve
from trainer.distributed import launch as torchrun
from trainer.distributed.coordinator import merge_metrics
from trainer.distributed.follower import PendingLeaseRequests
from trainer.distributed.launch import SINGLE_RANK, RankInfo, assert_same_config, rank_info, rank_seed, shard_config
from trainer.distributed.messages import MatchMessage, RankReport
from trainer.errors import RankLostError
from trainer.league_client.leases import LEASES_PER_CALL
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.pool import Opponent
from trainer.process_group import FAILED_PREFIX, TorchProcessGroup, find_silent_ranks
from trainer.rollout.collector import CollectedMatch

LAUNCHED = {"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


# --- whose share -----------------------------------------------------------------------------------------------------


def test_rank_info_is_read_from_torchruns_variables():
    assert rank_info(LAUNCHED) == RankInfo(3, 4, 1, 2)
    assert rank_info({**LAUNCHED, "WORLD_SIZE": "1", "RANK": "0"}) == SINGLE_RANK
    assert rank_info({"RANK": "3", "WORLD_SIZE": "4"}) == SINGLE_RANK, "a Slurm job without torchrun is one process"


def test_ranks_share_environments_and_take_a_gpu_each():
    whole = rps("run.device=cuda", "environment.num_envs=8")
    own = shard_config(whole, SECOND_OF_TWO)
    assert (own.environment.num_envs, own.run.device) == (4, "cuda:1")
    assert shard_config(whole, SINGLE_RANK) is whole
    assert rank_seed(7, 0) == 7 != rank_seed(7, 1) != rank_seed(7, 2)


@pytest.mark.parametrize(
    ("setting", "place", "values"),
    [
        (
            "environment.num_envs=9",
            SECOND_OF_TWO,
            ("environment.num_envs", 9, 2, 8, 10),
        ),
        ("environment.num_envs=1", SECOND_OF_TWO, (2, 4)),
        ("run.device=cuda:0", SECOND_OF_TWO, ("run.device", "cuda:0", 2, "GPU")),
    ],
)
def test_uneven_shares_of_environments_are_refused(setting, place, values):
    with refused("invalid-setting", *values):
        shard_config(rps(setting), place)


def test_a_dry_run_under_torchrun_is_printed_once_for_all_ranks(monkeypatch):
    command = ["run", "--environment", "rps", "--dry-run", "--set", "environment.num_envs=8"]
    alone = CliRunner().invoke(app, command).output
    assert "ranks, with" not in alone
    printed = {}
    for number in range(2):
        for name, value in {**LAUNCHED, "WORLD_SIZE": "2", "RANK": str(number)}.items():
            monkeypatch.setenv(name, value)
        printed[number] = CliRunner().invoke(app, command).output
    assert printed[1] == ""
    steps = [line for line in alone.splitlines() if line.startswith("environment steps per update")]
    assert len(steps) == 1
    assert steps[0] in printed[0].splitlines()
    assert "ranks, with 32 of the steps each" in printed[0]


# --- their process group ---------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    """Process groups that were asked for, with whether their calls wait for their end."""
    monkeypatch.setenv(torchrun.BLOCKING_WAIT, "")  # so that it is as before in the end
    monkeypatch.delenv(torchrun.BLOCKING_WAIT)
    groups = []

    def start(backend, **options):
        groups.append({"backend": backend, **options, "waits": os.environ.get(torchrun.BLOCKING_WAIT)})

    monkeypatch.setattr(torchrun.dist, "init_process_group", start)
    return groups


PATIENCE = timedelta(seconds=9)


@pytest.mark.holds("I5")
def test_nccl_calls_block_so_that_failures_are_raised(started):
    device = torch.device("cuda:1")
    torchrun.start_group(device, PATIENCE)
    (group,) = started
    assert (group["backend"], group["device_id"], group["timeout"], group["waits"]) == ("nccl", device, PATIENCE, "1")


def test_nccl_blocking_wait_of_the_user_stays(started, monkeypatch):
    monkeypatch.setenv(torchrun.BLOCKING_WAIT, "0")
    torchrun.start_group(torch.device("cuda:1"), PATIENCE)
    assert started[0]["waits"] == "0"


def test_ranks_on_cpus_use_gloo(started):
    torchrun.start_group(torch.device("cpu"), PATIENCE)
    (group,) = started
    assert (group["backend"], group["timeout"], group["waits"]) == ("gloo", PATIENCE, None)
    assert "device_id" not in group


def test_messages_between_gpu_ranks_have_the_timeout_of_the_settings(monkeypatch):
    asked = []
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    monkeypatch.setattr(dist, "new_group", lambda **options: asked.append(options))
    TorchProcessGroup(PATIENCE)
    assert asked == [{"backend": "gloo", "timeout": PATIENCE}]


@pytest.mark.parametrize(
    ("backend", "failed", "left"),
    [
        ("nccl", True, ["abort"]),
        ("nccl", False, ["destroy"]),
        ("gloo", True, ["destroy"]),
        ("gloo", False, ["destroy"]),
    ],
)
def test_a_rank_that_failed_does_not_wait_for_others_as_it_leaves(monkeypatch, backend, failed, left):
    calls = []
    monkeypatch.setattr(dist, "get_backend", lambda: backend)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append("destroy"))
    group = SimpleNamespace(abort=lambda: calls.append("abort"))
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", lambda: group)
    torchrun.leave_group(failed=failed)
    assert calls == left


@pytest.mark.parametrize("error", [None, RankLostError, KeyboardInterrupt])
def test_a_failed_rank_leaves_the_group_alone(monkeypatch, started, error):
    ways = []
    monkeypatch.setattr(torchrun, "die_with_parent", lambda pid: None)
    monkeypatch.setattr(torchrun, "TorchProcessGroup", lambda *arguments: None)
    monkeypatch.setattr(torchrun, "assert_same_config", lambda *arguments: None)
    monkeypatch.setattr(torchrun, "leave_group", lambda *, failed: ways.append(failed))
    with (
        nullcontext() if error is None else pytest.raises(error),
        torchrun.process_group(RankInfo(0, 2, 0, 2), rps(), "1"),
    ):
        if error is not None:
            raise error
    assert ways == [error is not None]


@pytest.mark.parametrize(
    ("restarts", "shared", "fails"), [("3", "True", True), ("3", "False", False), ("0", "True", False)]
)
def test_restarts_with_a_shared_store_are_refused(restarts, shared, fails):
    launched = {**LAUNCHED, "TORCHELASTIC_MAX_RESTARTS": restarts, "TORCHELASTIC_USE_AGENT_STORE": shared}
    with (
        refused("invalid-setting", "--max-restarts", 3, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1")
        if fails
        else nullcontext()
    ):
        torchrun.require_own_store(launched)


@pytest.fixture
def failing(monkeypatch):
    """Rank 0 of three, whose all-reduces fail as NCCL's do; the store of the group."""
    message = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7) ran for 9000 milliseconds"

    def fail(values):
        raise dist.DistBackendError(message)

    store = dist.HashStore()
    monkeypatch.setattr(dist, "get_backend", lambda: "gloo")
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda: 3)
    monkeypatch.setattr(dist, "all_reduce", fail)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    monkeypatch.setattr(find_silent_ranks, "__defaults__", (0.05,))
    return store


def test_an_nccl_error_names_the_rank_that_does_not_report_it(failing):
    failing.set(f"{FAILED_PREFIX}2", b"1")
    with refused("rank-lost", 0, 1) as error:
        TorchProcessGroup().all_reduce_sum(torch.ones(1))
    assert "rank 1 has exited" in str(error.value)


def test_an_nccl_error_names_all_ranks_that_do_not_report_it(failing):
    with refused("rank-lost", 0, "ranks 1, 2"):
        TorchProcessGroup().all_reduce_sum(torch.ones(1))


def test_an_nccl_error_that_all_ranks_report_names_none(failing):
    for rank in (1, 2):
        failing.set(f"{FAILED_PREFIX}{rank}", b"1")
    with refused("rank-lost", 0, "another rank"):
        TorchProcessGroup().all_reduce_sum(torch.ones(1))


class Gone:
    """The store of a rank 0 that has exited or, with an event to wait for, that hangs."""

    def __init__(self, event=None):
        self._event = event

    def set(self, key, value):
        if self._event is not None:
            self._event.wait()
        raise dist.DistNetworkError("Broken pipe")


@pytest.mark.parametrize("hangs", [False, True])
def test_a_store_that_does_not_answer_names_rank_0_that_serves_it(hangs):
    event = threading.Event() if hangs else None
    assert find_silent_ranks(Gone(event), 1, 2, report_s=0.02) == [0]
    if event:
        event.set()


# --- what they say ---------------------------------------------------------------------------------------------------


def test_differing_settings_or_versions_are_reported_on_every_rank():
    first, second = ThreadGroup(2).ranks()
    one, other = together(
        lambda: assert_same_config(first, rps("run.device=cuda:0"), "1.0"),
        lambda: assert_same_config(second, rps("run.device=cuda:1", "ppo.gamma=0.5"), "1.1"),
    )
    assert str(one) == str(other)
    assert "rank 1 differs from rank 0: ppo.gamma is 0.5, not 0.995; version is '1.1', not '1.0'" in str(one)
    assert together(lambda: assert_same_config(first, rps(), "1"), lambda: assert_same_config(second, rps(), "1")) == [
        None,
        None,
    ]


def lease():
    side = Seat(player_id=1, name="main", checkpoint=None)
    other = Seat(player_id=2, name="random", checkpoint="baseline:random")
    times = {"expires_at": datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=1)}
    return Lease(
        lease_id="a", kind="training", home=side, away=other, learner_side="home", seed=2**62 + 1, budget=4,
        propensity=0.1, branch="pfsp", **times,
    )  # fmt: skip


@pytest.mark.parametrize("leased", [True, False])
def test_match_messages_round_trip(leased):
    opponent = Opponent("baseline:random", "random", make_baseline("rps", "random"))
    assignment = MatchAssignment(opponent, True, 2**62 + 3, lease() if leased else None, 3, self_play_match=not leased)
    episode = CollectedMatch(assignment, 0.25, "mate", 7, 1.5, {"speed": 0.1})
    report = RankReport(matches=[MatchMessage.of(episode)], decisions=7, metrics={}, **PendingLeaseRequests().take())
    assert RankReport.model_validate_json(report.encode()).matches[0].match(opponent.policy) == episode


def test_granted_leases_are_returned_by_the_next_request():
    requests, player = PendingLeaseRequests(), UnplayablePlayer(player_id=3, reason="torn")
    answer = LeaseAnswer(items=[lease()], next_poll_s=1.0)
    assert requests.request(8) is None
    requests.release(["a", "b"], [player, player])
    assert requests.take() == {"leases": 8, "unwanted": ["a", "b"], "unplayable": [player]}
    requests.grant(answer)
    assert (requests.request(8), requests.take()["leases"]) == (answer, 0)
    assert requests.request(8) is None


def test_a_report_returns_no_more_leases_than_a_call_takes():
    requests, unwanted = PendingLeaseRequests(), [f"lease {number}" for number in range(LEASES_PER_CALL + 2)]
    requests.release(unwanted[:2], [])
    requests.release(unwanted[2:], [])
    given = [requests.take()["unwanted"] for _ in range(3)]
    assert given == [unwanted[:LEASES_PER_CALL], unwanted[LEASES_PER_CALL:], []]
    assert all(ReleaseRequest(worker_id="one", lease_ids=each) for each in given)


def test_merged_metrics_are_weighted_by_decisions():
    generator = torch.Generator().manual_seed(0)
    whole = torch.randn(40, generator=generator)
    parts = whole[:30], whole[30:] + 2.0

    def figures(values):
        named = {"scales/return_std": values.std(correction=0).item(), "scales/return_mean": values.mean().item()}
        return named | {
            "losses/normalized_entropy": values.mean().item(),
            "heads/move/samples": float(len(values)),
            "same": 0.1,
        }

    of_ranks = [(len(part), figures(part)) for part in parts]
    assert merge_metrics(of_ranks) == pytest.approx(figures(torch.cat(parts)), rel=1e-5)
    assert merge_metrics(of_ranks)["same"] == 0.1
    idle = (0, {"losses/normalized_entropy": None, "only": 2.0})
    assert merge_metrics([of_ranks[0], idle]) == pytest.approx(of_ranks[0][1] | {"only": 2.0})


# --- one run -----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(worker_of, transport, outside, tmp_path, monkeypatch):
    return Run(worker_of, transport, outside, tmp_path, monkeypatch)


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_two_ranks_are_one_trainer_for_the_league(run, client, tmp_path):
    assert run.go("run.total_timesteps=512", "league.snapshot_every_steps=256") == [None, None]
    assert_same(run.shared(0), run.shared(1))
    assert [learner.steps for learner in run.learners] == [512, 512]
    written = spooled(tmp_path)
    book = run.followers[0]._leases
    assert len(written) == 384 - book.unrated_matches, "one of every rank's four environments plays the learner itself"
    assert book.unrated_matches <= 12, "leases run out in the first rollout at most: more of them are asked for then"
    assert same_results(written, logged(client))
    assert [each.step for each in client.players("rps", kind="snapshot").items] == [256, 512]
    assert len(client.learners("rps").items) == 1
    chances = [each.rng.get_state() for each in run.learners]
    assert not torch.equal(*chances), "ranks that drew the same chance would play the same matches"


def test_ranks_resume_with_their_own_state(run, client, tmp_path):
    run.go("run.total_timesteps=256")
    before = [learner.rng.get_state() for learner in run.learners]
    assert len(run.saved().counters["ranks"]) == 1
    seen = []
    assert run.go("run.total_timesteps=320", at_update=seen.append) == [None, None]
    assert seen == [5]
    assert run.followers[1]._leases.self_play_matches > run.followers[0]._leases.self_play_matches
    assert not torch.equal(before[1], run.learners[1].rng.get_state())
    assert_same(run.shared(0), run.shared(1))
    assert same_results(spooled(tmp_path), logged(client))


def test_a_run_resumes_with_another_number_of_ranks(run, client, tmp_path):
    """Nothing is counted twice or lost, whoever leased it, and the weights are the run's."""
    run.go("run.total_timesteps=128")
    assert len(run.saved().counters["ranks"]) == 1
    worker = run.go_alone("run.total_timesteps=128")  # it is at its end: nothing moves
    assert_same({name: each for name, each in worker.learner.tensors().items() if "rng" not in name}, run.shared(0))
    run.go_alone("run.total_timesteps=192")
    assert run.saved().counters["ranks"] == []
    assert run.go("run.total_timesteps=256") == [None, None]
    assert_same(run.shared(0), run.shared(1))
    assert [(each.steps, each.updates) for each in run.learners] == [(256, 4), (256, 4)]
    written = spooled(tmp_path)
    assert len({(each["lease_id"], each["sequence"]) for each in written}) == len(written)
    assert same_results(written, logged(client))


@pytest.mark.parametrize("save_every", [2, 100])
def test_a_rank_that_is_lost_loses_and_repeats_no_result(run, client, tmp_path, save_every):
    """The state is saved before the loss, or not since the beginning."""

    def lose(update):
        if update == 4:
            raise OSError("gone")

    one, other = run.go(f"run.save_every_updates={save_every}", "run.total_timesteps=1024", at_update=lose)
    assert (type(one), str(other)) == (RankLostError, "gone")
    assert run.saved().counters["updates"] == (2 if save_every == 2 else 0)
    assert run.go("run.total_timesteps=512") == [None, None]
    written = spooled(tmp_path)
    assert len({(each["lease_id"], each["sequence"]) for each in written}) == len(written)
    assert same_results(written, logged(client))
    assert_same(run.shared(0), run.shared(1))


def duel(*settings):
    """Two matches a rank that are smaller than the game until twelve have been played."""
    stages = ["curriculum.matches=12", "curriculum.map_share=0.25", "curriculum.team_share=0.5"]
    size = ["environment.num_envs=4", "environment.self_play=0", "rollout.num_steps=32", "rollout.bptt_horizon=16"]
    return resolve("mech-duel", None, [*size, *stages, "ppo.num_minibatches=2", *settings])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ranks_share_the_lessons_of_a_curriculum(run, tmp_path):
    seen = []

    def look(_):
        seen.append((run.followers[-1]._curriculum.stage_start, run.session.curriculum.stage_start))

    assert run.go("run.total_timesteps=640", at_update=look, game=duel) == [None, None]
    assert run.session.statistics.episodes < 12
    assert spooled(tmp_path) == []
    assert run.go("run.total_timesteps=3200", at_update=look, game=duel) == [None, None]
    assert run.session.statistics.episodes > 12
    assert all(follower == lead for follower, lead in seen)
    assert len(set(seen)) > 2
    assert run.followers[-1]._curriculum._environments[0].stage == run.session._batches[0].stage
    assert run.session._batches[0].stage.team_share == 1.0
    assert 0 < len(spooled(tmp_path)) < run.session.statistics.episodes - 12, "matches of a stage are not reported"


def test_a_reset_learner_is_reset_on_all_ranks(run):
    exploiter = ["league.role=main_exploiter", "role.reset=1.0", "environment.self_play=0.0"]
    steps = ["run.total_timesteps=192", "league.snapshot_every_steps=128", "role.snapshot_steps=128"]
    assert run.go(*exploiter, *steps) == [None, None]
    assert [learner.began_step for learner in run.learners] == [128, 128]
    assert_same(run.shared(0), run.shared(1))
