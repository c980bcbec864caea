"""AdamW on flat storage: all gradients are views into one tensor; on a CPU, so are all parameters.

Norm, clipping and the exchange between ranks are then one operation each, instead of one per parameter.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.adamw import adamw

from arena.policies import ActorCritic
from trainer.config.schema import OptimizerSettings
from trainer.errors import StaleOptimizerError
from trainer.ppo.extra_losses import WeightedLoss

ALIGNMENT = 16
"""Each parameter starts at a multiple of this many elements: the width of the widest SIMD vector."""

EXTRA_PREFIX, CRITIC_PREFIX = "extra", "critic."
"""Prefixes of the parameter names of extra losses, and of the critic's output layer."""

DEFAULT_GROUP = (0.0, 1.0)
"""Weight decay and learning rate scale of all parameters outside the critic's output layer."""

CLIP_EPS = 1e-6
"""Added to the norm before division, as in `torch.nn.utils.clip_grad_norm_`."""

BETAS = (0.9, 0.999)
"""Decay of Adam's moments; the default of `torch.optim.AdamW`."""

STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")
"""Adam's state of a parameter, by torch's names; saved states use them as keys."""


class ParameterGroup(NamedTuple):
    """Arguments of torch's functional `adamw`: one flat tensor each on a CPU, else one tensor per parameter."""

    parameters: list[Tensor]
    gradients: list[Tensor]
    exp_avgs: list[Tensor]
    exp_avg_sqs: list[Tensor]
    steps: list[Tensor]
    weight_decay: float
    lr_scale: float


class FlatAdamW:
    """AdamW over all trainable parameters; the critic's output layer may have its own learning rate and weight decay.

    On a CPU, the constructor moves parameters and gradients into flat storage. Gradients accumulate there until
    `zero_grad`. On other devices, gradients are copied there after the backward pass. A parameter without a gradient
    counts as one with gradient 0.

    Args:
        named: Parameters by name, see `trainable_parameters`.
        settings: The `[optimizer]` section.

    Attributes:
        flat_parameters: Storage of all parameters on a CPU; empty on other devices.
        flat_gradient: Storage of all gradients.
        learning_rate: Learning rate of the next step; that of the critic's output layer is a multiple of it.
        steps: Number of steps so far.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019).
    """

    def __init__(self, named: Mapping[str, nn.Parameter], settings: OptimizerSettings) -> None:
        self._max_norm, size = settings.max_grad_norm, flat_size(named)
        like = next(iter(named.values())).detach()
        self._flat = uses_flat_storage(like.device)
        self.flat_parameters, self.flat_gradient = like.new_zeros(size if self._flat else 0), like.new_zeros(size)
        self._named = dict(named)
        self._views = unflatten(self.flat_parameters, named) if self._flat else {}
        for name, view in self._views.items():
            # The parameter keeps its identity and moves its data, so that references to it stay valid.
            view.copy_(named[name].detach())
            named[name].data = view
        self._gradients = unflatten(self.flat_gradient, named)
        for name, gradient in self._gradients.items():
            named[name].grad = gradient
        self._moments = {key: torch.zeros_like(self.flat_gradient) for key in MOMENTS}
        self._eps, self.learning_rate, self.steps = settings.adam_eps, 0.0, 0
        critic_group = settings.critic_weight_decay, settings.critic_lr_scale
        critic = {name: each for name, each in named.items() if name.startswith(CRITIC_PREFIX)}
        others = {name: each for name, each in named.items() if name not in critic}
        self._groups = (
            [self._group(named, 0, *DEFAULT_GROUP)]
            if critic_group == DEFAULT_GROUP
            else [self._group(others, 0, *DEFAULT_GROUP), self._group(critic, flat_size(others), *critic_group)]
        )

    def _group(
        self, named: Mapping[str, nn.Parameter], offset: int, weight_decay: float, lr_scale: float
    ) -> ParameterGroup:
        """Create the group of consecutive parameters that starts at an offset into the flat storage."""
        within = slice(offset, offset + flat_size(named))
        buffers = [buffer[within] for buffer in (self.flat_gradient, *self._moments.values())]
        if self._flat:
            lists = [[each] for each in (self.flat_parameters[within], *buffers)]
        else:
            by_name = (named, *(unflatten(buffer, named) for buffer in buffers))
            lists = [[each for each in own.values() if each.numel()] for own in by_name]
        parameters, gradients, exp_avgs, exp_avg_sqs = lists
        # On the device: a fused step reads its count there, without a transfer.
        steps = [self.flat_gradient.new_zeros(()) for _ in parameters]
        return ParameterGroup(parameters, gradients, exp_avgs, exp_avg_sqs, steps, weight_decay, lr_scale)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        if self._flat:
            self.flat_gradient.zero_()
            return
        # Without a gradient to add to, the backward pass launches no addition for each parameter.
        for each in self._named.values():
            each.grad = None

    @torch.no_grad()
    def collect_gradient(self) -> Float[Tensor, " elements"]:
        """Move the gradients of a backward pass into flat storage and return it. On a CPU they are there already."""
        if not self._flat:
            found = {name: each.grad for name, each in self._named.items() if each.grad is not None}
            if len(found) < len(self._named):
                self.flat_gradient.zero_()
            if found:  # a rank may have no decisions, and torch rejects empty lists
                torch._foreach_copy_([self._gradients[name] for name in found], list(found.values()))
            for name, each in self._named.items():
                each.grad = self._gradients[name]
        return self.flat_gradient

    def clip_gradient(self) -> Float[Tensor, ""]:
        """Clip the norm of the gradient to `optimizer.max_grad_norm`; return the norm before clipping."""
        gradient = self.collect_gradient()
        norm: Tensor = torch.linalg.vector_norm(gradient)
        # Always divided, by 1 if the norm is small: a condition would wait for the device.
        gradient.div_(((norm + CLIP_EPS) / self._max_norm).clamp(min=1.0))
        return norm

    @torch.no_grad()
    def step(self) -> None:
        """Take one AdamW step, without the per-step overhead of `torch.optim.AdamW`.

        Raises:
            StaleOptimizerError: A parameter or gradient has left the flat storage, so that steps would not reach it.
        """
        self._check_storage()
        self.steps += 1
        for group in self._groups:
            adamw(
                params=group.parameters,
                grads=group.gradients,
                exp_avgs=group.exp_avgs,
                exp_avg_sqs=group.exp_avg_sqs,
                max_exp_avg_sqs=[],
                state_steps=group.steps,
                fused=True,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=self.learning_rate * group.lr_scale,
                weight_decay=group.weight_decay,
                eps=self._eps,
                maximize=False,
            )

    def _check_storage(self) -> None:
        """Raise an error if a parameter was reallocated: `.to()` and `flatten_parameters()` do so silently."""
        for name, each in self._named.items():
            if each.grad is None or each.grad.data_ptr() != self._gradients[name].data_ptr():
                raise StaleOptimizerError(f"the gradient of {name} has left the flat storage: create a new FlatAdamW")
            if self._flat and each.data_ptr() != self._views[name].data_ptr():
                raise StaleOptimizerError(
                    f"{name} has left the flat storage: create a new FlatAdamW after moving a network"
                )

    def tensors(self) -> dict[str, Tensor]:
        """Return Adam's state by `PARAMETER.KEY`, in the shapes of the parameters; empty before the first step."""
        if not self.steps:
            return {}
        # Copies, because the next step changes the moments in place.
        named = {
            f"{name}.{key}": view
            for key, moment in self._moments.items()
            for name, view in unflatten(moment.clone(), self._named).items()
        }
        return named | {f"{name}.{STEP}": self._groups[0].steps[0].clone() for name in self._named}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the result of `tensors`, from any device; parameters without a saved state start at 0."""
        self.steps = max((int(tensor) for name, tensor in tensors.items() if name.endswith(f".{STEP}")), default=0)
        for group in self._groups:
            for steps in group.steps:
                steps.fill_(self.steps)
        for key, moment in self._moments.items():
            moment.zero_()
            for name, view in unflatten(moment, self._named).items():
                if (saved := tensors.get(f"{name}.{key}")) is not None:
                    view.copy_(saved)


def uses_flat_storage(device: torch.device) -> bool:
    """Whether parameters on this device are moved into one flat tensor.

    Only on a CPU, where a step over one large tensor is faster than over many small ones. On a GPU, the fused step
    takes a list of tensors at once. And the weights of an LSTM must stay where `nn.LSTM` allocated them: cuDNN needs
    them contiguous from the start of a storage, and otherwise copies them at every call with a warning.
    """
    return device.type == "cpu"


def trainable_parameters(network: ActorCritic, extra_losses: Sequence[WeightedLoss] = ()) -> dict[str, nn.Parameter]:
    """Return all trainable parameters by name; the critic's output layer comes last."""
    named = dict(network.named_parameters())
    for each in extra_losses:
        if each.parameters is not None:
            named |= each.parameters.named_parameters(prefix=f"{EXTRA_PREFIX}.{each.name}")
    # The groups are slices of the flat storage, so the critic's parameters have to be contiguous.
    return dict(sorted(named.items(), key=lambda each: each[0].startswith(CRITIC_PREFIX)))


def flat_size(named: Mapping[str, Tensor]) -> int:
    """Return the number of elements of flat storage for these tensors, with padding."""
    return sum(_padded_size(each) for each in named.values())


def unflatten(flat: Float[Tensor, " elements"], named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return views into flat storage, one for each tensor, in its shape."""
    offsets = itertools.accumulate((_padded_size(each) for each in named.values()), initial=0)
    return {
        name: flat[offset : offset + each.numel()].view(each.shape)
        for (name, each), offset in zip(named.items(), offsets, strict=False)
    }


def _padded_size(tensor: Tensor) -> int:
    return -(-tensor.numel() // ALIGNMENT) * ALIGNMENT
