"""Ranks of one run: their shares, what they say to each other, and a league that hears of one trainer alone.

Here ranks are threads; tests/trainer/test_torchrun_processes.py has real ones.
"""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import torch
from ranks import Threads
from small_runs import logged, rps, same_results, spooled
from torch.distributed import HashStore
from two_ranks import SECOND_OF_TWO, Run, together
from typer.testing import CliRunner

from arena.environments import make_baseline
from league.wire import Lease, LeaseAnswer, ReleaseRequest, Seat, UnplayablePlayer
from trainer.cli import app
from trainer.collector import Episode
from trainer.config import resolve
from trainer.dispatches import Figures, Matches, Played
from trainer.errors import ConfigError, RankLostError
from trainer.following import Errand
from trainer.leading import pooled
from trainer.leases import LEASES_PER_CALL, Assignment
from trainer.opponents import Opponent
from trainer.torchrun import BY_ITSELF, Place, check_alike, meet, place_of, seed_of, share_of

LAUNCHED = {"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


# --- whose share -----------------------------------------------------------------------------------------------------


def test_places_are_those_that_torchrun_gave():
    assert place_of(LAUNCHED) == Place(3, 4, 1, 2)
    assert place_of({**LAUNCHED, "WORLD_SIZE": "1", "RANK": "0"}) == BY_ITSELF
    assert place_of({"RANK": "3", "WORLD_SIZE": "4"}) == BY_ITSELF, "a Slurm job without torchrun is one process"


def test_ranks_share_environments_and_take_a_gpu_each():
    whole = rps("run.device=cuda", "environment.num_envs=8")
    own = share_of(whole, SECOND_OF_TWO)
    assert (own.environment.num_envs, own.run.device) == (4, "cuda:1")
    assert share_of(whole, BY_ITSELF) is whole
    assert seed_of(7, 0) == 7 != seed_of(7, 1) != seed_of(7, 2)


@pytest.mark.parametrize(
    ("setting", "place", "said"),
    [
        (
            "environment.num_envs=9",
            SECOND_OF_TWO,
            "num_envs is 9, which 2 ranks cannot share evenly: set it to 8 or 10",
        ),
        ("environment.num_envs=1", SECOND_OF_TWO, "set it to 2 or 4"),
        ("run.device=cuda:0", SECOND_OF_TWO, "run.device is cuda:0, but 2 ranks of this machine need one GPU each"),
    ],
)
def test_shares_that_do_not_come_out_even_are_refused(setting, place, said):
    with pytest.raises(ConfigError, match=said):
        share_of(rps(setting), place)


def test_a_dry_run_under_torchrun_is_printed_once_and_says_what_all_ranks_do(monkeypatch):
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


# --- how they meet --------------------------------------------------------------------------------------------------


def test_every_start_has_a_part_of_the_store_to_itself():
    kept, starts = HashStore(), []
    for _ in range(2):
        starts.append(together(*(partial(meet, kept, number, 3, 60.0) for number in range(3))))
        starts[-1][2].set("address", str(len(starts)))
    for start, said in zip(starts, (b"1", b"2"), strict=True):
        assert [store.get("address") for store in start] == [said] * 3


def test_a_rank_that_knocked_before_it_was_killed_is_not_taken_for_the_one_that_is_there_now():
    kept = HashStore()
    kept.set("knock/1", "of the dead")

    def come_later():
        kept.wait(["answer/of the dead"], timedelta(seconds=60))
        return meet(kept, 1, 2, 60.0)

    first, second = together(partial(meet, kept, 0, 2, 60.0), come_later)
    first.set("address", "here")
    assert second.get("address") == b"here"


def test_ranks_that_do_not_come_are_named():
    kept = HashStore()
    with pytest.raises(TimeoutError, match="rank 1 and rank 2 did not come within 0 s"):
        meet(kept, 0, 3, 0.0)
    with pytest.raises(RuntimeError):
        meet(kept, 1, 3, 0.01)


# --- what they say ---------------------------------------------------------------------------------------------------


def test_ranks_of_other_settings_or_versions_are_named_on_every_rank():
    first, second = Threads(2).seats()
    one, other = together(
        lambda: check_alike(first, rps("run.device=cuda:0"), "1.0"),
        lambda: check_alike(second, rps("run.device=cuda:1", "ppo.gamma=0.5"), "1.1"),
    )
    assert str(one) == str(other)
    assert "rank 1 differs from rank 0: ppo.gamma is 0.5, not 0.995; version is '1.1', not '1.0'" in str(one)
    assert together(lambda: check_alike(first, rps(), "1"), lambda: check_alike(second, rps(), "1")) == [None, None]


def lease():
    side = Seat(player_id=1, name="main", checkpoint=None)
    other = Seat(player_id=2, name="random", checkpoint="baseline:random")
    times = {"expires_at": datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=1)}
    return Lease(
        lease_id="a", kind="training", home=side, away=other, learner_side="home", seed=2**62 + 1, budget=4,
        propensity=0.1, branch="pfsp", **times,
    )  # fmt: skip


@pytest.mark.parametrize("leased", [True, False])
def test_a_match_of_another_rank_is_counted_as_it_was_played(leased):
    opponent = Opponent("baseline:random", "random", make_baseline("rps", "random"))
    assignment = Assignment(opponent, True, 2**62 + 3, lease() if leased else None, 3, both_sides=not leased)
    episode = Episode(assignment, 0.25, "mate", 7, 1.5, {"speed": 0.1})
    written = Matches(played=[Played.of(episode)]).written_down()
    assert Matches.model_validate_json(written).played[0].episode(opponent.policy) == episode


def test_an_errand_asks_once_and_brings_what_was_granted():
    errand, player = Errand(), UnplayablePlayer(player_id=3, reason="torn")
    answer = LeaseAnswer(items=[lease()], next_poll_s=1.0)
    assert errand.request(8) is None
    errand.release(["a", "b"], [player, player])
    wish = errand.leave(stopping=False)
    assert (wish.leases, wish.unwanted, wish.unplayable, wish.stopping) == (8, ["a", "b"], [player], False)
    errand.bring(answer)
    assert (errand.request(8), errand.leave(stopping=True).leases) == (answer, 0)
    assert errand.request(8) is None


def test_an_errand_gives_back_no_more_leases_at_a_time_than_a_call_takes():
    errand, unwanted = Errand(), [f"lease {number}" for number in range(LEASES_PER_CALL + 2)]
    errand.release(unwanted[:2], [])
    errand.release(unwanted[2:], [])
    given = [errand.leave(stopping=False).unwanted for _ in range(3)]
    assert given == [unwanted[:LEASES_PER_CALL], unwanted[LEASES_PER_CALL:], []]
    assert all(ReleaseRequest(worker_id="one", lease_ids=each) for each in given)


def test_figures_are_those_over_the_decisions_of_all_ranks():
    generator = torch.Generator().manual_seed(0)
    whole = torch.randn(40, generator=generator)
    parts = whole[:30], whole[30:] + 2.0

    def figures(values):
        named = {"scales/return_std": values.std(correction=0).item(), "scales/return_mean": values.mean().item()}
        return named | {"losses/entropy": values.mean().item(), "heads/move/samples": float(len(values)), "same": 0.1}

    said = [Figures(decisions=len(part), metrics=figures(part)) for part in parts]
    assert pooled(said) == pytest.approx(figures(torch.cat(parts)), rel=1e-5)
    assert pooled(said)["same"] == 0.1
    idle = Figures(decisions=0, metrics={"losses/entropy": None, "only": 2.0})
    assert pooled([said[0], idle]) == pytest.approx(said[0].metrics | {"only": 2.0})


# --- one run -----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(worker_of, transport, outside, tmp_path):
    return Run(worker_of, transport, outside, tmp_path)


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_two_ranks_are_one_run_and_the_league_hears_of_one_trainer(run, client, tmp_path):
    assert run.go("run.total_steps=512", "league.snapshot_every_steps=256") == [None, None]
    assert_same(run.shared(0), run.shared(1))
    assert [learner.steps for learner in run.learners] == [512, 512]
    written = spooled(tmp_path)
    book = run.followers[0]._book
    assert len(written) == 384 - book.unrated, "one of every rank's four environments plays the learner itself"
    assert book.unrated <= 12, "leases run out in the first rollout at most: more of them are asked for then"
    assert same_results(written, logged(client))
    assert [each.step for each in client.players("rps", kind="snapshot").items] == [256, 512]
    assert len(client.learners("rps").items) == 1
    chances = [each.rng.get_state() for each in run.learners]
    assert not torch.equal(*chances), "ranks that drew the same chance would play the same matches"


def test_ranks_go_on_with_what_each_had(run, client, tmp_path):
    run.go("run.total_steps=256")
    before = [learner.rng.get_state() for learner in run.learners]
    assert len(run.saved().counters["ranks"]) == 1
    seen = []
    assert run.go("run.total_steps=320", at_update=seen.append) == [None, None]
    assert seen == [5]
    assert run.followers[1]._book.against_itself > run.followers[0]._book.against_itself
    assert not torch.equal(before[1], run.learners[1].rng.get_state())
    assert_same(run.shared(0), run.shared(1))
    assert same_results(spooled(tmp_path), logged(client))


def test_a_run_goes_on_with_another_number_of_ranks(run, client, tmp_path):
    """Nothing is counted twice or lost, whoever leased it, and the weights are the run's."""
    run.go("run.total_steps=128")
    assert len(run.saved().counters["ranks"]) == 1
    worker = run.go_alone("run.total_steps=128")  # it is at its end: nothing moves
    assert_same({name: each for name, each in worker.learner.tensors().items() if "rng" not in name}, run.shared(0))
    run.go_alone("run.total_steps=192")
    assert run.saved().counters["ranks"] == []
    assert run.go("run.total_steps=256") == [None, None]
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

    one, other = run.go(f"run.save_every_updates={save_every}", "run.total_steps=1024", at_update=lose)
    assert (type(one), str(other)) == (RankLostError, "gone")
    assert run.saved().counters["updates"] == (2 if save_every == 2 else 0)
    assert run.go("run.total_steps=512") == [None, None]
    written = spooled(tmp_path)
    assert len({(each["lease_id"], each["sequence"]) for each in written}) == len(written)
    assert same_results(written, logged(client))
    assert_same(run.shared(0), run.shared(1))


def duel(*settings):
    """Two matches a rank that are smaller than the game until twelve have been played."""
    lessons = ["curriculum.matches=12", "curriculum.map_share=0.25", "curriculum.team_share=0.5"]
    size = ["environment.num_envs=4", "environment.self_play=0", "rollout.steps=32", "rollout.chunk=16"]
    return resolve("mech-duel", None, [*size, *lessons, "ppo.minibatches=2", *settings])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ranks_are_taught_the_same_lessons_by_the_matches_of_both(run, tmp_path):
    seen = []

    def look(_):
        seen.append((run.followers[-1]._course.taught_at, run.session.course.taught_at))

    assert run.go("run.total_steps=640", at_update=look, game=duel) == [None, None]
    assert run.session.scores.episodes < 12
    assert spooled(tmp_path) == []
    assert run.go("run.total_steps=3200", at_update=look, game=duel) == [None, None]
    assert run.session.scores.episodes > 12
    assert all(follower == lead for follower, lead in seen)
    assert len(set(seen)) > 2
    assert run.followers[-1]._course._environments[0].lesson == run.session._batches[0].lesson
    assert run.session._batches[0].lesson.team_share == 1.0
    assert 0 < len(spooled(tmp_path)) < run.session.scores.episodes - 12, "matches of a lesson are not reported"


def test_a_learner_that_begins_anew_does_so_on_all_ranks(run):
    exploiter = ["league.role=main_exploiter", "role.reset=1.0", "environment.self_play=0.0"]
    steps = ["run.total_steps=192", "league.snapshot_every_steps=128", "role.snapshot_steps=128"]
    assert run.go(*exploiter, *steps) == [None, None]
    assert [learner.began_step for learner in run.learners] == [128, 128]
    assert_same(run.shared(0), run.shared(1))
