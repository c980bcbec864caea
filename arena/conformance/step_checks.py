"""Checks of a transition: rewards, ends, outcomes, final observations and seeds."""

import torch
from torch import Tensor

from arena.conformance.transitions import Fault, Transition, first, unlike
from arena.environments.base import Observation, StepResult

NOBODY_WINS = 0.5
"""Score of an unfinished match."""

ZERO_SUM_TOLERANCE = 1e-4
"""Relative tolerance for a sum of rewards of 0, because float32 rounds."""

OBSERVATIONS = "observations: "
"""Prefix of the names of a step's observations in `tensors_of`."""


def wrong_rewards(moment: Transition) -> Fault | None:
    """Check that rewards are finite float32 of shape (E, N)."""
    reward, shape = moment.step.reward, (moment.env.num_envs, moment.env.spec.num_agents)
    if tuple(reward.shape) != shape or reward.dtype is not torch.float32:
        return Fault(f"rewards are {reward.dtype} of shape {tuple(reward.shape)}: torch.float32 of {shape} is required")
    place = first(~torch.isfinite(reward))
    return None if place is None else Fault(f"its reward is {float(reward[place])}", *place)


class UnequalSums:
    """Checks that the rewards of each match sum to 0 over all agents."""

    def __init__(self) -> None:
        self._sum: Tensor | None = None
        self._size: Tensor | None = None

    def __call__(self, moment: Transition) -> Fault | None:
        """Add the rewards and check the sums of finished matches."""
        reward, over = moment.step.reward.double(), moment.step.over
        total, size = reward.sum(dim=1), reward.abs().sum(dim=1)
        self._sum = total if self._sum is None else self._sum + total
        self._size = size if self._size is None else self._size + size
        place = first(over & (self._sum.abs() > ZERO_SUM_TOLERANCE * (1.0 + self._size)))
        fault = None if place is None else Fault(f"its rewards sum to {float(self._sum[place]):g}", *place)
        self._sum, self._size = self._sum.masked_fill(over, 0.0), self._size.masked_fill(over, 0.0)
        return fault


def wrong_ends(moment: Transition) -> Fault | None:
    """Check that end flags are bool (E,), not both true, and that no match exceeds its limit."""
    step, shape, limit = moment.step, (moment.env.num_envs,), moment.env.spec.max_decisions
    for name, flag in (("terminated", step.terminated), ("truncated", step.truncated), ("over", step.over)):
        if tuple(flag.shape) != shape or flag.dtype is not torch.bool:
            return Fault(f"{name} is {flag.dtype} of shape {tuple(flag.shape)}: torch.bool of {shape} is required")
    if place := first(step.terminated & step.truncated):
        return Fault("it is both terminated and truncated", *place)
    if place := first(step.over & ~step.ended):
        return Fault("the match is over, but its last episode continues", *place)
    if place := first(~step.over & (moment.lengths >= limit)):
        return Fault(f"it continues after {int(moment.lengths[place]):,} decisions: max_decisions is {limit:,}", *place)
    return None


def wrong_outcomes(moment: Transition) -> Fault | None:
    """Check that scores and reasons are in range, and neutral while a match continues."""
    outcome, over, reasons = moment.step.outcome, moment.step.over, len(moment.env.spec.reasons)
    score, reason, shape = outcome.score, outcome.reason, (moment.env.num_envs,)
    kinds = ((("score", score), torch.float64), (("reason", reason), torch.int64))
    for (name, tensor), kind in kinds:
        if tuple(tensor.shape) != shape or tensor.dtype is not kind:
            return Fault(f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}: {kind} of {shape} is required")
    if place := first(over & ~((score >= 0.0) & (score <= 1.0))):
        return Fault(f"home's score is {float(score[place]):g}", *place)
    if place := first(over & ((reason < 0) | (reason >= reasons))):
        return Fault(f"its reason is {int(reason[place])}: the spec has {reasons}, from 0", *place)
    if place := first(~over & ((score != NOBODY_WINS) | (reason != 0))):
        return Fault(f"it continues, but has score {float(score[place]):g} and reason {int(reason[place])}", *place)
    return None


def wrong_lengths(moment: Transition) -> Fault | None:
    """Check that finished matches report their number of decisions."""
    detail = moment.step.outcome.decisions
    if tuple(detail.shape) != (moment.env.num_envs,) or detail.dtype is not torch.int64:
        return Fault(
            f"decisions are {detail.dtype} of shape {tuple(detail.shape)}: torch.int64 for each match is required"
        )
    place = first(moment.step.over & (detail != moment.lengths))
    if place is None:
        return None
    return Fault(f"it reports {int(detail[place])} decisions, but had {int(moment.lengths[place])}", *place)


class FinalObservation:
    """Checks that final observations belong to the finished match.

    An environment that resets too early returns the first observation of the next match instead. In a game with a fixed
    opening, this is visible only over many matches: all final observations equal openings.
    """

    def __init__(self) -> None:
        self._opening: Tensor | None = None
        self._ends, self._like_openings = 0, 0

    def __call__(self, moment: Transition) -> Fault | None:
        """Compare the final observation with the next observation."""
        step = moment.step
        final, after = step.final_observation, step.observation
        for name, one, other in _pairs(final, after):
            differs = unlike(one, other).flatten(1).any(dim=1) & ~step.ended
            if place := first(differs):
                return Fault(f"the episode continues, but {name} differ from the observation", *place)
        cut = step.truncated & step.over & ~final.active.any(dim=1)
        if place := first(cut):
            return Fault("it was truncated, but no agent is active in its final observation", *place)
        return self._look_for_openings(moment)

    def _look_for_openings(self, moment: Transition) -> Fault | None:
        step = moment.step
        pairs = _pairs(step.final_observation, step.observation)
        other = torch.stack([unlike(final, opening).flatten(1).any(dim=1) for _, final, opening in pairs]).any(dim=0)
        moved = unlike(moment.before.values, step.observation.values).flatten(1).any(dim=1)
        over = step.over
        # `moved` leaves out matches whose last decision changed nothing: their final observation may equal an
        # opening.
        self._ends += int(over.sum())
        self._like_openings += int((over & moved & ~other).sum())
        enough = self._ends >= moment.env.num_envs
        if not enough or self._like_openings < self._ends:
            return None
        row = int(over.nonzero()[0]) if bool(over.any()) else None
        return Fault("it is the next match's first, as with every match so far", row)


def wrong_seeds(moment: Transition) -> Fault | None:
    """Check that a new match starts with the announced seed, and that the seed stays the same within a match."""
    now = moment.env.seeds
    due = torch.where(moment.step.over, moment.next_seeds, moment.seeds)
    place = first(now != due)
    if place is None:
        return None
    row = place[0]
    when = "the next match started with seed" if bool(moment.step.over[row]) else "it continues, but seeds has"
    return Fault(f"{when} {int(now[row])}: expected {int(due[row])}", row)


class NoAliasing:
    """Checks that a later step does not change returned arrays."""

    def __init__(self) -> None:
        self._last: list[tuple[str, Tensor, Tensor]] = []

    def __call__(self, moment: Transition) -> Fault | None:
        """Compare the arrays of the previous step with their copies."""
        for name, tensor, copy in self._last:
            if place := first(unlike(tensor, copy)):
                return Fault(f"{name} of the previous decision have changed", place[0])
        self._last = [(name, tensor, tensor.clone()) for name, tensor in tensors_of(moment.step)]
        return None


def tensors_of(step: StepResult) -> list[tuple[str, Tensor]]:
    """Return all tensors of a step with their names; the leading axis of each is E."""
    sights = ((OBSERVATIONS, step.observation), ("the final observation: ", step.final_observation))
    return [
        *((f"{whose}{name}", tensor) for whose, seen in sights for name, tensor in parts_of(seen)),
        ("rewards", step.reward),
        ("terminations", step.terminated),
        ("truncations", step.truncated),
        ("ends of matches", step.over),
        ("scores", step.outcome.score),
        ("reasons", step.outcome.reason),
        ("lengths", step.outcome.decisions),
    ]


def parts_of(seen: Observation) -> list[tuple[str, Tensor]]:
    """Return all tensors of an observation with their names."""
    return [
        ("values", seen.values),
        ("active agents", seen.active),
        *((f"masks of head {name!r}", mask) for name, mask in seen.masks.items()),
    ]


def _pairs(one: Observation, other: Observation) -> list[tuple[str, Tensor, Tensor]]:
    return [(name, mine, theirs) for (name, mine), (_, theirs) in zip(parts_of(one), parts_of(other), strict=True)]
