"""Calls about matchmaking: leases, results, and distributions of opponents."""

from datetime import datetime

from league import wire
from league.client.connection import Connection, raise_for_problem, read, segment
from league.wire import PREFIX

_CONFLICT = 409


class LeaseCalls(Connection):
    """Lease opponents, report matches, and look into how opponents are drawn."""

    def lease(self, request: wire.TrainingLeases | wire.RatingLeases) -> wire.LeaseAnswer:
        """Ask for opponents of a learner, or for pairs of frozen players."""
        return self._post("/leases", request, wire.LeaseAnswer)

    def release(self, request: wire.ReleaseRequest) -> wire.ReleaseAnswer:
        """Give leases back."""
        return self._post("/leases/release", request, wire.ReleaseAnswer)

    def explain_lease(self, lease_id: str) -> wire.LeaseExplanation:
        """Show why a lease's opponent was drawn."""
        return self._get(f"/leases/{segment(lease_id)}", wire.LeaseExplanation)

    def report(self, batch: wire.ResultBatch) -> wire.ResultBatchAnswer:
        """Report finished matches; sending a batch again is safe."""
        answer = self._send("POST", f"{PREFIX}/results", batch)
        if answer.status_code != _CONFLICT:
            raise_for_problem(answer)
        return read(answer, wire.ResultBatchAnswer)

    def preview(self, player_id: int) -> wire.Preview:
        """Show the distribution that the learner's next lease is drawn from."""
        return self._get("/matchmaking/preview", wire.Preview, {"player": player_id})

    def evaluate_matchmaking(
        self, player_id: int, rule: str, last: int = 10_000, since: datetime | None = None
    ) -> wire.MatchmakingEvaluation:
        """Estimate from its last leases how another rule would have distributed a learner's games, and scored."""
        start = None if since is None else since.isoformat()
        query: dict[str, str | int | None] = {"player": player_id, "rule": rule, "last": last, "since": start}
        return self._get("/matchmaking/evaluation", wire.MatchmakingEvaluation, query)
