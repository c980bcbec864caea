"""How a batch of matches is stepped. Contract for anyone who brings a game."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.spec import EnvironmentSpec, HeadKind
from arena.errors import InvalidActionError

Actions = Mapping[str, Tensor]
"""Action of every head: gaussian (..., K) float in [-1, 1], bernoulli (..., K) bool, categorical (...) int64."""


NOTHING_LEGAL = "nothing, which is the game's mistake: in its masks 1 is legal and 0 is not"
"""What is said to be allowed where a mask allows nothing to somebody who acts."""


@dataclass(frozen=True)
class Observation:
    """What agents perceive; leading axes are (E, N) in an environment and (R,) before a policy.

    Attributes:
        values: Observation floats (..., D), laid out as the spec declares.
        masks: For every masked head, (..., K) bool; true where the dimension or option may matter.
        active: (...) bool; who acts now. Inactive agents (dead, or not their turn) carry no loss, no statistics and
            no state update; their actions are ignored.
    """

    values: Float[Tensor, "... D"]
    masks: Mapping[str, Bool[Tensor, "... _"]]
    active: Bool[Tensor, "..."]

    def side(self, agents: slice) -> "Observation":
        """Observation of some agents of every environment, with (E, n) flattened to R = E * n rows."""
        return Observation(
            values=self.values[:, agents].flatten(0, 1),
            masks={name: mask[:, agents].flatten(0, 1) for name, mask in self.masks.items()},
            active=self.active[:, agents].flatten(0, 1),
        )

    def rows(self, index: Tensor) -> "Observation":
        """The entries `index` (int64 or bool) of the first axis."""
        return Observation(
            values=self.values[index],
            masks={name: mask[index] for name, mask in self.masks.items()},
            active=self.active[index],
        )


@dataclass(frozen=True)
class Outcome:
    """Result of the matches that ended in this step; other rows hold 0.5 and 0.

    Attributes:
        score: Home's score (E,) float64 in [0, 1].
        reason: (E,) int64, indexes `spec.reasons`.
        decisions: (E,) int64, length of the match so far, in decisions.
    """

    score: Float[Tensor, " E"]
    reason: Int[Tensor, " E"]
    decisions: Int[Tensor, " E"]


@dataclass(frozen=True)
class StepResult:
    """What came of one decision of every environment.

    Attributes:
        observation: What agents perceive next; where an episode ended, the next episode's first.
        reward: Reward (E, N) float32 of the action just taken.
        terminated: (E,) bool, the episode was ended by the game.
        truncated: (E,) bool, the episode was cut by a limit.
        final_observation: Where an episode ended, its last observation; elsewhere equal to `observation`. Where a limit
            cut it off, whoever would have gone on is active in it and sees something, also who waited for its turn.
        outcome: Explicit result, valid where `over`.
    """

    observation: Observation
    reward: Float[Tensor, "E N"]
    terminated: Bool[Tensor, " E"]
    truncated: Bool[Tensor, " E"]
    final_observation: Observation
    outcome: Outcome

    @property
    def ended(self) -> Bool[Tensor, " E"]:
        """Where an episode ended: memory is cleared, and advantages are cut."""
        return self.terminated | self.truncated

    @property
    def over(self) -> Bool[Tensor, " E"]:
        """Where a match ended, which is one episode unless the environment says otherwise; see `RoundResult`."""
        return self.ended


@dataclass(frozen=True)
class RoundResult(StepResult):
    """What came of one decision where an episode's end need not be the match's.

    A match has several rounds, each an episode of its own; or what played it was lost, and it is played anew.

    Attributes:
        match_over: (E,) bool, the match ended; true only where an episode ended.
    """

    match_over: Bool[Tensor, " E"]

    @property
    def over(self) -> Bool[Tensor, " E"]:
        """Where a match ended."""
        return self.match_over


@runtime_checkable
class Environment(Protocol):
    """E matches at once. Environments reset themselves row by row.

    Tensors that `reset` and `step` return belong to the caller: a later step does not change them.

    Attributes:
        spec: What the environment declares.
        num_envs: E.
        device: Where its tensors live.
        seeds: Seed (E,) int64 of the match that each row is in; everything random in it follows from it.
        next_seeds: Seed (E,) int64 of each row's next match, drawn from the environment's seed unless the caller
            writes its own before the match ends (in place).
    """

    spec: EnvironmentSpec
    num_envs: int
    device: torch.device
    seeds: Int[Tensor, " E"]
    next_seeds: Int[Tensor, " E"]

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row, from `seeds` or from `next_seeds`.

        Raises:
            ArenaError: `seeds` are not one for each row, no whole numbers, or below 0.
        """
        ...

    def step(self, actions: Actions) -> StepResult:
        """Play one decision of every agent.

        Args:
            actions: For every head, actions with leading axes (E, N); those of inactive agents are ignored.

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
        """Begin a decision of every agent; see `step`.

        Raises:
            InvalidActionError: A head is missing, unknown or of the wrong shape.
            ArenaError: A decision is under way.
        """
        ...

    def receive(self) -> StepResult:
        """Wait until it is played, and return what came of it.

        Raises:
            ArenaError: No decision is under way.
        """
        ...

    def halves(self) -> "Sequence[AwaitedEnvironment]":
        """Return two batches with half of its matches each, stepped by the same means, that take its place.

        One is played while somebody decides for the other. Where it cannot be divided, it is the only one.
        """
        ...


@runtime_checkable
class ItemisedEnvironment(Environment, Protocol):
    """Capability: split rewards into named components."""

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the C things by which agents earn."""
        ...

    @property
    def components(self) -> Float[Tensor, "E N C"]:
        """What each agent earned by each of them in the last decision, weights included.

        Over C and the agents of a side they add up to that side's rewards: who shares what with whom comes after.
        """
        ...


@runtime_checkable
class ShapedEnvironment(Environment, Protocol):
    """Capability: potential-based reward shaping (Ng et al., 1999)."""

    @property
    def shaping_gamma(self) -> float:
        """Discount of its shaping, gamma f' - f: it leaves the best play as it is only where training has the same."""
        ...


@dataclass(frozen=True)
class Measure:
    """One number that says how a side played a match.

    Attributes:
        name: What it is, with its unit unless it is a share, such as "engagement_range_m".
        low: Least value, in that unit.
        high: Largest value; may be infinite.
    """

    name: str
    low: float
    high: float


@runtime_checkable
class Meter(Protocol):
    """Measures how both sides of E matches play, decision by decision, and changes nothing.

    Attributes:
        measures: What it measures, B in all, with different names.
    """

    measures: tuple[Measure, ...]

    def opened(self, observation: Observation) -> None:
        """See what `reset` returned."""
        ...

    def stepped(self, actions: Actions, step: StepResult) -> Float[Tensor, "E 2 B"]:
        """See a decision of every match, and what came of it.

        Returns:
            For matches that ended in it what home and away were like in all of the match, NaN for what there was
            nothing to measure of. For others NaN.
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
        lesson: Current lesson; the full game until `teach` is called.
    """

    lesson: Any

    def teach(self, lesson: Any) -> None:  # noqa: ANN401  the environment's own type
        """Set the lesson; it takes effect with each row's next match."""
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
    """Refuse actions that do not fit the spec's heads, by name.

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
