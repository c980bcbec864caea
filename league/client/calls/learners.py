"""Calls for learners."""

from collections.abc import Sequence

from league import wire
from league.client import names as ids
from league.client.names import LearnerKey
from league.client.operation import Steps, get, iterator_of, operation, post


class LearnerCalls:
    """Register learners and read their training curves."""

    @operation
    def register_learner(self, learner: wire.LearnerCreate) -> Steps[wire.Learner]:
        """Register a learner, or return the existing one."""
        return post("/learners", learner, wire.Learner)

    @operation
    def learners(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Steps[wire.Page[wire.Learner]]:
        """List learners with their latest metrics."""
        query = {"environment": environment, "limit": limit, "cursor": cursor}
        return get("/learners", wire.Page[wire.Learner], query)

    iter_learners = iterator_of(learners)

    @operation
    def learner(self, learner: LearnerKey, environment: str | None = None) -> Steps[wire.Learner]:
        """Return a learner with its latest metrics; `environment` is for a name that several environments have."""
        found = yield from ids.learner_id(learner, environment)
        return (yield from get(f"/learners/{found}", wire.Learner))

    @operation
    def metrics(
        self, learner: LearnerKey, names: Sequence[str] | None = None, after: int = 0, most: int | None = None
    ) -> Steps[wire.TrainingCurves]:
        """Return a learner's metrics: all or the named ones, at most `most` points, or the points since `after`."""
        found = yield from ids.learner_id(learner)
        query = {"name": names, "after": after, "most": most}
        return (yield from get(f"/learners/{found}/metrics", wire.TrainingCurves, query))
