"""Noise of advantage estimators in a game whose histories can be listed.

    python -m studies.self_play_methods openspiel:leduc_poker CHECKPOINT

The checkpoint plays both sides. Sampled matches give each estimator's noise, E Var(A | s, a), over information states s
and own actions a. The exact advantage Q(s, a) - V(s) follows from the list of histories, and so does the bias. The mean
error of an information state is removed from the bias, because it does not change the expected gradient.

    own V        GAE with V(s) of the own information state
    central Q    Expected SARSA(lambda) with Q(h, a), which sees both sides' information states

Critics are exact, or networks of 2 x 64 units that are fitted to returns of other matches, in two passes.
"""

import argparse
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arena.environments.adapters.openspiel.declare import tree_of
from arena.exploitability.tabular_policy import to_tabular_policy
from arena.policies import load

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LAMBDAS = (1.0, 0.9, 0.5, 0.0)
CHANCE = -1
MIN_SAMPLES = 50
"""Samples of an information state and action below which it is left out."""


@dataclass(frozen=True)
class Decision:
    """One decision in each of n matches: the match, the node, and its child that was chosen."""

    match: Integers
    node: Integers
    child: Integers


class SelfPlay:
    """A game's tree with a policy for both sides."""

    def __init__(self, game: str, policy: Floats) -> None:
        tree = tree_of(game)
        self.tree, self.actions = tree, policy.shape[1]
        self.parent = tree.parent
        nodes = len(tree.parent)
        self.side = np.where(tree.acting[:, 0], 0, np.where(tree.acting[:, 1], 1, CHANCE))
        self.state = np.where(self.side == 1, tree.information_state[:, 1], tree.information_state[:, 0])
        self.sign = np.where(self.side == 1, -1, 1)
        below = np.arange(1, nodes)
        chosen = self.side[self.parent[below]] != CHANCE
        self.moved, dealt = below[chosen], below[~chosen]
        self.choice = np.full(nodes, -1)
        self.choice[self.moved] = tree.choice[self.moved, self.side[self.parent[self.moved]]]
        self.probability = np.ones(nodes)
        self.probability[self.moved] = policy.reshape(-1)[self.choice[self.moved]]
        self.probability[dealt] = tree.chance[dealt] / tree.chance[self.parent[dealt]]
        self.reach, self.home = np.ones(nodes), tree.home_return.astype(np.float64)
        for node in range(1, nodes):
            self.reach[node] = self.reach[self.parent[node]] * self.probability[node]
        for node in range(nodes - 1, 0, -1):
            self.home[self.parent[node]] += self.probability[node] * self.home[node]
        self._list_children()

    def _list_children(self) -> None:
        children: list[list[int]] = [[] for _ in self.parent]
        for node, parent in enumerate(self.parent[1:], 1):
            children[parent].append(node)
        widest = max(map(len, children))
        self._child = np.zeros((len(children), widest), np.int64)
        self._cumulative = np.full((len(children), widest), 2.0)
        for node, each in enumerate(children):
            if each:
                self._child[node, : len(each)] = each
                self._cumulative[node, : len(each) - 1] = np.cumsum(self.probability[each])[:-1]

    def play(self, matches: int, rng: np.random.Generator) -> tuple[list[Decision], Floats]:
        """Return the decisions of each step of sampled matches, and home's returns."""
        at, steps = np.zeros(matches, np.int64), []
        while (live := np.flatnonzero(~self.tree.terminal[at])).size:
            node = at[live]
            at[live] = self._child[node, (rng.random(len(live))[:, None] >= self._cumulative[node]).sum(axis=1)]
            decides = self.side[node] != CHANCE
            steps.append(Decision(live[decides], node[decides], at[live[decides]]))
        return steps, self.tree.home_return[at].astype(np.float64)

    def own_values(self) -> tuple[Floats, Floats]:
        """Return Q (I, K) and V (I,) of the information states, for the side that acts."""
        size, chosen = len(self.tree.names), self.choice[self.moved]
        weight = np.bincount(chosen, self.reach[self.moved], size * self.actions)
        gain = self.reach[self.moved] * self.sign[self.parent[self.moved]] * self.home[self.moved]
        total = np.bincount(chosen, gain, size * self.actions)
        q = (total / np.maximum(weight, 1e-300)).reshape(size, self.actions)
        weight, total = (each.reshape(size, self.actions).sum(axis=1) for each in (weight, total))
        return q, total / np.maximum(weight, 1e-300)

    def expected(self, q: Floats) -> Floats:
        """Return the mean under the policy (nodes,) of action values, which are indexed by the child."""
        mean = np.zeros(len(q))
        np.add.at(mean, self.parent[self.moved], self.probability[self.moved] * q[self.moved])
        return mean

    def both_observations(self) -> Tensor:
        """Return the newest information states of both sides at each node, and the side that acts."""
        newest = np.full((len(self.parent), 2), -1)
        for node, parent in enumerate(self.parent):
            if node:
                newest[node] = newest[parent]
            if self.side[node] != CHANCE:
                newest[node, self.side[node]] = self.state[node]
        # A side that has not acted yet has the hand that it will act with.
        for node in range(len(self.parent) - 1, 0, -1):
            parent = self.parent[node]
            if self.side[parent] != CHANCE:
                newest[parent] = np.where(newest[parent] < 0, newest[node], newest[parent])
        seen = np.where((newest >= 0)[:, :, None], self.tree.tensor[newest], 0.0).reshape(len(newest), -1)
        return torch.from_numpy(np.concatenate([seen, self.side[:, None]], axis=1).astype(np.float32))


def gae_own(game: SelfPlay, steps: list[Decision], home: Floats, value: Floats, lam: float) -> tuple[Integers, Floats]:
    """Return choices and advantages of GAE over each side's own decisions."""
    trace, following = np.zeros((2, len(home))), np.stack([home, -home])
    found = []
    for step in reversed(steps):
        side, at = game.side[step.node], value[game.state[step.node]]
        advantage = following[side, step.match] - at + lam * trace[side, step.match]
        trace[side, step.match], following[side, step.match] = advantage, at
        found.append((game.choice[step.child], advantage))
    return tuple(np.concatenate(each) for each in zip(*found, strict=True))


def sarsa_central(game: SelfPlay, steps: list[Decision], home: Floats, q: Floats, lam: float) -> tuple[Integers, Floats]:
    """Return choices and advantages of Expected SARSA(lambda) over the decisions of both sides; q is home's."""
    mean, trace, following = game.expected(q), np.zeros(len(home)), home.copy()
    found = []
    for step in reversed(steps):
        error = following[step.match] - q[step.child] + lam * trace[step.match]
        advantage = q[step.child] - mean[step.node] + error
        trace[step.match], following[step.match] = error, mean[step.node]
        found.append((game.choice[step.child], game.sign[step.node] * advantage))
    return tuple(np.concatenate(each) for each in zip(*found, strict=True))


def noise_and_bias(game: SelfPlay, choice: Integers, advantage: Floats) -> tuple[float, float]:
    """Return E Var(A | s, a) and the mean square of the bias without its mean in each information state."""
    q, value = game.own_values()
    size = q.size
    count = np.bincount(choice, minlength=size)
    mean = np.bincount(choice, advantage, size) / np.maximum(count, 1)
    variance = np.bincount(choice, (advantage - mean[choice]) ** 2, size) / np.maximum(count - 1, 1)
    error = np.where(count > 0, mean - (q - value[:, None]).reshape(-1), 0.0)
    of = np.arange(size) // game.actions
    offset = np.bincount(of, count * error) / np.maximum(np.bincount(of, count), 1)
    weight = count * (count >= MIN_SAMPLES)
    # The mean of n samples has an error of its own, of variance / n.
    squared = (error - offset[of]) ** 2 - variance / np.maximum(count, 1)
    return float(np.average(variance, weights=weight)), float(np.average(squared, weights=weight))


def fit(inputs: Tensor, row: Integers, action: Integers, target: Floats, outputs: int) -> Floats:
    """Fit a network to sampled returns in two passes; return its outputs for all rows of `inputs`."""
    sizes = (inputs.shape[1], 64, 64)
    hidden = [part for pair in zip(sizes, sizes[1:]) for part in (nn.Linear(*pair), nn.Tanh())]
    network = nn.Sequential(*hidden, nn.Linear(64, outputs))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    rows, actions, scale = torch.from_numpy(row), torch.from_numpy(action).unsqueeze(1), float(target.std())
    targets = torch.from_numpy((target / scale).astype(np.float32)).unsqueeze(1)
    for _ in range(2):
        for chosen in torch.randperm(len(rows)).split(512):
            loss = (network(inputs[rows[chosen]]).gather(1, actions[chosen]) - targets[chosen]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return network(inputs).double().numpy() * scale


def main() -> None:
    """Print one line for each critic and lambda."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("game")
    parser.add_argument("checkpoint")
    parser.add_argument("--matches", type=int, default=200_000)
    parser.add_argument("--fitted-matches", type=int, default=50_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    game = SelfPlay(options.game, to_tabular_policy(load(options.checkpoint).network, options.game))
    rng = np.random.default_rng(0)
    steps, home = game.play(options.matches, rng)
    others, others_home = game.play(options.fitted_matches, rng)
    node, child = (np.concatenate([getattr(each, name) for each in others]) for name in ("node", "child"))
    target = np.concatenate([others_home[each.match] for each in others])
    q, value = game.own_values()
    weight = game.reach[game.moved]
    chosen = game.choice[game.moved]
    print("signal", round(float(np.average((q - value[:, None]).reshape(-1)[chosen] ** 2, weights=weight)), 4))
    seen = torch.from_numpy(game.tree.tensor)
    fitted_v = fit(seen, game.state[node], np.zeros_like(node), game.sign[node] * target, 1)[:, 0]
    table = fit(game.both_observations(), node, game.choice[child] % game.actions, target, game.actions)
    fitted_q = np.zeros(len(game.parent))
    fitted_q[game.moved] = table[game.parent[game.moved], chosen % game.actions]
    for name, estimate, critic in (
        ("own V, exact", gae_own, value),
        ("own V, fitted", gae_own, fitted_v),
        ("central Q, exact", sarsa_central, game.home),
        ("central Q, fitted", sarsa_central, fitted_q),
    ):
        for lam in LAMBDAS:
            noise, bias = noise_and_bias(game, *estimate(game, steps, home, critic, lam))
            print(f"{name:18} lambda {lam:.1f}  noise {noise:8.4f}  bias squared {bias:7.4f}")


if __name__ == "__main__":
    main()
