"""Workload of `benchmarks.trainer`, and the protocol between the benchmark and a trainer process.

Runs under the interpreter of each library and needs only numpy and torch. The benchmark starts one process per trainer
with its `Workload` as JSON. The process first prints `{"version": ..., "forward_flop": ...}`. Then it answers every
line on standard input with one line of JSON:

    iterate     one rollout and its update: `rollout_s`, `update_s`, and at learning rate 0 `ratio_error`
    perturb     add noise to all weights
    act         network steps with sampling and log-probability, no environment: `rows`, `act_s` of one step

`ratio_error` is the largest |ratio - 1| of the first minibatch. Nothing was learned since the rollout, so any error
above rounding means that the forward pass of the update differs from that of the rollout. Fresh policies have a small
output layer and hardly depend on their recurrent state, which hides such an error. So it is measured again after
`perturb`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

FRAMES = 997
"""Number of precomputed observations, used in turn."""

NOISE = 0.05
"""Standard deviation of the noise of `perturb`."""

ACT_STEPS = 256
"""Network steps of one `act`."""


@dataclass(frozen=True)
class Workload:
    """Sizes of one iteration."""

    environments: int = 64
    steps: int = 128
    observation_size: int = 64
    action_size: int = 9
    encoder: int = 128
    memory: int = 128
    epochs: int = 4
    minibatches: int = 4
    end_chance: float = 0.01
    learning_rate: float = 3e-4
    threads: int = 1
    processor_time: bool = False

    @property
    def samples(self) -> int:
        """Environment steps of an iteration."""
        return self.environments * self.steps

    @property
    def clock(self) -> Callable[[], float]:
        """Clock in seconds: wall time, or CPU time of this process."""
        return time.process_time if self.processor_time else time.perf_counter

    @property
    def minibatch(self) -> int:
        """Environment steps of a minibatch."""
        return self.samples // self.minibatches


class FrameStream:
    """Precomputed random observations and episode ends: an environment that is almost free to step."""

    def __init__(self, work: Workload) -> None:
        rng = np.random.default_rng(0)
        shape = (FRAMES, work.environments)
        self._observations = rng.standard_normal((*shape, work.observation_size), dtype=np.float32)
        self._ends = rng.random(shape) < work.end_chance
        self._frame = 0

    @property
    def observation(self) -> np.ndarray:
        """Current observation, shape (environments, observation_size)."""
        return self._observations[self._frame]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return observation, reward (the mean of the actions) and the end of the episode."""
        self._frame = (self._frame + 1) % FRAMES
        return self.observation, actions.mean(axis=-1, dtype=np.float32), self._ends[self._frame]


class Trainer(Protocol):
    """Interface of a library's script."""

    version: str
    network: torch.nn.Module

    def rollout(self) -> None:
        """Collect one rollout."""

    def update(self) -> None:
        """Run the update on it."""

    def ratio_error(self) -> float:
        """Largest |ratio - 1| of the last update's first minibatch."""


class JsonChannel:
    """Lines of JSON over standard input and output. Prints of a library go to standard error."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def requests(self) -> Iterator[list[str]]:
        """Yield the words of every line until standard input closes."""
        for line in sys.stdin:
            yield line.split()

    def answer(self, **values: Any) -> None:  # noqa: ANN401 - JSON
        """Send one line."""
        print(json.dumps(values), file=self._answers, flush=True)


def start() -> tuple[Workload, JsonChannel]:
    """Return the workload from the command line and the channel, after setting seed and threads."""
    talk, work = JsonChannel(), Workload(**json.loads(sys.argv[1]))
    torch.manual_seed(0)
    torch.set_num_threads(work.threads)
    return work, talk


def serve(make: Callable[[Workload], Trainer], **more: Callable[[Workload], dict[str, float]]) -> None:
    """Build a trainer and answer requests; `more` holds additional ones by name."""
    work, talk = start()
    trainer = make(work)
    talk.answer(version=trainer.version, forward_flop=forward_flop(trainer.network))
    for request in talk.requests():
        if request[0] in more:
            talk.answer(**more[request[0]](work))
        elif request[0] == "perturb":
            talk.answer(**perturb(trainer.network))
        elif request[0] == "act":
            talk.answer(**act(trainer, int(request[1]), work.clock))
        else:
            talk.answer(**iterate(trainer, work.clock, frozen=work.learning_rate == 0))
    exit_now()


def exit_now() -> None:
    """Exit at once, even if a library still runs threads."""
    os._exit(0)


def iterate(trainer: Trainer, clock: Callable[[], float], *, frozen: bool) -> dict[str, float]:
    """Return the times of one rollout and its update, and the ratio error if weights are frozen."""
    started = clock()
    trainer.rollout()
    collected = clock()
    trainer.update()
    seconds = {"rollout_s": collected - started, "update_s": clock() - collected}
    return {**seconds, "ratio_error": trainer.ratio_error()} if frozen else seconds


def act(trainer: Trainer, rows: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the seconds of one network step, or nothing if the library has no separate step."""
    if not hasattr(trainer, "actor"):
        return {}
    step = trainer.actor(rows)
    step()
    started = clock()
    for _ in range(ACT_STEPS):
        step()
    return {"rows": rows, "act_s": (clock() - started) / ACT_STEPS}


def forward_flop(network: torch.nn.Module) -> int:
    """Return the FLOP of one forward step of one row: two per entry of each weight matrix."""
    return sum(2 * weight.numel() for weight in network.parameters() if weight.ndim == 2 and len(weight) > 1)


@torch.no_grad()
def perturb(network: torch.nn.Module) -> dict[str, float]:
    """Add noise to every weight matrix."""
    for weight in network.parameters():
        if weight.ndim == 2 and len(weight) > 1:
            weight.add_(torch.randn_like(weight), alpha=NOISE)
    return {"noise": NOISE}


def largest_deviation(ratio: torch.Tensor) -> float:
    """Return the largest |ratio - 1|."""
    return float((ratio - 1.0).abs().max())
