"""The examples of own trainers play in a league."""

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from served import serving

from arena.environments import declare
from league import wire
from league.client import LeagueClient, attach

EXAMPLES = Path(__file__).parents[3] / "examples" / "own_trainer"
EXPORT = EXAMPLES.parent / "external" / "export_onnx.py"
LONGEST = 100  # lines
MATCHES = 40
"""Self-play is not rated. It is at most 3 of the first 8 leases of 4 matches, so one of 13 matches is rated."""

TRAINERS = [
    pytest.param("ppo.py", "torch", "connect-four", "ppo", id="ppo"),
    pytest.param("sb3.py", "stable_baselines3", "connect-four-sb3", "sb3", id="sb3"),
    pytest.param("torch_rl.py", "torchrl", "connect-four-torchrl", "torchrl", id="torchrl"),
    pytest.param("rllib.py", "tree", "connect-four-rllib", "rllib", id="rllib"),  # dm-tree comes with ray[rllib]
]


def require(package: str) -> None:
    """Skip the test if the library of an example is not installed; do not import it, because that takes seconds."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def standings(script: str, argument: str, environment: str, home: Path) -> dict[str, wire.StandingsItem]:
    """Run an example against a server, and return the rated players by name."""
    with serving(home) as server, LeagueClient(server.url) as client:
        variables = os.environ | {"LEAGUE_URL": server.url, "LEAGUE_HOME": str(home)}
        subprocess.run([sys.executable, str(EXAMPLES / script), argument], check=True, env=variables)
        client.close_period(environment)
        return {each.name: each for each in client.standings(environment).items}


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda script: script.stem)
def test_example_is_short_and_compiles(script: Path) -> None:
    source = script.read_text()
    compile(source, script, "exec")
    assert len(source.splitlines()) <= LONGEST


@pytest.mark.integration
def test_bare_script_publishes_itself_and_is_rated(tmp_path: Path) -> None:
    players = standings("bare.py", str(MATCHES), "linear-four", tmp_path)
    assert "bare@1" in players
    assert players["bare"].games > 0


@pytest.mark.integration
@pytest.mark.parametrize(("script", "package", "environment", "name"), TRAINERS)
def test_trainer_publishes_snapshots_and_is_rated(
    script: str, package: str, environment: str, name: str, tmp_path: Path
) -> None:
    require(package)
    players = standings(script, "2", environment, tmp_path)
    assert any(player.startswith(f"{name}@") for player in players)
    assert players[name].games > 0


@pytest.mark.slow
@pytest.mark.parametrize(("script", "package", "environment", "name"), TRAINERS)
def test_trainer_rises_above_random_play(
    script: str, package: str, environment: str, name: str, tmp_path: Path
) -> None:
    require(package)
    players = standings(script, "180" if name == "rllib" else "60", environment, tmp_path)
    assert players[name].conservative > players["random"].rating - players["random"].deviation


@pytest.mark.integration
@pytest.mark.parametrize("trials", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_sweep_rates_its_best_trial(trials: int, tmp_path: Path) -> None:
    require("optuna")
    players = standings("sweep.py", str(trials), "tictactoe-sweep", tmp_path)
    best = max((each for each in players.values() if each.kind == "snapshot"), key=lambda each: each.conservative)
    assert best.games > 0
    if trials > 2:
        assert best.conservative > players["random"].rating


@pytest.mark.slow
def test_exported_onnx_snapshot_is_rated_above_random_play(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXPORT)], cwd=tmp_path, check=True, capture_output=True)
    spec = declare("recall")
    learner = wire.LearnerCreate(name="mine", role="main", environment=spec.name, signature=spec.signature)
    with serving(tmp_path) as server, LeagueClient(server.url) as client:
        with attach(learner, worker="gpu-3", url=server.url, folder=tmp_path / "attached") as session:
            session.publish(tmp_path / "recaller.onnx", step=1000)
        command = [sys.executable, "-m", "trainer", "evaluate", "--environment", "recall", "--duty", "1"]
        variables = os.environ | {"LEAGUE_URL": server.url, "LEAGUE_HOME": str(tmp_path)}
        with subprocess.Popen([*command, "--run", str(tmp_path / "evaluator")], env=variables) as evaluator:
            while client.standings("recall").items[0].games < 64 and evaluator.poll() is None:
                time.sleep(0.5)
            evaluator.terminate()
        client.close_period("recall")
        players = {each.name: each for each in client.standings("recall").items}
    assert players["mine@1000"].conservative > players["random"].rating
