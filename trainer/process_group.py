"""Collective operations of a data-parallel run.

Each rank plays its own environments. Gradients, statistics and early stops are computed over the samples of all ranks,
so that n ranks match one process with all their environments, and the weights are identical on every rank.
"""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor

from trainer.errors import RankLostError

SOURCE_PREFIX = re.compile(r"^\[[^]]*\] ")
"""Source location at the start of gloo's and NCCL's error messages."""

T = TypeVar("T")


class ProcessGroup:
    """The ranks of a run; this base class is a group of one process, whose operations return their input.

    All calls are collective: each rank makes the same calls in the same order, with tensors of the same shape.
    """

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return 1

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        return 0

    def all_gather(self, values: Shaped[Tensor, "..."]) -> list[Tensor]:
        """Return the tensors of all ranks, in rank order."""
        return [values]

    def all_reduce_sum(self, values: Float[Tensor, "..."]) -> Tensor:
        """Return the sum over ranks, bit-identical on every rank."""
        return values

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        """Return the messages of all ranks, in rank order; lengths may differ."""
        return [message]

    def broadcast_bytes(self, message: bytes) -> bytes:
        """Return rank 0's message; arguments of other ranks are ignored."""
        return message


SINGLE_PROCESS = ProcessGroup()


class TorchProcessGroup(ProcessGroup):
    """The initialised default group of `torch.distributed`: gloo on CPUs, NCCL on GPUs.

    Byte messages always use gloo. Every call raises `RankLostError` if a rank is gone or does not answer in time.

    Args:
        timeout: Timeout of byte messages on GPU machines; torch's 30 minutes if None.
    """

    def __init__(self, timeout: timedelta | None = None) -> None:
        self._messages = None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo", timeout=timeout)

    @property
    def world_size(self) -> int:
        """See `ProcessGroup`."""
        return dist.get_world_size()

    @property
    def rank(self) -> int:
        """See `ProcessGroup`."""
        return dist.get_rank()

    def all_gather(self, values: Shaped[Tensor, "..."]) -> list[Tensor]:
        """See `ProcessGroup`."""
        return self._gather(values.contiguous(), None)

    def all_reduce_sum(self, values: Float[Tensor, "..."]) -> Tensor:
        """See `ProcessGroup`."""
        result = values.clone(memory_format=torch.contiguous_format)
        self._call(lambda: dist.all_reduce(result))
        return result

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        """See `ProcessGroup`."""
        lengths = [int(each) for each in self._gather(torch.tensor(len(message)), self._messages)]
        own = torch.zeros(max(lengths), dtype=torch.uint8)
        own[: len(message)] = _tensor(message)
        messages = self._gather(own, self._messages) if len(own) else [own] * self.world_size
        return [each[:length].numpy().tobytes() for each, length in zip(messages, lengths, strict=True)]

    def broadcast_bytes(self, message: bytes) -> bytes:
        """See `ProcessGroup`."""
        length = torch.tensor(len(message))
        self._call(lambda: dist.broadcast(length, 0, group=self._messages))
        received = _tensor(message) if self.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
        if len(received):
            self._call(lambda: dist.broadcast(received, 0, group=self._messages))
        return received.numpy().tobytes()

    def _gather(self, values: Tensor, group: dist.ProcessGroup | None) -> list[Tensor]:
        gathered = [torch.empty_like(values) for _ in range(self.world_size)]
        self._call(lambda: dist.all_gather(gathered, values, group=group))
        return gathered

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except RuntimeError as error:
            reason = SOURCE_PREFIX.sub("", str(error).strip()).partition("\n")[0].partition(". ")[0]
            raise RankLostError(
                f"rank {self.rank} cannot continue: another rank has exited or does not respond. Saved state and "
                "delivered results are intact: restart all ranks (torchrun --max-restarts does), or raise "
                f"run.ranks_timeout_s ({reason})"
            ) from error


def _tensor(message: bytes) -> Shaped[Tensor, " bytes"]:
    return torch.frombuffer(bytearray(message), dtype=torch.uint8) if message else torch.empty(0, dtype=torch.uint8)


def any_of(ranks: ProcessGroup, flag: bool, device: torch.device) -> bool:
    """Logical or of a flag over all ranks, exchanged as a tensor on `device`."""
    return flag if ranks.world_size == 1 else bool(ranks.all_reduce_sum(torch.tensor(float(flag), device=device)) > 0)


def all_reduce_packed(ranks: ProcessGroup, parts: Sequence[Float[Tensor, "..."]]) -> list[Tensor]:
    """Sum several tensors over all ranks in one all-reduce, which costs less than one for each of them."""
    summed = ranks.all_reduce_sum(torch.cat([part.flatten() for part in parts]))
    pieces = torch.split(summed, [part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]
