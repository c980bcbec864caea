"""The work that every trainer of `benchmarks.trainer` does, and the talk with the benchmark that asks for it.

Runs under the interpreter of each library and needs numpy and torch alone. The benchmark starts one process per trainer
with its `Work` as JSON. The process says `{"version": ..., "forward_flop": ...}` once it stands, and then answers
every line on standard input with one line of JSON:

    iterate     one rollout and its update: `rollout_s`, `update_s`, and at learning rate 0 `ratio_error`
    shake       noise is added to all weights, so that the policy depends on all that it computes
    act         so many network steps with sampling and log-probability, no environment: `rows`, `act_s` of one step

`ratio_error` is the largest |ratio - 1| of the update's first minibatch: as nothing has been learned since the rollout,
anything above rounding says that the update's forward pass is not the rollout's. Policies begin with an output layer so
small that they hardly listen to their memory, which would hide an error in it: it is measured once more after `shake`.
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
"""Observations drawn ahead, shown in turn."""

NOISE = 0.05
"""Standard deviation of what `shake` adds."""

ACT_STEPS = 256
"""Network steps that one `act` measures."""


@dataclass(frozen=True)
class Work:
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
        """Seconds: of the wall, or of this process alone where one thread runs on a crowded machine."""
        return time.process_time if self.processor_time else time.perf_counter

    @property
    def minibatch(self) -> int:
        """Environment steps of a minibatch."""
        return self.samples // self.minibatches


class Frames:
    """Random observations and episode ends, drawn ahead: an environment that costs almost nothing to step."""

    def __init__(self, work: Work) -> None:
        rng = np.random.default_rng(0)
        shape = (FRAMES, work.environments)
        self._observations = rng.standard_normal((*shape, work.observation_size), dtype=np.float32)
        self._ends = rng.random(shape) < work.end_chance
        self._frame = 0

    @property
    def observation(self) -> np.ndarray:
        """What is seen now, (environments, observation_size)."""
        return self._observations[self._frame]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Observation, reward and whether the episode has ended; rewards are the mean of the actions."""
        self._frame = (self._frame + 1) % FRAMES
        return self.observation, actions.mean(axis=-1, dtype=np.float32), self._ends[self._frame]


class Trainer(Protocol):
    """What a library's script offers."""

    version: str
    network: torch.nn.Module

    def rollout(self) -> None:
        """Collect one rollout."""

    def update(self) -> None:
        """Learn from it."""

    def ratio_error(self) -> float:
        """Largest |ratio - 1| of the last update's first minibatch."""


class Talk:
    """Standard input and output as lines of JSON; whatever a library prints goes to standard error."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def requests(self) -> Iterator[list[str]]:
        """Words of every line, until the benchmark hangs up."""
        for line in sys.stdin:
            yield line.split()

    def answer(self, **values: Any) -> None:  # noqa: ANN401 - JSON
        """Send one line."""
        print(json.dumps(values), file=self._answers, flush=True)


def begin() -> tuple[Work, Talk]:
    """The work from the command line, with as many threads as it says."""
    talk, work = Talk(), Work(**json.loads(sys.argv[1]))
    torch.manual_seed(0)
    torch.set_num_threads(work.threads)
    return work, talk


def serve(make: Callable[[Work], Trainer], **more: Callable[[Work], dict[str, float]]) -> None:
    """Build a trainer and let it do what the benchmark asks for; `more` answers further requests."""
    work, talk = begin()
    trainer = make(work)
    talk.answer(version=trainer.version, forward_flop=forward_flop(trainer.network))
    for request in talk.requests():
        if request[0] in more:
            talk.answer(**more[request[0]](work))
        elif request[0] == "shake":
            talk.answer(**shake(trainer.network))
        elif request[0] == "act":
            talk.answer(**act(trainer, int(request[1]), work.clock))
        else:
            talk.answer(**iterate(trainer, work.clock, still=work.learning_rate == 0))
    hang_up()


def hang_up() -> None:
    """Leave at once, whatever threads a library may still run."""
    os._exit(0)


def iterate(trainer: Trainer, clock: Callable[[], float], *, still: bool) -> dict[str, float]:
    """Times of one rollout and its update, and with a learning rate of 0 what the first minibatch saw."""
    started = clock()
    trainer.rollout()
    collected = clock()
    trainer.update()
    seconds = {"rollout_s": collected - started, "update_s": clock() - collected}
    return {**seconds, "ratio_error": trainer.ratio_error()} if still else seconds


def act(trainer: Trainer, rows: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of one network step of so many rows; nothing where the library's step cannot be called alone."""
    if not hasattr(trainer, "actor"):
        return {}
    step = trainer.actor(rows)
    step()
    started = clock()
    for _ in range(ACT_STEPS):
        step()
    return {"rows": rows, "act_s": (clock() - started) / ACT_STEPS}


def forward_flop(network: torch.nn.Module) -> int:
    """Floating point operations of one forward step of one row: two for each entry of each weight matrix."""
    return sum(2 * weight.numel() for weight in network.parameters() if weight.ndim == 2 and len(weight) > 1)


@torch.no_grad()
def shake(network: torch.nn.Module) -> dict[str, float]:
    """Add noise to every weight matrix."""
    for weight in network.parameters():
        if weight.ndim == 2 and len(weight) > 1:
            weight += NOISE * torch.randn_like(weight)
    return {"noise": NOISE}


def largest_deviation(ratio: torch.Tensor) -> float:
    """How far a ratio is from 1 where it is farthest."""
    return float((ratio - 1.0).abs().max())
