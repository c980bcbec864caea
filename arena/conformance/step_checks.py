"""Checks of a transition: rewards, ends, outcomes, final observations and seeds."""

import torch

from arena.conformance.check import ViolationError, check
from arena.conformance.transitions import Transition, first, parts_of, require_tensor, tensors_of, unlike
from arena.environments.spec import HeadKind

NOBODY_WINS = 0.5
"""Score of an unfinished match."""

ZERO_SUM_TOLERANCE = 1e-4
"""Relative tolerance for a sum of rewards of 0, because float32 rounds."""


@check("legal actions", stops=True)
def legal_actions(moment: Transition) -> None:
    """Step accepts every action that the masks allow, and the match continues or ends.

    Remedy: correct step, or forbid the action in the mask.

    Random play itself notes a step that fails; here the options are noted that were legal and chosen.
    """
    active, masks = moment.before.active, moment.before.masks
    for head in moment.env.spec.heads:
        if head.kind is HeadKind.CATEGORICAL:
            options = moment.memory.options.setdefault(head.name, torch.zeros(2, head.size, dtype=torch.bool))
            options[0] |= (masks[head.name][active].any(dim=0) if head.masked else active.any()).cpu()
            options[1, moment.actions[head.name][active].cpu()] = True


@check("rewards", stops=True)
def rewards(moment: Transition) -> None:
    """Rewards are finite float32 of shape (E, N).

    Remedy: correct the reward: look for a division by zero or an overflow.
    """
    env, reward = moment.env, moment.step.reward
    require_tensor(env, "reward", reward, (env.num_envs, env.spec.num_agents), torch.float32)
    if index := first(~torch.isfinite(reward)):
        raise ViolationError(f"its reward is {float(reward[index])}", index)


@check("zero-sum")
def zero_sum(moment: Transition) -> None:
    """If the spec has zero_sum, the rewards of a match sum to 0 over all its agents.

    Remedy: give one side the negative reward of the other, or set zero_sum=False.
    """
    reward, over, memory = moment.step.reward.double(), moment.step.over, moment.memory
    total, size = sums = memory.reward_sums + torch.stack([reward.sum(dim=1), reward.abs().sum(dim=1)])
    memory.reward_sums = sums.masked_fill(over, 0.0)
    if index := first(over & (total.abs() > ZERO_SUM_TOLERANCE * (1.0 + size))):
        raise ViolationError(f"its rewards sum to {float(total[index]):g}", index)


@check("ends", stops=True)
def ends(moment: Transition) -> None:
    """A match ends within max_decisions, either terminated or truncated.

    Remedy: end it by the rules of the game or truncate it at the limit, never both, or declare a higher max_decisions.
    """
    env, step, limit = moment.env, moment.step, moment.env.spec.max_decisions
    for name, flag in (("terminated", step.terminated), ("truncated", step.truncated), ("over", step.over)):
        require_tensor(env, name, flag, (env.num_envs,), torch.bool)
    if index := first(step.terminated & step.truncated):
        raise ViolationError("it is both terminated and truncated", index)
    if index := first(step.over & ~step.ended):
        raise ViolationError("the match is over, but its last episode continues", index)
    if index := first(~step.over & (moment.lengths >= limit)):
        length = int(moment.lengths[index])
        raise ViolationError(f"it continues after {length:,} decisions: max_decisions is {limit:,}", index)


@check("outcomes", stops=True)
def outcomes(moment: Transition) -> None:
    """The outcome of a finished match has a score of home in [0, 1] and a reason of the spec, other rows have 0.5 and
    reason 0.

    Remedy: write the outcome when a match ends, and only then.
    """
    env, over, reasons = moment.env, moment.step.over, len(moment.env.spec.reasons)
    score, reason = moment.step.outcome.score, moment.step.outcome.reason
    require_tensor(env, "score", score, (env.num_envs,), torch.float64)
    require_tensor(env, "reason", reason, (env.num_envs,), torch.int64)
    if index := first(over & ~((score >= 0.0) & (score <= 1.0))):
        raise ViolationError(f"home's score is {float(score[index]):g}", index)
    if index := first(over & ((reason < 0) | (reason >= reasons))):
        raise ViolationError(f"its reason is {int(reason[index])}: the spec has {reasons}, from 0", index)
    if index := first(~over & ((score != NOBODY_WINS) | (reason != 0))):
        seen = f"score {float(score[index]):g} and reason {int(reason[index])}"
        raise ViolationError(f"it continues, but has {seen}", index)


@check("lengths", stops=True)
def lengths(moment: Transition) -> None:
    """An outcome counts the decisions of its match, including the last one.

    Remedy: count every step of a row since the start of its match, and restart with the next match.
    """
    decisions, played = moment.step.outcome.decisions, moment.lengths
    require_tensor(moment.env, "decisions", decisions, (moment.env.num_envs,), torch.int64)
    if index := first(moment.step.over & (decisions != played)):
        raise ViolationError(f"it reports {int(decisions[index])} decisions, but had {int(played[index])}", index)


@check("final observation")
def final_observation(moment: Transition) -> None:
    """final_observation is the last observation of the match if its episode has ended, otherwise the current one, and
    after a truncation at least one agent in it is active.

    Remedy: observe the match before the row starts the next one.

    An environment that resets too early returns the first observation of the next match instead. In a game with a fixed
    opening, this is visible only over many matches: all final observations equal openings.
    """
    step, memory, after = moment.step, moment.memory, parts_of(moment.step.observation)
    final = parts_of(step.final_observation)
    differs = {name: unlike(final[name], after[name]).flatten(1).any(dim=1) for name in after}
    for name, rows in differs.items():
        if index := first(rows & ~step.ended):
            raise ViolationError(f"the episode continues, but {name} differ from the observation", index)
    if index := first(step.truncated & step.over & ~step.final_observation.active.any(dim=1)):
        raise ViolationError("it was truncated, but no agent is active in its final observation", index)
    # A final observation may equal an opening if the last decision changed nothing.
    moved = unlike(moment.before.values, step.observation.values).flatten(1).any(dim=1)
    openings = step.over & moved & ~torch.stack([*differs.values()]).any(dim=0)
    memory.ends += int(step.over.sum())
    memory.openings += int(openings.sum())
    if memory.ends >= moment.env.num_envs and memory.openings == memory.ends:
        raise ViolationError("it is the next match's first, as with every match so far", first(openings))


@check("seeds")
def seeds(moment: Transition) -> None:
    """A row starts a match with its seed in next_seeds at the end of the previous match, or the seed given to reset,
    and reports it in seeds.

    Remedy: take the seed at the end of the match and draw the next one after that, as SeededRows does.
    """
    now, over = moment.env.seeds, moment.step.over
    due = torch.where(over, moment.next_seeds, moment.seeds)
    if index := first(now != due):
        when = "the next match started with seed" if bool(over[index]) else "it continues, but seeds has"
        raise ViolationError(f"{when} {int(now[index])}: expected {int(due[index])}", index)


@check("returned arrays")
def returned_arrays(moment: Transition) -> None:
    """A later step does not change arrays that reset and step have returned.

    Remedy: return copies, not views of the state.
    """
    for name, (tensor, copy) in moment.memory.returned.items():
        if index := first(unlike(tensor, copy)):
            raise ViolationError(f"{name} of the previous decision have changed", index[:1])
    moment.memory.returned = {name: (tensor, tensor.clone()) for name, tensor in tensors_of(moment.step).items()}
