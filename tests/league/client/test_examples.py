"""The examples of own trainers play in a league."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from served import serving

from arena.environments import declare
from league import wire
from league.client import LeagueClient, attach

EXAMPLES = Path(__file__).parents[3] / "examples" / "own_trainer"
EXPORT = EXAMPLES.parent / "external" / "export_onnx.py"


def standings(script: str, argument: str, environment: str, home: Path) -> dict[str, wire.StandingsItem]:
    """Run an example against a server, and return the rated players by name."""
    with serving(home) as server, LeagueClient(server.url) as client:
        variables = os.environ | {"LEAGUE_URL": server.url, "LEAGUE_HOME": str(home)}
        subprocess.run([sys.executable, str(EXAMPLES / script), argument], check=True, env=variables)
        client.close_period(environment)
        return {each.name: each for each in client.standings(environment).items}


@pytest.mark.integration
def test_bare_script_publishes_itself_and_is_rated(tmp_path: Path) -> None:
    players = standings("bare.py", "8", "linear-four", tmp_path)
    assert "bare@1" in players
    assert players["bare"].games > 0


@pytest.mark.slow
def test_ppo_rises_above_random_play(tmp_path: Path) -> None:
    players = standings("ppo.py", "60", "connect-four", tmp_path)
    assert players["ppo"].conservative > players["random"].rating - players["random"].deviation


@pytest.mark.slow
def test_stable_baselines3_rises_above_random_play(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    players = standings("sb3.py", "60", "connect-four-sb3", tmp_path)
    assert players["sb3"].conservative > players["random"].rating - players["random"].deviation


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
