"""A disk that is full under a server: calls are refused, what was taken stays, and with room all goes on by itself."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distant_league import League
from league_scene import Scene, result, safetensors, sha256

from league.client import LeagueClient
from league.errors import LeagueError

SIZE_MIB = 8
LEASES, BUDGET = 10, 40


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of some megabytes, where this user may make one."""
    place = tmp_path / "disk"
    place.mkdir()
    options = f"size={SIZE_MIB}m"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no disk of its own: {made.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path) -> Path:
    """Leave no room at all."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for piece in (2**16, 2**12, 1):
            try:
                while file.write(os.urandom(piece)):
                    pass
            except OSError:
                continue
    return filler


def test_a_full_disk_of_the_leagues_home_loses_nothing_that_was_answered(
    serve: Callable[..., League], small_disk: Path
) -> None:
    league = serve(home=small_disk)
    scene = Scene(LeagueClient(http=league.http))
    leases = scene.opponent_leases(LEASES, BUDGET)
    accepted: dict[tuple[str, int], int | None] = {}

    def report_all() -> None:
        for sequence in range(BUDGET):
            for item in scene.report(*(result(lease, sequence) for lease in leases)):
                assert accepted.setdefault((item.lease_id, item.sequence), item.match_id) == item.match_id

    scene.report(result(leases[0]))
    filler = fill(small_disk)
    with pytest.raises(LeagueError) as refusal:
        report_all()
    assert refusal.value.status == 503, "which workers wait out"
    data = safetensors(1, signature=scene.signature)
    with pytest.raises(LeagueError) as refusal:
        scene.client.upload(data, sha256(data))
    assert refusal.value.status == 503
    filler.unlink()
    report_all()
    assert scene.publish(step=1).checkpoint == sha256(data)
    assert len(accepted) == LEASES * BUDGET
    assert league.wrong() == []
