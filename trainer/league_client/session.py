"""A trainer's session with the league: register, request leases, report results, publish snapshots, send heartbeats."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from arena.environments import EnvironmentSpec, brought_baselines
from league import wire
from league.client import LeagueClient
from league.errors import InvalidRequestError, LeagueUnreachable, UnknownCheckpointError
from trainer.config.runtime import WORKER_NAME_MAX
from trainer.config.schema import LeagueSettings
from trainer.league_client.retrying_client import RequestKind, RetryingClient
from trainer.shutdown import RunContext

REGISTER_PAUSE_S = 0.25
"""Pause between two attempts to reach the league for the first time."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LearnerRegistration:
    """Ids of this worker and its learner in the league."""

    worker_id: str
    learner_id: int
    player_id: int


class LeagueSession:
    """Session of one learner with one league. All calls are skipped before the registration.

    Args:
        client: League client.
        settings: Settings of the section `league`.
        spec: Environment of the learner.
        version: Version of this program.
        instance: Distinguishes workers of one name.
        rules: Role settings that override the league's.

    Attributes:
        registration: Ids of the last registration, or of a saved run; None before the first.
        heartbeat_s: Seconds between two heartbeats: the shorter of the settings and the league's request, or longer
            if the league is overloaded.
        learner_step: Step of the learner that the league knew at the last registration.
    """

    def __init__(
        self,
        client: RetryingClient,
        settings: LeagueSettings,
        spec: EnvironmentSpec,
        version: str,
        instance: str | None = None,
        rules: wire.RoleNumbers | None = None,
    ) -> None:
        self._client, self._settings, self._spec = client, settings, spec
        self._version, self._instance, self._rules = version, instance, rules
        self.registration: LearnerRegistration | None = None
        self.heartbeat_s = self._own_heartbeat_s = settings.heartbeat_s
        self.learner_step = 0
        self._warned_about_old_league = False

    def register(self) -> bool:
        """Register worker and learner; false if the league is unreachable.

        Raises:
            LeagueError: The league rejects the registration.
        """
        return self._client.try_call("registrations", self._register) is not None

    def wait_until_registered(self, run_context: RunContext) -> None:
        """Register; retry for up to `league.connect_s` seconds.

        Raises:
            LeagueError: The league rejects the registration, or was not reachable in time.
        """
        deadline = run_context.clock() + self._settings.connect_s
        while not self.register():
            if run_context.clock() >= deadline or run_context.stopping():
                limit = f"none answered within {self._settings.connect_s:g} s of the first start"
                waited = "a signal came before one answered" if run_context.stopping() else limit
                address = self._client.address
                raise LeagueUnreachable(address, waited, address.way_out)
            run_context.pause(REGISTER_PAUSE_S)

    def download(self, sha256: str) -> bytes | None:
        """Download a checkpoint; None while the league is unreachable.

        Raises:
            LeagueError: The league rejects the request.
        """
        return self._client.try_call("downloads", lambda client: client.download(sha256))

    def lease(self, count: int, *, self_play: bool) -> wire.LeaseAnswer | None:
        """Request opponent leases, with or without self-play; None while the league is unreachable."""

        def send(client: LeagueClient, registration: LearnerRegistration) -> wire.LeaseAnswer:
            budget = self._settings.lease_budget
            return client.lease(
                wire.TrainingLeases(
                    kind="training",
                    worker_id=registration.worker_id,
                    player_id=registration.player_id,
                    count=count,
                    budget=budget,
                    self_play=self_play,
                )
            )

        return self._call_or_skip("leases", send)

    def release(self, lease_ids: list[str], unplayable: list[wire.UnplayablePlayer]) -> None:
        """Release leases that will not be played, and name their players that cannot be loaded."""

        def send(client: LeagueClient, registration: LearnerRegistration) -> wire.ReleaseAnswer:
            named = wire.ReleaseRequest(worker_id=registration.worker_id, lease_ids=lease_ids, unplayable=unplayable)
            return client.release(named)

        self._call_or_skip("releases", send)

    def report(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        """Report results; None while the league is unreachable.

        Raises:
            LeagueError: The league rejects the whole batch.
        """
        return self._submit(
            "results",
            lambda client, registration: client.report(
                wire.ResultBatch(worker_id=registration.worker_id, results=results)
            ),
        )

    def publish(self, checkpoint: bytes, step: int, since_step: int | None) -> wire.Player | None:
        """Upload a checkpoint and publish it as a snapshot; None while the league is unreachable.

        Args:
            checkpoint: Bytes of the checkpoint.
            step: Step of the learner.
            since_step: Step in the request whose decision asked for this snapshot; None without a decision.

        Raises:
            LeagueError: The league rejects the snapshot.
        """
        sha256 = hashlib.sha256(checkpoint).hexdigest()

        def send(client: LeagueClient, registration: LearnerRegistration) -> wire.Player:
            snapshot = wire.PlayerCreate(
                learner_id=registration.learner_id, checkpoint=sha256, step=step, since_step=since_step
            )
            client.upload(checkpoint, sha256)
            try:
                return client.publish(snapshot)
            except UnknownCheckpointError:  # the league removed the unpublished checkpoint in between
                client.upload(checkpoint, sha256)
                return client.publish(snapshot)

        return self._submit("snapshots", send)

    def heartbeat(
        self,
        step: int,
        metrics: dict[str, float | None],
        verdicts: list[wire.HealthVerdict],
        since_step: int | None = None,
    ) -> wire.HeartbeatAnswer | None:
        """Send a heartbeat with progress and health verdicts; None while the league is unreachable.

        A `since_step`, the step of the last snapshot, also requests a decision about the next one. If an older league
        rejects verdicts, the heartbeat is sent again without them; the next heartbeat offers them again.
        """

        def send(client: LeagueClient, registration: LearnerRegistration) -> wire.HeartbeatAnswer:
            progress = wire.LearnerProgress(
                learner_id=registration.learner_id, step=step, since_step=since_step, metrics=metrics
            )
            with_verdicts = progress.model_copy(update={"verdicts": verdicts})
            try:
                return client.heartbeat(registration.worker_id, wire.Heartbeat(learners=[with_verdicts]))
            except InvalidRequestError as refusal:
                if not _lacks_verdicts(refusal):
                    raise
                self._warn_about_old_league()
                return client.heartbeat(registration.worker_id, wire.Heartbeat(learners=[progress]))

        answer = self._call_or_skip("heartbeats", send)
        if answer is not None:
            self.heartbeat_s = max(self._own_heartbeat_s, answer.next_heartbeat_s)
        return answer

    def regressions(self) -> list[wire.Regression] | None:
        """Return the opponents that the learner used to beat and now loses to; None while the league is unreachable.

        The league watches main learners only, so other roles send no request.
        """
        if self._settings.role != "main":
            return []

        def send(client: LeagueClient, registration: LearnerRegistration) -> list[wire.Regression]:
            known = client.regressions(self._spec.name).items
            return [each for each in known if each.learner.player_id == registration.player_id]

        return self._call_or_skip("alarms", send)

    def _warn_about_old_league(self) -> None:
        if not self._warned_about_old_league:
            logger.warning("the league is too old to receive health verdicts of training: update the server")
        self._warned_about_old_league = True

    def _call_or_skip(self, kind: RequestKind, call: Callable[[LeagueClient, LearnerRegistration], T]) -> T | None:
        registration = self.registration
        if registration is None:
            return None
        return self._client.call_or_skip(kind, lambda client: call(client, registration), self._register)

    def _submit(self, kind: RequestKind, call: Callable[[LeagueClient, LearnerRegistration], T]) -> T | None:
        registration = self.registration
        if registration is None:
            return None
        return self._client.submit(kind, lambda client: call(client, registration), self._register)

    def _register(self, client: LeagueClient) -> LearnerRegistration:
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
                **self._game_baselines(),
                rules=self._rules,
            )
        )
        self.heartbeat_s = self._own_heartbeat_s = min(settings.heartbeat_s, worker.heartbeat_s)
        self.learner_step = learner.step or 0
        self.registration = LearnerRegistration(worker.id, learner.id, learner.player_id)
        return self.registration

    def _game_baselines(self) -> dict[str, tuple[wire.BaselineCreate, ...]]:
        """Return the field `baselines`; left out if the game has none, because older leagues reject it."""
        brought = brought_baselines(self._spec.name)
        players = tuple(wire.BaselineCreate(name=each.name, rating=each.rating) for each in brought)
        return {"baselines": players} if players else {}


def _lacks_verdicts(refusal: InvalidRequestError) -> bool:
    """Return whether the league does not know the field, rather than rejecting its content."""
    place = refusal.value.partition("=")[0]
    return place.endswith(".verdicts") and refusal.rule.startswith("extra inputs")
