"""Matches of several rounds, which reduce the share of luck in games of dice or cards."""

from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from arena.environments.base import (
    Actions,
    CountsBytes,
    Environment,
    MeasuredEnvironment,
    Observation,
    Outcome,
    RoundResult,
    StepResult,
    capabilities_of,
)
from arena.environments.seeded import SeededBatch
from arena.environments.spec import RoundsSpec
from arena.environments.wrappers import counting
from arena.native.warp import record, share
from arena.seeding import derive


class Rounds(SeededBatch):
    """E matches of N rounds of a game, with the same players on the same sides.

    A round is an episode: memory, advantages and final observations are the game's own. The side with the higher sum of
    scores after the last round wins, so home's score of the match is 1, 0.5 or 0.

    The first round uses the match's own seed, round r (from 0) a seed derived from it and r. A round that was lost with
    its worker restarts and counts once.

    Args:
        game: Environment of the rounds, owned by this wrapper.
        spec: Spec of the matches.
        seed: The environment's seed.

    Attributes:
        capabilities: Capabilities of the game except metrics, which are measured once per match.
    """

    component_names = property(attrgetter("game.component_names"))
    components = property(attrgetter("game.components"))
    shaping_gamma = property(attrgetter("game.shaping_gamma"))
    stage = property(attrgetter("game.stage"))
    set_stage = property(attrgetter("game.set_stage"))

    def __init__(self, game: Environment, spec: RoundsSpec, *, seed: int) -> None:
        super().__init__(spec, num_envs=game.num_envs, device=str(game.device), seed=seed)
        self.game: Any = game  # typed by its capabilities
        self._seed, self._rounds_spec = seed, spec
        passed_on = (each for each in capabilities_of(game) if each not in (MeasuredEnvironment, CountsBytes))
        self.capabilities: tuple[type, ...] = (*passed_on, CountsBytes)
        self._account = {
            "seeds": self.seeds,
            "next_seeds": self.next_seeds,
            "row_seeds": self._row_seeds,
            "episodes": self._episodes,
            "round": self._zeros(torch.int32),
            "decisions": self._zeros(torch.int64),
            "lead": self._zeros(torch.float64),
            "opening": self._zeros(torch.int64),
        }
        self._round = {
            "ended": self._zeros(torch.bool),
            "score": self._zeros(torch.float64),
            "decisions": self._zeros(torch.int64),
        }
        self._match = {
            "over": self._zeros(torch.bool),
            "score": self._zeros(torch.float64),
            "reason": self._zeros(torch.int64),
            "decisions": self._zeros(torch.int64),
        }
        account, rounds = share(counting.Account, self._account), spec.rounds
        ended, match = share(counting.Round, self._round), share(counting.Match, self._match)
        self._announce = record(counting.announce, game.num_envs, self.device, account, rounds)
        self._count = record(counting.count, game.num_envs, self.device, account, ended, match, rounds)

    @property
    def own_bytes(self) -> int:
        """Memory of all matches, without observations; the game counts as 0 if it does not report it."""
        own = sum(each.nbytes for each in self._account.values())
        return int(getattr(self.game, "own_bytes", 0)) + own

    @property
    def shared_bytes(self) -> int:
        """Memory shared by all matches; 0 if the game does not report it."""
        return int(getattr(self.game, "shared_bytes", 0))

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row (see `Environment.reset`)."""
        self._open_all(seeds)
        for name in ("round", "decisions", "lead"):
            self._account[name].zero_()
        opened: Observation = self.game.reset(self.seeds)
        return opened

    def step(self, actions: Actions) -> RoundResult:
        """Play one decision of every row's round (see `Environment.step`)."""
        self._set_next_round_seeds()
        return self._counted(self.game.step(actions))

    def _set_next_round_seeds(self) -> None:
        """Write the seed of each row's next round into the game."""
        self._announce()
        self.game.next_seeds.copy_(self._account["opening"])

    def _counted(self, step: StepResult) -> RoundResult:
        """Convert the game's result of a decision to that of the matches."""
        # Into fixed tensors: the launches are recorded with their addresses.
        self._round["ended"].copy_(step.over)
        self._round["score"].copy_(step.outcome.score)
        self._round["decisions"].copy_(step.outcome.decisions)
        self._count()
        # Copies, because the next decision overwrites these tensors.
        match = {name: value.clone() for name, value in self._match.items()}
        return RoundResult(
            observation=step.observation,
            reward=step.reward,
            terminated=step.terminated,
            truncated=step.truncated,
            final_observation=step.final_observation,
            outcome=Outcome(match["score"], match["reason"], match["decisions"]),
            match_over=match["over"],
        )

    def halves(self) -> "list[Rounds]":
        """Split into batches of half the matches (see `AwaitedEnvironment.halves`)."""
        games = self.game.halves()
        if len(games) == 1:
            return [self]
        seeds = [derive(self._seed, "half", number) for number in range(len(games))]
        return [Rounds(game, self._rounds_spec, seed=seed) for game, seed in zip(games, seeds, strict=True)]

    def send(self, actions: Actions) -> None:
        """Start a decision (see `AwaitedEnvironment.send`)."""
        self._set_next_round_seeds()
        self.game.send(actions)

    def receive(self) -> RoundResult:
        """Wait for the decision (see `AwaitedEnvironment.receive`)."""
        return self._counted(self.game.receive())
