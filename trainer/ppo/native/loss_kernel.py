"""The loss of a minibatch, its gradient and its figures in one native pass over its decisions.

In torch that is some hundred small operations, and as many on the way back. Here it is written out in C++
(`loss_kernel.h`), which Warp compiles for the processor at hand at its first use.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.spec import HeadKind
from arena.native import Call, Launch, require_memory, source, wp
from arena.policies.nn.distributions import ILLEGAL_LOGIT, ActionLayout
from trainer.config.schema import PPOSettings
from trainer.ppo.loss import LOG_RATIO_LIMIT, RATIO_RANGE, LossOutput
from trainer.ppo.sequences import SequenceBatch
from trainer.ppo.update_metrics import MinibatchMetrics

LANES, SINGLE_SUMS, SUMS_OF_HEADS = 16, 8, 4
"""Decisions at once, and sums over all of them and those at which a head decides, as in `loss_kernel.h`."""

KINDS = (HeadKind.GAUSSIAN, HeadKind.BERNOULLI, HeadKind.CATEGORICAL)
"""As `loss_kernel.h` numbers them."""

SIZES, POINTERS = 6, 21
"""Numbers and addresses of a call, as in `loss_kernel.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("simd.h") + source("loss_kernel.h", folder=Path(__file__).parent))
@no_type_check
def appraise_decisions(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `loss_kernel.h`."""


@wp.kernel
@no_type_check
def appraise_all(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """One thread takes all decisions."""
    appraise_decisions(sizes, addresses)


class Weighed(NamedTuple):
    """What a pass leaves behind.

    Attributes:
        loss: As `LossOutput.loss`, without gradient.
        figures: As `MinibatchMetrics.row` has them.
        gradients: Of the loss with respect to parameters (N, P), values (N) and log standard deviations (G).
    """

    loss: Float[Tensor, ""]
    figures: Float[Tensor, " figures"]
    gradients: tuple[Tensor, Tensor, Tensor]


class NativeLoss:
    """What `PPOLoss.compute` says of decisions in the memory of the host, in single precision.

    Args:
        settings: Clip ranges.
        layout: The heads.
    """

    def __init__(self, settings: PPOSettings, layout: ActionLayout) -> None:
        self._layout = layout
        heads = [(KINDS.index(head.kind), head.size, head.masked) for head in layout.heads]
        self._heads = torch.tensor(heads, dtype=torch.int32)
        ratios = (1.0 - settings.clip_coef, 1.0 + settings.clip_coef, settings.clip_coef)
        rules = (*ratios, settings.clip_range_vf, settings.huber_delta, LOG_RATIO_LIMIT, *RATIO_RANGE, ILLEGAL_LOGIT)
        self._rules = torch.tensor(rules, dtype=torch.float32)

    def __call__(
        self,
        parameters: Float[Tensor, "N P"],
        value: Float[Tensor, " N"],
        log_std: Float[Tensor, " G"],
        samples: SequenceBatch,
        weights: Float[Tensor, " heads_and_1"],
    ) -> LossOutput:
        """The loss, with its gradient with respect to the first three arguments, and its figures.

        Args:
            parameters: Of the distributions at all N decisions.
            value: What the critic says of them.
            log_std: As `ActorCritic.log_std`.
            samples: What is known of the n among them that carry loss.
            weights: As `PPOLoss.weights` says.

        Raises:
            ArenaError: Something has another shape or type than it must have.
        """
        loss, figures = _Loss.apply(self, parameters, value, log_std, samples, weights)  # type: ignore[no-untyped-call]
        return LossOutput(loss, MinibatchMetrics(figures))

    def weigh(
        self, parameters: Tensor, value: Tensor, log_std: Tensor, samples: SequenceBatch, weights: Tensor
    ) -> Weighed:
        """The pass."""
        call, weighed = self.call(parameters, value, log_std, samples, weights)
        _launcher()(call.sizes, call.addresses)
        return weighed

    def call(
        self, parameters: Tensor, value: Tensor, log_std: Tensor, samples: SequenceBatch, weights: Tensor
    ) -> tuple[Call, Weighed]:
        """What makes the pass; what it leaves behind is there once that has run."""
        known = (samples.mask, samples.raw_action, samples.log_prob, samples.noise)
        each = (samples.old_value, samples.advantage, samples.returns)
        inputs = [tensor.contiguous() for tensor in (weights, parameters, value, log_std, *known, *each)]
        self._require(inputs, samples)
        layout, heads = self._layout, len(self._layout.heads)
        width, log_stds = layout.parameter_size, layout.log_std_size
        loss, figures = value.new_empty(()), value.new_empty(MinibatchMetrics.size(heads))
        gradients = torch.zeros_like(inputs[1]), torch.zeros_like(inputs[2]), torch.empty_like(inputs[3])
        lanes = value.new_empty(2 * width + 4 * log_stds + heads, LANES)
        sums = torch.zeros(SINGLE_SUMS + SUMS_OF_HEADS * heads + log_stds, LANES, dtype=torch.float64)
        chosen = samples.index.new_empty(0) if samples.loss_index is None else samples.loss_index
        rules = (self._heads, self._rules, chosen)
        sizes = (len(samples.index), heads, width, layout.raw_size, layout.mask_size, log_stds)
        return Call(sizes, (*rules, *inputs, loss, figures, *gradients, lanes, sums)), Weighed(loss, figures, gradients)

    def _require(self, inputs: Sequence[Tensor], samples: SequenceBatch) -> None:
        """Refuse what does not fit the layout and the number of decisions."""
        layout, heads, n = self._layout, len(self._layout.heads), len(samples.index)
        rows = n if samples.loss_index is None else len(samples.loss_mask)
        of_network = ((heads + 1,), (rows, layout.parameter_size), (rows,), (layout.log_std_size,))
        known = ((n, layout.mask_size), (n, layout.raw_size), (n, heads), (n, layout.log_std_size))
        types = [torch.float32] * 4 + [torch.bool] + [torch.float32] * 6
        require_memory(inputs, [*of_network, *known, (n,), (n,), (n,)], types)
        if samples.loss_index is not None:
            require_memory([samples.loss_index], [(n,)], [torch.int64])


class _Loss(torch.autograd.Function):
    """A loss that has its gradient at once."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's own
        appraiser: NativeLoss,
        parameters: Tensor,
        value: Tensor,
        log_std: Tensor,
        samples: SequenceBatch,
        weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        loss, figures, gradients = appraiser.weigh(parameters, value, log_std, samples, weights)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(figures)
        ctx.set_materialize_grads(False)
        return loss, figures

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_loss: Tensor, *_: None) -> tuple[Tensor | None, ...]:  # noqa: ANN401  torch's own
        return None, *(gradient * by_loss for gradient in ctx.saved_tensors), None, None


@functools.cache
def _launcher() -> Launch:
    return Launch(appraise_all, SIZES, POINTERS)
