"""Who is in a fleet, and whether it fits."""

import itertools
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from refused import assert_names, refused

from trainer import cli
from trainer.fleet.members import (
    FleetSpec,
    Member,
    Resources,
    check_capacity,
    check_nodes,
    plan_members,
    variables,
)
from trainer.fleet.ray_cluster import connect

ALL_ROLES = ("main", "main_exploiter", "league_exploiter")


def spec(**given) -> FleetSpec:
    usual = {
        "environment": "rps",
        "trainers": 2,
        "evaluators": 1,
        "resources": Resources(1.0, 0.0),
        "roles": ("main",),
        "prefix": "",
        "runs": Path("/runs"),
        "overrides": (),
    }
    return FleetSpec(**usual | given)


def settings_of(member: Member) -> list[str]:
    return [word for before, word in itertools.pairwise(member.command) if before == "--set"]


def test_learners_take_roles_in_turn_with_their_own_names_seeds_and_folders():
    members = plan_members(spec(trainers=4, evaluators=2, roles=ALL_ROLES, prefix="b-"))
    names = ["b-main", "b-main-exploiter", "b-league-exploiter", "b-main-2", "b-evaluator", "b-evaluator-2"]
    assert [member.name for member in members] == names
    assert [str(member.folder) for member in members] == [f"/runs/rps/{name}" for name in names]
    trainers = members[:4]
    assert [member.command[member.command.index("--role") + 1] for member in trainers] == [*ALL_ROLES, "main"]
    assert [settings_of(member) for member in trainers] == [[f"run.seed={seed}"] for seed in range(4)]


def test_seeds_count_up_from_the_given_one():
    members = plan_members(spec(overrides=("run.seed=7",)))
    assert [settings_of(member) for member in members[:2]] == [["run.seed=7", f"run.seed={seed}"] for seed in (7, 8)]


def test_settings_override_a_trainers_gpu_and_threads():
    first = plan_members(spec(resources=Resources(4.0, 1.0)))[0]
    assert settings_of(first) == ["run.seed=0", "run.device=cuda:0", "run.threads=4"]
    own = ("run.device=cpu", "run.threads=2")
    assert settings_of(plan_members(spec(resources=Resources(4.0, 1.0), overrides=own))[0]) == [*own, "run.seed=0"]


def test_a_trainer_with_several_gpus_has_a_rank_on_each():
    first, _, evaluator = plan_members(spec(resources=Resources(5.0, 2.0), overrides=("environment.num_envs=8",)))
    launch = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--")
    assert first.command[:8] == (*launch, "trainer", "run")
    assert settings_of(first)[1:] == ["run.seed=0", "run.device=cuda", "run.threads=2"]
    assert first.resources.threads_per_rank == 2
    assert evaluator.command[:2] == ("trainer", "evaluate")
    assert [Resources(cpus, gpus).threads_per_rank for cpus, gpus in [(0.5, 0.0), (3.0, 0.5), (1.0, 4.0)]] == [1, 3, 1]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"trainers": 0, "evaluators": 0}, (0,)),
        ({"resources": Resources(1.0, 2.0), "overrides": ("environment.num_envs=9",)}, ("environment.num_envs", 9, 2)),
        ({"resources": Resources(1.0, 2.0), "overrides": ("run.device=cuda:0",)}, ("run.device", 2)),
        ({"trainers": 2, "roles": ALL_ROLES}, ("--roles", 3, 2)),
        ({"overrides": ("ppo.gama=0.5",)}, ("ppo.gamma",)),
        ({"prefix": ":"}, (":main",)),
        ({"trainers": 0, "prefix": "../"}, ("--prefix", "../evaluator", 64)),
    ],
)
def test_invalid_trainer_settings_are_refused_before_the_start(given, values):
    with refused("invalid-setting", *values):
        plan_members(spec(**given))


def test_network_modules_of_the_settings_are_allowed_in_all_members():
    assert variables(("network.module=mine:Net",), {"ARENA_MODULES": "other:Net"}) == {
        "ARENA_MODULES": "other:Net,mine:Net"
    }
    assert variables((), {"PATH": "/bin"}) == {}


def test_a_fleet_larger_than_the_cluster_is_refused():
    members = plan_members(spec(trainers=4, evaluators=2, resources=Resources(1.0, 1.0)))
    check_capacity(members, [Resources(4.0, 2.0), Resources(2.0, 2.0)])
    with refused("no-capacity", 6, "CPU", 4, "GPU", 1, 2):
        check_capacity(members, [Resources(4.0, 2.0), Resources(2.0, 1.0)])
    with refused("no-capacity", "main"):
        check_capacity(members, [])


def test_a_member_must_fit_on_one_node():
    members = plan_members(spec(trainers=1, evaluators=0, resources=Resources(2.0, 2.0)))
    with refused("no-capacity", "main"):
        check_capacity(members, [Resources(2.0, 1.0), Resources(2.0, 1.0)])


def test_fractions_of_resources_add_up():
    check_capacity(plan_members(spec(trainers=3, evaluators=0, resources=Resources(0.1, 0.1))), [Resources(0.3, 0.3)])


def test_a_bundle_has_the_resources_of_its_member():
    trainer, _, evaluator = plan_members(spec(resources=Resources(2.0, 1.0)))
    assert trainer.resources.bundle == {"CPU": 2.0, "GPU": 1.0}
    assert evaluator.resources.bundle == {"CPU": 1.0}


def test_nodes_must_have_one_version_and_see_the_same_runs():
    league, here = "http://league:8000", ("1.0", frozenset({"main"}))
    check_nodes({"a": here, "b": here}, "1.0", league)
    with refused("no-capacity", "b", "echelon-league", 0.9, 1.0):
        check_nodes({"a": here, "b": ("0.9", here[1])}, "1.0", league)
    with refused("no-capacity", "b", "main"):
        check_nodes({"a": here, "b": ("1.0", frozenset())}, "1.0", league)


def test_a_league_on_loopback_is_refused_for_several_nodes():
    node = ("1.0", frozenset())
    check_nodes({"a": node}, "1.0", "http://127.0.0.1:8000")
    with refused("invalid-setting", 2):
        check_nodes({"a": node, "b": node}, "1.0", "http://localhost:8000")


def run(*arguments, expect=0):
    with pytest.raises(SystemExit) as left:
        cli.main(["fleet", *arguments])
    assert left.value.code == expect


def test_a_dry_run_prints_members_resources_and_commands(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    given = ["--environment", "rps", "--trainers", "4", "--evaluators", "2", "--gpus-per-trainer", "1"]
    run(*given, "--address", "auto", "--dry-run")
    table = capsys.readouterr().out
    assert "main-4" in table
    assert "Ray at auto" in table
    assert "1 CPU, 1 GPU" in table
    assert "cannot start" not in table
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


def test_a_dry_run_reports_missing_capacity(capsys, monkeypatch):
    monkeypatch.setattr("trainer.cli.fleet._this_machine", lambda: Resources(2.0, 0.0))
    given = ["--environment", "rps", "--trainers", "2"]
    run(*given, "--dry-run")
    assert "cannot start: the fleet needs 3 CPU in total (2 x trainer" in capsys.readouterr().out
    run(*given, expect=1)
    assert "the cluster has 2 CPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--environment", "rps", "--roles", "main,bad"], "--roles 'main,bad'"),
        (["--environment", "rps", "--json"], "--dry-run"),
        (["--environment", "nowhere"], "nowhere"),
        (["--environment", "rps", "--gpus-per-trainer", "1.5"], "--gpus-per-trainer 1.5 is neither"),
        (["--environment", "rps", "--gpus-per-trainer", "inf"], "Invalid value for '--gpus-per-trainer'"),
        (["--environment", "rps", "--cpus-per-trainer", "inf"], "Invalid value for '--cpus-per-trainer'"),
    ],
)
def test_bad_usage_exits_with_2(capsys, given, told):
    run(*given, expect=2)
    assert told in capsys.readouterr().err


def test_without_ray_a_dry_run_works_and_a_fleet_names_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    run("--environment", "rps", "--dry-run")
    run("--environment", "rps", "--evaluators", "0", expect=2)
    assert_names(capsys.readouterr().err, "echelon-league[fleet]")


class NoTokenError(Exception):
    """A cluster has a token, and none was sent."""


class Refusing(ModuleType):
    """A Ray that refuses every caller."""

    def __init__(self, error):
        super().__init__("ray")
        self.error, self.exceptions = error, SimpleNamespace(AuthenticationError=NoTokenError)

    def init(self, **_):
        raise self.error


def refusal(monkeypatch, address, error):
    """Return the message about a cluster that refuses with this error."""
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_DEDUP_LOGS"):
        monkeypatch.setenv(name, "0")
    for name in ("ray.util", "ray.util.scheduling_strategies"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "ray", Refusing(error))
    with refused("invalid-setting") as refusal, connect(address, [], "http://league"):
        pass
    return str(refusal.value)


@pytest.mark.parametrize("error", [ConnectionError("timeout"), NoTokenError("no token")])
def test_unresponsive_cluster_error_mentions_the_token(monkeypatch, error):
    """Ray's client waits half a minute for a cluster that has refused it, and then says that it timed out."""
    assert "RAY_AUTH_MODE=token" in refusal(monkeypatch, "ray://head:10001", error)


def test_a_failed_start_of_the_cluster_is_reported_with_its_reason(monkeypatch):
    broken = RuntimeError("Initialization failure from server:\nTraceback:\n  ...\nRuntimeError: no start\n")
    assert "(Initialization failure from server: RuntimeError: no start)" in refusal(monkeypatch, None, broken)
