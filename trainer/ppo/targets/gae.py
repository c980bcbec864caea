"""Generalised advantage estimation (GAE) over the transitions of each agent, and which of them are valid.

`agent_transitions` converts the steps of a rollout to transitions of each agent and marks the valid ones.
`masked_gae` estimates their advantages.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

MAX_EXCLUDED_SHARE = 0.25
"""Largest share of a rollout that is excluded at its end because agents may wait that long for their next turn."""


def gae(
    rewards: Float[Tensor, "T B"],
    values: Float[Tensor, "T B"],
    next_values: Float[Tensor, "T B"],
    terminated: Bool[Tensor, "T B"],
    episode_end: Bool[Tensor, "T B"],
    *,
    gamma: float,
    lam: float,
) -> Float[Tensor, "T B"]:
    """Generalised advantage estimation (GAE).

        delta[t] = r[t] + gamma (1 - terminated[t]) V(s[t+1]) - V(s[t])
        A[t]     = delta[t] + gamma lam (1 - episode_end[t]) A[t+1]

    A truncated step keeps its bootstrap value and cuts the recursion. A terminated step has neither.

    Args:
        rewards: Reward of action t, in the units of the values.
        values: V(s[t]), of the state in which action t was taken.
        next_values: V(s[t+1]), of the state that followed action t, before any reset.
        terminated: Whether the game ended with action t.
        episode_end: Whether the episode ended with action t: terminated or truncated.
        gamma: Discount per agent step, in [0, 1].
        lam: Lambda, in [0, 1]: 0 gives the one-step TD error, 1 the discounted return minus V.

    Source: Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation" (2016),
    equations 11-16.
    """
    # Truncation keeps the bootstrap value and only cuts the recursion. Merging the two flags would bias the critic.
    deltas = rewards + gamma * next_values.masked_fill(terminated, 0.0) - values
    return discounted_sums(deltas, (gamma * lam) * (~episode_end).to(deltas.dtype))


def discounted_sums(values: Float[Tensor, "T B"], factors: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    """Sum values backwards in time: sum[t] = value[t] + factor[t] sum[t+1], in log2(T) passes over all steps.

    Source: Hillis and Steele, "Data Parallel Algorithms" (1986).
    """
    # Each pass doubles the number of steps in a sum. A loop over time would launch kernels for every step.
    span = 1
    while span < len(values):
        values = torch.cat([torch.addcmul(values[:-span], factors[:-span], values[span:]), values[-span:]])
        factors = torch.cat([factors[:-span] * factors[span:], factors[-span:]])
        span *= 2
    return values


def effective_horizon(gamma: float, lam: float) -> float:
    """Effective horizon of GAE in transitions: 1 / (1 - gamma lam), infinite if both are 1."""
    return 1.0 / (1.0 - gamma * lam) if gamma * lam < 1.0 else math.inf


@dataclass(frozen=True)
class AgentTransitions:
    """Transitions of each agent (T, R).

    In simultaneous games every step of the rollout is a transition, including the steps of agents that are out of the
    game. In turn-based games the transitions are the agent's own turns, left-packed along the time axis.

    Attributes:
        order: Step of the rollout that each transition comes from; a permutation of each column.
        reward: Sum of rewards from this transition until the agent's next one.
        value: V(s) of the transition.
        next_value: V of the agent's next transition, or of the final observation if the episode was truncated.
        terminated: The game ended before the agent's next transition, or a limit decided the match.
        episode_end: The episode ended before the agent's next transition.
        known: The entry is a transition, not padding, and its successor was observed.
        settled: Known, and would have been so after any other action as well; see `agent_transitions`.
        valid: Settled, and the agent acted: the transition is learned from.
        longest_wait: Largest number of steps between two turns of an agent, in this rollout and earlier ones.
    """

    order: Int[Tensor, "T R"]
    reward: Float[Tensor, "T R"]
    value: Float[Tensor, "T R"]
    next_value: Float[Tensor, "T R"]
    terminated: Bool[Tensor, "T R"]
    episode_end: Bool[Tensor, "T R"]
    known: Bool[Tensor, "T R"]
    settled: Bool[Tensor, "T R"]
    valid: Bool[Tensor, "T R"]
    longest_wait: Int[Tensor, ""]

    def restore(self, values: Shaped[Tensor, "T R"]) -> Shaped[Tensor, "T R"]:
        """Scatter values of transitions back to the steps of the rollout."""
        return torch.empty_like(values).scatter_(0, self.order, values)


def agent_transitions(
    reward: Float[Tensor, "T R"],
    value: Float[Tensor, "T R"],
    final_value: Float[Tensor, "T R"],
    terminated: Bool[Tensor, "T R"],
    truncated: Bool[Tensor, "T R"],
    active: Bool[Tensor, "T R"],
    last_value: Float[Tensor, " R"],
    last_active: Bool[Tensor, " R"],
    *,
    turn_based: bool,
    limit_decides: bool,
    longest_wait: Int[Tensor, ""] | int = 0,
) -> AgentTransitions:
    """Convert the steps of a rollout to transitions of each agent.

    Turn-based games: rewards that an agent gets while it waits are added to its previous turn without discount, so a
    turn is the unit of time. If the rollout ends before the agent's next turn, the successor is unknown and the
    transition is not valid.

    Whether the successor is known depends on the action: a fold that ends the game is known at once, a call is not.
    Excluding only unknown transitions would therefore bias the data towards folds. Instead, all turns in the last w
    steps are excluded, where w is the longest wait for a next turn so far. This set contains all unknown transitions
    and depends on positions alone. For the same reason, advantages of earlier turns bootstrap from V of the first
    excluded turn.

    Simultaneous games: time passes for all agents. An agent that is out of the game has transitions without an action,
    whose value is the expected return of dead agents. Its later rewards reach the step of its death, discounted by the
    steps in between. If the rollout ends first, its expected return at that point is the bootstrap value.

    Args:
        reward: Reward of each step.
        value: V at each step; for an agent that is out of the game, its expected return (see `dead_agent_value`).
        final_value: V of the final observation where `truncated`.
        terminated: The game ended at this step.
        truncated: A limit ended the episode at this step.
        active: Whether the agent acted.
        last_value: V of the observation after the rollout, or the expected return as in `value`.
        last_active: Whether the agent acts in that observation.
        turn_based: Whether inactive agents wait for their turn; otherwise they are out of the game.
        limit_decides: Whether a limit decides the match: truncation is then a termination, without `final_value`.
        longest_wait: Longest wait in earlier rollouts, in steps.
    """
    if not turn_based:
        ended = terminated | truncated
        return AgentTransitions(
            order=torch.arange(len(reward), device=reward.device).unsqueeze(1).expand(reward.shape),
            reward=reward,
            value=value,
            next_value=torch.where(ended, final_value, torch.cat([value[1:], last_value.unsqueeze(0)])),
            # A limit that decides the match is one of its rules: no state follows to bootstrap from.
            terminated=ended if limit_decides else terminated,
            episode_end=ended,
            known=torch.ones_like(active),
            settled=torch.ones_like(active),
            valid=active,
            longest_wait=torch.zeros((), dtype=torch.int64, device=reward.device),
        )
    # Backwards in time: what an action at step t leads to until the agent's next turn.
    reward_sum, next_value = torch.zeros_like(last_value), last_value.clone()
    game_over = episode_end = torch.zeros_like(last_active)
    known = last_active
    columns: list[tuple[Tensor, ...]] = []
    for t in reversed(range(reward.shape[0])):
        ended = terminated[t] | truncated[t]
        reward_sum = reward[t] + reward_sum.masked_fill(ended, 0.0)
        next_value = torch.where(ended, final_value[t], next_value)
        game_over = torch.where(ended, terminated[t] | limit_decides, game_over)
        episode_end = episode_end | ended
        known = known | ended
        columns.append((reward_sum, value[t], next_value, game_over, episode_end, known & active[t]))
        reward_sum = reward_sum.masked_fill(active[t], 0.0)
        next_value = torch.where(active[t], value[t], next_value)
        game_over, episode_end, known = game_over & ~active[t], episode_end & ~active[t], known | active[t]
    wait = _longest_wait(terminated | truncated, active, last_active).clamp(min=longest_wait)
    order = (~active).to(torch.uint8).argsort(dim=0, stable=True)  # turns first, in the order of time
    reward_sums, values, next_values, games_over, episode_ends, knowns = (
        torch.stack(column[::-1]).gather(0, order) for column in zip(*columns, strict=True)
    )
    # The cap keeps one very long wait from excluding the whole rollout.
    settled = knowns & (order < len(active) - wait.clamp(max=int(MAX_EXCLUDED_SHARE * len(active))))
    return AgentTransitions(
        order=order,
        reward=reward_sums,
        value=values,
        next_value=next_values,
        terminated=games_over,
        episode_end=episode_ends,
        known=knowns,
        settled=settled,
        valid=settled,
        longest_wait=wait,
    )


def _longest_wait(ended: Tensor, active: Tensor, last_active: Tensor) -> Int[Tensor, ""]:
    """Return the longest wait in steps, from a turn to the agent's next turn or the end of its episode.

    A wait that the end of the rollout cuts off counts as far as it was observed.
    """
    steps = len(active)
    times = torch.arange(steps, device=active.device).unsqueeze(1)
    resolved = ended | torch.cat([active[1:], last_active.unsqueeze(0)])
    first = torch.where(resolved, times, steps).flip(0).cummin(dim=0).values.flip(0)
    return (first - times).masked_fill(~active, 0).max()


def masked_gae(transitions: AgentTransitions, *, gamma: float, lam: float) -> Float[Tensor, "T R"]:
    """GAE of transitions; a transition that is not settled has advantage 0 and cuts the recursion.

    Args:
        transitions: Rewards and values, in the same units.
        gamma: Discount per transition.
        lam: Lambda, as in `gae`.
    """
    unsettled = ~transitions.settled
    # Reward V and no bootstrap: then delta = V - V = 0.
    return gae(
        torch.where(unsettled, transitions.value, transitions.reward),
        transitions.value,
        transitions.next_value,
        transitions.terminated | unsettled,
        transitions.episode_end | unsettled,
        gamma=gamma,
        lam=lam,
    )
