"""Scheduler of opponent leases: it requests them ahead of need and assigns their matches to environments."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from arena.seeding import derive, match_seed
from league.wire import Lease, LeaseAnswer, Seat, UnplayablePlayer
from trainer.errors import UnusableOpponentError
from trainer.opponents.assignment import MatchAssignment, assignment_to_json
from trainer.opponents.pool import SELF, Opponent, OpponentPool, unplayable_report

LEASES_PER_CALL = 4096
"""Most leases in one call to request or release them."""

PREFETCH = timedelta(seconds=0.5)
"""Time limit for loading opponents of queued leases between two rollouts. The others are loaded later or on demand."""

logger = logging.getLogger(__name__)


@dataclass
class _OpenLease:
    """A lease in use by one environment, and the number of its matches that were assigned."""

    lease: Lease
    opponent: Opponent
    used: int


class LeaseScheduler:
    """Assigns matches to environments from a queue of opponent leases.

    A lease belongs to one environment until its budget is spent or it expires. If the league grants none, the
    environment plays unrated matches against opponents that are available offline; a result is reported under a lease
    only. Self-play environments need no lease.

    Args:
        pool: Loads opponents.
        live: The learner's current weights as an opponent.
        request: Requests a number of leases from the league; None while it is unreachable.
        release: Releases leases that will not be played, and names their players that cannot be loaded.
        now: Returns the time, timezone-aware.
        rows: Number of environments, E.
        self_play: Environments in which the learner plays itself.
        seed: Seed of unrated matches.

    Attributes:
        unrated_matches: Unrated matches that were assigned.
        self_play_matches: Matches that were assigned in self-play environments.
        lease_rounds: Leases to request for each environment at a time.
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
        self._leased_rows = rows - len(self_play)
        self._queue: deque[Lease] = deque()
        self._open_leases: dict[int, _OpenLease] = {}
        self._resumed: dict[int, deque[MatchAssignment]] = {}
        self._highest_sequence: Mapping[str, int] = {}
        self._unplayable: dict[str, list[UnplayablePlayer]] = {}
        self._retry_at: datetime | None = None
        self._warned: set[str] = set()
        self._offline_opponents: list[str] | None = None
        self.unrated_matches = self.self_play_matches = 0
        self.lease_rounds = 1

    def next_match(self, row: int) -> MatchAssignment:
        """Return the next match of an environment."""
        if resumed := self._resumed.get(row):
            return resumed.popleft()
        if row in self._self_play:
            return self._self_play_match()
        if not self._has_match(row):
            self._open_leases.pop(row, None)
            self._open_lease(row)
        current = self._open_leases.get(row)
        if current is None:
            return self._unrated_match()
        lease, sequence = current.lease, current.used
        current.used += 1
        seed = match_seed(lease.seed, sequence)
        return MatchAssignment(
            current.opponent, lease.learner_side == "away", seed, lease, sequence, self_play_match=False
        )

    def refill(self) -> None:
        """Release unplayable leases, request new ones and load their opponents. Call it between rollouts."""
        self._offline_opponents = None
        # Released here and not at once: a call per lease would stall the environments in the middle of a rollout.
        if lease_ids := list(self._unplayable)[:LEASES_PER_CALL]:
            named = {each.player_id: each for lease_id in lease_ids for each in self._unplayable.pop(lease_id)}
            self._release(lease_ids, list(named.values()))
        if self._leased_rows and len(self._queue) <= self.lease_rounds * self._leased_rows // 2:
            self._request_leases()
        self._prefetch()

    def saved(self, pending: Iterable[Iterable[MatchAssignment]]) -> dict[str, Any]:
        """Return the state that is needed to assign the same matches after a restart.

        Args:
            pending: Per row, the matches that were assigned and are not finished.
        """
        return {
            "unrated": self.unrated_matches,
            "against_itself": self.self_play_matches,
            "queue": [lease.model_dump(mode="json") for lease in self._queue],
            "pending": [[assignment_to_json(each) for each in row] for row in pending],
        }

    def restore(self, saved: Mapping[str, Any], highest_sequence: Mapping[str, int]) -> None:
        """Restore the state of `saved`; each row plays its unfinished matches first.

        An environment that has since joined or left self-play begins with new matches.

        Args:
            saved: The state that `saved` returned.
            highest_sequence: Per lease, the highest sequence in the result spool. No sequence is used twice.
        """
        self._highest_sequence = highest_sequence
        self.unrated_matches = saved["unrated"]
        self.self_play_matches = saved["against_itself"]
        self._queue = deque(Lease.model_validate(lease) for lease in saved["queue"])
        for row, pending in enumerate(saved["pending"][: self._rows]):
            self._restore_row(row, pending)

    def _restore_row(self, row: int, pending: list[dict[str, Any]]) -> None:
        resumed = self._resumed.setdefault(row, deque())
        for each in pending:
            lease = Lease.model_validate(each["lease"]) if each["lease"] else None
            sequence: int = each["sequence"]
            self_play_match: bool = each["both_sides"]
            # The settings of self-play rows have changed since the state was saved.
            if self_play_match != (row in self._self_play):
                continue
            opponent = self._try_resolve(each["opponent"], each["name"])
            if opponent is None or (lease and lease.expires_at <= self._now()):
                continue
            if lease:
                unused = self._first_unused(lease)
                self._open_leases[row] = _OpenLease(lease, opponent, max(sequence + 1, unused))
                # This match is in the spool already: it ended after the state was saved.
                if sequence < unused:
                    continue
            resumed.append(MatchAssignment(opponent, each["away"], each["seed"], lease, sequence, self_play_match))

    def _has_match(self, row: int) -> bool:
        current = self._open_leases.get(row)
        return current is not None and current.used < current.lease.budget and self._now() < current.lease.expires_at

    def _open_lease(self, row: int) -> None:
        now = self._now()
        while self._queue and self._queue[0].expires_at <= now:  # leases expire in the order of the queue
            self._queue.popleft()
        if not self._queue:
            self._request_leases()
        while self._queue:
            lease = self._queue.popleft()
            if lease.expires_at <= now or self._first_unused(lease) >= lease.budget:
                continue
            seat = _sides(lease)[0]
            try:
                opponent = self._load_opponent(lease)
            except UnusableOpponentError as error:
                self._warn_once(seat.checkpoint or seat.name, seat.name, error)
                self._unplayable[lease.lease_id] = unplayable_report(seat.player_id, error)
            else:
                self._open_leases[row] = _OpenLease(lease, opponent, self._first_unused(lease))
                return

    def _first_unused(self, lease: Lease) -> int:
        return self._highest_sequence.get(lease.lease_id, -1) + 1

    def _request_leases(self) -> None:
        if self._retry_at is not None and self._now() < self._retry_at:
            return
        answer = self._request(min(self.lease_rounds * self._leased_rows, LEASES_PER_CALL))
        if answer is None:
            return
        self._queue.extend(answer.items)
        # Without leases, the league says when to ask again. Until then rows play unrated matches.
        self._retry_at = None if answer.items else self._now() + timedelta(seconds=answer.next_poll_s)

    def _prefetch(self) -> None:
        seats = [_sides(lease)[0] for lease in list(self._queue)[: self._leased_rows]]
        deadline = self._now() + PREFETCH
        self._pool.prefetch([seat.checkpoint for seat in seats if seat.checkpoint], lambda: self._now() >= deadline)

    def _load_opponent(self, lease: Lease) -> Opponent:
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
            self._warn_once(checkpoint, name, error)
            return None

    def _warn_once(self, checkpoint: str, name: str, error: UnusableOpponentError) -> None:
        """Log once that an opponent cannot be played, since the league may choose it often."""
        if checkpoint not in self._warned:
            self._warned.add(checkpoint)
            logger.warning("opponent %s cannot be played: %s", name, error)

    def _self_play_match(self) -> MatchAssignment:
        """Return a match of the learner against itself, at home."""
        number, self.self_play_matches = self.self_play_matches, self.self_play_matches + 1
        seed = derive(self._seed, "self-play", number, "match")
        return MatchAssignment(self._live, False, seed, None, number, self_play_match=True)

    def _unrated_match(self) -> MatchAssignment:
        number, self.unrated_matches = self.unrated_matches, self.unrated_matches + 1
        if self._offline_opponents is None:  # cached: listing the folder takes longer than a short match
            self._offline_opponents = [SELF, *self._pool.available_offline()]
        # From the number and not from a generator, so that a resumed run plays the same matches.
        index = derive(self._seed, "unrated", number, "opponent") % len(self._offline_opponents)
        chosen = self._offline_opponents[index]
        opponent = self._try_resolve(chosen, chosen) or self._live
        seed = derive(self._seed, "unrated", number, "match")
        # The learner changes sides from match to match, because no lease balances them.
        return MatchAssignment(opponent, bool(number % 2), seed, None, number, self_play_match=False)


def _sides(lease: Lease) -> tuple[Seat, Seat]:
    """Return the opponent's side and the learner's."""
    return (lease.home, lease.away) if lease.learner_side == "away" else (lease.away, lease.home)
