"""The examples of own trainers play in a league."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from served import serving

from league import wire
from league.client import LeagueClient

EXAMPLES = Path(__file__).parents[3] / "examples" / "own_trainer"


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
