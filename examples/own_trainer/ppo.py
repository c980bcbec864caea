"""Train connect four with PPO, as in CleanRL, against the opponents of a league."""

import sys
import time
from functools import lru_cache
from itertools import count, islice

import torch
from pettingzoo.classic import connect_four_v3
from safetensors.torch import load, save
from torch import nn
from torch.distributions import Categorical

from league.client import SessionSettings, attach
from league.wire import LearnerCreate

LEARNER = LearnerCreate(name="ppo", role="main", environment="connect-four", signature="connect-four-1")
MATCHES, SNAPSHOT_UPDATES, EPOCHS, MINIBATCHES, GAMMA, LAMBDA, CLIP = 64, 20, 4, 4, 0.99, 0.95, 0.2


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(84, 128), nn.Tanh(), nn.Linear(128, 7))
        self.critic = nn.Sequential(nn.Linear(84, 128), nn.Tanh(), nn.Linear(128, 1))

    def policy(self, observation, mask):
        return Categorical(logits=self.actor(observation).masked_fill(~mask, -1e9))


@lru_cache(32)
def load_agent(checkpoint):
    agent = Agent()
    agent.load_state_dict(load(checkpoint))
    return agent


@torch.no_grad()
def play(match, agent, opponent):
    game, learner = connect_four_v3.env(), "player_0" if match.side == "home" else "player_1"
    game.reset(seed=match.seed % 2**31)
    decisions = []
    for moves, name in enumerate(game.agent_iter()):  # noqa: B007
        seen, reward, terminated, truncated, _ = game.last()
        if terminated or truncated:
            break
        observation = torch.tensor(seen["observation"].reshape(-1), dtype=torch.float32)
        mask = torch.tensor(seen["action_mask"], dtype=torch.bool)
        player = agent if name == learner else opponent
        policy = Categorical(probs=mask.float()) if player is None else player.policy(observation, mask)
        action = policy.sample()
        if name == learner:
            decisions.append((observation, mask, action, policy.log_prob(action), agent.critic(observation)[0]))
        game.step(int(action))
    return decisions, (1 + (reward if name == learner else -reward)) / 2, moves


def advantages_of(decisions, score):
    """Generalized advantage estimation over one match, which ends in a state with the value of its result."""
    values = [float(decision[4]) for decision in decisions] + [2 * score - 1]
    advantages, last = [], 0.0
    for step in reversed(range(len(decisions))):
        last = GAMMA * values[step + 1] - values[step] + GAMMA * LAMBDA * last
        advantages.insert(0, last)
    return advantages


def update(agent, optimizer, decisions, advantages):
    observations, masks, actions, log_probs, values = map(torch.stack, zip(*decisions, strict=True))
    advantages = torch.tensor(advantages)
    returns, scaled = advantages + values, (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(actions)).chunk(MINIBATCHES):
            policy = agent.policy(observations[batch], masks[batch])
            ratio = (policy.log_prob(actions[batch]) - log_probs[batch]).exp()
            gain = torch.min(ratio * scaled[batch], ratio.clamp(1 - CLIP, 1 + CLIP) * scaled[batch]).mean()
            error = (agent.critic(observations[batch])[:, 0] - returns[batch]).square().mean()
            optimizer.zero_grad()
            (0.5 * error - gain - 0.01 * policy.entropy().mean()).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


agent, end, step = Agent(), time.monotonic() + float(sys.argv[1]), 0
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
with attach(LEARNER, worker="ppo-1", settings=SessionSettings(prefetch=MATCHES)) as session:
    for number in count():
        decisions, advantages = [], []
        for match in islice(session.matches(), MATCHES):
            checkpoint = session.weights(match.opponent)
            opponent = load_agent(checkpoint) if checkpoint else agent if match.opponent.checkpoint is None else None
            played, *result = play(match, agent, opponent)
            session.report(match, *result)
            decisions, advantages = decisions + played, advantages + advantages_of(played, result[0])
        if not decisions or (number and time.monotonic() > end):
            break
        update(agent, optimizer, decisions, advantages)
        session.log({"advantage": sum(advantages) / len(advantages)}, step := step + len(decisions))
        if number % SNAPSHOT_UPDATES == 0:
            session.publish(save(agent.state_dict()), step)
