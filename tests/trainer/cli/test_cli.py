import errno
import json
import os
import subprocess
import sys

import pytest
import torch
from refused import assert_names
from reserved_port import reserved

from league.client import LeagueClient
from league.home import publish_address
from trainer import cli
from trainer.checkpointing.run_directory import RunDirectory
from trainer.cli import clients as connection
from trainer.cli import run as run_command
from trainer.config.loading import resolve


def run(*arguments, expect=0):
    """Run the command in this process; return nothing, check the exit status."""
    with pytest.raises(SystemExit) as left:
        cli.main([*arguments])
    assert left.value.code == expect


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LEAGUE_")]:
        monkeypatch.delenv(name)


def test_help_names_the_list_of_settings_and_gives_an_example(capsys):
    run("run", "--help")
    text = capsys.readouterr().out
    assert "Example: trainer run" in text
    assert "trainer settings" in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_gpu_preset_without_a_gpu_is_refused_in_one_line(capsys):
    run("run", "--environment", "mech-duel", "--preset", "gpu", "--dry-run", expect=2)
    message = capsys.readouterr().err
    assert_names(message, "run.device", "cuda")
    assert message.count("\n") == 1


@pytest.mark.parametrize("environment", ["mech-duel", "mech-company", "openspiel:kuhn_poker", "rps"])
def test_the_gpu_preset_has_a_dry_run_without_a_gpu(capsys, environment):
    fewer = ["--set", "environment.num_envs=16"]
    run("run", "--environment", environment, "--preset", "gpu", "--dry-run", "--set", "run.device=cpu", *fewer)
    assert 'precision = "bfloat16"' in capsys.readouterr().out


def test_a_dry_run_prints_the_resolved_settings_and_the_number_of_parameters(capsys):
    run("run", "--dry-run", "--environment", "recall", "--learner", "second", "--set", "ppo.gamma=0.5")
    text = capsys.readouterr().out
    assert 'name = "recall"' in text
    assert 'learner = "second"' in text
    assert "gamma = 0.5" in text
    assert "parameters" in text
    assert "environment steps per update" in text
    assert "memory, estimated" in text


def test_options_override_the_settings_of_the_variable(capsys, monkeypatch):
    monkeypatch.setenv("TRAINER_SET", "ppo.gamma=0.5 run.total_timesteps=99")
    run("run", "--dry-run", "--json", "--environment", "recall", "--set", "ppo.gamma=0.6")
    told = json.loads(capsys.readouterr().out)["settings"]
    assert (told["ppo"]["gamma"], told["run"]["total_timesteps"]) == (0.6, 99)
    monkeypatch.setenv("TRAINER_SET", "ppo.gama=1")
    run("run", "--dry-run", "--environment", "recall", expect=2)
    assert "unknown setting 'ppo.gama'" in capsys.readouterr().err


def test_a_dry_run_has_all_role_settings(capsys):
    given = ["--environment", "rps", "--role", "league_exploiter", "--set", "role.weighting=nemesis"]
    run("run", "--dry-run", "--json", *given)
    role = json.loads(capsys.readouterr().out)["role"]
    found = {name: role[name] for name in ("name", "reset", "weighting", "snapshot_steps", "snapshot_limit")}
    wanted = {"name": "league_exploiter", "reset": 0.25, "weighting": "nemesis"}
    assert found == wanted | {"snapshot_steps": 256, "snapshot_limit": 512}
    run("run", "--dry-run", *given)
    assert "role: name league_exploiter, snapshot_steps 256" in capsys.readouterr().out


def test_a_dry_run_has_settings_and_sizes_as_json(capsys):
    run("run", "--dry-run", "--json", "--environment", "recall", "--set", "ppo.gamma=0.5")
    told = json.loads(capsys.readouterr().out)
    assert told["settings"]["ppo"]["gamma"] == 0.5
    assert told["env_steps_per_update"] == 64 * 128
    assert set(told["memory_bytes"]) >= {"rollout", "update", "environment", "network and optimiser"}


def test_resuming_without_a_saved_state_is_bad_usage(capsys):
    run("run", "--resume", "--learner", "second", expect=2)
    message = capsys.readouterr().err
    assert_names(message, "var/runs/mech-duel/second")
    assert message.count("\n") == 1


def test_the_run_folder_is_named_after_the_game_and_the_learner(capsys, tmp_path):
    run("run", "--resume", "--environment", "race:Race", expect=2)
    (tmp_path / "rps.toml").write_text('[environment]\nname = "rps:rounds=2"\n[league]\nlearner = "third"\n')
    run("run", "--resume", "--config", "rps.toml", expect=2)
    run("run", "--resume", "--config", "rps.toml", "--set", "league.learner=fourth", expect=2)
    folders = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert folders == ["var/runs/race+Race/main", "var/runs/rps+rounds=2/third", "var/runs/rps+rounds=2/fourth"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "missing"),
    [("run", "jaxtyping"), ("run", "torch"), ("evaluate", "warp"), ("run", "tensorboard")],
)
def test_a_missing_package_is_reported_with_its_extra_in_one_line(command, missing, tmp_path):
    """In an interpreter of its own that cannot import it; status 78 tells supervisors that no restart helps."""
    program = f"import sys; sys.modules[{missing!r}] = None; from trainer.cli import main; main()"
    end_soon = ("--set", "league.connect_s=0", "--url", "http://127.0.0.1:9") if command == "run" else ()
    ended = subprocess.run(
        [sys.executable, "-c", program, command, "--environment", "mech-duel", *end_soon],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert ended.returncode == 78, ended.stderr
    assert ended.stderr.startswith("trainer: ")
    assert missing in ended.stderr
    assert_names(ended.stderr, "echelon-league[train]")
    assert ended.stderr.count("\n") == 1


def test_resuming_takes_the_settings_of_the_run_folder(capsys, tmp_path):
    folder = RunDirectory(tmp_path / "old")
    folder.path.mkdir()
    folder.save_settings(resolve("recall", None, ["ppo.gamma=0.5", "league.learner=third"]))
    folder.state.write_bytes(b"")
    run("run", "--run", str(folder.path), "--resume", "--dry-run", "--json", "--set", "ppo.clip_coef=0.1")
    told = json.loads(capsys.readouterr().out)["settings"]
    assert (told["environment"]["name"], told["ppo"]["gamma"], told["ppo"]["clip_coef"]) == ("recall", 0.5, 0.1)
    assert told["league"]["learner"] == "third"


@pytest.mark.parametrize(("package", "extra"), [("wandb", "track"), ("mlflow", "mlflow")])
def test_a_missing_logger_is_reported_before_the_run_starts(capsys, monkeypatch, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    run("run", "--environment", "rps", f"--{package}", expect=2)
    message = capsys.readouterr().err
    assert_names(message, f"--{package}", f"echelon-league[{extra}]")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--set", "ppo.gama=1"], 2, "unknown setting 'ppo.gama': the nearest is 'ppo.gamma'"),
        (["--set", "run.device=quantum"], 2, "run.device is 'quantum'"),
        (["--preset", "tpu"], 2, "--preset is 'tpu': give one of gpu"),
        (["--config", "nothing.toml"], 2, "cannot read nothing.toml"),
        (
            ["--set", "ppo.ent_coef_per_head={comm = 1}"],
            2,
            "comm",
        ),
        (["--dry-run", "--set", "ppo.entropy_floors={comm = 1}"], 2, "it has choice"),
        (["--set", "ppo.num_minibatches=99"], 2, "ppo.num_minibatches is 99, but a rollout of 8 decisions has"),
        (["--dry-run", "--set", "ppo.num_minibatches=99"], 2, "set it to"),
        (["--set", "curriculum.matches=9"], 2, "rps has no curriculum stages"),
        (["--environment", "chess"], 2, "unknown environment 'chess'"),
        (["--learner", ""], 2, "league.learner is ''"),
        (["--role", "spy"], 2, "league.role is 'spy'"),
        (["--learner", "x" * 60], 2, "league.learner is 'xxxx"),
        (["--run", "/proc/nothing"], 1, "/proc/nothing"),
        (["--json"], 2, "--dry-run"),
        (["--set", "league.connect_s=0", "--url", "http://127.0.0.1:9"], 75, "league serve"),
    ],
)
def test_user_errors_are_one_line_without_a_traceback(capsys, caplog, tmp_path, arguments, status, message):
    run("run", "--environment", "rps", *arguments, expect=status)
    error = capsys.readouterr().err
    assert error.startswith("trainer: ")
    assert message in error
    assert "Traceback" not in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "what is refused leaves no run folder behind"


@pytest.fixture
def nobody_listens(monkeypatch):
    """Let the default address be one where no server listens."""
    monkeypatch.setattr(connection, "ANSWER_WITHIN_S", 0.0)
    monkeypatch.setattr(run_command, "connect", lambda *_: LeagueClient("http://127.0.0.1:9"))


TINY = [
    word
    for setting in ("environment.num_envs=8", "rollout.num_steps=8", "rollout.bptt_horizon=8", "league.connect_s=0")
    for word in ("--set", setting)
]


@pytest.mark.usefixtures("nobody_listens")
def test_a_run_without_a_league_trains_offline_and_reports_it_in_one_line(capsys, tmp_path):
    for total, began in (("64", "first rollout"), ("128", "resumed at step 64")):
        run("run", "--environment", "rps", *TINY, "--total-timesteps", total)
        printed = capsys.readouterr()
        (notice,) = [line for line in printed.out.splitlines() if "offline" in line]
        assert_names(notice, "http://127.0.0.1:8000")
        assert "var/runs/rps/main/snapshots" in notice
        assert "--url URL" in notice
        assert began in printed.out
        assert printed.err == ""
    assert len(list((tmp_path / "var/runs/rps/main/snapshots").glob("*.safetensors"))) == 2
    assert (tmp_path / "var/runs/rps/main/policy.safetensors").exists()


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--url", "http://127.0.0.1:8000"], {}),
        ([], {"LEAGUE_URL": "http://127.0.0.1:8000"}),
        (["--role", "main_exploiter"], {}),
    ],
    ids=["option", "variable", "exploiter"],
)
def test_a_named_or_needed_league_must_answer(capsys, monkeypatch, arguments, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    run("run", "--environment", "rps", *TINY, *arguments, expect=75)
    printed = capsys.readouterr()
    assert "no server responded within 0 s" in printed.err
    assert "offline" not in printed.out


def test_offline_asks_no_league_even_one_that_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("LEAGUE_URL", "http://127.0.0.1:9")
    run("run", "--offline", "--environment", "rps", *TINY, "--total-timesteps", "64")
    assert "--offline: training offline by self-play" in capsys.readouterr().out
    assert (tmp_path / "var/runs/rps/main/policy.safetensors").exists()


def test_an_exploiter_cannot_train_offline(capsys):
    run("run", "--offline", "--environment", "rps", *TINY, "--role", "league_exploiter", expect=2)
    assert_names(capsys.readouterr().err, "--offline", "league_exploiter")


@pytest.mark.parametrize(("given", "named"), [([], "from var/league.url"), (["--url"], "check the address")])
def test_a_trainer_uses_the_address_of_the_last_started_league(capsys, tmp_path, given, named):
    with reserved() as port:
        publish_address(tmp_path / "var", f"http://127.0.0.1:{port}")
        league = [*given, f"http://127.0.0.1:{port}"] if given else []
        run("run", "--environment", "rps", "--set", "league.connect_s=0", *league, expect=75)
    error = capsys.readouterr().err
    assert f"127.0.0.1:{port}" in error
    assert named in error


def test_an_unknown_option_is_bad_usage(capsys):
    run("run", "--leage", "x", expect=2)
    assert "No such option" in capsys.readouterr().err


def test_a_missing_gpu_is_refused(capsys):
    import torch

    device = f"cuda:{torch.cuda.device_count()}"
    run("run", "--set", f"run.device={device}", expect=2)
    assert_names(capsys.readouterr().err, "run.device", device)


@pytest.mark.parametrize("arguments", [["run", "--url", "localhost:8000"], ["evaluate", "--name", "/etc"]])
def test_bad_usage_names_the_mistake(capsys, arguments):
    run(*arguments, "--environment", "rps", expect=2)
    assert arguments[-1] in capsys.readouterr().err


def test_an_evaluator_of_an_unknown_environment_is_refused(capsys):
    run("evaluate", "--environment", "chess", expect=2)
    assert "unknown environment 'chess'" in capsys.readouterr().err


def test_processes_are_refused_for_batched_games(capsys):
    run("evaluate", "--environment", "rps", "--environment", "recall", "--processes", "2", expect=2)
    assert_names(" ".join(capsys.readouterr().err.replace("│", "").split()), "rps", "recall")


def test_bench_prints_text(capsys):
    small = ["environment.num_envs=8", "rollout.num_steps=32", "network.recurrent_size=8"]
    run("bench", "--consistency", *(word for each in small for word in ("--set", each)))
    name, errors, largest = capsys.readouterr().out.splitlines()
    assert name == "environment: synthetic"
    shown = [float(each) for each in errors.removeprefix("ratio_errors: ").split(", ")]
    assert float(largest.removeprefix("largest: ")) == max(shown)
    assert len(shown) > 1
    assert not set("[]") & set(errors)


def test_bench_prints_json(capsys):
    small = [f"--set={each}" for each in ("environment.num_envs=4", "rollout.num_steps=16", "network.recurrent_size=8")]
    run("bench", "--iterations", "1", "--json", *small)
    values = json.loads(capsys.readouterr().out)
    assert values["environment"] == "synthetic"
    assert values["env_steps_per_s"] > 0
    run("bench", "--environment", "rps", "--opponents", "2", "--iterations", "1", "--json", *small)
    values = json.loads(capsys.readouterr().out)
    assert (values["opponents"], values["self_play_envs"]) == (2, 1)
    assert 0 < values["arena_s"] + values["acting_s"] + values["opponents_s"] < values["rollout_s"]
    run("bench", "--consistency", "--json", *small)
    values = json.loads(capsys.readouterr().out)
    assert max(values["ratio_errors"]) == values["largest"] < 1e-5


def test_bench_counts_operations(capsys):
    small = [f"--set={each}" for each in ("environment.num_envs=4", "rollout.num_steps=16", "network.recurrent_size=8")]
    run("bench", "--count", "--environment", "rps", "--json", *small)
    values = json.loads(capsys.readouterr().out)
    names = ("ops_per_decision", "syncs_per_decision", "ops_per_optimizer_step", "syncs_per_optimizer_step")
    assert values["environment"] == "rps"
    assert min(values[name] for name in names) > 0.0
    run("bench", "--count", "--environment", "rps", *small)
    lines = capsys.readouterr().out.splitlines()
    assert f"ops_per_decision: {values['ops_per_decision']:,.6g}" in lines
    first_place = lines[lines.index("syncs_per_decision, by place") + 1]
    assert "trainer/rollout/vector_worker.py:" in first_place


@pytest.mark.parametrize(
    "arguments",
    [
        ["--iterations", "3", "--consistency"],
        ["--iterations", "3", "--count"],
        ["--opponents", "2"],
    ],
)
def test_bench_refuses_options_without_effect(capsys, arguments):
    run("bench", *arguments, expect=2)
    message = capsys.readouterr().err
    assert_names(message, " ".join(arguments[:2]))
    assert message.count("\n") == 1


def test_bench_refuses_two_measures_at_once(capsys):
    run("bench", "--consistency", "--count", expect=2)
    assert_names(capsys.readouterr().err, "--consistency", "--count")


@pytest.mark.integration
def test_the_module_is_the_command():
    finished = subprocess.run([sys.executable, "-m", "trainer", "--help"], capture_output=True, text=True, check=False)
    assert finished.returncode == 0
    assert "evaluate" in finished.stdout


def test_a_full_disk_ends_in_one_line(capsys, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("trainer.cli.commands.app", full)
    run("run", expect=1)
    message = capsys.readouterr().err
    assert_names(message, "No space left on device", "--run")
    assert message.count("\n") == 1


def test_a_run_folder_that_cannot_be_written_ends_in_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    run("run", "--environment", "rps", "--run", str(tmp_path / "file" / "run"), expect=1)
    assert capsys.readouterr().err == f"trainer: {tmp_path}/file/run: Not a directory; choose another --run\n"


def test_settings_are_listed_one_line_each(capsys):
    run("settings", "--set", "ppo.gamma=0.5")
    lines = capsys.readouterr().out.splitlines()
    (gamma,) = [line.split() for line in lines if line.lstrip().startswith("ppo.gamma ")]
    assert gamma[:3] == ["ppo.gamma", "0.5", "0.995"]
    assert sum("run." in line.split()[0] for line in lines if line.split()) >= 9


def test_settings_of_one_section_are_listed_as_json(capsys):
    run("settings", "league", "--environment", "rps", "--json")
    items = json.loads(capsys.readouterr().out)["items"]
    assert {each["name"].partition(".")[0] for each in items} == {"league"}
    assert items[0].keys() == {"name", "value", "default", "bounds", "about"}


def test_an_unknown_section_is_bad_usage(capsys):
    run("settings", "pro", expect=2)
    assert_names(capsys.readouterr().err, "pro", "ppo")
