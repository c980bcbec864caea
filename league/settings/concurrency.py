"""Concurrency limits per request class of one API process."""

from dataclasses import dataclass, fields

from league.request_class import RequestClass


@dataclass(frozen=True)
class ConcurrencyLimits:
    """Maximum running and queued calls per request class of one API process, and the maximum queueing time.

    Attributes:
        registrations_running: Maximum concurrent registrations of workers, >= 1; likewise the other classes.
        registrations_waiting: Maximum queued registrations of workers, >= 0; likewise the other classes.
        writes_running: Leases, results and all other writes.
        writes_waiting: See above.
        reads_running: Reads and web pages.
        reads_waiting: See above.
        slow_running: Transfers of checkpoints and recordings, and analyses that take seconds.
        slow_waiting: See above.
        wait_s: Maximum time in the queue in seconds, > 0; shorter than the clients' timeout.
        retry_min_s: Minimum Retry-After of a rejected call in seconds, > 0.
        retry_max_s: Maximum Retry-After of a rejected call in seconds, >= retry_min_s.

    Raises:
        ValueError: A value is out of its range.
    """

    registrations_running: int = 64
    registrations_waiting: int = 1000
    writes_running: int = 8
    writes_waiting: int = 400
    reads_running: int = 4
    reads_waiting: int = 128
    slow_running: int = 8
    slow_waiting: int = 64
    wait_s: float = 3.0
    retry_min_s: float = 1.0
    retry_max_s: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_running") and value < 1:
                raise ValueError(f"{field.name} is {value}: at least one call must be able to run")
            if field.name.endswith("_waiting") and value < 0:
                raise ValueError(
                    f"{field.name} is {value}: it must be 0 or more; 0 rejects calls that cannot run at once"
                )
        if not 0.0 < self.wait_s < float("inf"):
            raise ValueError(f"wait_s is {self.wait_s}: it must be finite and above 0")
        if not 0.0 < self.retry_min_s <= self.retry_max_s < float("inf"):
            span = f"retry_min_s is {self.retry_min_s}, retry_max_s {self.retry_max_s}"
            raise ValueError(f"{span}: they must be finite, above 0 and in order")

    def running(self, request_class: RequestClass) -> int:
        """Maximum running calls of a request class."""
        return int(getattr(self, f"{request_class}_running"))

    def waiting(self, request_class: RequestClass) -> int:
        """Maximum queued calls of a request class."""
        return int(getattr(self, f"{request_class}_waiting"))
