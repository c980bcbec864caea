"""Processes beside the trainer's own that take shares of every minibatch of an update.

Small operations keep a second thread of torch waiting, and Python lets one thread on at a time; a process has neither
trouble. Each takes its share of the segments through a network of its own, whose weights the trainer writes before
every step, and leaves its gradient where the trainer adds it up, partner by partner: the sum never hangs on who was
faster. What is said between them stands in `trainer.partner`.
"""

import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from pydantic import TypeAdapter
from torch import Tensor

from arena.policies import ActorCritic
from trainer.auxiliary import NextObservation
from trainer.board import Board, Setup, statistics
from trainer.channel import Channel, Message, pair
from trainer.chunks import Segments
from trainer.machine import residence
from trainer.optimizer import Optimizer
from trainer.partner import Word
from trainer.samples import Targets
from trainer.weighing import Part, Weigher

Order = Sequence[Int[Tensor, " _"]]
"""Numbers of segments in each minibatch of an epoch."""

SILENT_S = 300.0
"""How long a partner may take to begin, or for its share of a minibatch: one that says nothing then is stopped."""

LEAVING_S = 5.0
"""How long a partner that was told to leave may take."""


class PartnerLostError(Exception):
    """A partner has ended, cannot go on, or does not answer."""


@runtime_checkable
class Process(Protocol):
    """A partner's process, as `subprocess.Popen` is one."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


Launch = Callable[[Setup, int, int, int], Process]
"""Starts a partner: the setup, its number, its end of the channel and the board's memory."""


def launch(setup: Setup, number: int, channel: int, memory: int) -> Process:
    """Start a partner as a process of its own, with one thread."""
    known = TypeAdapter(Setup).dump_json(setup).decode()
    imported_from = [folder or str(Path.cwd()) for folder in sys.path]
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "trainer.partner", known, str(number), str(channel), str(memory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(channel, memory),
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(imported_from)},
    )


@dataclass(frozen=True)
class Minibatch:
    """One step of an epoch.

    Attributes:
        number: From 0.
        chosen: Numbers of all its segments.
        own: What the trainer's own process takes of it.
        others: How many decisions that carry loss each partner has of it.
    """

    number: int
    chosen: Int[Tensor, " s"]
    own: Segments
    others: Float[Tensor, " partners"]

    def alone(self, segments: Segments) -> "Minibatch":
        """The same without partners, of the segments that it is of."""
        if not len(self.others):
            return self
        return Minibatch(self.number, self.chosen, segments.take(self.chosen), self.others[:0])


class Nobody:
    """There is no partner: the trainer's own process takes all of every minibatch."""

    rollout, peak_bytes = None, 0

    def open(
        self, weigher: Weigher, targets: Targets, segments: Segments, order: Order, rng: torch.Generator, *, first: bool
    ) -> list[Minibatch]:
        """The epoch's minibatches."""
        nobody = segments.state.hidden.new_empty(0)
        return [Minibatch(number, chosen, segments.take(chosen), nobody) for number, chosen in enumerate(order)]

    def ask(self, minibatch: Minibatch, count: Tensor, predicted: Tensor, weights: Tensor) -> None:
        """Nobody is asked."""

    def figures(self, minibatch: Minibatch) -> list[Part]:
        """Nobody has any."""
        return []

    def add_gradients(self, gradient: Float[Tensor, " numbers"]) -> None:
        """Nobody has any."""

    def close(self) -> None:
        """There is nothing to leave."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Torch has all its threads."""
        yield


NOBODY = Nobody()


class Partners:
    """The partners of one learner; they leave when this is closed, forgotten, or its process ends for any reason.

    Args:
        setup: What all know.
        network: Learns.
        auxiliary: Predicts observations, or nothing does.
        optimizer: Moves both.
        launch: Starts a partner.

    Attributes:
        rollout: Memory for rollouts that partners see.

    Raises:
        OSError: This system gives no memory, or starts no process.
    """

    def __init__(
        self,
        setup: Setup,
        network: ActorCritic,
        auxiliary: NextObservation | None,
        optimizer: Optimizer,
        launch: Launch = launch,
    ) -> None:
        self._setup = setup
        self._board, memory = Board.create(setup)
        self.rollout = self._board.rollout
        self._values, self._statistics = optimizer.values, statistics(network, auxiliary)
        self._channels: list[Channel] = []
        self._processes: list[Process] = []
        self.close = weakref.finalize(self, _leave, self._channels, self._processes)
        self._ready = False
        try:
            for number in range(setup.partners):
                self._start(launch, number, memory)
        except OSError:
            self.close()
            raise
        finally:
            os.close(memory)

    @property
    def peak_bytes(self) -> int:
        """Most memory that all of them have had resident beside the board; 0 for those who have ended."""
        each = [residence(process.pid) for process in self._processes]
        return sum(taken.peak_bytes - taken.shared_bytes for taken in each)

    def open(
        self, weigher: Weigher, targets: Targets, segments: Segments, order: Order, rng: torch.Generator, *, first: bool
    ) -> list[Minibatch]:
        """Tell partners of an epoch.

        Args:
            weigher: Of the trainer.
            targets: Of the epoch.
            segments: Of the whole rollout.
            order: Numbers of the segments in each minibatch.
            rng: Chance, of which partners are given some.
            first: Whether the rollout is a new one.
        """
        for mine, own in zip(vars(self._board.targets).values(), vars(targets).values(), strict=True):
            mine.copy_(own)
        torch.cat(list(order), out=self._board.order[: len(segments)])
        for name, tensor in self._statistics.items():
            self._board.statistics[name].copy_(tensor)
        seeds = torch.randint(2**62, (len(self._channels),), generator=rng).tolist()
        for channel, seed in zip(self._channels, seeds, strict=True):
            channel.send(Word.EPOCH, first, seed, len(segments), len(order))
        counts, among = weigher.counts_of_each(targets, segments), 1 + len(self._channels)
        return [self._minibatch(number, segments, chosen, counts, among) for number, chosen in enumerate(order)]

    def ask(self, minibatch: Minibatch, count: Tensor, predicted: Tensor, weights: Tensor) -> None:
        """Let all take their shares of a minibatch through the network and back, with the weights of now."""
        self._board.values.copy_(self._values)
        self._board.weights.copy_(weights)
        for channel in self._channels:
            channel.send(Word.STEP, minibatch.number, float(count), float(predicted))

    def figures(self, minibatch: Minibatch) -> list[Part]:
        """What the shares come to of all partners that have decisions in the minibatch.

        Raises:
            PartnerLostError: One has ended, or does not answer.
        """
        self._hear(Word.DONE)
        desks = zip(self._board.desks, minibatch.others.tolist(), strict=True)
        return [Part.of(desk.figures) for desk, decisions in desks if decisions]

    def add_gradients(self, gradient: Float[Tensor, " numbers"]) -> None:
        """Add those of all partners, in their order, which are there since they gave their figures."""
        for desk in self._board.desks:
            gradient.add_(desk.gradient)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Torch has its share of threads in this process."""
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, before // (1 + len(self._channels))))
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _start(self, launch: Launch, number: int, memory: int) -> None:
        own, theirs = pair()
        with theirs:
            self._channels.append(Channel(own))
            self._processes.append(launch(self._setup, number, theirs.fileno(), memory))

    def _minibatch(self, number: int, segments: Segments, chosen: Tensor, counts: Tensor, among: int) -> Minibatch:
        dealt = segments.longest_first(chosen)
        others = torch.stack([counts[dealt[place::among]].sum() for place in range(1, among)])
        return Minibatch(number, chosen, segments.share(chosen, 0, among), others)

    def _hear(self, word: Word) -> None:
        if not self._ready:
            self._expect(Word.READY)
            self._ready = True
        self._expect(word)

    def _expect(self, word: Word) -> None:
        """Wait until all have said it."""
        for number, (channel, process) in enumerate(zip(self._channels, self._processes, strict=True), 1):
            name = f"update process {number} (pid {process.pid})"
            try:
                message = channel.receive(SILENT_S)
            except TimeoutError as error:
                raise PartnerLostError(f"{name} has not answered for {SILENT_S:g} s, and is ended") from error
            if message != [word]:
                raise PartnerLostError(f"{name} {_ending(message)}")


def _ending(message: Message | None) -> str:
    match message:
        case None:
            return "has ended"
        case [Word.FAILED, reason]:
            return f"cannot go on: {reason}"
        case _:
            return f"said {message!r} out of turn"


def _leave(channels: Sequence[Channel], processes: Sequence[Process]) -> None:
    """Close all channels, which tells partners to leave, and see them go."""
    for channel in channels:
        channel.close()
    for process in processes:
        try:
            process.wait(LEAVING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
