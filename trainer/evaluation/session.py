"""An evaluator's session with the league: register, request rating leases, report results, upload replays."""

import logging
from collections.abc import Sequence
from typing import ClassVar

from arena.environments import EnvironmentSpec
from league import wire
from league.client import LeagueClient
from league.errors import LeagueError
from trainer.league_client.retrying_client import RequestKind, RetryingClient

HEARTBEAT_MAX_S = 30.0
"""Longest time between two heartbeats, and so the longest delay of a command to stop."""

logger = logging.getLogger(__name__)


class EvaluatorSession:
    """Session of an evaluator. Calls that fail are retried after a back-off.

    Attributes:
        client: League client.
        next_poll_s: Seconds until the next request, after the league had no pairs.
        kind: Kind of worker.
    """

    kind: ClassVar[wire.WorkerKind] = "evaluator"

    def __init__(
        self,
        client: RetryingClient,
        specs: Sequence[EnvironmentSpec],
        *,
        name: str,
        version: str,
        instance: str | None = None,
    ) -> None:
        self.client, self._name, self._version, self._instance = client, name, version, instance
        self._signatures = [spec.signature for spec in specs]
        self._worker: wire.Worker | None = None
        self.next_poll_s = 1.0
        self._requested_heartbeat_s = 0.0

    def register(self) -> bool:
        """Register once; false while the league is unreachable.

        Raises:
            LeagueError: The league rejects the registration.
        """
        return self._worker is not None or self.client.try_call("registrations", self._register) is not None

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two heartbeats; longer if the league is overloaded."""
        own_s = HEARTBEAT_MAX_S if self._worker is None else min(HEARTBEAT_MAX_S, self._worker.heartbeat_s)
        return max(own_s, self._requested_heartbeat_s)

    def wait_s(self, kind: RequestKind) -> float:
        """Return the seconds until the next call of this kind may be made; 0 if one is due."""
        return self.client.wait_s(kind)

    def lease(self, environment: str, count: int, budget: int) -> list[wire.Lease] | None:
        """Request leases in pairs, one for each side; None if the call failed or is not due."""
        request = wire.RatingLeases(
            kind="rating", worker_id=self.worker_id, environment=environment, count=count, budget=budget
        )
        answer = self.client.call_or_skip("leases", lambda client: client.lease(request), self._register)
        if answer is None:
            return None
        self.next_poll_s = answer.next_poll_s
        return answer.items

    def release(self, lease_ids: list[str], unplayable: list[wire.UnplayablePlayer]) -> None:
        """Release leases that will not be played, and name their players that cannot be loaded."""
        request = wire.ReleaseRequest(worker_id=self.worker_id, lease_ids=lease_ids, unplayable=unplayable)
        self.client.call_or_skip("releases", lambda client: client.release(request), self._register)

    def report(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        """Report results; None while the league is unreachable.

        Raises:
            LeagueError: The league rejects the whole batch.
        """
        if self._worker is None:
            return None
        batch = wire.ResultBatch(worker_id=self.worker_id, results=results)
        return self.client.submit("results", lambda client: client.report(batch), self._register)

    def upload_replay(self, match_id: int, replay: bytes) -> bool:
        """Upload the replay of an accepted match; false if the upload must be retried."""
        try:
            answer = self.client.submit(
                "replays", lambda client: client.upload_replay(match_id, replay), self._register
            )
        except LeagueError as error:
            logger.warning("%s", error)
            return True  # a retry would be rejected as well
        return answer is not None

    def heartbeat(self) -> wire.HeartbeatAnswer | None:
        """Send a heartbeat; None while the league is unreachable."""
        answer = self.client.call_or_skip("heartbeats", lambda client: client.heartbeat(self.worker_id), self._register)
        if answer is not None:
            self._requested_heartbeat_s = answer.next_heartbeat_s
        return answer

    @property
    def worker_id(self) -> str:
        """Id of this worker in the league; empty before the first registration."""
        return "" if self._worker is None else self._worker.id

    def _register(self, client: LeagueClient) -> wire.Worker:
        self._worker = client.register_worker(
            wire.WorkerCreate(
                name=self._name,
                kind=self.kind,
                version=self._version,
                signatures=self._signatures,
                instance=self._instance,
            )
        )
        return self._worker
