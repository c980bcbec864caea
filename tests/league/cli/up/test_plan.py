"""What `league up` runs."""

from pathlib import Path

import pytest
from league_command import Run

from arena.policies.nn.user_module import ALLOWED_MODULES_VARIABLE
from league.cli.up.plan import Plan, trainees, worker_jobs
from league.process.supervised_process import Job


def jobs(
    *,
    league: bool,
    environment: str = "rps",
    setting: str = "ppo.gamma=0.9",
    modules: tuple[str, ...] = (),
    processes: int = 0,
) -> list[Job]:
    plan = Plan(
        home=Path("home"),
        host="127.0.0.1",
        port=8000,
        url="http://127.0.0.1:8000",
        database_url="sqlite://",
        environment=environment,
        trainees=trainees("mine", league=league),
        overrides=(setting,),
        modules=modules,
        processes=processes,
    )
    return list(worker_jobs(plan, token="secret"))


def options(job: Job) -> dict[str, str]:
    words = job.command[job.command.index("trainer") + 2 :]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_one_lineage_is_trained_unless_it_is_a_league() -> None:
    trainer, evaluator = jobs(league=False)
    assert (trainer.name, evaluator.name) == ("trainer", "evaluator")
    assert options(trainer) == {
        "--environment": "rps",
        "--run": "home/runs/rps/mine",
        "--learner": "mine",
        "--role": "main",
        "--set": "ppo.gamma=0.9",
    }
    assert options(evaluator) == {"--environment": "rps", "--run": "home/evaluators/evaluator"}


def test_a_league_trains_a_main_and_two_exploiters_each_in_its_own_folder_and_log() -> None:
    *trainers, _ = jobs(league=True)
    whom = {options(job)["--learner"]: options(job)["--role"] for job in trainers}
    assert whom == {"mine": "main", "main-exploiter": "main_exploiter", "league-exploiter": "league_exploiter"}
    assert len({options(job)["--run"] for job in trainers}) == len({job.log for job in trainers}) == 3
    assert all("secret" not in " ".join(job.command) for job in trainers)


def test_learners_of_one_name_and_two_games_have_run_folders_of_their_own() -> None:
    games = ("rps", "race:Race", "openspiel:leduc_poker")
    folders = [options(jobs(league=False, environment=game)[0])["--run"] for game in games]
    assert folders == ["home/runs/rps/mine", "home/runs/race+Race/mine", "home/runs/openspiel+leduc_poker/mine"]


def test_processes_step_the_matches_of_every_trainer_and_of_the_evaluator() -> None:
    *trainers, evaluator = jobs(league=True, processes=2)
    for job in trainers:
        assert job.command[-4:] == ("--set", "environment.processes=2", "--set", "ppo.gamma=0.9"), "settings win"
    assert options(evaluator)["--processes"] == "2"


def test_modules_are_named_to_every_trainer_and_to_the_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_MODULES_VARIABLE, "nets:Before")
    named = jobs(league=True, setting="network.module=nets:Mine", modules=("nets:One", "nets:Two"))
    assert {job.environment[ALLOWED_MODULES_VARIABLE] for job in named} == {"nets:Before,nets:One,nets:Two,nets:Mine"}


def test_the_option_for_league_play_is_not_the_one_that_takes_an_address(command: Run) -> None:
    refused = command("up", "--league", "--environment", "rps")
    assert refused.code == 2
    assert "--league-play" in refused.err


def test_a_main_cannot_have_an_exploiters_name(command: Run) -> None:
    refused = command("up", "--league-play", "--learner", "main-exploiter", "--environment", "rps")
    assert refused.code == 2
    assert "choose another name" in " ".join(refused.err.replace("│", " ").split())


@pytest.mark.parametrize(("before", "named"), [("", "nets:Mine"), ("nets:Other", "nets:Other,nets:Mine")])
@pytest.mark.parametrize("written", ["nets:Mine", '"nets:Mine"'])
def test_a_network_module_of_the_settings_is_named_to_the_evaluator_too(
    monkeypatch: pytest.MonkeyPatch, before: str, named: str, written: str
) -> None:
    monkeypatch.setenv(ALLOWED_MODULES_VARIABLE, before)
    with_module = jobs(league=False, setting=f"network.module={written}")
    assert [job.environment[ALLOWED_MODULES_VARIABLE] for job in with_module] == [named, named]
    assert [job.environment[ALLOWED_MODULES_VARIABLE] for job in jobs(league=False)] == [before, before]
