"""Trainers that can be compared, and the command of each."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.peers.workload import Workload
from benchmarks.trainer.process import TrainerProcess

OURS = "ours"
"""Prefix of the names of our variants."""

VARIANTS: dict[str, tuple[str, ...]] = {"exact": (), "bf16": ("ppo.precision=bfloat16",)}
"""Variants of ours: settings beyond the defaults, by name."""

SCRIPTS = Path(__file__).parent.parent / "peers"


@dataclass(frozen=True)
class BattleSetup:
    """Settings of a team battle benchmark."""

    environment: str = "mech-company"
    environments: int = 256
    opponents: int = 16
    threads: int = 2
    device: str = "cpu"


@dataclass(frozen=True)
class Peer:
    """A script in `benchmarks/peers`, and a remark on its numbers."""

    script: str
    remark: str
    settings: Mapping[str, str] = field(default_factory=dict)


PEERS = {
    "pufferlib": Peer(
        "run_pufferlib.py", "horizon 64, its default: state zeroed in mid-rollout", {"PUFFER_HORIZON": "64"}
    ),
    "pufferlib-128": Peer(
        "run_pufferlib.py", "horizon 128: state never reset at episode ends", {"PUFFER_HORIZON": "128"}
    ),
    "sample_factory": Peer("run_sample_factory.py", "one process, synchronous, recurrence 16"),
    "rsl_rl": Peer("run_rsl_rl.py", "separate networks for actor and critic"),
    "cleanrl": Peer("run_cleanrl.py", "own code after ppo_atari_lstm.py"),
    "sb3": Peer("run_sb3.py", "the same network; the critic does not train the LSTM"),
    "sb3-defaults": Peer("run_sb3.py", "MlpLstmPolicy with its defaults", {"SB3_DEFAULTS": "1"}),
}


@dataclass(frozen=True)
class Entry:
    """One trainer of the table: its name and command."""

    name: str
    command: tuple[str, ...]
    remark: str
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def ours(self) -> bool:
        return self.name.startswith(OURS)

    def start(self, work: Workload) -> TrainerProcess:
        """Start the process."""
        return TrainerProcess(self.command, work, self.settings)

    def start_frozen(self, work: Workload) -> TrainerProcess:
        """Start the process with learning rate 0."""
        return self.start(replace(work, learning_rate=0.0))


def own_entry(variant: str) -> Entry:
    """Return a variant of this project's trainer."""
    command = (sys.executable, "-m", "benchmarks.trainer.echelon", variant)
    return Entry(f"{OURS}, {variant}", command, "")


def peer_entry(argument: str) -> Entry:
    """Return a peer from NAME=PYTHON.

    Raises:
        ValueError: The name is not in `PEERS`, or the interpreter does not exist.
    """
    name, _, python = argument.partition("=")
    if name not in PEERS:
        raise ValueError(f"--peer {argument}: {name!r} is not known; choose from {', '.join(PEERS)}")
    if not Path(python).is_file():
        raise ValueError(f"--peer {argument}: there is no interpreter {python!r}; make a virtual environment first")
    peer = PEERS[name]
    return Entry(name, (python, str(SCRIPTS / peer.script)), peer.remark, peer.settings)
