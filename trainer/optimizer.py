"""AdamW over everything that learns at once.

Values of all parameters lie in one row of numbers, and their gradients in another: what is done to all of them (norm,
step, exchange between processes) is one operation, and not one a parameter.
"""

import itertools
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

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

STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")
"""What Adam knows of a parameter: a number, and means as many as it has numbers."""


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
        groups = [(slice(size), ALIKE)] if own == ALIKE else [(slice(critic), ALIKE), (slice(critic, size), own)]
        self._adam = torch.optim.AdamW(
            [
                {"params": [self._row(within)], "weight_decay": decay, "rate_factor": factor}
                for within, (decay, factor) in groups
            ],
            eps=settings.epsilon,
            fused=True,
        )

    @property
    def steps(self) -> int:
        """Steps made."""
        return max((int(state[STEP]) for state in self._adam.state.values()), default=0)

    def set_rate(self, learning_rate: float) -> None:
        """Take a learning rate for the steps to come; the critic's is a multiple of it."""
        for group in self._adam.param_groups:
            group["lr"] = learning_rate * group["rate_factor"]

    def clear(self) -> None:
        """Set all gradients to 0."""
        self.gradient.zero_()

    def clip(self) -> Float[Tensor, ""]:
        """Scale gradients down to the largest norm that they may have; what it was."""
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((self._max_norm / (norm + TINY)).clamp(max=1.0))
        return norm

    def step(self) -> None:
        """Move the weights."""
        self._adam.step()

    def tensors(self) -> dict[str, Tensor]:
        """What it knows of every parameter beside its value, by name; nothing before the first step."""
        states = [self._adam.state[row] for row in self._rows if row in self._adam.state]
        named: dict[str, Tensor] = {}
        for key in MOMENTS if states else ():
            row = torch.cat([state[key] for state in states])
            named |= {f"{name}.{key}": place for name, place in parts(row, self._shapes).items()}
        return named | {f"{name}.{STEP}": state[STEP] for state in states[:1] for name in self._shapes}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `tensors` gave, on whatever device that was."""
        steps = [tensor for name, tensor in tensors.items() if name.endswith(f".{STEP}")]
        if not steps:
            self._adam.state.clear()
            return
        moments = {key: torch.zeros_like(self.values) for key in MOMENTS}
        for key, row in moments.items():
            for name, place in parts(row, self._shapes).items():
                if (saved := tensors.get(f"{name}.{key}")) is not None:
                    place.copy_(saved)
        step, begin = torch.stack(steps).max().to(self.values), 0
        for row in self._rows:
            within = slice(begin, begin := begin + len(row))
            self._adam.state[row] = {STEP: step.clone(), **{key: moment[within] for key, moment in moments.items()}}

    @property
    def _rows(self) -> list[Tensor]:
        """What it moves, group by group."""
        return [group["params"][0] for group in self._adam.param_groups]

    def _row(self, within: slice) -> nn.Parameter:
        row = nn.Parameter(self.values[within])
        row.grad = self.gradient[within]
        return row


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
