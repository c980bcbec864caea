"""Which match every environment plays next: leased from the league, or unrated while the league is away."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from arena.seeding import derive, match_seed
from league.wire import Lease, LeaseAnswer, Seat, UnplayablePlayer
from trainer.errors import UnusableOpponentError
from trainer.opponents import SELF, Opponent, OpponentPool, unplayable

LEASES_PER_CALL = 4096
"""Most leases that one call grants or takes back."""

PREFETCH = timedelta(seconds=0.5)
"""Longest that opponents of leases to come are loaded at a time; the rest waits for the next time, or its match."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Assignment:
    """One match of one environment.

    Attributes:
        opponent: Who sits on the other side.
        away: Whether the learner plays the away side.
        seed: Opens the match.
        lease: What allows reporting its result; None for an unrated match.
        sequence: Its number under the lease, or among all unrated matches of the run, or among those of self-play.
        both_sides: The learner plays itself and learns from both sides.
    """

    opponent: Opponent
    away: bool
    seed: int
    lease: Lease | None
    sequence: int
    both_sides: bool


@dataclass
class _OpenLease:
    lease: Lease
    opponent: Opponent
    used: int


class LeaseBook:
    """Deals matches to environments, from leases that were asked for ahead.

    A lease belongs to one environment until its budget is spent or it expires. Where no lease can be had, opponents
    at hand are played unrated: nothing is reported without a lease. Environments of self-play need none.

    Args:
        pool: Finds policies.
        live: The learner's own live weights as an opponent.
        request: Asks the league for so many leases; None while it is away.
        release: Tells the league which leases will not be played further, and who on them cannot be played at all.
        now: The time, aware.
        rows: E.
        self_play: Environments in which the learner plays itself.
        seed: Seed of unrated matches.

    Attributes:
        ahead: How many rounds of leases are asked for at a time.
    """

    def __init__(
        self,
        pool: OpponentPool,
        live: Opponent,
        *,
        request: Callable[[int], LeaseAnswer | None],
        release: Callable[[list[str], list[UnplayablePlayer]], None],
        now: Callable[[], datetime],
        rows: int,
        self_play: Set[int],
        seed: int,
    ) -> None:
        self._pool, self._live = pool, live
        self._request, self._release, self._now = request, release, now
        self._rows, self._self_play, self._seed = rows, self_play, seed
        self._leasing = rows - len(self_play)
        self._queue: deque[Lease] = deque()
        self._open: dict[int, _OpenLease] = {}
        self._resumed: dict[int, deque[Assignment]] = {}
        self._written: Mapping[str, int] = {}
        self._unwanted: dict[str, list[UnplayablePlayer]] = {}
        self._nobody_before: datetime | None = None
        self._told: set[str] = set()
        self.unrated = self.against_itself = 0
        self.ahead = 1

    def draw(self, row: int) -> Assignment:
        """The next match of an environment."""
        if resumed := self._resumed.get(row):
            return resumed.popleft()
        if row in self._self_play:
            return self._own_match()
        if not self._has_match(row):
            self._open.pop(row, None)
            self._open_lease(row)
        opened = self._open.get(row)
        if opened is None:
            return self._unrated_match()
        opened.used += 1
        return _leased_match(opened.lease, opened.used - 1, opened.opponent)

    def refill(self) -> None:
        """Between rollouts: release what is not wanted, ask for leases ahead of need, load whom they are against."""
        if self._unwanted:
            self._give_back(list(self._unwanted)[:LEASES_PER_CALL])
        if self._leasing and len(self._queue) <= self.ahead * self._leasing // 2:
            self._ask()
        self._prefetch()

    def saved(self, pending: Iterable[Iterable[Assignment]]) -> dict[str, Any]:
        """Everything needed to deal the same matches again after a restart.

        Args:
            pending: For every row, matches that were dealt and are not finished.
        """
        return {
            "unrated": self.unrated,
            "against_itself": self.against_itself,
            "queue": [lease.model_dump(mode="json") for lease in self._queue],
            "pending": [[saved_assignment(each) for each in row] for row in pending],
        }

    def restore(self, saved: Mapping[str, Any], highest_sequence: Mapping[str, int]) -> None:
        """Deal on from `saved`: first, to every row, the matches that it had not finished.

        An environment that has come to self-play since, or has left it, begins with new matches.

        Args:
            saved: What `saved` gave.
            highest_sequence: Per lease, the highest sequence whose result was written down: none is used twice.
        """
        self._written = highest_sequence
        self.unrated = saved["unrated"]
        self.against_itself = saved.get("against_itself", 0)
        self._queue = deque(Lease.model_validate(lease) for lease in saved["queue"])
        for row, pending in enumerate(saved["pending"][: self._rows]):
            self._restore_row(row, pending)

    def _restore_row(self, row: int, pending: list[dict[str, Any]]) -> None:
        resumed = self._resumed.setdefault(row, deque())
        for each in pending:
            lease = Lease.model_validate(each["lease"]) if each["lease"] else None
            sequence: int = each["sequence"]
            both_sides: bool = each.get("both_sides", False)
            if both_sides != (row in self._self_play):
                continue
            opponent = self._try_resolve(each["opponent"], each["name"])
            if opponent is None or (lease and lease.expires_at <= self._now()):
                continue
            if lease:
                unused = self._first_unused(lease)
                self._open[row] = _OpenLease(lease, opponent, max(sequence + 1, unused))
                if sequence < unused:
                    continue
            resumed.append(Assignment(opponent, each["away"], each["seed"], lease, sequence, both_sides))

    def _has_match(self, row: int) -> bool:
        opened = self._open.get(row)
        if opened is None or opened.used >= opened.lease.budget:
            return False
        return self._now() < opened.lease.expires_at

    def _open_lease(self, row: int) -> None:
        now = self._now()
        while self._queue and self._queue[0].expires_at <= now:  # who was granted first expires first
            self._queue.popleft()
        if not self._queue:
            self._ask()
        while self._queue:
            lease = self._queue.popleft()
            if lease.expires_at <= now or self._first_unused(lease) >= lease.budget:
                continue
            seat = _sides(lease)[0]
            try:
                opponent = self._opponent_of(lease)
            except UnusableOpponentError as error:
                self._tell(seat.checkpoint or seat.name, seat.name, error)
                self._unwanted[lease.lease_id] = unplayable(seat.player_id, error)
            else:
                self._open[row] = _OpenLease(lease, opponent, self._first_unused(lease))
                return

    def _give_back(self, lease_ids: list[str]) -> None:
        named = {each.player_id: each for lease_id in lease_ids for each in self._unwanted.pop(lease_id)}
        self._release(lease_ids, list(named.values()))

    def _first_unused(self, lease: Lease) -> int:
        return self._written.get(lease.lease_id, -1) + 1

    def _ask(self) -> None:
        if self._nobody_before is not None and self._now() < self._nobody_before:
            return
        answer = self._request(min(self.ahead * self._leasing, LEASES_PER_CALL))
        if answer is None:
            return
        self._queue.extend(answer.items)
        self._nobody_before = None if answer.items else self._now() + timedelta(seconds=answer.next_poll_s)

    def _prefetch(self) -> None:
        seats = [_sides(lease)[0] for lease in list(self._queue)[: self._leasing]]
        deadline = self._now() + PREFETCH
        self._pool.prefetch([seat.checkpoint for seat in seats if seat.checkpoint], lambda: self._now() >= deadline)

    def _opponent_of(self, lease: Lease) -> Opponent:
        seat, own = _sides(lease)
        if seat.checkpoint is None and seat.player_id == own.player_id:
            return self._live
        return self._pool.resolve(seat.checkpoint or f"live weights of player {seat.player_id}", seat.name)

    def _try_resolve(self, checkpoint: str, name: str) -> Opponent | None:
        if checkpoint == SELF:
            return self._live
        try:
            return self._pool.resolve(checkpoint, name)
        except UnusableOpponentError as error:
            self._tell(checkpoint, name, error)
            return None

    def _tell(self, checkpoint: str, name: str, error: UnusableOpponentError) -> None:
        """Say that an opponent cannot be played, once: it may be drawn again and again."""
        if checkpoint not in self._told:
            self._told.add(checkpoint)
            logger.warning("opponent %s cannot be played: %s", name, error)

    def _own_match(self) -> Assignment:
        """The learner at home against itself."""
        number, self.against_itself = self.against_itself, self.against_itself + 1
        seed = derive(self._seed, "self-play", number, "match")
        return Assignment(self._live, False, seed, None, number, both_sides=True)

    def _unrated_match(self) -> Assignment:
        number, self.unrated = self.unrated, self.unrated + 1
        choices = [SELF, *self._pool.at_hand()]
        chosen = choices[derive(self._seed, "unrated", number, "opponent") % len(choices)]
        opponent = self._try_resolve(chosen, chosen) or self._live
        seed = derive(self._seed, "unrated", number, "match")
        return Assignment(opponent, bool(number % 2), seed, None, number, both_sides=False)


def _sides(lease: Lease) -> tuple[Seat, Seat]:
    """The opponent's seat and the learner's."""
    return (lease.home, lease.away) if lease.learner_side == "away" else (lease.away, lease.home)


def _leased_match(lease: Lease, sequence: int, opponent: Opponent) -> Assignment:
    away, seed = lease.learner_side == "away", match_seed(lease.seed, sequence)
    return Assignment(opponent, away, seed, lease, sequence, both_sides=False)


def saved_assignment(assignment: Assignment) -> dict[str, Any]:
    """A match as JSON has it; who plays is named."""
    return {
        "opponent": assignment.opponent.key,
        "name": assignment.opponent.name,
        "away": assignment.away,
        "seed": assignment.seed,
        "lease": assignment.lease.model_dump(mode="json") if assignment.lease else None,
        "sequence": assignment.sequence,
        "both_sides": assignment.both_sides,
    }
