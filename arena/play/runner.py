"""Matches that are played together, a row each: who acts, which match comes next, and what came of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.environments.guards import forbid_exit, require_finite
from arena.environments.registry import make
from arena.errors import InputError
from arena.play.side_policy import SidePolicies
from arena.policies.protocol import Policy

FORFEIT = "forfeit"
"""Why a match ended in which a policy from outside did what is not allowed: its side loses there and then."""

MAX_ENVS = 256


@dataclass(frozen=True)
class MatchResult:
    """One finished match.

    Attributes:
        score: Home's score in [0, 1].
        reason: Why it ended, one of the environment's reasons or `FORFEIT`.
        decisions: Its length.
        seed: What it was opened by.
    """

    score: float
    reason: str
    decisions: int
    seed: int


class MatchCallback(Protocol):
    """Sees everything of some matches that are played together, and changes nothing."""

    def opened(self, env: Environment, observation: Observation) -> None:
        """See the start of every row's first match."""
        ...

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """See a decision of every row, and what came of it."""
        ...


class NoCallback:
    """Watches nothing."""

    def opened(self, env: Environment, observation: Observation) -> None:
        """Look away."""

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Look away."""


NOBODY = NoCallback()


class CallbackList:
    """Lets several watchers see the same matches, each thing in their order."""

    def __init__(self, *watchers: MatchCallback) -> None:
        self._watchers = watchers

    def opened(self, env: Environment, observation: Observation) -> None:
        """Let each see the start of every row's first match."""
        for watcher in self._watchers:
            watcher.opened(env, observation)

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Let each see a decision of every row."""
        for watcher in self._watchers:
            watcher.stepped(actions, step)


def ignore_progress(finished: int) -> None:
    """Report to nobody that so many more matches have finished."""


def play(
    environment: str,
    home: Policy,
    away: Policy,
    seeds: Sequence[int],
    rng: torch.Generator,
    *,
    max_envs: int = MAX_ENVS,
    processes: int = 0,
    on_finished: Callable[[int], None] = ignore_progress,
    watcher: MatchCallback = NOBODY,
) -> list[MatchResult]:
    """Play one match for every seed, up to `max_envs` at once.

    Every match is assigned to a row before the first decision and played to its end, so that long matches count as
    often as short ones. All chance of the game follows from a match's own seed. All chance of the policies comes
    from `rng`, which is shared by the rows: policies that draw nothing give the same match in any batch, and for
    others the list repeats from (seeds, policies, state of `rng`, `max_envs`).

    Args:
        environment: Registry name.
        home: Plays the home side of every match.
        away: Plays the away side.
        seeds: One seed for every match, each in [0, 2^63).
        rng: Where policies draw from; home draws first.
        max_envs: Most matches to run at once.
        processes: Processes of their own that step the game; see `make`.
        on_finished: Called after decisions that ended matches, with their number.
        watcher: Sees every decision.

    Returns:
        Results in the order of `seeds`.

    Raises:
        UnknownEnvironmentError: No environment has that name.
    """
    if not seeds:
        return []
    env = make(environment, num_envs=min(len(seeds), max_envs), processes=processes)
    sides = [home] * env.num_envs, [away] * env.num_envs
    return _play(env, sides, seeds, rng, on_finished, watcher)


def play_pairs(
    environment: str,
    pairs: Sequence[tuple[Policy, Policy]],
    seeds: Sequence[int],
    rng: torch.Generator,
    *,
    watcher: MatchCallback = NOBODY,
) -> list[MatchResult]:
    """Play a match of every pair, all at once; for chance see `play`.

    Args:
        environment: Registry name.
        pairs: Home and away of every match.
        seeds: One seed for every match, each in [0, 2^63).
        rng: Where policies draw from; those at home draw first.
        watcher: Sees every decision.

    Returns:
        Results in the order of `seeds`.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        ArenaError: There are not as many pairs as seeds.
    """
    if not (pairs or seeds):
        return []
    return play_pairs_in(make(environment, num_envs=len(seeds)), pairs, seeds, rng, watcher=watcher)


def play_pairs_in(
    env: Environment,
    pairs: Sequence[tuple[Policy, Policy]],
    seeds: Sequence[int],
    rng: torch.Generator,
    *,
    watcher: MatchCallback = NOBODY,
) -> list[MatchResult]:
    """Play a match of every pair in an environment that is there already; see `play_pairs`.

    Whatever was played in it before changes nothing.

    Raises:
        ArenaError: It has not as many rows as there are pairs and seeds.
    """
    if len(pairs) != len(seeds):
        raise InputError(f"{len(pairs)} pairs and {len(seeds)} seeds were given: a match takes one of each")
    if env.num_envs != len(seeds):
        raise InputError(f"{len(seeds)} matches cannot fill the {env.num_envs} rows of {env.spec.name}: give as many")
    home, away = ([pair[side] for pair in pairs] for side in (0, 1))
    return _play(env, (home, away), seeds, rng, ignore_progress, watcher)


def _play(
    env: Environment,
    sides: tuple[Sequence[Policy], Sequence[Policy]],
    seeds: Sequence[int],
    rng: torch.Generator,
    on_finished: Callable[[int], None],
    watcher: MatchCallback,
) -> list[MatchResult]:
    """Play all seeds; who plays home and away in each row is the same in all matches of that row."""
    schedule = _Schedule(env, seeds)
    lineups = [SidePolicies(side, agents) for side, agents in zip(sides, env.spec.agents_per_side, strict=True)]
    places = [env.spec.side(away) for away in (False, True)]
    external = any(lineup.external for lineup in lineups)
    with torch.inference_mode():
        with forbid_exit(env.spec.name):
            observation = schedule.open()
        require_finite(env, observation)
        episode_start = torch.ones(env.num_envs, dtype=torch.bool)
        watcher.opened(env, observation)
        while not schedule.complete:
            choices = [
                lineup.act(observation.side(agents), episode_start, rng, schedule.heard if lineup.external else None)
                for lineup, agents in zip(lineups, places, strict=True)
            ]
            actions = {name: torch.cat([side[name] for side in choices], dim=1) for name in choices[0]}
            forfeited = schedule.forfeit(*(lineup.faults for lineup in lineups)) if external else 0
            with forbid_exit(env.spec.name):
                step = env.step(actions)
            require_finite(env, step.observation, step)
            watcher.stepped(actions, step)
            on_finished(schedule.record(step) + forfeited)
            observation, episode_start = step.observation, step.ended
    return schedule.results


class _Schedule:
    """Which match every row plays next, and what came of those that ended. Row r plays seeds r, r + E, r + 2E, ..."""

    def __init__(self, env: Environment, seeds: Sequence[int]) -> None:
        self._env, self._seeds = env, seeds
        self._playing = list(range(env.num_envs))
        self._decisions = torch.zeros(env.num_envs, dtype=torch.int64)
        self._results: dict[int, MatchResult] = {}

    @property
    def complete(self) -> bool:
        return len(self._results) == len(self._seeds)

    @property
    def results(self) -> list[MatchResult]:
        return [self._results[index] for index in range(len(self._seeds))]

    @property
    def heard(self) -> Bool[Tensor, " E"]:
        """Rows in a match that has no result yet."""
        playing = [index < len(self._seeds) and index not in self._results for index in self._playing]
        return torch.tensor(playing)

    def open(self) -> Observation:
        observation = self._env.reset(torch.tensor(self._seeds[: self._env.num_envs], dtype=torch.int64))
        for row in range(self._env.num_envs):
            self._assign(row, row + self._env.num_envs)
        return observation

    def forfeit(self, home: Bool[Tensor, " E"], away: Bool[Tensor, " E"]) -> int:
        """End the matches in which a side did what is not allowed, and say how many; their rows play on unheard.

        Where both do in the same decision, it is a draw.
        """
        before = len(self._results)
        for row in torch.nonzero((home | away) & self.heard).flatten().tolist():
            index, decisions = self._playing[row], min(int(self._decisions[row]) + 1, self._env.spec.max_decisions)
            score = (1.0 + float(away[row]) - float(home[row])) / 2.0
            self._results[index] = MatchResult(score, FORFEIT, decisions, self._seeds[index])
        return len(self._results) - before

    def record(self, step: StepResult) -> int:
        """Note the matches that ended, each once, and say how many there were; rows out of matches play on unheard."""
        before = len(self._results)
        outcome = step.outcome
        self._decisions = (self._decisions + 1).masked_fill(step.over, 0)
        for row in torch.nonzero(step.over).flatten().tolist():
            index = self._playing[row]
            if index < len(self._seeds):
                reason = self._env.spec.reasons[int(outcome.reason[row])]
                decisions = int(outcome.decisions[row])
                played = MatchResult(float(outcome.score[row]), reason, decisions, self._seeds[index])
                self._results.setdefault(index, played)
                self._playing[row] = index + self._env.num_envs
                self._assign(row, index + 2 * self._env.num_envs)
        return len(self._results) - before

    def _assign(self, row: int, index: int) -> None:
        if index < len(self._seeds):
            self._env.next_seeds[row] = self._seeds[index]
