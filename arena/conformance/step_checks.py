"""Checks of a transition: rewards, ends, outcomes, final observations and seeds."""

import torch
from torch import Tensor

from arena.conformance.transitions import Fault, Transition, first, misshapen, paired, parts_of, tensors_of, unlike

NOBODY_WINS = 0.5
"""Score of an unfinished match."""

ZERO_SUM_TOLERANCE = 1e-4
"""Relative tolerance for a sum of rewards of 0, because float32 rounds."""


def wrong_rewards(moment: Transition) -> Fault | None:
    """Check that rewards are finite float32 of shape (E, N)."""
    env, reward = moment.env, moment.step.reward
    if fault := misshapen(env, "reward", reward, (env.num_envs, env.spec.num_agents), torch.float32):
        return fault
    index = first(~torch.isfinite(reward))
    return None if index is None else Fault(f"its reward is {float(reward[index])}", *index)


class UnequalSums:
    """Checks that the rewards of each match sum to 0 over all agents."""

    def __init__(self) -> None:
        self._sum = self._size = torch.zeros((), dtype=torch.float64)

    def __call__(self, moment: Transition) -> Fault | None:
        """Add the rewards and check the sums of finished matches."""
        reward, over = moment.step.reward.double(), moment.step.over
        self._sum = self._sum + reward.sum(dim=1)
        self._size = self._size + reward.abs().sum(dim=1)
        index = first(over & (self._sum.abs() > ZERO_SUM_TOLERANCE * (1.0 + self._size)))
        fault = None if index is None else Fault(f"its rewards sum to {float(self._sum[index]):g}", *index)
        self._sum, self._size = self._sum.masked_fill(over, 0.0), self._size.masked_fill(over, 0.0)
        return fault


def wrong_ends(moment: Transition) -> Fault | None:
    """Check that end flags are bool (E,), not both true, and that no match exceeds its limit."""
    env, step, limit = moment.env, moment.step, moment.env.spec.max_decisions
    for name, flag in (("terminated", step.terminated), ("truncated", step.truncated), ("over", step.over)):
        if fault := misshapen(env, name, flag, (env.num_envs,), torch.bool):
            return fault
    if index := first(step.terminated & step.truncated):
        return Fault("it is both terminated and truncated", *index)
    if index := first(step.over & ~step.ended):
        return Fault("the match is over, but its last episode continues", *index)
    if index := first(~step.over & (moment.lengths >= limit)):
        return Fault(f"it continues after {int(moment.lengths[index]):,} decisions: max_decisions is {limit:,}", *index)
    return None


def wrong_outcomes(moment: Transition) -> Fault | None:
    """Check that scores and reasons are in range, and neutral while a match continues."""
    env, over, reasons = moment.env, moment.step.over, len(moment.env.spec.reasons)
    score, reason = moment.step.outcome.score, moment.step.outcome.reason
    for name, tensor, dtype in (("score", score, torch.float64), ("reason", reason, torch.int64)):
        if fault := misshapen(env, name, tensor, (env.num_envs,), dtype):
            return fault
    if index := first(over & ~((score >= 0.0) & (score <= 1.0))):
        return Fault(f"home's score is {float(score[index]):g}", *index)
    if index := first(over & ((reason < 0) | (reason >= reasons))):
        return Fault(f"its reason is {int(reason[index])}: the spec has {reasons}, from 0", *index)
    if index := first(~over & ((score != NOBODY_WINS) | (reason != 0))):
        return Fault(f"it continues, but has score {float(score[index]):g} and reason {int(reason[index])}", *index)
    return None


def wrong_lengths(moment: Transition) -> Fault | None:
    """Check that finished matches report their number of decisions."""
    decisions = moment.step.outcome.decisions
    if fault := misshapen(moment.env, "decisions", decisions, (moment.env.num_envs,), torch.int64):
        return fault
    index = first(moment.step.over & (decisions != moment.lengths))
    if index is None:
        return None
    return Fault(f"it reports {int(decisions[index])} decisions, but had {int(moment.lengths[index])}", *index)


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
        for name, one, other in paired(parts_of(final), parts_of(after)):
            differs = unlike(one, other).flatten(1).any(dim=1) & ~step.ended
            if index := first(differs):
                return Fault(f"the episode continues, but {name} differ from the observation", *index)
        cut = step.truncated & step.over & ~final.active.any(dim=1)
        if index := first(cut):
            return Fault("it was truncated, but no agent is active in its final observation", *index)
        return self._look_for_openings(moment)

    def _look_for_openings(self, moment: Transition) -> Fault | None:
        step = moment.step
        pairs = paired(parts_of(step.final_observation), parts_of(step.observation))
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
    index = first(now != due)
    if index is None:
        return None
    row = index[0]
    when = "the next match started with seed" if bool(moment.step.over[row]) else "it continues, but seeds has"
    return Fault(f"{when} {int(now[row])}: expected {int(due[row])}", row)


class NoAliasing:
    """Checks that a later step does not change returned arrays."""

    def __init__(self) -> None:
        self._last: list[tuple[str, Tensor, Tensor]] = []

    def __call__(self, moment: Transition) -> Fault | None:
        """Compare the arrays of the previous step with their copies."""
        for name, tensor, copy in self._last:
            if index := first(unlike(tensor, copy)):
                return Fault(f"{name} of the previous decision have changed", index[0])
        self._last = [(name, tensor, tensor.clone()) for name, tensor in tensors_of(moment.step)]
        return None
