"""Calls for matchmaking: leases, results and opponent distributions."""

from league import wire
from league.client.connection import Connection, raise_for_problem, read, segment
from league.wire import PREFIX

_CONFLICT = 409


class LeaseCalls(Connection):
    """Request leases, report results and inspect opponent distributions."""

    def lease(self, request: wire.TrainingLeases | wire.RatingLeases) -> wire.LeaseAnswer:
        """Request leases for a learner, or for pairs of frozen players."""
        return self._post("/leases", request, wire.LeaseAnswer)

    def release(self, request: wire.ReleaseRequest) -> wire.ReleaseAnswer:
        """Release leases."""
        return self._post("/leases/release", request, wire.ReleaseAnswer)

    def explain_lease(self, lease_id: str) -> wire.LeaseExplanation:
        """Return the distribution that a lease's opponent was drawn from."""
        return self._get(f"/leases/{segment(lease_id)}", wire.LeaseExplanation)

    def report(self, batch: wire.ResultBatch) -> wire.ResultBatchAnswer:
        """Report finished matches; idempotent."""
        response = self._send("POST", f"{PREFIX}/results", batch)
        if response.status_code != _CONFLICT:
            raise_for_problem(response)
        return read(response, wire.ResultBatchAnswer)

    def preview(self, player_id: int) -> wire.Preview:
        """Return the opponent distribution of the learner's next lease."""
        return self._get("/matchmaking/preview", wire.Preview, {"player": player_id})
