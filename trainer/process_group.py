"""Collective operations of a data-parallel run.

Each rank plays its own environments. Gradients, statistics and early stops are computed over the samples of all ranks,
so that n ranks match one process with all their environments, and the weights are identical on every rank.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor
from torch._C._distributed_c10d import Store

from trainer.errors import RankLostError

SOURCE_PREFIX = re.compile(r"^\[[^]]*\] ")
"""Source location at the start of gloo's and NCCL's error messages."""

REPORT_S = 3.0
"""Seconds that a rank waits, after a failed call, for the others to report that theirs failed too."""

FAILED_PREFIX = "trainer/failed/"
"""Prefix of the keys under which ranks report a failed call in the store of the process group."""

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
        # A collective overwrites its input, which callers keep.
        result = values.clone(memory_format=torch.contiguous_format)
        self._call(lambda: dist.all_reduce(result))
        return result

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        """See `ProcessGroup`."""
        # Collectives need equal shapes: lengths first, then messages padded to the longest.
        lengths = [int(each) for each in self._gather(torch.tensor(len(message)), self._messages)]
        own = torch.zeros(max(lengths), dtype=torch.uint8)
        own[: len(message)] = _tensor(message)
        # All ranks know the lengths, so all of them skip the empty exchange, or none.
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
            # torch's errors span many lines, with a C++ stack.
            reason = SOURCE_PREFIX.sub("", str(error).strip()).partition("\n")[0].partition(". ")[0]
            raise RankLostError(
                f"rank {self.rank} cannot continue: {self._name_lost_ranks()}. Saved state and delivered results are "
                "intact: restart all ranks (torchrun --max-restarts does), or raise run.ranks_timeout_s "
                f"({reason})"
            ) from error

    def _name_lost_ranks(self) -> str:
        """Report that this rank's call failed, and return the ranks that do not report the same."""
        try:
            store = dist.distributed_c10d._get_default_store()
        except (RuntimeError, ValueError):  # the group was never complete
            lost = []
        else:
            lost = find_silent_ranks(store, self.rank, self.world_size)
        if not lost:
            return "another rank has exited or does not respond"
        names = ", ".join(map(str, lost))
        return f"rank {names} has exited or does not respond" if len(lost) == 1 else f"no answer from ranks {names}"


def find_silent_ranks(store: Store, rank: int, world_size: int, report_s: float = REPORT_S) -> list[int]:
    """Report a failed call of this rank; return the ranks that do not report one within `report_s` seconds.

    All ranks make the same calls, so that a call that fails on one of them fails on every rank that still runs.

    Args:
        store: Store of the process group. Rank 0 serves it: if it does not answer, rank 0 is returned.
        rank: This rank.
        world_size: Number of ranks.
        report_s: Seconds to wait.
    """
    silent: list[int] = [0] if rank else []

    # Ranks that failed report it; the one that is silent is the one to name.
    def query() -> None:
        deadline = time.monotonic() + report_s
        try:
            store.set(f"{FAILED_PREFIX}{rank}", "1")
            while True:
                left = [other for other in range(world_size) if not store.check([f"{FAILED_PREFIX}{other}"])]
                if not left or time.monotonic() > deadline:
                    silent[:] = left
                    return
                time.sleep(report_s / 20)
        except RuntimeError:  # the store is gone, and rank 0 with it
            return

    # In a thread, because a call to a store whose process hangs does not return.
    thread = threading.Thread(target=query, daemon=True)
    thread.start()
    thread.join(2 * report_s)
    return silent


def _tensor(message: bytes) -> Shaped[Tensor, " bytes"]:
    return torch.frombuffer(bytearray(message), dtype=torch.uint8) if message else torch.empty(0, dtype=torch.uint8)


def any_of(ranks: ProcessGroup, flag: bool, device: torch.device) -> bool:
    """Logical or of a flag over all ranks, exchanged as a tensor on `device`."""
    return flag if ranks.world_size == 1 else bool(ranks.all_reduce_sum(torch.tensor(float(flag), device=device)) > 0)


def gather_counts(ranks: ProcessGroup, count: int, device: torch.device) -> list[int]:
    """Return a number of each rank, exchanged as a tensor on `device`."""
    if ranks.world_size == 1:
        return [count]
    return [int(each) for each in ranks.all_gather(torch.tensor(count, device=device))]


def all_reduce_packed(ranks: ProcessGroup, parts: Sequence[Float[Tensor, "..."]]) -> list[Tensor]:
    """Sum several tensors over all ranks in one all-reduce, which costs less than one for each of them."""
    summed = ranks.all_reduce_sum(torch.cat([part.flatten() for part in parts]))
    pieces = torch.split(summed, [part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]
