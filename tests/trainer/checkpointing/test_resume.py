import pytest
from refused import refused

from league.client import LeagueClient
from trainer.checkpointing.resume import changed_settings, check_changes, load_settings
from trainer.checkpointing.run_directory import RunDirectory
from trainer.config.loading import parse_assignments, resolve, to_toml
from trainer.runtime import session


@pytest.fixture
def folder(tmp_path):
    folder = RunDirectory(tmp_path)
    folder.save_settings(resolve("rps", None, ["ppo.gamma=0.5"]))
    folder.state.write_bytes(b"")
    return folder


def changes(folder, *assignments):
    return [str(each) for each in check_changes(folder, resolve("rps", None, ["ppo.gamma=0.5", *assignments]))]


def test_settings_that_changed_are_named_with_both_values(folder):
    assert changes(folder) == []
    assert changes(folder, "ppo.clip_coef=0.1", "run.threads=2", "network.encoder_sizes=[16]") == [
        "run.threads 1 -> 2",
        "ppo.clip_coef 0.3 -> 0.1",
    ]


@pytest.mark.holds("H2")
@pytest.mark.parametrize(
    "assignment", ["network.encoder_sizes=[8, 8]", "network.core=lstm", "run.seed=1", "league.role=main_exploiter"]
)
def test_changed_immutable_setting_is_rejected(folder, assignment):
    key = assignment.partition("=")[0]
    with refused("invalid-run-state", key, "--run") as error:
        changes(folder, assignment, "ppo.clip_coef=0.1")
    assert "ppo.clip_coef" not in str(error.value)


def test_a_setting_that_an_older_version_did_not_know_had_its_default():
    before = {"ppo": {"gamma": 0.5}, "environment": {"name": "my-game"}, "of_old": {"key": 1}}
    assert changed_settings(before, resolve("my-game", None, ["ppo.gamma=0.5", "ppo.clip_coef=0.2"])) == []
    (change,) = changed_settings(before, resolve("my-game", None, ["ppo.gamma=0.5", "ppo.clip_coef=0.1"]))
    assert str(change) == "ppo.clip_coef 0.2 -> 0.1"


def test_settings_that_cannot_be_read_are_not_compared(folder):
    folder.settings.write_text("[[")
    assert changes(folder, "ppo.clip_coef=0.1") == []
    folder.settings.unlink()
    assert changes(folder, "ppo.clip_coef=0.1") == []


def test_given_settings_override_those_of_the_resumed_run(folder):
    config = resolve(None, None, ["ppo.clip_coef=0.1"], load_settings(folder))
    assert (config.environment.name, config.ppo.gamma, config.ppo.clip_coef) == ("rps", 0.5, 0.1)
    assert resolve(None, None, [], load_settings(folder)) == resolve("rps", None, ["ppo.gamma=0.5"])
    assert parse_assignments(["ppo.clip_coef=0.1"])["ppo"]["clip_coef"] != resolve("rps", None, []).ppo.clip_coef


def test_resume_requires_a_saved_state(folder, tmp_path):
    with refused("invalid-setting", "--resume"):
        load_settings(RunDirectory(tmp_path / "elsewhere"))
    folder.settings.write_text("[[")
    with refused("invalid-setting", "config.toml", "TOML", "--resume"):
        load_settings(folder)
    folder.settings.unlink()
    with refused("invalid-setting", "config.toml"):
        load_settings(folder)


@pytest.mark.parametrize("content", ["ppo = 3", "[ppo]\nof_old = 1"])
def test_settings_of_a_run_that_are_not_understood_are_refused_with_their_file(folder, content):
    folder.settings.write_text(content)
    with refused("invalid-setting", "config.toml", "--resume"):
        load_settings(folder)


def test_a_section_that_was_garbled_is_compared_as_if_it_had_its_defaults():
    assert changed_settings({"environment": {"name": "my-game"}, "ppo": 3}, resolve("my-game", None, [])) == []


def test_saved_settings_can_be_read_again(folder):
    assert folder.settings.read_text() == to_toml(resolve("rps", None, ["ppo.gamma=0.5"]))


@pytest.mark.parametrize(("environment", "setting"), [("rps", "run.seed=1"), ("recall", "run.seed=0")])
def test_a_run_that_cannot_go_on_is_refused_before_its_environments_are_opened(
    worker_of, serve, monkeypatch, environment, setting
):
    client = LeagueClient(http=serve())
    worker_of(client, resolve("rps", None, ["environment.num_envs=8", "run.total_timesteps=64"])).run()
    monkeypatch.setattr(session, "make_env_batches", lambda *settings: pytest.fail("opened"))
    with refused("invalid-run-state", "--run"):
        worker_of(client, resolve(environment, None, ["environment.num_envs=8", setting]))
