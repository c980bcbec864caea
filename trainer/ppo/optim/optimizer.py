"""AdamW over everything that learns at once.

On a CPU values of all parameters lie in one row of numbers. Their gradients do on every device: what is done to all of
them (norm, exchange between processes) is one operation, and not one a parameter.
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
from trainer.errors import TrainerError
from trainer.ppo.extra_losses import WeightedLoss

ALIGNMENT = 16
"""Numbers that the place of every parameter in a row is a multiple of: those of the widest vector."""

EXTRA, CRITIC = "extra", "critic."
"""How the names of parameters of extra losses begin, and those of the critic's own layer."""

ALIKE = (0.0, 1.0)
"""Weight decay, and learning rate in scheduled ones, of all but the critic's own layer."""

TINY = 1e-6
"""Added to a norm before it divides, as `torch.nn.utils.clip_grad_norm_` does."""

BETAS = (0.9, 0.999)
"""What Adam's moments keep of themselves at a step; as `torch.optim.AdamW` has them."""

STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")
"""What Adam knows of a parameter: a number, and means as many as it has numbers."""


class Group(NamedTuple):
    """Parameters that have a weight decay, and a rate as a multiple of the scheduled one: one tensor each, or a row."""

    values: list[Tensor]
    gradients: list[Tensor]
    means: list[Tensor]
    squares: list[Tensor]
    steps: list[Tensor]
    decay: float
    rate_factor: float


class FlatAdamW:
    """Moves everything that learns; the critic's own layer may have a rate and a decay of its own.

    From now on gradients of the parameters lie in its row, on a CPU their values in another: gradients add up until
    they are cleared, and what has got none counts as 0.

    Args:
        named: What learns, see `trainable_parameters`.
        settings: Of the steps.

    Attributes:
        values: All parameters where they lie in a row; empty elsewhere.
        gradient: That of each of them.
        steps: Steps made.
    """

    def __init__(self, named: Mapping[str, nn.Parameter], settings: OptimizerSettings) -> None:
        self._shapes = {name: each.detach().to("meta") for name, each in named.items()}
        self._max_norm, size = settings.max_grad_norm, flat_size(named)
        like = next(iter(named.values())).detach()
        self._in_row = uses_flat_storage(like.device)
        self.values, self.gradient = like.new_zeros(size if self._in_row else 0), like.new_zeros(size)
        if self._in_row:
            for name, place in unflatten(self.values, named).items():
                place.copy_(named[name].detach())
                named[name].data = place
        use_flat_gradients(named, self.gradient)
        places = itertools.accumulate(map(_taken, named.values()), initial=0)
        self._placed = [(*each, place) for each, place in zip(named.items(), places, strict=False) if each[1].numel()]
        self._moments = {key: torch.zeros_like(self.gradient) for key in MOMENTS}
        self._epsilon, self._rate, self.steps = settings.adam_eps, 0.0, 0
        own = settings.critic_weight_decay, settings.critic_lr_scale
        critic = {name: each for name, each in named.items() if name.startswith(CRITIC)}
        others = {name: each for name, each in named.items() if name not in critic}
        self._groups = (
            [self._group(named, 0, *ALIKE)]
            if own == ALIKE
            else [self._group(others, 0, *ALIKE), self._group(critic, flat_size(others), *own)]
        )

    def _group(self, named: Mapping[str, nn.Parameter], begin: int, decay: float, rate_factor: float) -> Group:
        """Neighbouring parameters, from a place in the rows on, with all that is known of them."""
        within = slice(begin, begin + flat_size(named))
        rows = [row[within] for row in (self.gradient, *self._moments.values())]
        if self._in_row:
            values, gradients, means, squares = ([row] for row in (self.values[within], *rows))
        else:
            lists = (named, *(unflatten(row, named) for row in rows))
            values, gradients, means, squares = ([each for each in own.values() if each.numel()] for own in lists)
        steps = [self.gradient.new_zeros(()) for _ in values]
        return Group(values, gradients, means, squares, steps, decay, rate_factor)

    def set_rate(self, learning_rate: float) -> None:
        """Take a learning rate for the steps to come; the critic's is a multiple of it."""
        self._rate = learning_rate

    def clear(self) -> None:
        """Set all gradients to 0."""
        self.gradient.zero_()

    def clip(self) -> Float[Tensor, ""]:
        """Scale gradients down to the largest norm that they may have; what it was."""
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((self._max_norm / (norm + TINY)).clamp(max=1.0))
        return norm

    @torch.no_grad()
    def step(self) -> None:
        """Move the weights: torch's AdamW without what a `torch.optim.FlatAdamW` adds to every step.

        Raises:
            TrainerError: A parameter has moved out of the row, so that steps would no longer reach it.
        """
        self._require_places()
        self.steps += 1
        for group in self._groups:
            adamw(
                params=group.values,
                grads=group.gradients,
                exp_avgs=group.means,
                exp_avg_sqs=group.squares,
                max_exp_avg_sqs=[],
                state_steps=group.steps,
                fused=True,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=self._rate * group.rate_factor,
                weight_decay=group.decay,
                eps=self._epsilon,
                maximize=False,
            )

    def _require_places(self) -> None:
        """Refuse parameters or gradients that lie elsewhere: `.to()` and `flatten_parameters()` move them silently."""
        size, values, gradients = self.gradient.element_size(), self.values.data_ptr(), self.gradient.data_ptr()
        for name, each, place in self._placed:
            if each.grad is None or each.grad.data_ptr() != gradients + size * place:
                raise TrainerError(f"the gradient of {name} has left the optimiser's row: make a new Optimizer")
            if self._in_row and each.data_ptr() != values + size * place:
                raise TrainerError(f"{name} has left the optimiser's row: make a new Optimizer after moving a network")

    def tensors(self) -> dict[str, Tensor]:
        """What it knows of every parameter beside its value, by name; nothing before the first step."""
        if not self.steps:
            return {}
        named = {
            f"{name}.{key}": place
            for key, moment in self._moments.items()
            for name, place in unflatten(moment.clone(), self._shapes).items()
        }
        return named | {f"{name}.{STEP}": self._groups[0].steps[0].clone() for name in self._shapes}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `tensors` gave, on whatever device that was."""
        self.steps = max((int(tensor) for name, tensor in tensors.items() if name.endswith(f".{STEP}")), default=0)
        for group in self._groups:
            for steps in group.steps:
                steps.fill_(self.steps)
        for key, moment in self._moments.items():
            moment.zero_()
            for name, place in unflatten(moment, self._shapes).items():
                if (saved := tensors.get(f"{name}.{key}")) is not None:
                    place.copy_(saved)


def uses_flat_storage(device: torch.device) -> bool:
    """Whether parameters on a device are moved into one row.

    Only on a CPU, where one large tensor takes a step faster than many small ones. On a GPU the fused step goes through
    a list of tensors at once, and the weights of an LSTM have to stay where `nn.LSTM` has laid them out: cuDNN wants
    them from the beginning of a storage and without gaps, and otherwise copies them at every call, with a warning.
    """
    return device.type == "cpu"


def trainable_parameters(network: ActorCritic, extra_losses: Sequence[WeightedLoss] = ()) -> dict[str, nn.Parameter]:
    """Return all parameters that are trained, by name; the critic's own layer comes last."""
    named = dict(network.named_parameters())
    for each in extra_losses:
        if each.parameters is not None:
            named |= each.parameters.named_parameters(prefix=f"{EXTRA}.{each.name}")
    return dict(sorted(named.items(), key=lambda each: each[0].startswith(CRITIC)))


def flat_size(named: Mapping[str, Tensor]) -> int:
    """How many numbers a row has in which all of these have their places."""
    return sum(_taken(each) for each in named.values())


def unflatten(row: Float[Tensor, " numbers"], named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What of a row stands for each of these tensors, in its shape."""
    places = itertools.accumulate((_taken(each) for each in named.values()), initial=0)
    return {
        name: row[place : place + each.numel()].view(each.shape)
        for (name, each), place in zip(named.items(), places, strict=False)
    }


def use_flat_gradients(named: Mapping[str, nn.Parameter], row: Float[Tensor, " numbers"]) -> None:
    """Let gradients add up in a row from now on."""
    for name, place in unflatten(row, named).items():
        named[name].grad = place


def _taken(tensor: Tensor) -> int:
    return -(-tensor.numel() // ALIGNMENT) * ALIGNMENT
