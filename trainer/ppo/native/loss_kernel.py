"""PPO loss as one native kernel on the CPU: loss, gradient and metrics in a single pass over the samples of a batch.

In PyTorch these are about a hundred small operations forward, and as many backward. Here they are written in C++
(`loss_kernel.h`), which Warp compiles for the local processor on first use. Tests hold both implementations equal.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.spec import HeadKind
from arena.native.warp import Launch, require_memory, source, wp
from arena.policies.nn.distributions import ILLEGAL_LOGIT, ActionLayout
from trainer.config.schema import PPOSettings
from trainer.ppo.loss import LOG_RATIO_LIMIT, RATIO_RANGE, LossOutput
from trainer.ppo.sequences import SequenceBatch
from trainer.ppo.update_metrics import MinibatchMetrics

LANES, SINGLE_SUMS, HEAD_SUMS = 16, 8, 4
"""SIMD lanes, and numbers of sums over samples: in total and per head, as in `loss_kernel.h`."""

KINDS = (HeadKind.GAUSSIAN, HeadKind.BERNOULLI, HeadKind.CATEGORICAL)
"""Head kinds in the order of `enum Kind` in `loss_kernel.h`."""

SIZES, POINTERS = 6, 21
"""Fields of `struct Sizes` and `struct Call` in `loss_kernel.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("simd.h") + source("loss_kernel.h", folder=Path(__file__).parent))
@no_type_check
def compute_loss(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """Run the body of `loss_kernel.h`."""


@wp.kernel
@no_type_check
def loss_kernel(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """Run on one thread."""
    compute_loss(sizes, addresses)


class NativeLoss:
    """Native counterpart of `PPOLoss.compute` in float32 on the CPU.

    Args:
        settings: Clip ranges.
        layout: Action layout with the heads.
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
        batch: SequenceBatch,
        weights: Float[Tensor, " heads_and_1"],
    ) -> LossOutput:
        """Compute the loss, with gradients for the first three arguments, and its metrics.

        Args:
            parameters: Distribution parameters at all N decisions.
            value: Predictions of the critic at all N decisions.
            log_std: As `ActorCritic.log_std`.
            batch: The n of the N decisions that carry loss.
            weights: As returned by `PPOLoss.weights`.

        Raises:
            ArenaError: A tensor has the wrong shape, type or device.
        """
        loss, metrics = _Loss.apply(self, parameters, value, log_std, batch, weights)  # type: ignore[no-untyped-call]
        return LossOutput(loss, MinibatchMetrics(metrics))

    def run(
        self, parameters: Tensor, value: Tensor, log_std: Tensor, batch: SequenceBatch, weights: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Run the kernel; return the loss, a row of `MinibatchMetrics`, and gradients of the first three arguments."""
        old = (batch.action_mask, batch.raw_action, batch.log_prob, batch.noise)
        targets = (batch.old_value, batch.advantage, batch.returns)
        inputs = [tensor.contiguous() for tensor in (weights, parameters, value, log_std, *old, *targets)]
        self._check(inputs, batch)
        layout, heads = self._layout, len(self._layout.heads)
        width, log_stds = layout.parameter_size, layout.log_std_size
        loss, metrics = value.new_empty(()), value.new_empty(MinibatchMetrics.size(heads))
        gradients = torch.zeros_like(inputs[1]), torch.zeros_like(inputs[2]), torch.empty_like(inputs[3])
        lanes = value.new_empty(2 * width + 4 * log_stds + heads, LANES)
        # Sums in float64: with millions of samples, float32 would lose small terms.
        sums = torch.zeros(SINGLE_SUMS + HEAD_SUMS * heads + log_stds, LANES, dtype=torch.float64)
        loss_index = batch.index.new_empty(0) if batch.loss_index is None else batch.loss_index
        sizes = (len(batch.index), heads, width, layout.raw_size, layout.mask_size, log_stds)
        # A list keeps the tensors alive until the kernel has run. The address of an empty tensor is 0.
        memory = [self._heads, self._rules, loss_index, *inputs, loss, metrics, *gradients, lanes, sums]
        _launcher()(sizes, [tensor.data_ptr() for tensor in memory])
        return loss, metrics, gradients

    def _check(self, inputs: Sequence[Tensor], batch: SequenceBatch) -> None:
        """Raise an error unless inputs fit the layout and the number of samples: the kernel only gets addresses."""
        layout, heads, n = self._layout, len(self._layout.heads), len(batch.index)
        rows = n if batch.loss_index is None else len(batch.loss_mask)
        of_network = ((heads + 1,), (rows, layout.parameter_size), (rows,), (layout.log_std_size,))
        of_batch = ((n, layout.mask_size), (n, layout.raw_size), (n, heads), (n, layout.log_std_size), (n,), (n,), (n,))
        types = [torch.float32] * 4 + [torch.bool] + [torch.float32] * 6
        require_memory(inputs, [*of_network, *of_batch], types)
        if batch.loss_index is not None:
            require_memory([batch.loss_index], [(n,)], [torch.int64])


class _Loss(torch.autograd.Function):
    """Autograd function whose forward pass already computes the gradient."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's own
        native: NativeLoss,
        parameters: Tensor,
        value: Tensor,
        log_std: Tensor,
        batch: SequenceBatch,
        weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        loss, metrics, gradients = native.run(parameters, value, log_std, batch, weights)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(metrics)
        # Otherwise autograd would allocate a gradient of zeros for the metrics in every backward pass.
        ctx.set_materialize_grads(False)
        return loss, metrics

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, *_: None) -> tuple[Tensor | None, ...]:  # noqa: ANN401  torch's own
        return None, *(gradient * loss_gradient for gradient in ctx.saved_tensors), None, None


@functools.cache
def _launcher() -> Launch:
    return Launch(loss_kernel, SIZES, POINTERS)
