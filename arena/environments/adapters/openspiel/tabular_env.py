"""Small OpenSpiel games as a batch: a step is a lookup in tables of the game tree."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from arena.environments.adapters.openspiel import tabular_kernels as kernels
from arena.environments.adapters.openspiel.declare import HEAD, observations
from arena.environments.adapters.openspiel.tables import TransitionTables
from arena.environments.adapters.openspiel.tree import GameTree
from arena.environments.base import Actions, CountsBytes, Observation, Outcome, StepResult
from arena.environments.seeded import SeededBatch
from arena.environments.spec import SIDES, EnvironmentSpec
from arena.errors import InvalidActionError
from arena.native.warp import record, share


class TabularGameEnv(SeededBatch):
    """E matches of a game with a known tree.

    An acting player observes the tensor of its information state and its side. An inactive one observes zeros and has
    no legal action. Rewards are 0 until the end, then the game's returns. Home's score is its return scaled from the
    range of returns to [0, 1], so a return of 0 is a score of 0.5.
    """

    capabilities: tuple[type, ...] = (CountsBytes,)

    def __init__(self, spec: EnvironmentSpec, tree: GameTree, *, num_envs: int, device: str, seed: int) -> None:
        super().__init__(spec, num_envs=num_envs, device=device, seed=seed)
        self._game = {name: torch.from_numpy(column).to(self.device) for name, column in tables(tree).items()}
        self._matches = {
            "node": self._zeros(torch.int32),
            "seeds": self.seeds,
            "next_seeds": self.next_seeds,
            "row_seeds": self._row_seeds,
            "episodes": self._episodes,
            "action": self._zeros(torch.int64, SIDES),
            "move": self._zeros(torch.int32),
        }
        self._report = {
            "illegal": self._zeros(torch.bool, SIDES),
            "reward": self._zeros(torch.float32, SIDES),
            "terminated": self._zeros(torch.bool),
            "score": self._zeros(torch.float64),
            "decisions": self._zeros(torch.int64),
        }
        self._final, self._view = self._room_to_see(), self._room_to_see()
        game, matches = share(kernels.Game, self._game), share(kernels.Matches, self._matches)
        report = share(kernels.Report, self._report)
        final, view = (share(kernels.View, each) for each in (self._final, self._view))
        self._begin = record(kernels.begin, num_envs, self.device, game, matches, view)
        self._choose = record(kernels.choose, num_envs, self.device, game, matches, report)
        self._follow = record(kernels.follow, num_envs, self.device, game, matches, report, final, view)

    @property
    def own_bytes(self) -> int:
        """Memory of all matches, without observations."""
        return sum(each.nbytes for each in self._matches.values())

    @property
    def shared_bytes(self) -> int:
        """Memory of the tables, which all matches share."""
        return sum(each.nbytes for each in self._game.values())

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row (see `Environment.reset`)."""
        self._open_all(seeds)
        self._begin()
        return _observation(self._view)

    def step(self, actions: Actions) -> StepResult:
        """Play one decision of every row (see `Environment.step`).

        Raises:
            InvalidActionError: Actions have the wrong shape, or an active agent chose an illegal one.
        """
        self._require_fit(actions)
        self._matches["action"].copy_(actions[HEAD])
        self._choose()
        if bool(self._report["illegal"].any()):
            self._refuse()
        self._follow()
        # Copies, because the next step overwrites the report.
        ended = self._report["terminated"].clone()
        score, decisions = self._report["score"].clone(), self._report["decisions"].clone()
        return StepResult(
            observation=_observation(self._view),
            reward=self._report["reward"].clone(),
            terminated=ended,
            truncated=torch.zeros_like(ended),
            final_observation=_observation(self._final),
            outcome=Outcome(score=score, reason=torch.zeros_like(decisions), decisions=decisions),
        )

    def _room_to_see(self) -> dict[str, Tensor]:
        """Allocate observation buffers of both sides."""
        return {
            "values": self._zeros(torch.float32, SIDES, self.spec.observation_size),
            "mask": self._zeros(torch.bool, SIDES, self.spec.heads[0].size),
            "active": self._zeros(torch.bool, SIDES),
        }

    def _refuse(self) -> None:
        row, agent = self._report["illegal"].nonzero()[0].tolist()
        known = self._game["known"][int(self._matches["node"][row]), agent]
        legal = self._game["legal"][int(known)].nonzero().flatten().tolist()
        raise InvalidActionError(
            f"{('home', 'away')[agent]} chose action {int(self._matches['action'][row, agent])} in match {row} of "
            f"{self.spec.name}: the mask allows {', '.join(map(str, legal))}"
        )


def tables(tree: GameTree) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of `kernels.Game`."""
    moves, largest = TransitionTables.of(tree), abs(tree.home_return).max() or 1.0
    # One more row than histories: a player that does not act sees zeros and has no legal action.
    idle = len(tree.side)
    return {
        "known": np.where(tree.acting, tree.information_state, idle).astype(np.int32),
        "observation": np.pad(observations(tree), ((0, 1), (0, 0))),
        "legal": np.pad(tree.legal, ((0, 1), (0, 0))),
        "rank": np.pad(moves.rank, ((0, 1), (0, 0))).astype(np.int32),
        "first": moves.first.astype(np.int32),
        "stride": moves.stride.astype(np.int32),
        "certain": moves.certain.astype(np.int32),
        "edge": moves.edge,
        "outcome": moves.outcome.astype(np.int32),
        "terminal": tree.terminal,
        "decisions": tree.decisions,
        # Subtracted, because negating the return of a draw would give -0.0.
        "reward": np.stack([tree.home_return, 0.0 - tree.home_return], axis=1).astype(np.float32),
        "score": 0.5 + tree.home_return / (2.0 * largest),
    }


def _observation(view: Mapping[str, Tensor]) -> Observation:
    """Return a copy of the observation, because the next step overwrites the buffers."""
    return Observation(view["values"].clone(), {HEAD: view["mask"].clone()}, view["active"].clone())
