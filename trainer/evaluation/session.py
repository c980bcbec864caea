"""An evaluator's session with the league: rating leases, results and replays."""

import logging
from collections.abc import Sequence

from arena.environments import EnvironmentSpec
from league import wire
from league.errors import LeagueError
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import WorkerSession

HEARTBEAT_MAX_S = 30.0
"""Longest time between two heartbeats, and so the longest delay of a command to stop."""

logger = logging.getLogger(__name__)


class EvaluatorSession(WorkerSession):
    """Session of an evaluator. Calls that fail are retried after a back-off.

    Attributes:
        next_poll_s: Seconds until the next request, after the league had no pairs.
    """

    def __init__(
        self,
        client: RetryingClient,
        specs: Sequence[EnvironmentSpec],
        *,
        name: str,
        version: str,
        instance: str | None = None,
        kind: wire.WorkerKind = "evaluator",
    ) -> None:
        signatures = [spec.signature for spec in specs]
        worker = wire.WorkerCreate(name=name, kind=kind, version=version, signatures=signatures, instance=instance)
        super().__init__(client, worker, HEARTBEAT_MAX_S)
        self.next_poll_s = 1.0

    def register(self) -> bool:
        """Register once; see `WorkerSession.register`."""
        return bool(self.worker_id) or super().register()

    def lease(self, environment: str, count: int, budget: int) -> list[wire.Lease] | None:
        """Request leases in pairs, one for each side; None if the call failed or is not due."""
        answer = self._request_leases(
            wire.RatingLeases(
                kind="rating", worker_id=self.worker_id, environment=environment, count=count, budget=budget
            )
        )
        if answer is None:
            return None
        self.next_poll_s = answer.next_poll_s
        return answer.items

    def upload_replay(self, match_id: int, replay: bytes) -> bool:
        """Upload the replay of an accepted match; false if the upload must be retried."""
        try:
            return self._submit("replays", lambda client: client.upload_replay(match_id, replay)) is not None
        except LeagueError as error:
            logger.warning("%s", error)
            return True  # a retry would be rejected as well

    def heartbeat(self) -> wire.HeartbeatAnswer | None:
        """Send a heartbeat; None while the league is unreachable."""
        return self._send_heartbeat([])

    def _request_leases(self, request: wire.RatingLeases) -> wire.LeaseAnswer | None:
        return self._call_or_skip("leases", lambda client: client.lease(request))
