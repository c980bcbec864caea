"""`league admin prune` says what would go, and lets it go."""

import json
from pathlib import Path
from typing import Any

from league_command import Run
from league_scene import Scene
from refused import assert_names

from league import wire


def test_prune_dry_run_counts_what_a_run_deletes(
    command: Run, scene: Scene, snapshot: wire.Player, time: Any, tmp_path: Path
) -> None:
    time.now = time.now.replace(year=2001)  # the command reads the clock of the machine
    scene.opponent_leases(3)
    announced = json.loads(command("admin", "prune", "--dry-run", "--json", "--home", tmp_path).out)
    assert announced["dry_run"] is True
    assert announced["leases"] >= 3
    done = command("admin", "prune", "--home", tmp_path)
    assert done.code == 0
    assert_names(done.out, announced["leases"], 0)
    assert json.loads(command("admin", "prune", "--json", "--home", tmp_path).out)["leases"] == 0


def test_prune_rejects_a_limit_within_the_lease_grace(command: Run, scene: Scene, tmp_path: Path) -> None:
    outcome = command("admin", "prune", "--older-than", "0.01d", "--home", tmp_path)
    assert outcome.code == 2
    assert_names(outcome.one_line_error, "1:00:00")
    assert "--older-than 1h or more" in outcome.one_line_error
