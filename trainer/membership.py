"""A trainer's side of the league's contract: attach, lease, report, publish, beat."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from arena.environments import EnvironmentSpec, brought_baselines
from league import wire
from league.client import LeagueClient
from league.errors import InvalidRequestError, LeagueUnreachable, UnknownCheckpointError
from trainer.link import Kind, Link
from trainer.settings import LeagueSettings
from trainer.settings.run import WORKER_NAME_MAX
from trainer.surroundings import Surroundings

ATTACH_PAUSE_S = 0.25

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Attachment:
    """How the league knows this worker and its learner."""

    worker_id: str
    learner_id: int
    player_id: int


class Membership:
    """One learner in one league.

    Attributes:
        attachment: As the league gave it at the last registration, or as it was saved; None before the first.
        heartbeat_s: Time between two beats: as the settings and the league say, or longer where it has too many.
        learner_step: How far the learner had come by what the league was told, at the last registration.
    """

    def __init__(
        self,
        link: Link,
        settings: LeagueSettings,
        spec: EnvironmentSpec,
        version: str,
        instance: str | None = None,
        rules: wire.RoleNumbers | None = None,
    ) -> None:
        self._link, self._settings, self._spec = link, settings, spec
        self._version, self._instance, self._rules = version, instance, rules
        self.attachment: Attachment | None = None
        self.heartbeat_s = self._own_heartbeat_s = settings.heartbeat_s
        self.learner_step = 0
        self._verdicts_stay_here = False

    def attach(self) -> bool:
        """Register worker and learner; false while the league is away.

        Raises:
            LeagueError: The league refuses.
        """
        return self._link.attempt("registrations", self._register) is not None

    def attach_first(self, outside: Surroundings) -> None:
        """Register, and wait for the league as long as the settings say.

        Raises:
            LeagueError: The league refuses, or there was none in time.
        """
        deadline = outside.clock() + self._settings.connect_s
        while not self.attach():
            if outside.clock() >= deadline or outside.stopping():
                limit = f"none answered within {self._settings.connect_s:g} s"
                waited = "a signal came before one answered" if outside.stopping() else limit
                way_out = "start one with `league serve`, or name another with --league"
                raise LeagueUnreachable("at the first start", waited, way_out)
            outside.pause(ATTACH_PAUSE_S)

    def download(self, sha256: str) -> bytes | None:
        """Fetch a checkpoint; None while the league is away.

        Raises:
            LeagueError: The league refuses.
        """
        return self._link.attempt("downloads", lambda client: client.download(sha256))

    def lease(self, count: int, *, self_play: bool) -> wire.LeaseAnswer | None:
        """Ask for opponents, the learner itself among them or not; None while the league is away."""

        def ask(client: LeagueClient, own: Attachment) -> wire.LeaseAnswer:
            budget = self._settings.lease_budget
            return client.lease(
                wire.TrainingLeases(
                    kind="training",
                    worker_id=own.worker_id,
                    player_id=own.player_id,
                    count=count,
                    budget=budget,
                    self_play=self_play,
                )
            )

        return self._ask("leases", ask)

    def release(self, lease_ids: list[str], unplayable: list[wire.UnplayablePlayer]) -> None:
        """Give leases back that will not be played, and name those on them who cannot be played at all."""

        def send(client: LeagueClient, own: Attachment) -> wire.ReleaseAnswer:
            named = wire.ReleaseRequest(worker_id=own.worker_id, lease_ids=lease_ids, unplayable=unplayable)
            return client.release(named)

        self._ask("releases", send)

    def report(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        """Report matches; None while the league is away.

        Raises:
            LeagueError: The league refuses the batch.
        """
        return self._submit(
            "results", lambda client, own: client.report(wire.ResultBatch(worker_id=own.worker_id, results=results))
        )

    def publish(self, checkpoint: bytes, step: int, since_step: int | None) -> wire.Player | None:
        """Publish a snapshot, and say which decision asked for it; None while the league is away.

        Raises:
            LeagueError: The league refuses the snapshot.
        """
        sha256 = hashlib.sha256(checkpoint).hexdigest()

        def send(client: LeagueClient, own: Attachment) -> wire.Player:
            snapshot = wire.PlayerCreate(learner_id=own.learner_id, checkpoint=sha256, step=step, since_step=since_step)
            client.upload(checkpoint, sha256)
            try:
                return client.publish(snapshot)
            except UnknownCheckpointError:  # somebody had the league delete what nobody had published yet
                client.upload(checkpoint, sha256)
                return client.publish(snapshot)

        return self._submit("snapshots", send)

    def beat(
        self,
        step: int,
        metrics: dict[str, float | None],
        verdicts: list[wire.HealthVerdict],
        since_step: int | None = None,
    ) -> wire.HeartbeatAnswer | None:
        """Give a sign of life, say how far training has come and what is wrong with it; None while the league is away.

        With `since_step`, the step of the last snapshot, it asks whether the next one is due. A league of an older
        version does not know verdicts: it is told the rest, and offered them again at the next beat.
        """

        def send(client: LeagueClient, own: Attachment) -> wire.HeartbeatAnswer:
            progress = wire.LearnerProgress(
                learner_id=own.learner_id, step=step, since_step=since_step, metrics=metrics
            )
            in_words = progress.model_copy(update={"verdicts": verdicts})
            try:
                return client.heartbeat(own.worker_id, wire.Heartbeat(learners=[in_words]))
            except InvalidRequestError as refusal:
                if not _knows_no_verdicts(refusal):
                    raise
                self._say_once_that_verdicts_stay_here()
                return client.heartbeat(own.worker_id, wire.Heartbeat(learners=[progress]))

        answer = self._ask("heartbeats", send)
        if answer is not None:
            self.heartbeat_s = max(self._own_heartbeat_s, answer.next_heartbeat_s)
        return answer

    def regressions(self) -> list[wire.Regression] | None:
        """Ask whom the learner used to beat and loses to now; None while the league is away.

        The league watches mains alone: for other roles it is not asked.
        """
        if self._settings.role != "main":
            return []

        def ask(client: LeagueClient, own: Attachment) -> list[wire.Regression]:
            known = client.regressions(self._spec.name).items
            return [each for each in known if each.learner.player_id == own.player_id]

        return self._ask("alarms", ask)

    def _say_once_that_verdicts_stay_here(self) -> None:
        if not self._verdicts_stay_here:
            logger.warning("the league's version is too old to be told what is wrong with training: update its server")
        self._verdicts_stay_here = True

    def _ask(self, kind: Kind, call: Callable[[LeagueClient, Attachment], T]) -> T | None:
        own = self.attachment
        return None if own is None else self._link.ask(kind, lambda client: call(client, own), self._register)

    def _submit(self, kind: Kind, call: Callable[[LeagueClient, Attachment], T]) -> T | None:
        own = self.attachment
        return None if own is None else self._link.submit(kind, lambda client: call(client, own), self._register)

    def _register(self, client: LeagueClient) -> Attachment:
        settings, signature = self._settings, self._spec.signature
        worker = client.register_worker(
            wire.WorkerCreate(
                name=f"trainer-{settings.learner}-{self._spec.name}"[:WORKER_NAME_MAX],
                kind="trainer",
                version=self._version,
                signatures=[signature],
                instance=self._instance,
            )
        )
        learner = client.learner(
            wire.LearnerCreate(
                name=settings.learner,
                role=settings.role,
                environment=self._spec.name,
                signature=signature,
                max_decisions=self._spec.max_decisions,
                sides=self._spec.unlike_sides,
                **self._brought(),
                rules=self._rules,
            )
        )
        self.heartbeat_s = self._own_heartbeat_s = min(settings.heartbeat_s, worker.heartbeat_s)
        self.learner_step = learner.step or 0
        self.attachment = Attachment(worker.id, learner.id, learner.player_id)
        return self.attachment

    def _brought(self) -> dict[str, tuple[wire.BaselineCreate, ...]]:
        """Scripted players that the game brings; nothing where it brings none: an older league knows no such field."""
        brought = brought_baselines(self._spec.name)
        players = tuple(wire.BaselineCreate(name=each.name, rating=each.rating) for each in brought)
        return {"baselines": players} if players else {}


def _knows_no_verdicts(refusal: InvalidRequestError) -> bool:
    """Tell a league that does not have the field from one that refuses what is in it."""
    place = refusal.value.partition("=")[0]
    return place.endswith(".verdicts") and refusal.rule.startswith("extra inputs")
