"""Calls for runs."""

from league import wire
from league.client.operation import Steps, get, iterator_of, operation, post


class RunCalls:
    """Store, list and compare the training processes of learners."""

    @operation
    def start_run(self, run: wire.RunCreate) -> Steps[wire.Run]:
        """Store a run, or return the learner's run of this key."""
        return post("/runs", run, wire.Run)

    @operation
    def runs(
        self, environment: str | None = None, learner_id: int | None = None, limit: int = 100, cursor: str | None = None
    ) -> Steps[wire.Page[wire.Run]]:
        """List runs, newest first."""
        query = {"environment": environment, "learner": learner_id, "limit": limit, "cursor": cursor}
        return get("/runs", wire.Page[wire.Run], query)

    iter_runs = iterator_of(runs)

    @operation
    def show_run(self, run_id: int) -> Steps[wire.Run]:
        """Return a run."""
        return get(f"/runs/{run_id}", wire.Run)

    @operation
    def compare_runs(self, first: int, second: int) -> Steps[wire.RunComparison]:
        """Return the settings and parts of the origin in which two runs differ."""
        return get(f"/runs/{first}/difference", wire.RunComparison, {"other": second})
