"""The CleanRL recipe on the work of `benchmarks.trainer`: PPO with an LSTM that is stepped one step at a time.

It is not CleanRL's code, which is a single script for Atari, but the same steps in our words, as in `ppo_atari_lstm.py`
and, for the Gaussian head, `ppo_continuous_action.py`: memory zeroed before every step that begins an episode, in the
rollout and in the update; the update steps whole environments through the rollout from the memory at its start;
minibatches are groups of environments; advantages normalised per minibatch, value loss clipped. Needs torch and numpy.
"""

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal
from workload import FrameStream, Workload, largest_deviation, serve

GAMMA, GAE_LAMBDA, CLIP, ENTROPY, VALUE, GRADIENT_NORM = 0.99, 0.95, 0.2, 0.01, 0.5, 0.5


def orthogonal(layer: nn.Linear, gain: float = np.sqrt(2)) -> nn.Linear:
    """Orthogonal weights, no bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """Encoder, LSTM, actor and critic."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.encoder = nn.Sequential(orthogonal(nn.Linear(work.observation_size, work.encoder)), nn.ReLU())
        self.lstm = nn.LSTM(work.encoder, work.memory)
        for name, weight in self.lstm.named_parameters():
            nn.init.zeros_(weight) if "bias" in name else nn.init.orthogonal_(weight, 1.0)
        self.actor = orthogonal(nn.Linear(work.memory, work.action_size), 0.01)
        self.log_std = nn.Parameter(torch.zeros(1, work.action_size))
        self.critic = orthogonal(nn.Linear(work.memory, 1), 1.0)

    def remember(self, seen: torch.Tensor, state: tuple, done: torch.Tensor) -> tuple[torch.Tensor, tuple]:
        """Step the LSTM once for every time step in `seen`, clearing memory where an episode begins."""
        rows = state[0].shape[1]
        encoded, done, outputs = self.encoder(seen).reshape(-1, rows, self.lstm.input_size), done.reshape(-1, rows), []
        for features, begun in zip(encoded, done, strict=True):
            kept = (1.0 - begun).view(1, -1, 1)
            output, state = self.lstm(features.unsqueeze(0), (kept * state[0], kept * state[1]))
            outputs.append(output)
        return torch.cat(outputs).flatten(0, 1), state

    def forward(
        self, seen: torch.Tensor, state: tuple, done: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple:
        """Action, log-probability, entropy, value, memory."""
        hidden, state = self.remember(seen, state, done)
        policy = Normal(mean := self.actor(hidden), self.log_std.expand_as(mean).exp())
        action = policy.sample() if action is None else action
        return action, policy.log_prob(action).sum(1), policy.entropy().sum(1), self.critic(hidden).flatten(), state


class Recipe:
    """One rollout and one update at a time."""

    version = "CleanRL recipe"

    def __init__(self, work: Workload) -> None:
        self._work, self._frames, self.network = work, FrameStream(work), Agent(work)
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=work.learning_rate, eps=1e-5)
        shape = (work.steps, work.environments)
        self._seen = torch.zeros(*shape, work.observation_size)
        self._actions = torch.zeros(*shape, work.action_size)
        self._log_probs, self._rewards, self._dones, self._values = torch.zeros(4, *shape).unbind()
        self._next = torch.from_numpy(self._frames.observation)
        self._next_done = torch.zeros(work.environments)
        self._state = self._blank(work.environments)

    @torch.no_grad()
    def rollout(self) -> None:
        self._first_state = tuple(part.clone() for part in self._state)
        for step in range(self._work.steps):
            self._seen[step], self._dones[step] = self._next, self._next_done
            action, log_prob, _, value, self._state = self.network(self._next, self._state, self._next_done)
            self._actions[step], self._log_probs[step], self._values[step] = action, log_prob, value
            seen, reward, ended = self._frames.step(action.numpy())
            self._rewards[step] = torch.from_numpy(reward)
            self._next, self._next_done = torch.from_numpy(seen), torch.from_numpy(ended).float()
        hidden, _ = self.network.remember(self._next, self._state, self._next_done)
        self._estimate(self.network.critic(hidden).flatten())

    def _estimate(self, next_value: torch.Tensor) -> None:
        self._advantages, last = torch.zeros_like(self._rewards), torch.zeros(self._work.environments)
        for step in reversed(range(self._work.steps)):
            final = step == self._work.steps - 1
            going = 1.0 - (self._next_done if final else self._dones[step + 1])
            following = next_value if final else self._values[step + 1]
            delta = self._rewards[step] + GAMMA * following * going - self._values[step]
            self._advantages[step] = last = delta + GAMMA * GAE_LAMBDA * going * last
        self._returns = self._advantages + self._values

    def update(self) -> None:
        self._first_ratio, environments = None, np.arange(self._work.environments)
        for _ in range(self._work.epochs):
            np.random.shuffle(environments)  # noqa: NPY002 - as the recipe does
            for chosen in np.split(environments, self._work.minibatches):
                loss = self._loss(torch.from_numpy(chosen))
                self._optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), GRADIENT_NORM)
                self._optimizer.step()

    def _loss(self, chosen: torch.Tensor) -> torch.Tensor:
        def flat(part: torch.Tensor) -> torch.Tensor:
            return part[:, chosen].flatten(0, 1)

        state = tuple(part[:, chosen] for part in self._first_state)
        _, log_prob, entropy, value, _ = self.network(flat(self._seen), state, flat(self._dones), flat(self._actions))
        ratio = (log_prob - flat(self._log_probs)).exp()
        self._first_ratio = ratio.detach() if self._first_ratio is None else self._first_ratio
        advantages, returns, old = flat(self._advantages), flat(self._returns), flat(self._values)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        surrogate = torch.max(-advantages * ratio, -advantages * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
        clipped = old + (value - old).clamp(-CLIP, CLIP)
        value_loss = 0.5 * torch.max((value - returns) ** 2, (clipped - returns) ** 2).mean()
        return surrogate - ENTROPY * entropy.mean() + VALUE * value_loss

    def ratio_error(self) -> float:
        return largest_deviation(self._first_ratio)

    def actor(self, rows: int):  # noqa: ANN201
        seen, nobody, state = torch.randn(rows, self._work.observation_size), torch.zeros(rows), self._blank(rows)
        return torch.no_grad()(lambda: self.network(seen, state, nobody))

    def _blank(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(1, rows, self._work.memory), torch.zeros(1, rows, self._work.memory)


if __name__ == "__main__":
    serve(Recipe)
