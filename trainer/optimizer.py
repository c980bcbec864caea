"""AdamW over everything that learns at once.

Values of all parameters lie in one row of numbers, and their gradients in another: what is done to all of them (norm,
step, exchange between processes) is one operation, and not one a parameter.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.adamw import adamw

from arena.policies import ActorCritic
from trainer.auxiliary import NextObservation
from trainer.settings import OptimizerSettings

LANES = 16
"""Numbers that the place of every parameter in a row is a multiple of: those of the widest vector."""

AUXILIARY, CRITIC = "auxiliary", "critic."
"""How the names of parameters begin that predict observations, and of those that are the critic's own."""

ALIKE = (0.0, 1.0)
"""Weight decay, and learning rate in scheduled ones, of all but the critic's own layer."""

TINY = 1e-6
"""Added to a norm before it divides, as `torch.nn.utils.clip_grad_norm_` does."""

BETAS = (0.9, 0.999)
"""What Adam's moments keep of themselves at a step; as `torch.optim.AdamW` has them."""

STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")
"""What Adam knows of a parameter: a number, and means as many as it has numbers."""


class Group(NamedTuple):
    """Neighbouring parameters that have a weight decay, and a rate as a multiple of the scheduled one."""

    within: slice
    decay: float
    rate_factor: float


class Optimizer:
    """Moves everything that learns; the critic's own layer may have a rate and a decay of its own.

    From now on values and gradients of the parameters lie in its rows: gradients add up until they are cleared, and
    what has got none counts as 0.

    Args:
        named: What learns, as `learned` has it.
        settings: Of the steps.

    Attributes:
        values: All parameters.
        gradient: That of each of them.
        steps: Steps made.
    """

    def __init__(self, named: Mapping[str, nn.Parameter], settings: OptimizerSettings) -> None:
        self._shapes = {name: each.detach().to("meta") for name, each in named.items()}
        self._max_norm, size = settings.max_gradient_norm, length(named)
        like = next(iter(named.values())).detach()
        self.values, self.gradient = like.new_zeros(size), like.new_zeros(size)
        for name, place in parts(self.values, named).items():
            place.copy_(named[name].detach())
            named[name].data = place
        put_gradients(named, self.gradient)
        critic = length({name: each for name, each in named.items() if not name.startswith(CRITIC)})
        own = settings.critic_weight_decay, settings.critic_learning_rate_factor
        self._groups = (
            [Group(slice(size), *ALIKE)]
            if own == ALIKE
            else [Group(slice(critic), *ALIKE), Group(slice(critic, size), *own)]
        )
        self._moments = {key: torch.zeros_like(self.values) for key in MOMENTS}
        self.steps, self._steps = 0, self.values.new_zeros(len(self._groups))
        self._epsilon, self._rate = settings.epsilon, 0.0

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
        """Move the weights: torch's AdamW without what a `torch.optim.Optimizer` adds to every step."""
        self.steps += 1
        for group, steps in zip(self._groups, self._steps, strict=True):
            means, squares = ([moment[group.within]] for moment in self._moments.values())
            adamw(
                params=[self.values[group.within]],
                grads=[self.gradient[group.within]],
                exp_avgs=means,
                exp_avg_sqs=squares,
                max_exp_avg_sqs=[],
                state_steps=[steps],
                fused=True,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=self._rate * group.rate_factor,
                weight_decay=group.decay,
                eps=self._epsilon,
                maximize=False,
            )

    def tensors(self) -> dict[str, Tensor]:
        """What it knows of every parameter beside its value, by name; nothing before the first step."""
        if not self.steps:
            return {}
        named = {
            f"{name}.{key}": place
            for key, moment in self._moments.items()
            for name, place in parts(moment.clone(), self._shapes).items()
        }
        return named | {f"{name}.{STEP}": self._steps[0].clone() for name in self._shapes}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `tensors` gave, on whatever device that was."""
        self.steps = max((int(tensor) for name, tensor in tensors.items() if name.endswith(f".{STEP}")), default=0)
        self._steps.fill_(self.steps)
        for key, moment in self._moments.items():
            moment.zero_()
            for name, place in parts(moment, self._shapes).items():
                if (saved := tensors.get(f"{name}.{key}")) is not None:
                    place.copy_(saved)


def learned(network: ActorCritic, auxiliary: NextObservation | None) -> dict[str, nn.Parameter]:
    """All that learns, by name; the critic's own layer comes last."""
    named = dict(network.named_parameters())
    if auxiliary is not None:
        named |= auxiliary.named_parameters(prefix=AUXILIARY)
    return dict(sorted(named.items(), key=lambda each: each[0].startswith(CRITIC)))


def length(named: Mapping[str, Tensor]) -> int:
    """How many numbers a row has in which all of these have their places."""
    return sum(_taken(each) for each in named.values())


def parts(row: Float[Tensor, " numbers"], named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What of a row stands for each of these tensors, in its shape."""
    places = itertools.accumulate((_taken(each) for each in named.values()), initial=0)
    return {
        name: row[place : place + each.numel()].view(each.shape)
        for (name, each), place in zip(named.items(), places, strict=False)
    }


def put_gradients(named: Mapping[str, nn.Parameter], row: Float[Tensor, " numbers"]) -> None:
    """Let gradients add up in a row from now on."""
    for name, place in parts(row, named).items():
        named[name].grad = place


def _taken(tensor: Tensor) -> int:
    return -(-tensor.numel() // LANES) * LANES
