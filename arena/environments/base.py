"""Interface of batched environments: the contract for authors of games."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.spec import EnvironmentSpec, HeadKind
from arena.errors import InvalidActionError

Actions = Mapping[str, Tensor]
"""Actions per head: gaussian (..., K) float in [-1, 1], bernoulli (..., K) bool, categorical (...) int64."""


NOTHING_LEGAL = "nothing, which is the game's mistake: in its masks 1 is legal and 0 is not"
"""Text for an error if the mask of an active agent allows nothing."""


@dataclass(frozen=True)
class Observation:
    """Observations of agents; leading axes are (E, N) from an environment and (R,) for a policy.

    Attributes:
        values: Observation values (..., D), in the layout of the spec.
        masks: Action mask (..., K) bool of every masked head. True for dimensions and options that may matter.
        active: (...) bool, agents that act now. Inactive agents (dead, or waiting for their turn) contribute no loss,
            no statistics and no state update, and their actions are ignored.
    """

    values: Float[Tensor, "... D"]
    masks: Mapping[str, Bool[Tensor, "... _"]]
    active: Bool[Tensor, "..."]

    def side(self, agents: slice) -> "Observation":
        """Return the observations of some agents of every environment, with (E, n) flattened to R = E * n rows."""
        return Observation(
            values=self.values[:, agents].flatten(0, 1),
            masks={name: mask[:, agents].flatten(0, 1) for name, mask in self.masks.items()},
            active=self.active[:, agents].flatten(0, 1),
        )

    def rows(self, index: Tensor) -> "Observation":
        """Return the entries `index` (int64 or bool) of the first axis."""
        return Observation(
            values=self.values[index],
            masks={name: mask[index] for name, mask in self.masks.items()},
            active=self.active[index],
        )


@dataclass(frozen=True)
class Outcome:
    """Result of the matches that ended in this step; the score is 0.5 and the reason 0 in other rows.

    Attributes:
        score: Home's score (E,) float64 in [0, 1].
        reason: (E,) int64 index into `spec.reasons`.
        decisions: (E,) int64 length of the match so far, in decisions.
    """

    score: Float[Tensor, " E"]
    reason: Int[Tensor, " E"]
    decisions: Int[Tensor, " E"]


@dataclass(frozen=True)
class StepResult:
    """Result of one decision in every environment.

    Attributes:
        observation: Next observation; after the end of an episode the first of the next one (autoreset).
        reward: Reward (E, N) float32 of the action just taken.
        terminated: (E,) bool, true if the game ended the episode.
        truncated: (E,) bool, true if a limit ended the episode.
        final_observation: Last observation of an episode that ended; elsewhere equal to `observation`. In a truncated
            episode all agents that could have continued are active and observe, including those waiting for their turn.
        outcome: Result of the match, valid where `over` is true.
    """

    observation: Observation
    reward: Float[Tensor, "E N"]
    terminated: Bool[Tensor, " E"]
    truncated: Bool[Tensor, " E"]
    final_observation: Observation
    outcome: Outcome

    @property
    def ended(self) -> Bool[Tensor, " E"]:
        """(E,) true where an episode ended: memory is cleared and advantages are cut."""
        return self.terminated | self.truncated

    @property
    def over(self) -> Bool[Tensor, " E"]:
        """(E,) true where a match ended. A match is one episode, except in a `RoundResult`."""
        return self.ended


@dataclass(frozen=True)
class RoundResult(StepResult):
    """Result of one decision if a match can have several episodes.

    A match has several rounds with one episode each, or it was lost with its worker and restarts.

    Attributes:
        match_over: (E,) bool, true if the match ended; implies that an episode ended.
    """

    match_over: Bool[Tensor, " E"]

    @property
    def over(self) -> Bool[Tensor, " E"]:
        """(E,) true where a match ended."""
        return self.match_over


@runtime_checkable
class Environment(Protocol):
    """A batch of E matches with autoreset per row.

    Tensors returned by `reset` and `step` belong to the caller: later steps do not change them.

    Attributes:
        spec: Environment spec.
        num_envs: E.
        device: Device of its tensors.
        seeds: Seed (E,) int64 of each row's current match, which determines all its randomness.
        next_seeds: Seed (E,) int64 of each row's next match. It is derived from the environment's seed, unless the
            caller overwrites it in place before the match ends.
    """

    spec: EnvironmentSpec
    num_envs: int
    device: torch.device
    seeds: Int[Tensor, " E"]
    next_seeds: Int[Tensor, " E"]

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row, from `seeds` or from `next_seeds`.

        Raises:
            ArenaError: `seeds` does not have one nonnegative integer per row.
        """
        ...

    def step(self, actions: Actions) -> StepResult:
        """Play one decision of every agent.

        Args:
            actions: Actions of every head with leading axes (E, N); those of inactive agents are ignored.

        Raises:
            InvalidActionError: A head is missing, unknown or of the wrong shape.
        """
        ...


@runtime_checkable
class AwaitedEnvironment(Environment, Protocol):
    """Capability: step matches in the background.

    `step` is `send` and `receive`. In between it may be reset, which forgets the decision.
    """

    def send(self, actions: Actions) -> None:
        """Start a decision of every agent (see `step`).

        Raises:
            InvalidActionError: A head is missing, unknown or of the wrong shape.
            ArenaError: A decision is already in progress.
        """
        ...

    def receive(self) -> StepResult:
        """Wait for the decision and return its result.

        Raises:
            ArenaError: No decision is in progress.
        """
        ...

    def halves(self) -> "Sequence[AwaitedEnvironment]":
        """Split into two batches of half the matches with the same workers; they replace this one.

        One batch steps while policies act for the other. An environment that cannot be split returns itself alone.
        """
        ...


@runtime_checkable
class ItemisedEnvironment(Environment, Protocol):
    """Capability: split rewards into named components."""

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the C reward components."""
        ...

    @property
    def components(self) -> Float[Tensor, "E N C"]:
        """(E, N, C) weighted reward components of each agent in the last decision.

        Summed over C and a side's agents they equal the side's total reward, because rewards are shared within the side
        only afterwards.
        """
        ...


@runtime_checkable
class ShapedEnvironment(Environment, Protocol):
    """Capability: potential-based reward shaping (Ng et al., 1999)."""

    @property
    def shaping_gamma(self) -> float:
        """Discount of the shaping gamma f' - f. Training with the same discount preserves optimal policies."""
        ...


@dataclass(frozen=True)
class Measure:
    """A behaviour metric of one side in a match.

    Attributes:
        name: Name with its unit, unless it is a share, such as "engagement_range_m".
        low: Smallest value, in that unit.
        high: Largest value; may be infinite.
    """

    name: str
    low: float
    high: float


@runtime_checkable
class Meter(Protocol):
    """Measures the behaviour of both sides in E matches without changing them.

    Attributes:
        measures: The B metrics, with unique names.
    """

    measures: tuple[Measure, ...]

    def opened(self, observation: Observation) -> None:
        """Called with the result of `reset`."""
        ...

    def stepped(self, actions: Actions, step: StepResult) -> Float[Tensor, "E 2 B"]:
        """Called with the actions and the result of every decision.

        Returns:
            Metrics of home and away over the whole match, for matches that ended; NaN if undefined, and for all other
            matches.
        """
        ...


@runtime_checkable
class MeasuredEnvironment(Environment, Protocol):
    """Capability: measure how each side plays, apart from its score."""

    def measure(self) -> Meter:
        """Return a meter of the matches from the next `reset` on. Without one, measuring costs nothing."""
        ...


@runtime_checkable
class CurriculumEnvironment(Protocol):
    """Capability: play a reduced game.

    Attributes:
        stage: Current stage; the full game until `set_stage` is called.
    """

    stage: Any

    def set_stage(self, stage: Any) -> None:  # noqa: ANN401  the environment's own type
        """Set the stage; it takes effect with each row's next match."""
        ...


@runtime_checkable
class CountsBytes(Protocol):
    """Capability: report the memory of its matches, without observations."""

    @property
    def own_bytes(self) -> int:
        """Bytes of all matches together."""
        ...

    @property
    def shared_bytes(self) -> int:
        """Bytes that exist once for all matches, such as maps."""
        ...


CAPABILITIES: tuple[type, ...] = (
    AwaitedEnvironment,
    ItemisedEnvironment,
    ShapedEnvironment,
    MeasuredEnvironment,
    CurriculumEnvironment,
    CountsBytes,
)
"""All optional protocols of an environment."""

C = TypeVar("C")


def capabilities_of(env: object) -> tuple[type, ...]:
    """Return the optional protocols that an environment supports.

    An environment lists them in its attribute `capabilities`. Without this attribute it supports every protocol whose
    members it has.
    """
    declared: tuple[type, ...] | None = getattr(env, "capabilities", None)
    return tuple(each for each in CAPABILITIES if isinstance(env, each)) if declared is None else declared


def supports(env: object, capability: type[C]) -> TypeGuard[C]:
    """Return whether an environment supports an optional protocol; see `capabilities_of`."""
    return capability in capabilities_of(env)


def check_actions(spec: EnvironmentSpec, num_envs: int, actions: Actions) -> None:
    """Check that actions match the spec's heads.

    Raises:
        InvalidActionError: A head is missing, unknown or of the wrong shape.
    """
    expected = {
        head.name: (num_envs, spec.num_agents)
        if head.kind is HeadKind.CATEGORICAL
        else (num_envs, spec.num_agents, head.size)
        for head in spec.heads
    }
    if missing := expected.keys() ^ actions.keys():
        raise InvalidActionError(
            f"action heads {sorted(missing)} are missing or unknown to {spec.name}: give exactly {sorted(expected)}"
        )
    for name, shape in expected.items():
        if tuple(actions[name].shape) != shape:
            raise InvalidActionError(
                f"actions of head {name!r} have shape {tuple(actions[name].shape)}: {spec.name} takes {shape}"
            )
