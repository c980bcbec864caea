"""Calls for workers."""

from datetime import datetime

from league import wire
from league.client import names as ids
from league.client.operation import Steps, get, iterator_of, operation, post, segment


class WorkerCalls:
    """Register workers, send heartbeats, quarantine and reinstate workers."""

    @operation
    def register_worker(self, worker: wire.WorkerCreate) -> Steps[wire.Worker]:
        """Register a worker; the same instance, or the same name, kind and token, is the same worker."""
        return post("/workers", worker, wire.Worker)

    @operation
    def heartbeat(self, worker_id: str, heartbeat: wire.Heartbeat | None = None) -> Steps[wire.HeartbeatAnswer]:
        """Send a heartbeat with progress; the response has the worker's command."""
        return post(f"/workers/{segment(worker_id)}/heartbeat", heartbeat or wire.Heartbeat(), wire.HeartbeatAnswer)

    @operation
    def workers(
        self, name: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Steps[wire.Page[wire.ListedWorker]]:
        """List workers by id, all or those with a name, with the checks of their recent results."""
        query = {"name": name, "limit": limit, "cursor": cursor}
        return get("/workers", wire.Page[wire.ListedWorker], query)

    iter_workers = iterator_of(workers)

    @operation
    def worker(self, worker: str) -> Steps[wire.ListedWorker]:
        """Return a worker, given by its name or id, with the checks of its recent results."""
        worker_id = yield from ids.worker_id(worker)
        return (yield from get(f"/workers/{segment(worker_id)}", wire.ListedWorker))

    @operation
    def command_worker(self, worker: str, command: wire.Command, reason: str = "") -> Steps[wire.Worker]:
        """Send a command to a worker with its next heartbeat."""
        worker_id = yield from ids.worker_id(worker)
        request = wire.CommandRequest(command=command, reason=reason)
        return (yield from post(f"/workers/{segment(worker_id)}/command", request, wire.Worker))

    @operation
    def quarantine_worker(self, worker: str, since: datetime, reason: str) -> Steps[wire.Quarantine]:
        """Quarantine a worker from a time on and recompute all ratings before the response."""
        worker_id = yield from ids.worker_id(worker)
        request = wire.WorkerQuarantine(since=since, reason=reason)
        return (yield from post(f"/workers/{segment(worker_id)}/quarantine", request, wire.Quarantine))

    @operation
    def reinstate_worker(self, worker: str, reason: str = "", *, restore: bool = False) -> Steps[wire.Quarantine]:
        """Lift a worker's quarantine; with `restore` its excluded results count again."""
        worker_id = yield from ids.worker_id(worker)
        request = wire.WorkerReinstatement(reason=reason, restore=restore)
        return (yield from post(f"/workers/{segment(worker_id)}/reinstate", request, wire.Quarantine))
