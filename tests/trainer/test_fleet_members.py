"""Who is in a fleet, and whether it fits."""

import itertools
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer import cli
from trainer.errors import ConfigError
from trainer.fleet.cluster import Survey, _bundle, _require_reachable, opened
from trainer.fleet.members import Member, Share, Wish, enlist, variables
from trainer.fleet.room import Machine, NoRoomError, most_beside, require_room

ALL_ROLES = ("main", "main_exploiter", "league_exploiter")


def wish(**given) -> Wish:
    usual = {
        "environment": "rps",
        "trainers": 2,
        "evaluators": 1,
        "share": Share(1.0, 0.0),
        "roles": ("main",),
        "prefix": "",
        "runs": Path("/runs"),
        "overrides": (),
    }
    return Wish(**usual | given)


def settings_of(member: Member) -> list[str]:
    return [word for before, word in itertools.pairwise(member.words) if before == "--set"]


def test_learners_have_roles_in_turn_and_names_seeds_and_run_folders_of_their_own():
    members = enlist(wish(trainers=4, evaluators=2, roles=ALL_ROLES, prefix="b-"))
    names = ["b-main", "b-main-exploiter", "b-league-exploiter", "b-main-2", "b-evaluator", "b-evaluator-2"]
    assert [member.name for member in members] == names
    assert [str(member.folder) for member in members] == [f"/runs/{name}" for name in names]
    trainers = members[:4]
    assert [member.words[member.words.index("--role") + 1] for member in trainers] == [*ALL_ROLES, "main"]
    assert [settings_of(member) for member in trainers] == [[f"run.seed={seed}"] for seed in range(4)]


def test_seeds_go_on_from_the_one_that_is_given_and_overrule_it():
    members = enlist(wish(overrides=("run.seed=7",)))
    assert [settings_of(member) for member in members[:2]] == [["run.seed=7", f"run.seed={seed}"] for seed in (7, 8)]


def test_a_trainer_learns_on_its_gpu_and_with_all_its_cpus_unless_settings_say_otherwise():
    first = enlist(wish(share=Share(4.0, 1.0)))[0]
    assert settings_of(first) == ["run.seed=0", "run.device=cuda:0", "run.threads=4"]
    own = ("run.device=cpu", "run.threads=2")
    assert settings_of(enlist(wish(share=Share(4.0, 1.0), overrides=own))[0]) == [*own, "run.seed=0"]


def test_a_trainer_with_several_gpus_is_a_rank_on_each_and_shares_its_cpus_among_them():
    first, _, evaluator = enlist(wish(share=Share(5.0, 2.0), overrides=("environment.num_envs=8",)))
    launch = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--")
    assert first.words[:8] == (*launch, "trainer", "run")
    assert settings_of(first)[1:] == ["run.seed=0", "run.device=cuda", "run.threads=2"]
    assert first.share.cpus_of_each == 2
    assert evaluator.words[:2] == ("trainer", "evaluate")
    assert [Share(cpus, gpus).cpus_of_each for cpus, gpus in [(0.5, 0.0), (3.0, 0.5), (1.0, 4.0)]] == [1, 3, 1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"trainers": 0, "evaluators": 0}, "make no fleet"),
        ({"share": Share(1.0, 2.0), "overrides": ("environment.num_envs=9",)}, "num_envs is 9, which 2 ranks"),
        ({"share": Share(1.0, 2.0), "overrides": ("run.device=cuda:0",)}, "2 ranks of this machine"),
        ({"trainers": 2, "roles": ALL_ROLES}, "--roles has 3 roles for 2 trainers"),
        ({"overrides": ("ppo.gama=0.5",)}, "ppo.gamma"),
        ({"prefix": ":"}, "no colon in front"),
        ({"trainers": 0, "prefix": "../"}, "--prefix '../' makes '../evaluator' of an evaluator: give 1 to 64"),
    ],
)
def test_what_trainers_would_refuse_is_refused_before_anything_starts(given, told):
    with pytest.raises(ConfigError, match=told):
        enlist(wish(**given))


def test_all_members_may_run_the_network_module_that_the_settings_name():
    assert variables(("network.module=mine:Net",), {"ARENA_MODULES": "other:Net"}) == {
        "ARENA_MODULES": "other:Net,mine:Net"
    }
    assert variables((), {"PATH": "/bin"}) == {}


SHARES = st.builds(Share, st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.0, 0.5, 1.0]))
MACHINES = st.lists(
    st.builds(Machine, st.just("m"), st.sampled_from([0.0, 1.0, 2.0, 3.0]), st.sampled_from([0.0, 1.0])), max_size=2
)


@given(MACHINES, SHARES, st.integers(0, 3), SHARES, st.integers(0, 3))
def test_a_fleet_fits_where_some_way_to_place_every_member_does(machines, trainer, trainers, evaluator, evaluators):
    evaluator = Share(evaluator.cpus, 0.0)
    members = [trainer] * trainers + [evaluator] * evaluators

    def fits(places):
        loads = [[share for share, at in zip(members, places, strict=True) if at == m] for m in range(len(machines))]
        return all(
            sum(share.cpus for share in load) <= machine.cpus and sum(share.gpus for share in load) <= machine.gpus
            for load, machine in zip(loads, machines, strict=True)
        )

    possible = any(map(fits, itertools.product(range(len(machines)), repeat=len(members))))
    found = most_beside(machines, trainer, trainers, evaluator, evaluators)
    assert (found.get(trainers) == evaluators) == possible


def test_a_fleet_that_does_not_fit_is_refused_with_what_would():
    members = enlist(wish(trainers=4, evaluators=2, share=Share(1.0, 1.0)))
    require_room(members, [Machine("a", 4.0, 2.0), Machine("b", 2.0, 2.0)])
    with pytest.raises(
        NoRoomError, match=r"4 x trainer \(1 CPU, 1 GPU\), 2 x evaluator .* 3 trainers and 2 evaluators"
    ):
        require_room(members, [Machine("a", 4.0, 2.0), Machine("b", 2.0, 1.0)])
    with pytest.raises(NoRoomError, match="nothing of it fits"):
        require_room(members, [])


def test_a_run_goes_on_where_its_folder_is():
    survey = Survey({"10.0.0.1": ["main", "shared"], "10.0.0.2": ["shared"]})
    assert survey.began == {"main", "shared"}
    assert survey.homes == {"main": "10.0.0.1"}
    member = enlist(wish(share=Share(2.0, 1.0)))[0]
    assert _bundle(member, survey.homes["main"]) == {"CPU": 2.0, "GPU": 1.0, "node:10.0.0.1": 0.001}
    assert _bundle(member, None) == {"CPU": 2.0, "GPU": 1.0}


def test_a_league_on_loopback_is_refused_for_several_machines():
    _require_reachable("http://127.0.0.1:8000", ["127.0.0.1"])
    _require_reachable("http://league:8000", ["a", "b"])
    with pytest.raises(ConfigError, match="another machine on each of the cluster's 2"):
        _require_reachable("http://localhost:8000", ["a", "b"])


def run(*arguments, expect=0):
    with pytest.raises(SystemExit) as left:
        cli.main(["fleet", *arguments])
    assert left.value.code == expect


def test_a_dry_run_prints_who_would_run_where_with_what(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    given = ["--environment", "rps", "--trainers", "4", "--evaluators", "2", "--gpus-per-trainer", "1"]
    run(*given, "--address", "auto", "--dry-run")
    table = capsys.readouterr().out
    assert "main-4" in table
    assert "Ray at auto" in table
    assert "1 CPU, 1 GPU" in table
    assert "would not start" not in table
    run(*given, "--address", "auto", "--dry-run", "--json")
    told = json.loads(capsys.readouterr().out)
    assert len(told["items"]) == 6
    assert told["items"][5]["command"].startswith("python -m trainer evaluate --environment rps")


def test_a_narrow_terminal_folds_commands_and_cuts_none(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    runs = "/shared/" + "r" * 60
    run("--environment", "rps", "--trainers", "1", "--address", "auto", "--runs", runs, "--dry-run")
    table = capsys.readouterr().out
    assert "…" not in table
    assert table.count("r" * 10) >= 2


def test_a_dry_run_says_what_this_machine_lacks(capsys, monkeypatch):
    monkeypatch.setattr("trainer.cli.fleet._this_machine", lambda: Machine("this machine", 2.0, 0.0))
    given = ["--environment", "rps", "--trainers", "2"]
    run(*given, "--dry-run")
    assert "it would not start: the fleet takes 2 x trainer" in capsys.readouterr().out
    run(*given, expect=1)
    assert "2 trainers and 0 evaluators fit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--environment", "rps", "--roles", "main,bad"], "--roles 'main,bad'"),
        (["--environment", "rps", "--json"], "--dry-run"),
        (["--environment", "nowhere"], "nowhere"),
        (["--environment", "rps", "--gpus-per-trainer", "1.5"], "--gpus-per-trainer 1.5 is neither"),
        (["--environment", "rps", "--gpus-per-trainer", "inf"], "--gpus-per-trainer is inf, which no machine has"),
        (["--environment", "rps", "--cpus-per-trainer", "inf"], "--cpus-per-trainer is inf, which no machine has"),
    ],
)
def test_bad_usage_is_told_with_status_2(capsys, given, told):
    run(*given, expect=2)
    assert told in capsys.readouterr().err


def test_a_dry_run_needs_no_ray_and_without_it_a_fleet_names_the_way_out(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    run("--environment", "rps", "--dry-run")
    run("--environment", "rps", "--evaluators", "0", expect=2)
    assert "pip install 'echelon-league[fleet]'" in capsys.readouterr().err


class NoTokenError(Exception):
    """A cluster has a token, and none was sent."""


class Refusing(ModuleType):
    """A Ray that refuses everybody, each time for the next of some reasons, and in the end always for the last."""

    def __init__(self, *errors):
        super().__init__("ray")
        self.errors, self.exceptions = list(errors), SimpleNamespace(AuthenticationError=NoTokenError)

    def init(self, **_):
        raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]


def refusal(monkeypatch, address, *errors):
    """What is said of a cluster that refuses for these reasons."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    for name in ("ray.util", "ray.util.scheduling_strategies"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "ray", Refusing(*errors))
    with pytest.raises(ConfigError, match="no Ray cluster at") as refused, opened(address, [], "http://league"):
        pass
    return str(refused.value)


@pytest.mark.parametrize("error", [ConnectionError("timeout"), NoTokenError("no token")])
@pytest.mark.parametrize(
    ("address", "mode", "hinted"),
    [("ray://head:10001", "", True), ("ray://head:10001", "token", False), ("auto", "", False), (None, "", False)],
)
def test_a_cluster_that_does_not_answer_may_want_a_token(monkeypatch, error, address, mode, hinted):
    """Ray's client waits half a minute for a cluster that has refused it, and then says that it timed out."""
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    assert ("RAY_AUTH_MODE=token" in refusal(monkeypatch, address, error)) == hinted


def test_a_cluster_that_opened_no_place_is_asked_once_more_and_says_why(monkeypatch):
    busy = ConnectionAbortedError("Initialization failure from server:\nTraceback:\n  ...\nRuntimeError: no start\n")
    told = refusal(monkeypatch, "ray://head:10001", busy)
    assert "(Initialization failure from server: RuntimeError: no start)" in told
    assert "(asked again)" in refusal(monkeypatch, "ray://head:10001", busy, ConnectionError("asked again"))
