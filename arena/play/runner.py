"""Runs matches in parallel rows: policies of both sides, the schedule of matches, and their results."""

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
"""Reason of a match that ended because an external agent made an invalid action; its side loses immediately."""

MAX_ENVS = 256


@dataclass(frozen=True)
class MatchResult:
    """Result of one match.

    Attributes:
        score: Home's score in [0, 1].
        reason: One of the environment's reasons, or `FORFEIT`.
        decisions: Length in decisions.
        seed: Seed of the match.
    """

    score: float
    reason: str
    decisions: int
    seed: int


class MatchCallback(Protocol):
    """Observes matches that are played together, without changing them."""

    def opened(self, env: Environment, observation: Observation) -> None:
        """Called after the reset, at the start of every row's first match."""
        ...

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Called after each decision of all rows."""
        ...


class CallbackList:
    """Calls several callbacks in order."""

    def __init__(self, *watchers: MatchCallback) -> None:
        self._watchers = watchers

    def opened(self, env: Environment, observation: Observation) -> None:
        """Call `opened` of every callback."""
        for watcher in self._watchers:
            watcher.opened(env, observation)

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Call `stepped` of every callback."""
        for watcher in self._watchers:
            watcher.stepped(actions, step)


NOBODY = CallbackList()
"""Callback that does nothing."""


def ignore_progress(finished: int) -> None:
    """Ignore progress."""


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
    """Play one match per seed, up to `max_envs` at once.

    Matches are assigned to rows before the first decision and played to their end, so results are not biased towards
    short matches. The game's randomness depends only on the match's seed. The policies' randomness comes from `rng`,
    which all rows share. Deterministic policies give the same match in any batch. For others the results are
    reproducible from (seeds, policies, state of `rng`, `max_envs`).

    Args:
        environment: Registry name.
        home: Policy of the home side in every match.
        away: Policy of the away side.
        seeds: One seed per match, each in [0, 2^63).
        rng: Generator of the policies; home samples first.
        max_envs: Most matches to run at once.
        processes: Worker processes that step the game (see `make`).
        on_finished: Called after decisions that ended matches, with their number.
        watcher: Callback for every decision.

    Returns:
        Results in the order of `seeds`.

    Raises:
        UnknownEnvironmentError: No environment has that name.
    """
    if not seeds:
        return []
    # As few rows as matches, because surplus rows would be stepped for nothing.
    env = make(environment, num_envs=min(len(seeds), max_envs), processes=processes)
    sides = [home] * env.num_envs, [away] * env.num_envs
    return _play(env, sides, seeds, rng, on_finished, watcher)


def play_pairs(
    environment: str,
    pairs: Sequence[tuple[Policy, Policy]],
    seeds: Sequence[int],
    rng: torch.Generator,
) -> list[MatchResult]:
    """Play one match per pair of policies, all at once; for randomness see `play`.

    Args:
        environment: Registry name.
        pairs: Home and away policy of every match.
        seeds: One seed per match, each in [0, 2^63).
        rng: Generator of the policies; home policies sample first.

    Returns:
        Results in the order of `seeds`.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        ArenaError: The numbers of pairs and seeds differ.
    """
    if not (pairs or seeds):
        return []
    return play_pairs_in(make(environment, num_envs=len(seeds)), pairs, seeds, rng)


def play_pairs_in(
    env: Environment,
    pairs: Sequence[tuple[Policy, Policy]],
    seeds: Sequence[int],
    rng: torch.Generator,
    *,
    watcher: MatchCallback = NOBODY,
) -> list[MatchResult]:
    """Play one match per pair in an existing environment (see `play_pairs`).

    Earlier matches in the environment do not affect the result.

    Raises:
        ArenaError: The numbers of rows, pairs and seeds differ.
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
    """Play all seeds; the policies of a row are the same in all its matches."""
    schedule = _Schedule(env, seeds)
    lineups = [SidePolicies(side, agents) for side, agents in zip(sides, env.spec.agents_per_side, strict=True)]
    side_agents = [env.spec.side(away) for away in (False, True)]
    external = any(lineup.external for lineup in lineups)
    with torch.inference_mode():
        with forbid_exit(env.spec.name):
            observation = schedule.open()
        require_finite(env, observation)
        episode_start = torch.ones(env.num_envs, dtype=torch.bool)
        watcher.opened(env, observation)
        while not schedule.complete:
            choices = [
                lineup.act(observation.side(agents), episode_start, rng, schedule.queried if lineup.external else None)
                for lineup, agents in zip(lineups, side_agents, strict=True)
            ]
            actions = {name: torch.cat([side[name] for side in choices], dim=1) for name in choices[0]}
            forfeited = schedule.forfeit(*(lineup.faults for lineup in lineups)) if external else 0
            with forbid_exit(env.spec.name):
                step = env.step(actions)
            require_finite(env, step.observation, step)
            watcher.stepped(actions, step)
            on_finished(schedule.record(step) + forfeited)
            # `ended` and not `over`: in a match of several rounds, each round is an episode with a fresh memory.
            observation, episode_start = step.observation, step.ended
    return schedule.results


class _Schedule:
    """Assigns matches to rows and collects their results. Row r plays seeds r, r + E, r + 2E, ..."""

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
    def queried(self) -> Bool[Tensor, " E"]:
        """(E,) rows whose match has no result yet."""
        playing = [index < len(self._seeds) and index not in self._results for index in self._playing]
        return torch.tensor(playing)

    def open(self) -> Observation:
        observation = self._env.reset(torch.tensor(self._seeds[: self._env.num_envs], dtype=torch.int64))
        for row in range(self._env.num_envs):
            self._assign(row, row + self._env.num_envs)
        return observation

    def forfeit(self, home: Bool[Tensor, " E"], away: Bool[Tensor, " E"]) -> int:
        """End matches in which a side made an invalid action; return their number.

        The rows continue, but later results are ignored. If both sides made one in the same decision, the match is a
        draw.
        """
        before = len(self._results)
        for row in torch.nonzero((home | away) & self.queried).flatten().tolist():
            index, decisions = self._playing[row], min(int(self._decisions[row]) + 1, self._env.spec.max_decisions)
            score = (1.0 + float(away[row]) - float(home[row])) / 2.0
            self._results[index] = MatchResult(score, FORFEIT, decisions, self._seeds[index])
        return len(self._results) - before

    def record(self, step: StepResult) -> int:
        """Record the matches that ended, each once; return their number. Surplus rows continue and are ignored."""
        before = len(self._results)
        outcome = step.outcome
        self._decisions = (self._decisions + 1).masked_fill(step.over, 0)
        for row in torch.nonzero(step.over).flatten().tolist():
            index = self._playing[row]
            if index < len(self._seeds):
                reason = self._env.spec.reasons[int(outcome.reason[row])]
                decisions = int(outcome.decisions[row])
                played = MatchResult(float(outcome.score[row]), reason, decisions, self._seeds[index])
                self._results.setdefault(index, played)  # a forfeit is recorded before the match ends
                self._playing[row] = index + self._env.num_envs
                # the next match has just been opened, so this seeds the one after it
                self._assign(row, index + 2 * self._env.num_envs)
        return len(self._results) - before

    def _assign(self, row: int, index: int) -> None:
        if index < len(self._seeds):
            self._env.next_seeds[row] = self._seeds[index]
