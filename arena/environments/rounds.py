"""Matches of several rounds: one game of dice or cards is mostly luck, many of them tell who plays better."""

from operator import attrgetter
from typing import cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments import randomness
from arena.environments.episodes import SeededRows
from arena.environments.protocol import Actions, Environment, Observation, Outcome, RoundResult
from arena.environments.spec import ROUNDS_REASONS, RoundsSpec
from arena.seeding import derive

LEVEL_TOLERANCE = 1e-9
"""A lead below this is rounding: scores are sums of numbers that float64 does not hold exactly."""

OPTIONAL = ("component_names", "components", "shaping_gamma", "lesson", "teach")
"""What an environment may have beyond the protocol, and what holds of its rounds as well."""

PURPOSE_ROUND = derive(0, "round")
"""Keeps the seeds of rounds apart from all that a game derives from its own."""


class Rounds(SeededRows):
    """E matches of N rounds of a game, between the same players on the same sides.

    A round is an episode: memory, advantages and final observations are the game's own. Whoever is ahead after the
    last round wins, by the sum of home's scores: home's score of the match is 1, 0.5 or 0.

    The first round is opened by the match's own seed, round r (from 0) by one that follows from it and r.

    Args:
        game: Plays the rounds; it belongs to these matches from now on.
        spec: What a match of them is.
        seed: The environment's seed.
    """

    def __init__(self, game: Environment, spec: RoundsSpec, *, seed: int) -> None:
        super().__init__(spec, num_envs=game.num_envs, device=str(game.device), seed=seed)
        self.game = game
        self._last = spec.rounds - 1
        self._round = torch.zeros_like(self.seeds)
        self._decisions = torch.zeros_like(self.seeds)
        self._lead = torch.zeros(game.num_envs, dtype=torch.float64, device=self.device)

    @property
    def own_bytes(self) -> int:
        """Memory of all matches together, observations left out; 0 of the game where it does not say."""
        own = (self.seeds, self.next_seeds, self._round, self._decisions, self._lead)
        return int(getattr(self.game, "own_bytes", 0)) + sum(each.nbytes for each in own)

    @property
    def shared_bytes(self) -> int:
        """Memory of what exists once for all matches; 0 where the game does not say."""
        return int(getattr(self.game, "shared_bytes", 0))

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row; see `Environment.reset`."""
        self._open_all(seeds)
        for count in (self._round, self._decisions, self._lead):
            count.zero_()
        return self.game.reset(self.seeds)

    def step(self, actions: Actions) -> RoundResult:
        """Play one decision of every row's round; see `Environment.step`."""
        last = self._round == self._last
        following = randomness.derive(self.seeds, PURPOSE_ROUND, self._round + 1)
        self.game.next_seeds.copy_(torch.where(last, self.next_seeds, following))
        step = self.game.step(actions)
        over = step.ended & last
        outcome = self._count(step.outcome, step.ended, over)
        self._open_episodes(over)
        return RoundResult(
            observation=step.observation,
            reward=step.reward,
            terminated=step.terminated,
            truncated=step.truncated,
            final_observation=step.final_observation,
            outcome=outcome,
            match_over=over,
        )

    def _count(self, outcome: Outcome, ended: Bool[Tensor, " E"], over: Bool[Tensor, " E"]) -> Outcome:
        """Add up rounds that ended, and close the account of matches that are over."""
        decisions = self._decisions + outcome.decisions
        lead = self._lead + (outcome.score - 0.5) * ended
        ahead = lead.sign() * (lead.abs() > LEVEL_TOLERANCE) * over
        goes_on = ~over
        self._round = (self._round + ended) * goes_on
        self._decisions = torch.where(ended, decisions, self._decisions) * goes_on
        self._lead = lead * goes_on
        level = over & (ahead == 0.0)
        return Outcome(0.5 + 0.5 * ahead, level * ROUNDS_REASONS.index("level"), decisions)


def play_in_rounds(game: Environment, spec: RoundsSpec, *, seed: int) -> Rounds:
    """Matches of rounds of a game, with all that the game has beyond the protocol and that holds of its rounds."""
    passed_on = {name: property(attrgetter(f"game.{name}")) for name in OPTIONAL if hasattr(game, name)}
    kind = cast("type[Rounds]", type(Rounds.__name__, (Rounds,), passed_on))  # protocols look for them in the class
    return kind(game, spec, seed=seed)
