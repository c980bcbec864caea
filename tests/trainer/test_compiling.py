"""Compiled in a process of its own: shapes are not checked there, as in every run outside of these tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.errors import ConfigError

COMPARE = Path(__file__).parents[1] / "support" / "compiled_update.py"


@pytest.mark.parametrize("units", ["16", "64"])
def test_the_way_from_samples_to_loss_compiles_without_a_break_and_changes_nothing(units):
    command = [sys.executable, "-W", "error::UserWarning", str(COMPARE), "eager", units]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["breaks"] == 0
    assert set(found["answers"]) == {"synthetic", "mech-pack"}
    for answer in found["answers"].values():
        assert answer["same_keys"]
        assert answer["same_figures"]
        assert answer["furthest"] < 1e-6


def test_a_backend_that_there_is_not_is_refused_by_name(play):
    with pytest.raises(ConfigError, match=r"ppo.compile is 'turbo': torch knows .*inductor"):
        play(ppo={"compile": "turbo"})


def test_parts_that_are_computed_again_are_refused_for_they_do_not_compile(play):
    with pytest.raises(ConfigError, match=r"ppo.compile is 'eager', but with ppo.recomputed_parts, which is 2.* 0"):
        play(ppo={"compile": "eager", "recomputed_parts": 2})
