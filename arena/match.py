"""Match play: two policies, paired and side-swapped on the same seeds, many matches at once."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.protocol import Actions, Environment, Observation, StepResult
from arena.environments.registry import declare, make, make_baseline
from arena.errors import ArenaError, CheckpointError, UnknownPolicyError
from arena.external import FORMS, USUAL, ExternalPolicy, Patience, form_of, open_policy
from arena.external.policy import ignore_faults
from arena.lineup import Lineup
from arena.policies.checkpoint import NEWEST, load
from arena.policies.network import NetworkPolicy
from arena.policies.protocol import Policy
from arena.seeding import derive

CHECKPOINT_SUFFIX = ".safetensors"
FORFEIT = "forfeit"
"""Why a match ended in which a policy from outside did what is not allowed: its side loses there and then."""

MAX_ENVS = 256
Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


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


@dataclass(frozen=True)
class PairedMatch:
    """One match of A against B.

    Attributes:
        score: A's score in [0, 1].
        a_is_home: The side that A played.
        reason: Why it ended.
        decisions: Its length.
        seed: Shared with the match in which the sides are swapped.
    """

    score: float
    a_is_home: bool
    reason: str
    decisions: int
    seed: int


@dataclass(frozen=True)
class MatchSeries:
    """All matches of A against B, in the order of their seeds."""

    matches: tuple[PairedMatch, ...]

    @property
    def score(self) -> float:
        """A's mean score."""
        return sum(match.score for match in self.matches) / len(self.matches)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of A's expected score; see `score_interval`."""
        return score_interval(self.score, len(self.matches))

    @property
    def reasons(self) -> dict[str, int]:
        """How many matches ended for each reason, most frequent first."""
        return dict(Counter(match.reason for match in self.matches).most_common())

    @property
    def decisions(self) -> int:
        """Decisions of all matches together."""
        return sum(match.decisions for match in self.matches)


class Watcher(Protocol):
    """Sees everything of some matches that are played together, and changes nothing."""

    def opened(self, env: Environment, observation: Observation) -> None:
        """See the start of every row's first match."""
        ...

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """See a decision of every row, and what came of it."""
        ...


class Nobody:
    """Watches nothing."""

    def opened(self, env: Environment, observation: Observation) -> None:
        """Look away."""

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Look away."""


NOBODY = Nobody()


class Several:
    """Lets several watchers see the same matches, each thing in their order.

    One that stops watching before the matches are over, such as a recorder, comes after those that do not.
    """

    def __init__(self, *watchers: Watcher) -> None:
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


def play_series(
    environment: str,
    a: Policy,
    b: Policy,
    *,
    matches: int,
    seed: int,
    processes: int = 0,
    on_finished: Callable[[int], None] = ignore_progress,
    watcher: Watcher = NOBODY,
) -> MatchSeries:
    """Play A against B: matches 2i and 2i + 1 share a seed and swap the sides, A at home in the first.

    Processes, as `make` has them, change nothing that is played. The watcher sees those matches in which A is at home;
    row 0 starts with the first of the series.

    Raises:
        ArenaError: Fewer than one match was asked for.
    """
    if matches < 1:
        raise ArenaError(f"{matches} matches were asked for: give at least 1")
    seeds = [derive(seed, "match", pair) for pair in range((matches + 1) // 2)]
    rng = torch.Generator().manual_seed(derive(seed, "policies"))
    at_home = play(environment, a, b, seeds, rng, processes=processes, on_finished=on_finished, watcher=watcher)
    swapped = play(environment, b, a, seeds[: matches // 2], rng, processes=processes, on_finished=on_finished)
    home = [PairedMatch(each.score, True, each.reason, each.decisions, each.seed) for each in at_home]
    away = [PairedMatch(1.0 - each.score, False, each.reason, each.decisions, each.seed) for each in swapped]
    order = [match for pair in zip(home, away, strict=False) for match in pair] + home[len(away) :]
    return MatchSeries(tuple(order))


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
    watcher: Watcher = NOBODY,
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
    watcher: Watcher = NOBODY,
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
    _require_a_seed_each(pairs, seeds)
    return play_pairs_in(make(environment, num_envs=len(seeds)), pairs, seeds, rng, watcher=watcher) if seeds else []


def play_pairs_in(
    env: Environment,
    pairs: Sequence[tuple[Policy, Policy]],
    seeds: Sequence[int],
    rng: torch.Generator,
    *,
    watcher: Watcher = NOBODY,
) -> list[MatchResult]:
    """Play a match of every pair in an environment that is there already; see `play_pairs`.

    Whatever was played in it before changes nothing.

    Raises:
        ArenaError: It has not as many rows as there are pairs and seeds.
    """
    _require_a_seed_each(pairs, seeds)
    if env.num_envs != len(seeds):
        raise ArenaError(f"{len(seeds)} matches cannot fill the {env.num_envs} rows of {env.spec.name}: give as many")
    home, away = ([pair[side] for pair in pairs] for side in (0, 1))
    return _play(env, (home, away), seeds, rng, ignore_progress, watcher)


def _require_a_seed_each(pairs: Sequence[tuple[Policy, Policy]], seeds: Sequence[int]) -> None:
    if len(pairs) != len(seeds):
        raise ArenaError(f"{len(pairs)} pairs and {len(seeds)} seeds were given: a match takes one of each")


def _play(
    env: Environment,
    sides: tuple[Sequence[Policy], Sequence[Policy]],
    seeds: Sequence[int],
    rng: torch.Generator,
    on_finished: Callable[[int], None],
    watcher: Watcher,
) -> list[MatchResult]:
    """Play all seeds; who plays home and away in each row is the same in all matches of that row."""
    schedule = _Schedule(env, seeds)
    lineups = [Lineup(side, agents) for side, agents in zip(sides, env.spec.agents_per_side, strict=True)]
    places = [env.spec.side(away) for away in (False, True)]
    external = any(lineup.external for lineup in lineups)
    with torch.inference_mode():
        observation, episode_start = schedule.open(), torch.ones(env.num_envs, dtype=torch.bool)
        watcher.opened(env, observation)
        while not schedule.complete:
            choices = [
                lineup.act(observation.side(agents), episode_start, rng, schedule.heard if lineup.external else None)
                for lineup, agents in zip(lineups, places, strict=True)
            ]
            actions = {name: torch.cat([side[name] for side in choices], dim=1) for name in choices[0]}
            forfeited = schedule.forfeit(*(lineup.faults for lineup in lineups)) if external else 0
            step = env.step(actions)
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


@contextmanager
def seated(
    environment: str,
    names: Sequence[str],
    patience: Patience = USUAL,
    on_fault: Callable[[str], None] = ignore_faults,
) -> Iterator[list[Policy]]:
    """Find players by name, as `resolve_policy` does, and close afterwards what was opened for them."""
    with ExitStack() as opened:
        players = []
        for name in names:
            player = resolve_policy(environment, name, patience, on_fault)
            if isinstance(player, ExternalPolicy):
                opened.enter_context(player)
            players.append(player)
        yield players


def resolve_policy(
    environment: str,
    name: str,
    patience: Patience = USUAL,
    on_fault: Callable[[str], None] = ignore_faults,
) -> Policy:
    """Find a player by name: a baseline, a checkpoint's path, the folder of a training run, or a policy from outside.

    Policies from outside are written as `arena.external.FORMS` says, and closed by whoever asked for them; see
    `seated`.

    Args:
        environment: Registry name.
        name: Of the player.
        patience: How long a policy from outside may take.
        on_fault: Told each time that one does what is not allowed.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        UnknownPolicyError: The name is neither a baseline nor a file, nor a folder of a run that has saved.
        CheckpointError: The file is no checkpoint, or was trained for another environment.
        ExternalPolicyError: The policy from outside cannot be opened.
    """
    if form_of(name) is not None:
        return open_policy(declare(environment), name, patience, on_fault)
    if Path(name).suffix == CHECKPOINT_SUFFIX or Path(name).is_file():
        return _load_checked(environment, name)
    try:
        return make_baseline(environment, name)
    except UnknownPolicyError as error:
        if Path(name).is_dir():
            return _load_checked(environment, str(_newest_of(Path(name))))
        way_out = f"or give the path of a checkpoint or of a run folder, or {FORMS}"
        raise UnknownPolicyError(f"{error}, {way_out}") from error


def _newest_of(run: Path) -> Path:
    if not (run / NEWEST).is_file():
        raise UnknownPolicyError(
            f"{run} is a folder without {NEWEST}: give the folder of a `trainer run` that has saved, or the path of a "
            "checkpoint"
        )
    return run / NEWEST


def _load_checked(environment: str, path: str) -> NetworkPolicy:
    policy = load(path)
    signature = declare(environment).signature
    if policy.signature != signature and policy.environment == environment:
        raise CheckpointError(
            f"{path} was trained for {environment} of other rules (signature {policy.signature}; {environment} is now "
            f"{signature}): train it anew, or play it with the release that it was trained with"
        )
    if policy.signature != signature:
        raise CheckpointError(
            f"{path} was trained for {policy.environment} (signature {policy.signature}), but {environment} has "
            f"signature {signature}: give a checkpoint of {environment}"
        )
    return policy


def score_interval(score: float, matches: int) -> tuple[float, float]:
    """95 % interval of an expected score in [0, 1], by Wilson's formula.

        centre = (s + z^2 / 2M) / (1 + z^2 / M)
        half   = z sqrt(s (1 - s) / M + z^2 / 4M^2) / (1 + z^2 / M)

    It takes s (1 - s) for the variance of one match, which is exact for wins and losses and the most that it can be
    where there are draws or margins: there the interval is wider than need be.

    Source: Wilson 1927.
    """
    spread = Z_95 * Z_95 / matches
    centre = (score + spread / 2.0) / (1.0 + spread)
    half = Z_95 * math.sqrt(score * (1.0 - score) / matches + spread / (4.0 * matches)) / (1.0 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
