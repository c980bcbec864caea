"""Protocol of a learning algorithm, and the choice of one by `algorithm.name`.

A run collects rollouts with the algorithm's `network`, gives each to `learn`, publishes snapshots of `published`, and
saves `tensors()`. To write your own algorithm, derive from `trainer.ppo.learner.Learner` and override `update`, as
`trainer.algorithms.vtrace` does. Or implement the protocol from nothing.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.policies import ActorCritic
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError
from trainer.ppo.user_classes import load_class
from trainer.process_group import SINGLE_PROCESS, ProcessGroup
from trainer.rollout.buffer import RolloutBuffer

BUILT_IN = {"ppo": "trainer.ppo.learner:Learner", "vtrace": "trainer.algorithms.vtrace:VTrace"}
"""Class of each algorithm that has a name of its own."""


@runtime_checkable
class Algorithm(Protocol):
    """Everything that a run needs of a learning algorithm.

    It is called with the settings, the environment's specification and the process group, and with the settings
    `algorithm.options` as keyword arguments.

    Attributes:
        network: Network that acts and learns.
        rng: Random numbers of acting.
        rows: R, agents of this rank that learn: rows of a rollout.
        steps: Environment steps learned from, over all ranks.
        updates: Calls of `learn`.
        began_step: Value of `steps` when the current weights were reset; schedules count from there.
    """

    network: ActorCritic
    rng: torch.Generator
    rows: int
    steps: int
    updates: int
    began_step: int

    @property
    def published(self) -> ActorCritic:
        """Network of snapshots, such as a moving average of the weights."""
        ...

    def allocate(self) -> RolloutBuffer:
        """Allocate the buffer that the run collects rollouts in."""
        ...

    def learn(self, rollout: RolloutBuffer, should_stop: Callable[[], bool]) -> dict[str, float | None]:
        """Learn from one rollout, and count its steps; return metrics.

        Args:
            rollout: T decisions of R agents.
            should_stop: Whether to return before the next optimiser step, because the run is to end.
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that learning depends on by name, for a saved state."""
        ...

    def restore(self, tensors: Mapping[str, Tensor], steps: int, updates: int) -> None:
        """Continue from the tensors of a saved state, bit by bit.

        Raises:
            StateError: A tensor is missing or does not fit.
        """
        ...

    def reset_weights(self, start: ActorCritic | None = None) -> None:
        """Start again from the weights of `start`, or from fresh ones; steps and updates continue."""
        ...


def make_algorithm(config: TrainerConfig, spec: EnvironmentSpec, ranks: ProcessGroup = SINGLE_PROCESS) -> Algorithm:
    """Create the algorithm that the settings name.

    Raises:
        ConfigError: The class cannot be imported, does not take the options, or lacks members of `Algorithm`.
    """
    name, options = config.algorithm.name, config.algorithm.options
    create = load_class(BUILT_IN.get(name, name), "algorithm.name", known=tuple(BUILT_IN))
    signature = inspect.signature(create)
    try:
        signature.bind(config, spec, ranks, **options)
    except TypeError as error:
        taken = [str(each) for each in signature.parameters.values() if each.kind is each.KEYWORD_ONLY]
        raise ConfigError(
            f"algorithm.name {name!r} cannot be called with (config, spec, ranks) and algorithm.options {options}: "
            f"{error}; the options that it takes: {', '.join(taken) or 'none'}"
        ) from error
    algorithm = create(config, spec, ranks, **options)
    if not isinstance(algorithm, Algorithm):
        missing = sorted(member for member in _members() if not hasattr(algorithm, member))
        raise ConfigError(
            f"algorithm.name names {name!r}, which has no {', '.join(missing)}: derive it from "
            "trainer.ppo.learner:Learner, or add them as trainer.algorithms.Algorithm describes them"
        )
    return algorithm


def _members() -> set[str]:
    """Return the names of everything that the protocol asks for."""
    methods = {name for name in vars(Algorithm) if not name.startswith("_")}
    return methods | set(Algorithm.__annotations__)
