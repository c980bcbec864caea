"""Several processes that learn as one: what they must agree on before they go on.

Every rank plays environments of its own. Gradients, statistics and decisions are taken over the samples of all ranks,
so that n ranks do what one process with all their environments would do, and the weights stay the same on each.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor


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


class Alone:
    """One process: everything is as it is."""

    count, number = 1, 0

    def gather(self, values: Shaped[Tensor, "..."]) -> list[Tensor]:
        """Its own."""
        return [values]

    def total(self, values: Float[Tensor, "..."]) -> Tensor:
        """Its own."""
        return values


ALONE = Alone()


class Group:
    """The default process group of `torch.distributed`, which must have been set up: gloo on CPUs, NCCL on GPUs."""

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
        gathered = [torch.empty_like(values) for _ in range(self.count)]
        dist.all_gather(gathered, values.contiguous())
        return gathered

    def total(self, values: Float[Tensor, "..."]) -> Tensor:
        """Their sum, the same to the last bit on every rank."""
        result = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(result)
        return result


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
