"""Checks that a loaded network fits an environment and gives finite outputs for its observations."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.registry import ROUNDS
from arena.environments.spec import ChoiceBlock, EnvironmentSpec, ObservationBlock
from arena.errors import CheckpointError
from arena.policies.network_policy import NetworkPolicy
from arena.policies.nn.actor_critic import ActorCritic

UNBOUNDED = 1e6
"""Replaces an infinite bound. Networks clip normalised observations, so larger values change little."""


def require_environment(policy: NetworkPolicy, spec: EnvironmentSpec, source: str) -> None:
    """Raise unless a policy was trained in this environment.

    A game played in rounds has the signature of the game itself, so policies of one can play the other.

    Raises:
        CheckpointError: Name, signature or network layout differ from the environment's.
    """
    same_game = policy.environment.partition(ROUNDS)[0] == spec.name.partition(ROUNDS)[0]
    if policy.signature != spec.signature:
        if same_game:
            raise CheckpointError(
                f"{source} was trained for {spec.name} of other rules (signature {policy.signature}; {spec.name} is "
                f"now {spec.signature}): train it again, or use the release that it was trained with"
            )
        raise CheckpointError(
            f"{source} was trained for {policy.environment} (signature {policy.signature}), but {spec.name} has "
            f"signature {spec.signature}: give a checkpoint of {spec.name}"
        )
    if not same_game:
        raise CheckpointError(
            f"{source} names the environment {policy.environment}, but has the signature of {spec.name} "
            f"({spec.signature}): give a checkpoint that was written for {spec.name}"
        )
    architecture = policy.network.architecture
    if (architecture.observation_size, architecture.heads) != (spec.observation_size, spec.heads):
        raise CheckpointError(
            f"{source} takes {architecture.observation_size} floats and the heads "
            f"{[head.name for head in architecture.heads]}, unlike {spec.name}: publish it again"
        )


def observation_bounds(spec: EnvironmentSpec) -> Float[Tensor, "2 D"]:
    """Return the lowest and the highest observation that an environment declares, with finite numbers."""
    low = torch.cat([torch.full((block.size,), _finite(block.low)) for block in spec.observation])
    return torch.stack((low, torch.cat([_highest(block) for block in spec.observation])))


@torch.inference_mode()
def require_finite_outputs(network: ActorCritic, observations: Float[Tensor, "R D"], source: str) -> None:
    """Raise if outputs for these observations are not finite, at an episode's start or one decision later.

    Raises:
        CheckpointError: Action parameters, value or recurrent state are not finite, or a user module fails.
    """
    values = observations.to(network.observation_mean.device)
    active = torch.ones(len(values), dtype=torch.bool, device=values.device)
    state = network.initial_state(len(values))
    for start in (active, ~active):
        try:
            parameters, value, state = network.step(values, state, start, active)
        except (MemoryError, torch.OutOfMemoryError):  # no fault of the network
            raise
        except Exception as error:  # a user module may raise anything
            raise CheckpointError(
                f"{source} fails on observations within the declared bounds ({type(error).__name__}: {error}): "
                "publish a network that computes actions from every observation"
            ) from error
        outputs = {"action parameters": parameters, "value": value, "recurrent state": torch.cat(state, dim=-1)}
        for name, output in outputs.items():
            per_row = output.reshape(len(values), -1)
            wrong = (~per_row.isfinite()).nonzero()
            if len(wrong):
                row, column = wrong[0].tolist()
                low, high = observations[row].min().item(), observations[row].max().item()
                raise CheckpointError(
                    f"{source} computes {per_row[row, column]:g} in its {name} from an observation within "
                    f"[{low:g}, {high:g}], and outputs must be finite: take a checkpoint of an earlier step"
                )


def _highest(block: ObservationBlock) -> Float[Tensor, " size"]:
    if isinstance(block, ChoiceBlock):
        return torch.tensor([float(options - 1) for options in block.options])
    return torch.full((block.size,), _finite(block.high))


def _finite(bound: float) -> float:
    return bound if math.isfinite(bound) else math.copysign(UNBOUNDED, bound)
