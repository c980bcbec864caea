"""What a minimal install may import."""

import subprocess
import sys

import pytest

SERVER_SIDE = ("league.app", "league.cli", "league.client")
TORCH_FREE_ARENA = (
    "arena.glicko2",
    "arena.payoff",
    "arena.matchmaking",
    "arena.promotion",
    "arena.callsigns",
    "arena.seeding",
    "arena.durable",
    "arena.exploitability",
    "arena.environments.registry",
    "arena.environments.spec",
)


@pytest.mark.parametrize("module", SERVER_SIDE + TORCH_FREE_ARENA)
def test_the_server_and_the_arithmetic_load_without_torch(module: str) -> None:
    program = f"import sys, {module}; sys.exit(bool(set(sys.modules) & {{'torch', 'warp'}}))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
