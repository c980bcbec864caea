"""Several processes that learn as one: what they must agree on before they go on.

Every rank plays environments of its own. Gradients, statistics and decisions are taken over the samples of all ranks,
so that n ranks do what one process with all their environments would do, and the weights stay the same on each.
"""

import re
import time
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from trainer.errors import RankLostError

WITNESSES_S = 3.0
"""How long ranks that wait in vain look for each other, before they name those who are not among them."""

LOOK_S = 0.05

CODE_PLACE = re.compile(r"^\[[^]]*\] ")
"""What errors of gloo begin with."""

T = TypeVar("T")


@runtime_checkable
class Ranks(Protocol):
    """The processes that learn together.

    Calls are collective: every rank makes the same ones in the same order, with tensors of the same shape.
    """

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    @property
    def number(self) -> int:
        """Which one this is, from 0."""
        ...

    def gather(self, values: Shaped[Tensor, "..."]) -> list[Tensor]:
        """The tensors of all ranks, in the order of ranks."""
        ...

    def total(self, values: Float[Tensor, "..."]) -> Tensor:
        """Their sum, the same to the last bit on every rank."""
        ...

    def tell(self, message: bytes) -> list[bytes]:
        """What every rank says, in the order of ranks; messages may differ in length."""
        ...

    def from_first(self, message: bytes) -> bytes:
        """What rank 0 says; the messages of others are not looked at."""
        ...


class Alone:
    """One process: everything is as it is."""

    count, number = 1, 0

    def gather(self, values: Shaped[Tensor, "..."]) -> list[Tensor]:
        """Its own."""
        return [values]

    def total(self, values: Float[Tensor, "..."]) -> Tensor:
        """Its own."""
        return values

    def tell(self, message: bytes) -> list[bytes]:
        """Its own."""
        return [message]

    def from_first(self, message: bytes) -> bytes:
        """Its own."""
        return message


ALONE = Alone()


class Group:
    """The default process group of `torch.distributed`, which must have been set up: gloo on CPUs, NCCL on GPUs.

    Messages go from CPU to CPU whatever the gradients take. Every call raises `RankLostError` where a rank is gone or
    did not answer within the group's time.

    Args:
        store: What all ranks reach without each other; ranks that do not answer are named by it.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._messages = None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")

    @property
    def count(self) -> int:
        """How many ranks there are."""
        return dist.get_world_size()

    @property
    def number(self) -> int:
        """Which one this is, from 0."""
        return dist.get_rank()

    def gather(self, values: Shaped[Tensor, "..."]) -> list[Tensor]:
        """The tensors of all ranks, in the order of ranks."""
        return self._all(values.contiguous(), None)

    def total(self, values: Float[Tensor, "..."]) -> Tensor:
        """Their sum, the same to the last bit on every rank."""
        result = values.clone(memory_format=torch.contiguous_format)
        self._together(lambda: dist.all_reduce(result))
        return result

    def tell(self, message: bytes) -> list[bytes]:
        """What every rank says, in the order of ranks; messages may differ in length."""
        lengths = [int(each) for each in self._all(torch.tensor(len(message)), self._messages)]
        own = torch.zeros(max(lengths), dtype=torch.uint8)
        own[: len(message)] = _tensor(message)
        said = self._all(own, self._messages) if len(own) else [own] * self.count
        return [each[:length].numpy().tobytes() for each, length in zip(said, lengths, strict=True)]

    def from_first(self, message: bytes) -> bytes:
        """What rank 0 says; the messages of others are not looked at."""
        length = torch.tensor(len(message))
        self._together(lambda: dist.broadcast(length, 0, group=self._messages))
        said = _tensor(message) if self.number == 0 else torch.empty(int(length), dtype=torch.uint8)
        if len(said):
            self._together(lambda: dist.broadcast(said, 0, group=self._messages))
        return said.numpy().tobytes()

    def _all(self, values: Tensor, group: dist.ProcessGroup | None) -> list[Tensor]:
        gathered = [torch.empty_like(values) for _ in range(self.count)]
        self._together(lambda: dist.all_gather(gathered, values, group=group))
        return gathered

    def _together(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except RuntimeError as error:
            reason = CODE_PLACE.sub("", str(error).strip()).partition("\n")[0].partition(". ")[0]
            raise RankLostError(
                f"rank {self.number} cannot go on: {self._missing()}. Nothing that was saved or counted is lost: start "
                f"all ranks again (torchrun --max-restarts does), or raise run.ranks_timeout_s ({reason})"
            ) from error

    def _missing(self) -> str:
        """Who does not wait: all others that lost somebody say so to the store, each on its own."""
        silent = [number for number in range(self.count) if number != self.number]
        if self._store is None:
            return "another rank is gone or does not answer"
        try:
            self._store.set(_waiting(self.number), "")
            until = time.monotonic() + WITNESSES_S
            while silent and time.monotonic() < until:
                time.sleep(LOOK_S)
                silent = [number for number in silent if not self._store.check([_waiting(number)])]
            named = [f"rank {number} ({self._store.get(_place(number)).decode()})" for number in silent]
        except RuntimeError:
            return "the meeting point of the ranks is gone"
        return f"{' and '.join(named) or 'another rank'} is gone or does not answer"


def introduce(store: Store, number: int, place: str) -> None:
    """Say in the store where a rank is, so that others can name it."""
    store.set(_place(number), place)


def _place(number: int) -> str:
    return f"place/{number}"


def _waiting(number: int) -> str:
    return f"waiting/{number}"


def _tensor(message: bytes) -> Shaped[Tensor, " bytes"]:
    return torch.frombuffer(bytearray(message), dtype=torch.uint8) if message else torch.empty(0, dtype=torch.uint8)


def average(ranks: Ranks, value: Float[Tensor, ""], weight: Float[Tensor, ""]) -> Tensor:
    """Mean of a scalar over all ranks, each with its weight; 0 where no rank has any."""
    if ranks.count == 1:
        return value
    product, whole = ranks.total(torch.stack([value * weight, weight])).unbind()
    return product / whole.clamp(min=torch.finfo(whole.dtype).tiny)


def any_of(ranks: Ranks, flag: bool, device: torch.device) -> bool:
    """Whether it is so on any rank; they speak through tensors on `device`."""
    return flag if ranks.count == 1 else bool(ranks.total(torch.tensor(float(flag), device=device)) > 0)


def average_gradient(ranks: Ranks, gradient: Float[Tensor, " numbers"], weight: Float[Tensor, ""]) -> None:
    """Replace a gradient by its mean over all ranks, each with its weight, in one exchange.

    Weights are numbers of samples, so that the result is the gradient of the mean over the samples of all ranks.
    """
    if ranks.count == 1:
        return
    summed = ranks.total(torch.cat([gradient * weight, weight.reshape(1)]))
    gradient.copy_(summed[:-1] / summed[-1].clamp(min=torch.finfo(summed.dtype).tiny))
