"""`league learner runs`, `run` and `compare-runs`."""

import json

from league_command import Run
from league_scene import Scene

from league import wire
from league.client import RunInfo


def start(scene: Scene, rate: float) -> wire.Run:
    origin = {"command": ["python", "train.py"], "git": {"revision": "ab" * 20, "changed": False}}
    return scene.client.start_run(RunInfo({"ppo": {"lr": rate}}, seed=7, origin=origin).request(scene.learner))


def test_runs_are_listed(online: Run, scene: Scene) -> None:
    assert "no runs" in online("learner", "runs").out
    start(scene, 0.5)
    printed = online("learner", "runs").out
    assert "ababababab " in printed
    assert scene.learner.name in printed


def test_a_run_is_shown_with_all_settings(online: Run, scene: Scene) -> None:
    run = start(scene, 0.5)
    printed = online("learner", "run", run.id).out
    assert "ppo.lr" in printed
    assert "python train.py" in printed
    assert json.loads(online("learner", "run", run.id, "--json").out)["settings"] == {"ppo": {"lr": 0.5}}


def test_two_runs_are_compared(online: Run, scene: Scene) -> None:
    first, second = start(scene, 0.5), start(scene, 0.25)
    printed = online("learner", "compare-runs", first.id, second.id).out
    assert "settings.ppo.lr" in printed
    assert "the same settings" in online("learner", "compare-runs", first.id, first.id).out


def test_an_unknown_run_names_the_remedy(online: Run, scene: Scene) -> None:
    outcome = online("learner", "run", 99)
    assert outcome.code != 0
    assert "unknown run 99" in outcome.err
