"""What a minimal install may import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SERVER_SIDE = ("league.client", "league.cli", "league.app", "league.background.process")
TORCH_FREE_ARENA = (
    "arena.ratings.glicko2",
    "arena.evaluation.payoff",
    "arena.evaluation.intransitivity",
    "arena.evaluation.forgetting",
    "arena.matchmaking.distribution",
    "arena.population.promotion",
    "arena.population.callsigns",
    "arena.seeding",
    "arena.atomic_files",
    "arena.exploitability",
    "arena.environments.registry",
    "arena.environments.spec",
    "arena.environments.adapters.subprocess.worker",
    "arena.environments.adapters.custom.game",
    "arena.environments.adapters.pettingzoo.game",
)


TRAINER = ("trainer.cli.run", "trainer.cli.enter", "trainer.runtime.train", "trainer.evaluation.evaluator")

SLOW_TO_LOAD = ("scipy.stats", "torch._dynamo", "tensorboard", "wandb", "mlflow")
"""Each takes half a second or more, and few need it."""

PROGRAM = """
import importlib, sys
_, unwanted, *modules = sys.argv
for module in modules:
    importlib.import_module(module)
    if loaded := set(unwanted.split()) & set(sys.modules):
        sys.exit(f"{module} loads {loaded}")
"""


@pytest.mark.holds("I7")
@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (TORCH_FREE_ARENA, ("torch", "warp", *SLOW_TO_LOAD)),
        (SERVER_SIDE, ("torch", "warp", *SLOW_TO_LOAD)),
        (TRAINER, SLOW_TO_LOAD),
        (("league.client",), ("numpy", "typer", "rich")),
    ],
    ids=["arithmetic", "server", "trainer", "client"],
)
def test_modules_load_heavy_packages_lazily(modules: tuple[str, ...], unwanted: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, " ".join(unwanted), *modules]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""


STARTS = """
import sys
from trainer.cli import main
try:
    main(sys.argv[1:])
finally:
    print({"torch._dynamo", "sympy"} & set(sys.modules))
"""


@pytest.mark.parametrize("game", [("rps",), ("recall", "--set", "league.snapshot_every_steps=64")])
def test_a_trainer_starts_and_learns_without_the_compiler(game: tuple[str, ...], tmp_path: Path) -> None:
    """Loading it takes more than a second and 70 MB. The second game loads its own snapshots as opponents."""
    sizes = ("environment.num_envs=4", "rollout.num_steps=16", "rollout.bptt_horizon=16", "ppo.num_minibatches=2")
    given = [word for each in sizes for word in ("--set", each)]
    run = ["run", "--run", str(tmp_path / "run"), "--total-timesteps", "512", "--environment", *game, *given]
    command = [sys.executable, "-c", STARTS, *run]
    environment = {name: value for name, value in os.environ.items() if name != "LEAGUE_URL"} | {"HOME": str(tmp_path)}
    finished = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert finished.stdout.splitlines()[-1:] == ["set()"], finished.stderr
