"""Matches of opponent leases, and the queue that hands them out."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from arena.seeding import match_seed
from league import wire


@dataclass(frozen=True)
class Match:
    """A match to play under a lease.

    Attributes:
        lease: The lease.
        sequence: Number of the match within its lease, from 0.
    """

    lease: wire.Lease
    sequence: int

    @property
    def seed(self) -> int:
        """Seed of the match, in [0, 2^63)."""
        return match_seed(self.lease.seed, self.sequence)

    @property
    def side(self) -> wire.Side:
        """Side of the learner."""
        return self.lease.learner_side or "home"

    @property
    def opponent(self) -> wire.Seat:
        """The opponent. Its checkpoint is a SHA-256, `baseline:NAME`, or None for a learner as it is now."""
        return self.lease.away if self.side == "home" else self.lease.home

    def __str__(self) -> str:
        return f"match {self.sequence} of lease {self.lease.lease_id}"


class MatchQueue:
    """Matches of granted leases. Not thread-safe.

    A lease stays open until all matches of its budget were reported, so that it can be released if the session ends
    before.
    """

    def __init__(self) -> None:
        self._leases: deque[wire.Lease] = deque()
        self._used = 0  # matches of the first lease in the queue
        self._unreported: dict[str, int] = {}
        self._played: set[tuple[str, int]] = set()

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def open_leases(self) -> list[str]:
        """Ids of the leases with unreported matches."""
        return list(self._unreported)

    def add(self, leases: Iterable[wire.Lease]) -> None:
        """Append granted leases."""
        for lease in leases:
            self._leases.append(lease)
            self._unreported[lease.lease_id] = lease.budget

    def take(self, now: datetime) -> Match | None:
        """Return the next match; None if there is none. Expired leases are dropped."""
        while self._leases and self._leases[0].expires_at <= now:
            self.drop(self._leases[0].lease_id)
        if not self._leases:
            return None
        lease = self._leases[0]
        match = Match(lease, self._used)
        self._used += 1
        if self._used == lease.budget:
            self._leases.popleft()
            self._used = 0
        self._played.add((lease.lease_id, match.sequence))
        return match

    def finish(self, match: Match) -> bool:
        """Mark a match as reported; false if it was not handed out or was reported before."""
        lease_id = match.lease.lease_id
        if (lease_id, match.sequence) not in self._played:
            return False
        self._played.remove((lease_id, match.sequence))
        if lease_id in self._unreported:
            self._unreported[lease_id] -= 1
            if not self._unreported[lease_id]:
                del self._unreported[lease_id]
        return True

    def drop(self, lease_id: str) -> None:
        """Hand out no more matches of a lease. Those that are being played can still be reported."""
        if self._leases and self._leases[0].lease_id == lease_id:
            self._used = 0
        self._leases = deque(each for each in self._leases if each.lease_id != lease_id)
        self._unreported.pop(lease_id, None)
