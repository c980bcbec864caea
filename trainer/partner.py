"""A partner's process: it takes its share of every minibatch through the network and back, and leaves when told to.

    python -m trainer.partner SETUP NUMBER SOCKET MEMORY

Started by `trainer.partners`. SETUP is a `board.Setup` as JSON; SOCKET and MEMORY are files that it inherits. What is
said between the two, in this order:

    trainer                                         partner
                                                    ready
    epoch(first, seed, segments, minibatches)                       targets and order are on the board
    step(minibatch, decisions, predicted)                           values and weights are on the board
                                                    done            figures and gradient of its share are on its desk
    ...                                             failed(reason)  at any time, and then nothing more
"""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float, Int
from pydantic import TypeAdapter
from torch import Tensor

from arena.policies.network import make_skeleton
from trainer.auxiliary import NextObservation
from trainer.board import Board, Setup, below
from trainer.channel import Channel, Message
from trainer.chunks import Segments, cut
from trainer.machine import keep_freed_memory
from trainer.optimizer import AUXILIARY, learned, parts, put_gradients
from trainer.samples import Samples
from trainer.weighing import Lot, Part, Weigher

DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a whole group of processes may get: a partner stays as long as its trainer does."""


REASON_LENGTH = 300
"""Most characters of a reason: JSON spells one with up to 12 bytes."""


class Word(StrEnum):
    """How messages begin."""

    READY = "ready"
    EPOCH = "epoch"
    STEP = "step"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Share:
    """What a partner has of a minibatch, the first part of it already gathered: that does not hang on weights."""

    minibatch: int
    lots: list[Lot]
    first: tuple[Samples, ...]

    @property
    def counts(self) -> Float[Tensor, " parts"]:
        """Decisions of each part that carry loss."""
        return torch.tensor([float(lot.counts.sum()) for lot in self.lots])


class Partner:
    """Takes part in the updates of another process.

    Args:
        setup: As the trainer's.
        number: Which of the partners it is, from 0.
        board: What both see.
        channel: To the trainer.
    """

    def __init__(self, setup: Setup, number: int, board: Board, channel: Channel) -> None:
        self._setup, self._number, self._board, self._channel = setup, number, board, channel
        network = make_skeleton(setup.architecture)  # its tensors are those on the board
        with torch.device("meta"):
            auxiliary = NextObservation(network) if setup.ppo.auxiliary_weight else None
        self._desk = board.desks[number]
        everything = parts(board.values, learned(network, auxiliary)) | board.statistics
        of_auxiliary = below(everything, f"{AUXILIARY}.")
        if auxiliary is not None:
            auxiliary.load_state_dict(of_auxiliary, assign=True)
        own = {name: tensor for name, tensor in everything.items() if not name.startswith(f"{AUXILIARY}.")}
        network.load_state_dict(own, assign=True)
        put_gradients(learned(network, auxiliary), self._desk.gradient)
        self._rng = torch.Generator()
        self._weigher = Weigher(network.train(), setup.ppo, auxiliary, self._rng)
        self._order: tuple[Int[Tensor, " _"], ...] = ()
        self._next: Share | None = None

    def serve(self) -> None:
        """Do what the trainer asks for until it leaves; what goes wrong is told to it."""
        try:
            self._channel.send(Word.READY)
            while (message := self._channel.receive()) is not None:
                self._answer(message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the trainer goes on without this partner
            self._channel.send(Word.FAILED, f"{type(error).__name__}: {error}"[:REASON_LENGTH])

    def _answer(self, message: Message) -> None:
        match message:
            case [Word.EPOCH, first, seed, segments, minibatches]:
                self._open(first, seed, segments, minibatches)
            case [Word.STEP, minibatch, count, predicted]:
                self._step(minibatch, torch.tensor(count), torch.tensor(predicted), self._board.weights)
            case _:
                return

    def _open(self, first: bool, seed: int, segments: int, minibatches: int) -> None:
        rollout = self._board.rollout
        if first:
            self._segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        self._rng.manual_seed(seed)
        self._order = self._board.order[:segments].tensor_split(minibatches)
        self._next = self._take(0)

    def _take(self, minibatch: int) -> Share | None:
        """Its share of a minibatch; None behind the epoch's last one."""
        if minibatch >= len(self._order):
            return None
        own: Segments = self._segments.share(self._order[minibatch], 1 + self._number, 1 + self._setup.partners)
        lots = self._weigher.lots(self._board.targets, own)
        return Share(minibatch, lots, tuple(self._gather(lot) for lot in lots[:1]))

    def _gather(self, lot: Lot) -> Samples:
        return self._weigher.gather(self._board.rollout, self._board.targets, lot)

    def _step(self, minibatch: int, count: Tensor, predicted: Tensor, weights: Tensor) -> None:
        share = self._next if self._next is not None and self._next.minibatch == minibatch else self._take(minibatch)
        if share is None:
            raise IndexError(f"minibatch {minibatch} of {len(self._order)}")
        self._desk.gradient.zero_()
        weighed = self._weigher.weigh(self._samples(share), share.counts / count, predicted, weights)
        if weighed:
            self._desk.figures.copy_(Part.merged(weighed, share.counts / share.counts.sum()).flatten())
        self._channel.send(Word.DONE)
        self._next = self._take(minibatch + 1)

    def _samples(self, share: Share) -> Iterator[Samples]:
        yield from share.first
        for lot in share.lots[1:]:
            yield self._gather(lot)


def main(arguments: list[str]) -> None:
    """Serve the trainer that started this process."""
    for name in DEAF_TO:
        signal.signal(name, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    setup, number, channel, memory = arguments
    known = TypeAdapter(Setup).validate_json(setup)
    board = Board.open(known, int(memory))
    with contextlib.closing(Channel(socket.socket(fileno=int(channel)))) as line:
        Partner(known, int(number), board, line).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # there is nothing to tidy up, and a trainer that ends waits for it
