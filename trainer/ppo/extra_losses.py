"""Additional terms of the loss, named in the settings: `ppo.extra_losses = { "mypackage.losses:MyLoss" = 0.01 }`.

Each is a class that is called with the network and gives an `ExtraLoss`. `NextObservationLoss` is one.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from arena.policies import ActorCritic, PackedRuns
from arena.policies.nn.actor_critic import PolicyOutput
from trainer.errors import ConfigError
from trainer.ppo.sequences import SequenceBatch
from trainer.ppo.user_classes import load_class


@runtime_checkable
class ExtraLoss(Protocol):
    """An additional term of the PPO loss.

    If it is an `nn.Module`, its parameters are trained, and saved states keep them. Checkpoints for players do not.
    """

    def __call__(self, batch: SequenceBatch, output: PolicyOutput) -> Float[Tensor, ""]:
        """Return the term for one micro-batch: a mean over its decisions that carry loss (`batch.loss_mask`).

        Args:
            batch: N decisions in sequences, with observations, actions, advantages and returns.
            output: Action parameters, values and recurrent features of the network at all N decisions.
        """
        ...


class WeightedLoss(NamedTuple):
    """An extra loss, its coefficient, and its name in metrics and saved states."""

    name: str
    coefficient: float
    module: ExtraLoss

    @property
    def parameters(self) -> nn.Module | None:
        """The loss as a module with parameters to train; None if it has none."""
        return self.module if isinstance(self.module, nn.Module) else None


def load_extra_losses(coefficients: Mapping[str, float], network: ActorCritic) -> list[WeightedLoss]:
    """Create the extra losses that the settings name.

    Args:
        coefficients: Coefficient of each `MODULE:CLASS`; 0 leaves it out.
        network: The network that is trained.

    Raises:
        ConfigError: A class cannot be imported or called, or two have the same name.
    """
    losses: list[WeightedLoss] = []
    for path, coefficient in coefficients.items():
        if not coefficient:
            continue
        created = load_class(path, "ppo.extra_losses")(network)
        if not callable(created):
            raise ConfigError(
                f"ppo.extra_losses names {path!r}, which gives {type(created).__name__}: it has to be callable with "
                "(batch, output)"
            )
        name = path.partition(":")[2]
        if any(each.name == name for each in losses):
            raise ConfigError(f"ppo.extra_losses names two classes {name!r}: rename one, as metrics go by this name")
        losses.append(WeightedLoss(name, coefficient, cast("ExtraLoss", created)))
    return losses


class NextObservationLoss(nn.Module):
    """Auxiliary loss: predict the agent's next observation from the recurrent features by a linear layer.

    The error is the squared difference in normalised units, divided by the size D of the observation. The last decision
    of a sequence predicts nothing. Empty places of sets, and choices, are not predicted.

    Source: Jaderberg et al., "Reinforcement Learning with Unsupervised Auxiliary Tasks" (2016), for the idea.
    """

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        architecture, device = network.architecture, network.observation_mean.device
        self._network = (network,)  # in a tuple, so that its parameters are not this module's
        self.weight = nn.Parameter(
            torch.zeros(architecture.observation_size, architecture.recurrent_size, device=device)
        )
        self.bias = nn.Parameter(torch.zeros(architecture.observation_size, device=device))

    def forward(self, batch: SequenceBatch, output: PolicyOutput) -> Float[Tensor, ""]:
        """Return the mean squared error over the decisions that carry loss."""
        [network] = self._network
        before, after = successive(batch.runs)
        chosen = batch.loss_mask[before].nonzero().squeeze(1)
        target = batch.observation.index_select(0, after[chosen])
        numeric = network.numeric_mask(target)
        predicted = torch.addmm(self.bias, output.features.index_select(0, before[chosen]), self.weight.t())
        error = (predicted - network.normalise(target).where(numeric, 0.0)).square().where(numeric, 0.0).sum()
        mean: Tensor = error / (len(self.bias) * len(batch.index))
        return mean


def successive(runs: PackedRuns) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Rows of all decisions that have a successor in their sequence, and rows of these successors."""
    sizes = runs.first.long().diff()
    after = torch.arange(int(sizes[:1].sum()), int(sizes.sum()))
    before = after - sizes[:-1].repeat_interleave(sizes[1:])
    device = runs.padded_index.device
    return before.to(device), after.to(device)
