"""Rank 0's side of the messages between ranks: it leases, reports, publishes and saves for all of them.

`trainer.distributed.messages` defines the messages and their order; `trainer.distributed.follower` is the other side.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from safetensors.torch import save as save_tensors

from arena.policies import Policy
from league.wire import LeaseAnswer
from trainer.algorithms import Algorithm
from trainer.distributed.messages import InitialState, Metrics, RankReport, StepCommand
from trainer.league_client.session import LeagueSession
from trainer.process_group import ProcessGroup
from trainer.rollout.buffer import RolloutBuffer
from trainer.rollout.collector import CollectedMatch

COUNTS = ("/samples", "/ratio_alarms")
"""Suffixes of metrics that are counts; all others are means, standard deviations, or equal on all ranks."""

RNG_PREFIX = "rng."
"""Prefix of the tensors that each rank keeps for itself."""


class Coordinator:
    """Exchanges messages with all other ranks.

    Args:
        ranks: Process group.
        learner: Algorithm of rank 0.
        membership: Session with the league.
        self_play: Whether to lease matches against the learner itself.

    Attributes:
        states: State of each other rank, for a restart. Empty once newer results have arrived; after a restart those
            ranks then start with new matches.
    """

    def __init__(self, ranks: ProcessGroup, learner: Algorithm, membership: LeagueSession, *, self_play: bool) -> None:
        self._ranks, self._learner, self._membership, self._self_play = ranks, learner, membership, self_play
        self._reports: list[RankReport] = []
        self.states: list[dict[str, Any]] = []

    def begin(self, taught_at: int, states: Sequence[dict[str, Any]], written: Mapping[str, int]) -> None:
        """Send the initial state to all other ranks.

        Args:
            taught_at: Number of matches after which the current lesson began.
            states: Saved state of each other rank.
            written: Highest recorded sequence number of each lease.
        """
        learner = self._learner
        start = InitialState(
            steps=learner.steps,
            updates=learner.updates,
            began_step=learner.began_step,
            taught_at=taught_at,
            states=list(states),
            written=dict(written),
        )
        self._ranks.broadcast_bytes(start.encode())
        self._broadcast_weights()

    def receive(self, on_match: Callable[[CollectedMatch], None], policy: Policy) -> None:
        """Receive a report from each other rank; `on_match` gets the matches in it."""
        self.states = []
        self._reports = [RankReport.model_validate_json(each) for each in self._ranks.all_gather_bytes(b"")[1:]]
        for report in self._reports:
            for match in report.matches:
                on_match(match.episode(policy))

    def merge_metrics(self, buffer: RolloutBuffer, metrics: Metrics) -> Metrics:
        """Merge the metrics of this rank with those in the last reports."""
        others = [(report.decisions, report.metrics) for report in self._reports]
        return merge_metrics([(int(buffer.active.sum()), metrics), *others])

    def command(self, matches: int, *, stop: bool, save: bool = False, reset: bool = False) -> None:
        """Answer the last reports with leases and a command; see `StepCommand`."""
        grants = [None if stop else self._grant(report) for report in self._reports]
        command = StepCommand(stop=stop, save=save, reset=reset, matches=matches, grants=grants)
        self._ranks.broadcast_bytes(command.encode())
        if reset:
            self._broadcast_weights()
        if save or stop:
            self.states = [json.loads(each) for each in self._ranks.all_gather_bytes(b"")[1:]]

    def _grant(self, report: RankReport) -> LeaseAnswer | None:
        if report.unwanted:
            self._membership.release(report.unwanted, report.unplayable)
        return self._membership.lease(report.leases, self_play=self._self_play) if report.leases else None

    def _broadcast_weights(self) -> None:
        """Send this rank's weights and statistics to all other ranks."""
        tensors = self._learner.tensors().items()
        shared = {
            name: each.to("cpu", copy=True).contiguous() for name, each in tensors if not name.startswith(RNG_PREFIX)
        }
        self._ranks.broadcast_bytes(save_tensors(shared))


def merge_metrics(parts: Sequence[tuple[int, Metrics]]) -> Metrics:
    """Merge metrics: counts are summed, means and standard deviations pooled with decisions as weights.

    Args:
        parts: Number of decisions of each rank, and its metrics.
    """
    names = dict.fromkeys(name for _, metrics in parts for name in metrics)
    return {name: _merge_metric(name, parts) for name in names}


def _merge_metric(name: str, parts: Sequence[tuple[int, Metrics]]) -> float | None:
    known = [(count, value, metrics) for count, metrics in parts if (value := metrics.get(name)) is not None]
    values = [value for _, value, _ in known]
    if not values:
        return None
    if name.endswith(COUNTS):
        return math.fsum(values)
    weight = sum(count for count, _, _ in known)
    if not weight or len(set(values)) == 1:
        return values[0]
    middle = name.removesuffix("_std") + "_mean"
    if name.endswith("_std") and all(metrics.get(middle) is not None for _, _, metrics in known):
        means = [(count, metrics[middle] or 0.0, value) for count, value, metrics in known]
        mean = math.fsum(count * at for count, at, _ in means) / weight
        return math.sqrt(math.fsum(count * (value**2 + (at - mean) ** 2) for count, at, value in means) / weight)
    return math.fsum(count * value for count, value, _ in known) / weight
