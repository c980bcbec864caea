"""What a minimal install may import."""

import subprocess
import sys

import pytest

SERVER_SIDE = ("league.client", "league.cli", "league.app", "league.bookkeeping")
TORCH_FREE_ARENA = (
    "arena.glicko2",
    "arena.payoff",
    "arena.cycles",
    "arena.forgetting",
    "arena.matchmaking",
    "arena.promotion",
    "arena.callsigns",
    "arena.seeding",
    "arena.durable",
    "arena.exploitability",
    "arena.environments.registry",
    "arena.environments.spec",
    "arena.environments.processes.worker",
    "arena.environments.own.game",
    "arena.environments.pettingzoo.game",
)


TRAINER = ("trainer.cli", "trainer.worker", "trainer.evaluator")

SLOW_TO_LOAD = ("scipy.stats", "torch._dynamo", "tensorboard", "wandb")
"""Each takes half a second or more, and few need it."""

PROGRAM = """
import importlib, sys
_, unwanted, *modules = sys.argv
for module in modules:
    importlib.import_module(module)
    if loaded := set(unwanted.split()) & set(sys.modules):
        sys.exit(f"{module} loads {loaded}")
"""


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (TORCH_FREE_ARENA, ("torch", "warp", *SLOW_TO_LOAD)),
        (SERVER_SIDE, ("torch", "warp", *SLOW_TO_LOAD)),
        (TRAINER, SLOW_TO_LOAD),
    ],
    ids=["arithmetic", "server", "trainer"],
)
def test_nothing_loads_what_it_can_do_without(modules: tuple[str, ...], unwanted: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, " ".join(unwanted), *modules]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""
