"""Match series between two policies, paired by seed with sides swapped, and lookup of policies by name."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from arena.agents import FORMS, USUAL, ExternalPolicy, Timeouts, kind_of, open_policy
from arena.agents.policy import ignore_faults
from arena.environments.registry import declare, make_baseline
from arena.errors import InputError, UnknownPolicyError
from arena.play.runner import NOBODY, MatchCallback, ignore_progress, play
from arena.policies.checkpoint import NEWEST, load_for
from arena.policies.protocol import Policy
from arena.seeding import derive

CHECKPOINT_SUFFIX = ".safetensors"

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True)
class PairedMatch:
    """One match of A against B.

    Attributes:
        score: A's score in [0, 1].
        a_is_home: Whether A played the home side.
        reason: Reason of the end.
        decisions: Length in decisions.
        seed: Seed, shared with the match in which the sides are swapped.
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
        """95 % interval of A's expected score (see `score_interval`)."""
        return score_interval(self.score, len(self.matches))

    @property
    def reasons(self) -> dict[str, int]:
        """Number of matches per reason of the end, most frequent first."""
        return dict(Counter(match.reason for match in self.matches).most_common())

    @property
    def decisions(self) -> int:
        """Decisions of all matches together."""
        return sum(match.decisions for match in self.matches)


def play_series(
    environment: str,
    a: Policy,
    b: Policy,
    *,
    matches: int,
    seed: int,
    processes: int = 0,
    on_finished: Callable[[int], None] = ignore_progress,
    watcher: MatchCallback = NOBODY,
) -> MatchSeries:
    """Play A against B: matches 2i and 2i + 1 share a seed with sides swapped, A at home in the first.

    The number of worker processes does not change results. The callback receives only the matches in which A is at
    home. Row 0 starts with the first match of the series.

    Raises:
        ArenaError: Fewer than one match was requested.
    """
    if matches < 1:
        raise InputError(f"{matches} matches were asked for: give at least 1")
    # One seed per pair: with sides swapped, luck that depends on the seed cancels in the mean score.
    seeds = [derive(seed, "match", pair) for pair in range((matches + 1) // 2)]
    rng = torch.Generator().manual_seed(derive(seed, "policies"))
    at_home = play(environment, a, b, seeds, rng, processes=processes, on_finished=on_finished, watcher=watcher)
    swapped = play(environment, b, a, seeds[: matches // 2], rng, processes=processes, on_finished=on_finished)
    home = [PairedMatch(each.score, True, each.reason, each.decisions, each.seed) for each in at_home]
    away = [PairedMatch(1.0 - each.score, False, each.reason, each.decisions, each.seed) for each in swapped]
    # With an odd number of matches home has one more than away.
    order = [match for pair in zip(home, away, strict=False) for match in pair] + home[len(away) :]
    return MatchSeries(tuple(order))


@contextmanager
def open_players(
    environment: str,
    names: Sequence[str],
    patience: Timeouts = USUAL,
    on_fault: Callable[[str], None] = ignore_faults,
) -> Iterator[list[Policy]]:
    """Resolve policies by name, as `resolve_policy` does, and close the external ones afterwards."""
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
    patience: Timeouts = USUAL,
    on_fault: Callable[[str], None] = ignore_faults,
) -> Policy:
    """Return a policy by name: a baseline, a checkpoint, the folder of a training run, or an external agent.

    External agents are written as in `arena.agents.FORMS`. The caller closes them (see `open_players`).

    Args:
        environment: Registry name.
        name: Name of the policy.
        patience: Time limits of an external agent.
        on_fault: Called with every invalid action of an external agent.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        UnknownPolicyError: The name is not a baseline, a file or a run folder with a checkpoint.
        CheckpointError: The file is not a checkpoint, or was trained for another environment.
        ExternalPolicyError: The external agent cannot be opened.
    """
    if kind_of(name) is not None:
        return open_policy(declare(environment), name, patience, on_fault)
    if Path(name).suffix == CHECKPOINT_SUFFIX or Path(name).is_file():
        return load_for(declare(environment), name)
    try:
        return make_baseline(environment, name)
    except UnknownPolicyError as error:
        if Path(name).is_dir():
            return load_for(declare(environment), _newest_of(Path(name)))
        remedy = f"or give the path of a checkpoint or of a run folder, or {FORMS}"
        raise UnknownPolicyError(f"{error}, {remedy}") from error


def _newest_of(run: Path) -> Path:
    if not (run / NEWEST).is_file():
        raise UnknownPolicyError(
            f"{run} is a folder without {NEWEST}: give the folder of a `trainer run` that has saved, or the path of a "
            "checkpoint"
        )
    return run / NEWEST


def score_interval(score: float, matches: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of an expected score in [0, 1].

        centre = (s + z^2 / 2M) / (1 + z^2 / M)
        half   = z sqrt(s (1 - s) / M + z^2 / 4M^2) / (1 + z^2 / M)

    It uses s (1 - s) as the variance of one match. This is exact for wins and losses, and an upper bound with draws or
    margins, for which the interval is conservative.

    Source: Wilson 1927.
    """
    spread = Z_95 * Z_95 / matches
    centre = (score + spread / 2.0) / (1.0 + spread)
    half = Z_95 * math.sqrt(score * (1.0 - score) / matches + spread / (4.0 * matches)) / (1.0 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
