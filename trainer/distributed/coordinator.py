"""Rank 0's side of the messages between ranks: it leases, reports, publishes and saves for all of them.

`trainer.distributed.messages` defines the messages and their order; `trainer.distributed.follower` is the other side.
"""

import json
import math
from collections.abc import Callable, Sequence
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
    """Exchanges messages with all other ranks; in a run of one rank there are none.

    Args:
        ranks: Process group.
        learner: Algorithm of rank 0.
        league_session: Session with the league.
        self_play: Whether to lease matches against the learner itself.

    Attributes:
        states: State of each other rank, for a restart. Empty once newer results have arrived; after a restart those
            ranks then start with new matches.
    """

    def __init__(
        self, ranks: ProcessGroup, learner: Algorithm, league_session: LeagueSession, *, self_play: bool
    ) -> None:
        self._ranks, self._learner, self._league_session = ranks, learner, league_session
        self._self_play = self_play
        self._reports: list[RankReport] = []
        self.states: list[dict[str, Any]] = []

    def begin(self, stage_start: int, states: list[dict[str, Any]], written: dict[str, int]) -> None:
        """Send the initial state to all other ranks.

        Args:
            stage_start: Number of matches after which the current stage began.
            states: Saved state of each other rank.
            written: Highest recorded sequence number of each lease.
        """
        start = InitialState(
            steps=self._learner.steps,
            updates=self._learner.updates,
            began_step=self._learner.began_step,
            stage_start=stage_start,
            states=states,
            written=written,
        )
        self._ranks.broadcast_bytes(start.encode())
        self._broadcast_weights()

    def receive(self, on_match: Callable[[CollectedMatch], None], policy: Policy) -> None:
        """Receive a report from each other rank; `on_match` gets the matches in it."""
        self.states = []
        # Rank 0 has no message, but a gather is collective. Its own part is left out of the result.
        self._reports = [RankReport.model_validate_json(each) for each in self._ranks.all_gather_bytes(b"")[1:]]
        for report in self._reports:
            for match in report.matches:
                on_match(match.match(policy))

    def merge_metrics(self, buffer: RolloutBuffer, metrics: Metrics) -> Metrics:
        """Merge the metrics of this rank with those in the last reports."""
        parts = [(report.decisions, report.metrics) for report in self._reports]
        return merge_metrics([(int(buffer.active.sum()), metrics), *parts]) if parts else metrics

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
            self._league_session.release(report.unwanted, report.unplayable)
        return self._league_session.lease(report.leases, self_play=self._self_play) if report.leases else None

    def _broadcast_weights(self) -> None:
        """Send this rank's weights and statistics to all other ranks."""
        if self._ranks.world_size > 1:
            tensors = self._learner.tensors().items()
            shared = {name: each.to("cpu", copy=True) for name, each in tensors if not name.startswith(RNG_PREFIX)}
            # Through the CPU, because the process group exchanges bytes and each rank has its own device.
            self._ranks.broadcast_bytes(save_tensors({name: each.contiguous() for name, each in shared.items()}))


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
    weight = sum(count for count, _, _ in known)
    # fsum, here and below: the sum does not depend on the order of ranks.
    if values and name.endswith(COUNTS):
        return math.fsum(values)
    # Values that are equal on all ranks, such as the KL stop, would be off by a rounding error as means.
    if not weight or len(set(values)) <= 1:
        return values[0] if values else None
    means = [metrics.get(name.removesuffix("_std") + "_mean") for _, _, metrics in known]
    if not name.endswith("_std") or None in means:
        return math.fsum(count * value for count, value, _ in known) / weight
    mean = math.fsum(count * (at or 0.0) for (count, _, _), at in zip(known, means, strict=True)) / weight
    # Law of total variance: mean of the variances plus variance of the means.
    squares = (count * (std**2 + ((at or 0.0) - mean) ** 2) for (count, std, _), at in zip(known, means, strict=True))
    return math.sqrt(math.fsum(squares) / weight)
