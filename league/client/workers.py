"""Calls about workers."""

from datetime import datetime

from league import wire
from league.client.connection import Connection, segment


class WorkerCalls(Connection):
    """Attach processes that play, keep them attached, trust them or not."""

    def register_worker(self, worker: wire.WorkerCreate) -> wire.Worker:
        """Attach; the same instance, or the same name, kind and token, again is the same worker."""
        return self._post("/workers", worker, wire.Worker)

    def heartbeat(self, worker_id: str, beat: wire.Heartbeat | None = None) -> wire.HeartbeatAnswer:
        """Stay attached, report progress, and hear what to do."""
        return self._post(f"/workers/{segment(worker_id)}/heartbeat", beat or wire.Heartbeat(), wire.HeartbeatAnswer)

    def workers(
        self, name: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> wire.Page[wire.ListedWorker]:
        """List workers by id, all or those of a name, with how their last results fit what is expected."""
        query = {"name": name, "limit": limit, "cursor": cursor}
        return self._get("/workers", wire.Page[wire.ListedWorker], query)

    def command_worker(self, worker_id: str, command: wire.Command, reason: str = "") -> wire.Worker:
        """Set what a worker is told at its next heartbeat."""
        request = wire.CommandRequest(command=command, reason=reason)
        return self._post(f"/workers/{segment(worker_id)}/command", request, wire.Worker)

    def quarantine_worker(self, worker_id: str, since: datetime, reason: str) -> wire.Quarantine:
        """Stop trusting a worker from a time on; all ratings follow before the answer."""
        request = wire.WorkerQuarantine(since=since, reason=reason)
        return self._post(f"/workers/{segment(worker_id)}/quarantine", request, wire.Quarantine)

    def reinstate_worker(self, worker_id: str, reason: str = "", *, restore: bool = False) -> wire.Quarantine:
        """Trust a worker again, from now on; with `restore`, as if it had always been."""
        request = wire.WorkerReinstatement(reason=reason, restore=restore)
        return self._post(f"/workers/{segment(worker_id)}/reinstate", request, wire.Quarantine)
