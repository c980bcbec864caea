"""Calls that attach a worker to a league and start its session."""

from pathlib import Path

from league import wire
from league.client.operation import get
from league.client.run_info import RunInfo
from league.client.session.session import Session, SessionCalls, SessionSettings
from league.errors import ConfigurationError
from league.home import attached_folder, home_folder


class AttachCalls(SessionCalls):
    """Calls of a worker, and its session."""

    def attach(
        self,
        learner: str | wire.LearnerCreate,
        *,
        environment: str | None = None,
        worker: str = "trainer",
        folder: Path | None = None,
        settings: SessionSettings | None = None,
        run: RunInfo | None = None,
    ) -> Session:
        """Register a learner and a worker that trains it, and start a session; see `league.client.attach`."""
        registration = learner if isinstance(learner, wire.LearnerCreate) else self._main_of(learner, environment)
        if folder is None:
            folder = attached_folder(home_folder(), registration.environment, registration.name, worker)
        return Session(self, registration, worker, folder, settings or SessionSettings(), run or RunInfo())

    def _main_of(self, name: str, environment: str | None) -> wire.LearnerCreate:
        """Return the registration of a main learner in an environment that the league knows."""
        known = self.run(get("/environments", wire.Page[wire.Environment], {"limit": 1000})).items
        found = [each for each in known if each.signature and environment in (None, each.name)]
        if len(found) != 1 or found[0].signature is None:
            rule = f"the league has {len(found)} environments of this name with a signature"
            remedy = "pass its name, or a `league.wire.LearnerCreate` with the signature for a new environment"
            raise ConfigurationError(f"environment={environment}", rule, remedy)
        return wire.LearnerCreate(name=name, role="main", environment=found[0].name, signature=found[0].signature)
