"""Who takes part, and how each is started."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.peers.workload import Work
from benchmarks.trainer.process import Contestant

OURS = "ours"
"""How the names of our rows begin."""

VARIANTS: dict[str, tuple[str, ...]] = {"exact": (), "bf16": ("ppo.precision=bfloat16",)}
"""Settings of ours beyond the defaults, by the name of a row."""

SCRIPTS = Path(__file__).parent.parent / "peers"


@dataclass(frozen=True)
class Scene:
    """A team battle: what is played, by how many, on what."""

    environment: str = "mech-company"
    environments: int = 256
    opponents: int = 16
    threads: int = 2
    device: str = "cpu"


@dataclass(frozen=True)
class Peer:
    """A script below `benchmarks/peers`, and what is worth knowing about its numbers."""

    script: str
    remark: str
    settings: Mapping[str, str] = field(default_factory=dict)


PEERS = {
    "pufferlib": Peer(
        "run_pufferlib.py", "horizon 64, its default: memory zeroed in mid-rollout", {"PUFFER_HORIZON": "64"}
    ),
    "pufferlib-128": Peer(
        "run_pufferlib.py", "horizon 128: memory never cleared at episode ends", {"PUFFER_HORIZON": "128"}
    ),
    "sample_factory": Peer("run_sample_factory.py", "one process, synchronous, recurrence 16"),
    "rsl_rl": Peer("run_rsl_rl.py", "separate networks for actor and critic"),
    "cleanrl": Peer("run_cleanrl.py", "the recipe, in our words"),
    "sb3": Peer("run_sb3.py", "the same network; the critic does not train the LSTM"),
    "sb3-defaults": Peer("run_sb3.py", "MlpLstmPolicy as it comes", {"SB3_DEFAULTS": "1"}),
}


@dataclass(frozen=True)
class Entry:
    """One row: a command, and what it is called."""

    name: str
    command: tuple[str, ...]
    remark: str
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def ours(self) -> bool:
        return self.name.startswith(OURS)

    def start(self, work: Work) -> Contestant:
        """Start the process; see `Contestant`."""
        return Contestant(self.command, work, self.settings)

    def still(self, work: Work) -> Contestant:
        """The same at learning rate 0."""
        return self.start(replace(work, learning_rate=0.0))


def own(variant: str) -> Entry:
    """A variant of this project's trainer."""
    command = (sys.executable, "-m", "benchmarks.trainer.echelon", variant)
    return Entry(f"{OURS}, {variant}", command, "")


def other(argument: str) -> Entry:
    """A peer from NAME=PYTHON.

    Raises:
        ValueError: The name is none of `PEERS`, or there is no such interpreter.
    """
    name, _, python = argument.partition("=")
    if name not in PEERS:
        raise ValueError(f"--peer {argument}: {name!r} is not known; choose from {', '.join(PEERS)}")
    if not Path(python).is_file():
        raise ValueError(f"--peer {argument}: there is no interpreter {python!r}; make a virtual environment first")
    peer = PEERS[name]
    return Entry(name, (python, str(SCRIPTS / peer.script)), peer.remark, peer.settings)
