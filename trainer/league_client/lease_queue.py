"""Queue of rating leases, requested ahead of need so that a failed call does not leave an evaluator idle."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice

from league.wire import Lease, Seat
from trainer.league_client.leases import LEASES_PER_CALL

AHEAD_S = 10.0
"""The queue holds leases for all rounds that begin within this time, which is enough to survive two lost calls."""

Request = Callable[[int], list[Lease] | None]
"""Requests a number of leases from the league; None if the call failed."""


class LeaseQueue:
    """Leases of one environment that wait to be played.

    The queue length follows from the time between the last two rounds: short rounds need leases for many of them, and
    a round that is followed by a long rest needs none yet.

    Args:
        request: Requests leases.
        clock: Monotonic seconds.
        now: Returns the time, timezone-aware.
    """

    def __init__(self, request: Request, clock: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._request, self._clock, self._now = request, clock, now
        self._leases: deque[Lease] = deque()
        self._next_request_at = self._round_began_at = float("-inf")
        self._round_interval_s = math.inf

    def __len__(self) -> int:
        return len(self._leases)

    def shortage(self, count: int, wait_s: float) -> int:
        """Return the number of leases to request; 0 or less if there are enough.

        Args:
            count: Leases in a round.
            wait_s: Seconds until the next round.
        """
        if wait_s > AHEAD_S:
            return 0
        rounds = 1 + int((AHEAD_S - max(0.0, wait_s)) / self._round_interval_s)
        wanted = min(LEASES_PER_CALL, rounds * count)
        return wanted - len(self._leases) if len(self._leases) <= wanted // 2 else 0

    def wait_s(self) -> float:
        """Return the seconds until the next request, after the league had no pairs."""
        return max(0.0, self._next_request_at - self._clock())

    def refill(self, count: int, wait_s: float, poll_s: Callable[[], float]) -> None:
        """Request leases if there will be too few.

        Args:
            count: Leases in a round.
            wait_s: Seconds until the next round.
            poll_s: Returns the seconds until the next request, if the league has no pairs.
        """
        wanted = self.shortage(count, wait_s)
        if wanted <= 0 or self.wait_s() > 0.0:
            return
        granted = self._request(wanted)
        if granted is None:
            return
        if not granted:
            self._next_request_at = self._clock() + poll_s()
        self._leases.extend(granted)

    def take(self, count: int) -> list[Lease]:
        """Remove and return up to `count` leases, all of one gate or all of none; expired leases are dropped."""
        now, taken = self._now(), list[Lease]()
        while self._leases and len(taken) < count:
            lease = self._leases[0]
            if lease.expires_at > now:
                # A gate stops as soon as it has a verdict, so its pairs are not mixed with others in a round.
                if taken and lease.gate_id != taken[0].gate_id:
                    break
                taken.append(lease)
            self._leases.popleft()
        return taken

    def start_round(self) -> None:
        """Record that a round begins, to measure the time between rounds."""
        now = self._clock()
        self._round_interval_s, self._round_began_at = max(1e-3, now - self._round_began_at), now

    def put_back(self, leases: Sequence[Lease]) -> None:
        """Return leases to the front of the queue."""
        self._leases.extendleft(reversed(leases))

    def next_players(self, count: int) -> list[Seat]:
        """Return the players of the next `count` leases."""
        return [player for lease in islice(self._leases, count) for player in (lease.home, lease.away)]

    def clear(self) -> list[str]:
        """Remove all leases and return their ids."""
        lease_ids = [lease.lease_id for lease in self._leases]
        self._leases.clear()
        return lease_ids
