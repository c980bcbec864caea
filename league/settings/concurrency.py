"""Concurrency limits: how many calls of each request class run and wait in one API process."""

from dataclasses import dataclass, fields

from league.wire.request_class import RequestClass


@dataclass(frozen=True)
class ConcurrencyLimits:
    """How many calls of each lane run and wait in one API process, and for how long.

    Attributes:
        beats_running: Heartbeats of workers at once, >= 1; likewise the others.
        beats_waiting: Most of them that wait for their turn, >= 0; likewise the others.
        results_running: Results and released leases.
        results_waiting: See above.
        registrations_running: Workers that attach.
        registrations_waiting: See above.
        changes_running: Everything else that writes: learners, snapshots, standings, periods.
        changes_waiting: See above.
        transfers_running: Checkpoints and recordings on their way through the server.
        transfers_waiting: See above.
        leases_running: Requests for leases.
        leases_waiting: See above.
        reads_running: Everything that people look at.
        reads_waiting: See above.
        comparisons_running: What somebody looks at and takes long: fits of the whole history, evaluations of rules.
        comparisons_waiting: See above.
        wait_s: Longest wait for a turn, > 0; shorter than callers wait for an answer.
        retry_min_s: Shortest time after which a refused caller is asked to come back, > 0.
        retry_max_s: Longest such time, >= retry_min_s.

    Raises:
        ValueError: A value is out of its range.
    """

    beats_running: int = 64
    beats_waiting: int = 1000
    results_running: int = 4
    results_waiting: int = 200
    registrations_running: int = 64
    registrations_waiting: int = 1000
    changes_running: int = 4
    changes_waiting: int = 200
    transfers_running: int = 8
    transfers_waiting: int = 64
    leases_running: int = 4
    leases_waiting: int = 128
    reads_running: int = 4
    reads_waiting: int = 128
    comparisons_running: int = 1
    comparisons_waiting: int = 32
    wait_s: float = 3.0
    retry_min_s: float = 1.0
    retry_max_s: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_running") and value < 1:
                raise ValueError(f"{field.name} is {value}: at least one call must be able to run")
            if field.name.endswith("_waiting") and value < 0:
                raise ValueError(f"{field.name} is {value}: it must be 0 or more; 0 refuses what cannot run at once")
        if not 0.0 < self.wait_s < float("inf"):
            raise ValueError(f"wait_s is {self.wait_s}: it must be finite and above 0")
        if not 0.0 < self.retry_min_s <= self.retry_max_s < float("inf"):
            span = f"retry_min_s is {self.retry_min_s}, retry_max_s {self.retry_max_s}"
            raise ValueError(f"{span}: they must be finite, above 0 and in order")

    def running(self, lane: RequestClass) -> int:
        """How many calls of a lane run at once."""
        return int(getattr(self, f"{lane}_running"))

    def waiting(self, lane: RequestClass) -> int:
        """How many calls of a lane may wait."""
        return int(getattr(self, f"{lane}_waiting"))
