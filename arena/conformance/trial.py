"""The environment under test, and the matches that random players have played in it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Thread

import torch
from torch import Tensor

from arena.conformance.check import Check, ViolationError
from arena.environments import make
from arena.environments.base import Environment
from arena.environments.spec import EnvironmentSpec
from arena.seeding import derive

MAX_ROWS = 32
"""Largest number of parallel matches of random play."""

ROWS_COMPARED = 4
"""Number of parallel matches that are played twice."""

MOST_COMPARED = 2000
"""Largest number of decisions of a match that is played twice."""

WAITING_S = 60.0
"""Time limit of a decision in another process, generous because a verification is not urgent."""

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Context manager of a progress bar, from a title and a total; it returns a function that advances the bar."""


@dataclass(frozen=True)
class MatchSummary:
    """A finished match.

    Attributes:
        score: Score of home, in [0, 1].
        reason: Reason of the end.
        decisions: Length of the match.
        margin: Return of home (mean over its agents) minus return of away.
        cut: Whether the match was truncated.
    """

    score: float
    reason: str
    decisions: int
    margin: float
    cut: bool


@dataclass
class Trial:
    """The environment under test and the record of its random play.

    Attributes:
        name: Name of the environment, see `arena.environments.make`.
        env: Instance with one match that is never stepped.
        matches: Number of matches between random players.
        seed: Seed from which all other seeds are derived.
        progress: Shows the progress.
        threads: Threads that blocked the exit of the program before the environment was created.
        results: Finished matches, in the order of their ends.
        violations: First violation of each rule that random play checks, with its place.
        decisions: Decisions of all rows together.
        stepping_s: Wall time of all steps in seconds.
    """

    name: str
    env: Environment
    matches: int
    seed: int
    progress: Progress
    threads: set[Thread]
    results: list[MatchSummary] = field(default_factory=list)
    violations: dict[Check, ViolationError] = field(default_factory=dict)
    decisions: int = 0
    stepping_s: float = 0.0

    @property
    def spec(self) -> EnvironmentSpec:
        """Spec of the environment."""
        return self.env.spec

    @property
    def num_envs(self) -> int:
        """Number of parallel matches of random play; each row plays several, one after another."""
        return min(MAX_ROWS, -(-self.matches // 2))

    @property
    def stopping(self) -> Check | None:
        """The stopping rule that was broken first in random play; None if none was."""
        return next((check for check in self.violations if check.stops), None)

    @property
    def most_decisions(self) -> int:
        """Largest number of decisions of a comparison."""
        return min(self.spec.max_decisions, MOST_COMPARED)

    def open(self, seed: int = 0, rows: int = ROWS_COMPARED, processes: int = 0) -> Environment:
        """Create the environment."""
        seed = derive(self.seed, "environment", seed)
        return make(self.name, num_envs=rows, seed=seed, processes=processes, step_limit_s=WAITING_S)

    def seeds(self, purpose: str, rows: int = ROWS_COMPARED) -> Tensor:
        """Return seeds for a number of rows."""
        return torch.tensor([derive(self.seed, purpose, row) for row in range(rows)], dtype=torch.int64)

    def rng(self, purpose: str = "comparison") -> torch.Generator:
        """Return a generator of random actions."""
        return torch.Generator().manual_seed(derive(self.seed, purpose))
