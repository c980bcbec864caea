"""Advantage estimation over each agent's own turns."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

WIDEST_MARGIN = 0.25
"""Most of a rollout whose turns are left out at its end because agents may wait that long for their next one."""


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
    """Estimate advantages by generalised advantage estimation.

        delta[t] = r[t] + gamma (1 - terminated[t]) V(s[t+1]) - V(s[t])
        A[t]     = delta[t] + gamma lam (1 - episode_end[t]) A[t+1]

    A truncated step keeps its bootstrap and cuts the recursion; a terminated step loses both.

    Args:
        rewards: Reward of action t, in the units of the value function.
        values: V of the state in which action t was taken.
        next_values: V of the state that followed action t, before any reset.
        terminated: Whether the game ended with action t.
        episode_end: Whether the episode ended with action t, by the game or by a limit.
        gamma: Discount per agent step, in [0, 1].
        lam: Weight of longer returns, in [0, 1]; 0 is the one-step error, 1 the discounted return minus V.

    Source: Schulman et al. 2016, equations 11-16.
    """
    deltas = rewards + gamma * next_values.masked_fill(terminated, 0.0) - values
    carry = (gamma * lam) * (~episode_end).to(deltas.dtype)
    ahead, advantages = torch.zeros_like(deltas[0]), []
    for delta, kept in zip(reversed(deltas.unbind()), reversed(carry.unbind()), strict=True):
        ahead = torch.addcmul(delta, kept, ahead)
        advantages.append(ahead)
    return torch.stack(advantages[::-1])


def horizon(gamma: float, lam: float) -> float:
    """Turns over which an advantage estimate looks ahead: 1 / (1 - gamma lam), without end where both are 1."""
    return 1.0 / (1.0 - gamma * lam) if gamma * lam < 1.0 else math.inf


@dataclass(frozen=True)
class AgentTransitions:
    """Turns of every agent, moved together to the front of the time axis; `known` is false behind the last one.

    Where sides take turns these are the agent's own; elsewhere every decision is one, also of who is out of the game.

    Attributes:
        order: Time (T, R) that each turn had in the rollout.
        reward: Reward (T, R) from this turn until the agent's next.
        value: V(s) of the turn.
        next_value: V of the agent's next turn, or of the final observation where a limit ended the episode.
        terminated: The game ended before the agent's next turn, or a limit decided it.
        episode_end: The episode ended before the agent's next turn.
        known: There is such a turn and its consequences are known.
        settled: And they would be, whatever the agent had done: it hands back in time what came after it.
        valid: And the agent acted: there is something to learn.
        longest_wait: Decisions between two turns of an agent, at most, in this rollout and earlier ones.
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

    def restore(self, turns: Shaped[Tensor, "T R"]) -> Shaped[Tensor, "T R"]:
        """Put values of turns back where they were in the rollout; `order` is a permutation of each column."""
        return torch.empty_like(turns).scatter_(0, self.order, turns)


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
    """Say what came of every turn.

    Where sides take turns, what an agent earns while it waits belongs to its turn before, undiscounted: a turn is the
    unit of time. Where the rollout ends first, that turn's consequences are unknown, and it is not valid.

    Which turns those are depends on the actions: a fold that ends the game is known at once, a call is not. If only
    the open turns were left out, folds would be learned from more often than calls. So no turn of the last w decisions
    counts, where w is the longest that an agent has waited for its next turn: an open turn is always among these, and
    which others are depends on their positions alone. For the same reason the advantages of earlier turns end at V of
    the first turn that does not count.

    Elsewhere time goes on for all: who is out of the game has turns in which it does nothing, worth what it is still
    owed. What it is paid in them comes back to the turn in which it fell, discounted for every decision in between,
    and where the rollout ends first, what it is owed then stands for the rest.

    Args:
        reward: Reward of each decision.
        value: V at each decision; of who is out of the game, what it is owed (see `dead_agent_value`).
        final_value: V of the final observation where `truncated`.
        terminated: Ended by the game at this decision.
        truncated: Cut by a limit at this decision.
        active: Whether the agent acted.
        last_value: V of the observation after the rollout; of who is out of the game, what it is owed.
        last_active: Whether the agent acts in it.
        turn_based: Whether inactive agents wait for their turn; otherwise they are out of the game.
        limit_decides: Whether the limit decides the match: nothing is owed after it, and `final_value` does not count.
        longest_wait: Decisions between two turns of an agent, at most, in earlier rollouts.
    """
    if not turn_based:
        ended = terminated | truncated
        return AgentTransitions(
            order=torch.arange(len(reward), device=reward.device).unsqueeze(1).expand(reward.shape),
            reward=reward,
            value=value,
            next_value=torch.where(ended, final_value, torch.cat([value[1:], last_value.unsqueeze(0)])),
            terminated=ended if limit_decides else terminated,
            episode_end=ended,
            known=torch.ones_like(active),
            settled=torch.ones_like(active),
            valid=active,
            longest_wait=torch.zeros((), dtype=torch.int64, device=reward.device),
        )
    earned = torch.zeros_like(last_value)
    ahead = last_value.clone()
    game_over = torch.zeros_like(last_active)
    over = game_over.clone()
    known = last_active
    columns: list[tuple[Tensor, ...]] = []
    for t in reversed(range(reward.shape[0])):
        ended = terminated[t] | truncated[t]
        earned = reward[t] + earned.masked_fill(ended, 0.0)
        ahead = torch.where(ended, final_value[t], ahead)
        game_over = torch.where(ended, terminated[t] | limit_decides, game_over)
        over = over | ended
        known = known | ended
        columns.append((earned, ahead, game_over, over, known))
        earned = earned.masked_fill(active[t], 0.0)
        ahead = torch.where(active[t], value[t], ahead)
        game_over, over, known = game_over & ~active[t], over & ~active[t], known | active[t]
    longest_wait = _longest_wait(terminated | truncated, active, last_active).clamp(min=longest_wait)
    return _together(active, value, columns[::-1], longest_wait)


def _longest_wait(ended: Tensor, active: Tensor, last_active: Tensor) -> Int[Tensor, ""]:
    """Decisions from a turn until the agent's next one or the episode's end; at least, if neither has been seen."""
    steps = len(active)
    times = torch.arange(steps, device=active.device).unsqueeze(1)
    resolved = ended | torch.cat([active[1:], last_active.unsqueeze(0)])
    first = torch.where(resolved, times, steps).flip(0).cummin(dim=0).values.flip(0)
    return (first - times).masked_fill(~active, 0).max()


def _together(
    active: Tensor, value: Tensor, columns: list[tuple[Tensor, ...]], longest_wait: Tensor
) -> AgentTransitions:
    order = (~active).to(torch.uint8).argsort(dim=0, stable=True)
    earned, ahead, game_over, over, known = (
        torch.stack(column).gather(0, order) for column in zip(*columns, strict=True)
    )
    known = known & active.gather(0, order)
    settled = known & (order < len(active) - longest_wait.clamp(max=int(WIDEST_MARGIN * len(active))))
    return AgentTransitions(
        order=order,
        reward=earned,
        value=value.gather(0, order),
        next_value=ahead,
        terminated=game_over,
        episode_end=over,
        known=known,
        settled=settled,
        valid=settled,
        longest_wait=longest_wait,
    )


def estimate(transitions: AgentTransitions, *, gamma: float, lam: float) -> Float[Tensor, "T R"]:
    """Estimate advantages of transitions by `gae`; 0 where a transition is not settled, which also cuts the recursion.

    Args:
        transitions: Rewards and values, in the same units.
        gamma: Discount per turn.
        lam: As in `gae`.
    """
    open_end = ~transitions.settled
    return gae(
        torch.where(open_end, transitions.value, transitions.reward),
        transitions.value,
        transitions.next_value,
        transitions.terminated | open_end,
        transitions.episode_end | open_end,
        gamma=gamma,
        lam=lam,
    )
