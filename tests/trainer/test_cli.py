import errno
import os
import subprocess
import sys

import pytest

from trainer import cli


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


def test_help_explains_every_setting_and_gives_an_example(capsys):
    run("run", "--help")
    text = capsys.readouterr().out
    assert "Example: trainer run" in text
    for line in ("ppo.target_kl = 0.015", "schedules.entropy = 0.05", "league.snapshot_every_steps", "[rollout]"):
        assert line in text


@pytest.mark.parametrize("command", ["run", "evaluate", "bench", "doctor"])
def test_every_command_has_help_with_an_example(capsys, command):
    run(command, "--help")
    assert f"Example: trainer {command}" in capsys.readouterr().out


def test_a_dry_run_prints_the_resolved_settings_and_the_number_of_parameters(capsys):
    run("run", "--dry-run", "--environment", "recall", "--learner", "second", "--set", "ppo.gamma=0.5")
    text = capsys.readouterr().out
    assert 'name = "recall"' in text
    assert 'learner = "second"' in text
    assert "gamma = 0.5" in text
    assert "parameters" in text
    assert "environment steps per update" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--set", "ppo.gama=1"], 2, "unknown setting 'ppo.gama': the nearest is 'ppo.gamma'"),
        (["--set", "run.device=quantum"], 2, "run.device is 'quantum'"),
        (["--config", "nothing.toml"], 2, "cannot read nothing.toml"),
        (["--set", "ppo.entropy_factors={comm = 1}"], 2, "names the head 'comm', which this environment has not"),
        (["--dry-run", "--set", "ppo.entropy_floors={comm = 1}"], 2, "it has choice"),
        (["--environment", "chess"], 2, "unknown environment 'chess'"),
        (["--learner", ""], 2, "league.learner is ''"),
        (["--role", "spy"], 2, "league.role is 'spy'"),
        (["--learner", "x" * 60], 2, "league.learner is 'xxxx"),
        (["--run", "/proc/nothing"], 1, "/proc/nothing"),
        (["--set", "league.connect_s=0", "--league", "http://127.0.0.1:9"], 1, "start one with `league serve`"),
    ],
)
def test_what_a_user_can_cause_is_one_line_without_a_traceback(capsys, caplog, arguments, status, message):
    run("run", "--environment", "rps", *arguments, expect=status)
    error = capsys.readouterr().err
    assert error.startswith("trainer: ")
    assert message in error
    assert "Traceback" not in error
    assert error.count("\n") == 1


def test_an_unknown_option_is_bad_usage(capsys):
    run("run", "--leage", "x", expect=2)
    assert "No such option" in capsys.readouterr().err


def test_a_gpu_where_there_is_none_is_refused(capsys):
    import torch

    device = f"cuda:{torch.cuda.device_count()}"
    run("run", "--set", f"run.device={device}", expect=2)
    assert f"run.device is '{device}': it cannot be used here" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["run", "--league", "localhost:8000"], ["evaluate", "--name", "/etc"]])
def test_bad_usage_names_what_is_wrong(capsys, arguments):
    run(*arguments, "--environment", "rps", expect=2)
    assert arguments[-1] in capsys.readouterr().err


def test_an_evaluator_of_an_unknown_environment_is_refused(capsys):
    run("evaluate", "--environment", "chess", expect=2)
    assert "unknown environment 'chess'" in capsys.readouterr().err


def test_bench_prints_json_that_scripts_read(capsys):
    small = [f"--set={each}" for each in ("environment.num_envs=4", "rollout.steps=16", "network.recurrent_size=8")]
    run("bench", "--iterations", "1", "--json", *small)
    import json

    values = json.loads(capsys.readouterr().out)
    assert values["environment"] == "synthetic"
    assert values["env_steps_per_s"] > 0
    run("bench", "--consistency", "--json", *small)
    values = json.loads(capsys.readouterr().out)
    assert max(values["ratio_errors"]) == values["largest"] < 1e-5


def test_the_module_is_the_command():
    finished = subprocess.run([sys.executable, "-m", "trainer", "--help"], capture_output=True, text=True, check=False)
    assert finished.returncode == 0
    assert "evaluate" in finished.stdout


def test_a_full_disk_ends_in_one_line(capsys, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cli, "app", full)
    run("run", expect=1)
    message = capsys.readouterr().err
    assert (
        message == "trainer: writing the run folder: No space left on device; free the disk or choose another --run\n"
    )
