"""Calls for matchmaking: leases, results and opponent distributions."""

from league import wire
from league.client import names as ids
from league.client.names import PlayerKey
from league.client.operation import Call, Steps, get, operation, post, segment
from league.client.responses import raise_for_problem, read
from league.wire import PREFIX

_CONFLICT = 409


class LeaseCalls:
    """Request leases, report results and inspect opponent distributions."""

    @operation
    def lease(self, request: wire.TrainingLeases | wire.RatingLeases) -> Steps[wire.LeaseAnswer]:
        """Request leases for a learner, or for pairs of frozen players."""
        return post("/leases", request, wire.LeaseAnswer)

    @operation
    def release(self, request: wire.ReleaseRequest) -> Steps[wire.ReleaseAnswer]:
        """Release leases."""
        return post("/leases/release", request, wire.ReleaseAnswer)

    @operation
    def explain_lease(self, lease_id: str) -> Steps[wire.LeaseExplanation]:
        """Return the distribution that a lease's opponent was drawn from."""
        return get(f"/leases/{segment(lease_id)}", wire.LeaseExplanation)

    @operation
    def report(self, batch: wire.ResultBatch) -> Steps[wire.ResultBatchAnswer]:
        """Report finished matches; idempotent."""
        received = yield Call("POST", f"{PREFIX}/results", batch)
        if received.status != _CONFLICT:
            raise_for_problem(received)
        return read(received, wire.ResultBatchAnswer)

    @operation
    def preview(self, player: PlayerKey) -> Steps[wire.Preview]:
        """Return the opponent distribution of the next lease of a learner, given by its name or player id."""
        player_id = yield from ids.player_id(player)
        return (yield from get("/matchmaking/preview", wire.Preview, {"player": player_id}))
