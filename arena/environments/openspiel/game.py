"""OpenSpiel's small games, many matches at once: a step is a look-up in the game's tree."""

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from arena.environments import randomness
from arena.environments.episodes import SeededRows
from arena.environments.openspiel.layout import HEAD, declare_openspiel, observations, tree_of
from arena.environments.openspiel.moves import START, Moves
from arena.environments.openspiel.tree import NONE, GameTree
from arena.environments.protocol import Actions, Observation, Outcome, StepResult
from arena.environments.spec import EnvironmentSpec
from arena.errors import InvalidActionError


class TreeGame(SeededRows):
    """E matches of a game that is known as a tree.

    Whoever acts sees the tensor of its information state and its side; who does not act sees zeros and has no legal
    action. Rewards are 0 until the end, and there the game's returns. Home's score is its return scaled from the range
    of returns to [0, 1], so that 0.5 is a return of 0.
    """

    def __init__(self, spec: EnvironmentSpec, tree: GameTree, *, num_envs: int, device: str, seed: int) -> None:
        super().__init__(spec, num_envs=num_envs, device=device, seed=seed)
        self._moves = Moves.of(tree, self.device)
        # What an agent knows at a node: its information state, or `_idle` where it does not act. Tables end in its row.
        self._idle = len(tree.side)
        self._known = self._table(np.where(tree.acting, tree.information_state, self._idle))
        self._observations = self._table(np.pad(observations(tree), ((0, 1), (0, 0))))
        self._legal = self._table(np.pad(tree.legal, ((0, 1), (0, 0))))
        self._terminal = self._table(tree.terminal)
        self._decisions = self._table(tree.decisions)
        largest = abs(tree.home_return).max() or 1.0
        self._score = self._table(0.5 + tree.home_return / (2.0 * largest))
        self._reward = self._table(np.stack([tree.home_return, 0.0 - tree.home_return], axis=1).astype(np.float32))
        self._node = torch.zeros_like(self.seeds)

    @property
    def own_bytes(self) -> int:
        """Memory of all matches together, observations left out."""
        return sum(each.nbytes for each in (self._node, self.seeds, self.next_seeds))

    @property
    def shared_bytes(self) -> int:
        """Memory of the tables, which exist once for all matches."""
        tables = (
            self._known,
            self._observations,
            self._legal,
            self._terminal,
            self._decisions,
            self._score,
            self._reward,
        )
        return sum(each.nbytes for each in tables) + self._moves.size_bytes

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row; see `Environment.reset`."""
        self._open_all(seeds)
        self._node = self._open(self._node, torch.ones_like(self.seeds, dtype=torch.bool))
        return self._observe(self._node)

    def step(self, actions: Actions) -> StepResult:
        """Take one decision in every row; see `Environment.step`.

        Raises:
            InvalidActionError: Actions are of the wrong shape, or somebody who acts chose an illegal one.
        """
        self._require_fit(actions)
        node = self._follow(self._choose(actions[HEAD]))
        ended, decisions = self._terminal[node], self._decisions[node]
        final = self._observe(node)
        self._open_episodes(ended)
        self._node = self._open(node, ended)
        return StepResult(
            observation=self._observe(self._node),
            reward=self._reward.index_select(0, node),
            terminated=ended,
            truncated=torch.zeros_like(ended),
            final_observation=final,
            outcome=Outcome(score=self._score[node], reason=torch.zeros_like(decisions), decisions=decisions),
        )

    def _table(self, column: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(column).to(self.device)

    def _open(self, node: Int[Tensor, " E"], rows: Bool[Tensor, " E"]) -> Int[Tensor, " E"]:
        """The nodes where each row is once the episodes of some have begun."""
        return self._draw(node, rows, torch.full_like(node, START), torch.zeros_like(node))

    def _follow(self, move: Int[Tensor, " E"]) -> Int[Tensor, " E"]:
        node = self._moves.certain[move]
        return self._draw(node, node == NONE, move, self._decisions[self._node] + 1)

    def _draw(self, node: Tensor, rows: Tensor, move: Tensor, decisions: Int[Tensor, " E"]) -> Int[Tensor, " E"]:
        """Where the moves of some rows lead, by what chance does in them after so many decisions."""
        drawn = rows.nonzero().squeeze(-1)
        if not len(drawn):
            return node
        chance = randomness.uniform(randomness.derive(self.seeds[drawn], decisions[drawn]))
        return node.index_copy(0, drawn, self._moves.draw(move[drawn], chance))

    def _choose(self, action: Int[Tensor, "E 2"]) -> Int[Tensor, " E"]:
        """The moves that actions come to."""
        known, options = self._known.index_select(0, self._node), self._legal.shape[1]
        within = action.clamp(0, options - 1)
        rank = self._moves.rank[known * options + within]
        illegal = (rank == NONE) | ((within != action) & (known != self._idle))
        if bool(illegal.any()):
            self._refuse(action, known, illegal)
        return self._moves.first[self._node] + rank[:, 0] * self._moves.stride[self._node] + rank[:, 1]

    def _refuse(self, action: Int[Tensor, "E 2"], known: Int[Tensor, "E 2"], illegal: Bool[Tensor, "E 2"]) -> None:
        row, agent = illegal.nonzero()[0].tolist()
        legal = self._legal[known[row, agent]].nonzero().flatten().tolist()
        raise InvalidActionError(
            f"{('home', 'away')[agent]} chose action {int(action[row, agent])} in match {row} of {self.spec.name}: "
            f"the mask allows {', '.join(map(str, legal))}"
        )

    def _observe(self, node: Int[Tensor, " E"]) -> Observation:
        known = self._known.index_select(0, node)
        agents = known.flatten()
        return Observation(
            values=self._observations.index_select(0, agents).view(*known.shape, -1),
            masks={HEAD: self._legal.index_select(0, agents).view(*known.shape, -1)},
            active=known != self._idle,
        )


def make_openspiel(name: str, *, num_envs: int, device: str, seed: int) -> TreeGame:
    """`openspiel:GAME`; see `tree_of` for what is refused."""
    return TreeGame(declare_openspiel(name), tree_of(name), num_envs=num_envs, device=device, seed=seed)
