"""Sessions with the league: calls of any worker, and a trainer's leases, snapshots, heartbeats and regressions."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from arena.environments import EnvironmentSpec, plugin_baselines
from league import wire
from league.client import LeagueClient, RunInfo
from league.errors import LeagueUnreachable, UnknownCheckpointError
from trainer.config.runtime import WORKER_NAME_MAX
from trainer.config.schema import LeagueSettings
from trainer.league_client.retrying_client import RequestKind, RetryingClient
from trainer.shutdown import RunContext

REGISTER_PAUSE_S = 0.25
"""Pause between two attempts to reach the league for the first time."""

T = TypeVar("T")


class WorkerSession:
    """Session of one worker with one league. All calls but `register` are skipped before the registration.

    Args:
        client: League client.
        worker: Registration of the worker.
        heartbeat_s: Longest time between two heartbeats, unless the league is overloaded.

    Attributes:
        client: League client.
        worker_id: Id of the worker in the league; empty before the first registration.
        heartbeat_s: Seconds between two heartbeats: the shorter of the argument and the league's request, or longer
            if the league is overloaded.
    """

    def __init__(self, client: RetryingClient, worker: wire.WorkerCreate, heartbeat_s: float) -> None:
        self.client, self._worker = client, worker
        self.worker_id = ""
        self.heartbeat_s = self._own_heartbeat_s = self._heartbeat_max_s = heartbeat_s

    def register(self) -> bool:
        """Register the worker; false if the league is unreachable.

        Raises:
            LeagueError: The league rejects the registration.
        """
        return self.client.try_call("registrations", self._register) is not None

    def release(self, lease_ids: list[str], unplayable: list[wire.UnplayablePlayer]) -> None:
        """Release leases that will not be played, and name their players that cannot be loaded."""

        def send(client: LeagueClient) -> wire.ReleaseAnswer:
            return client.release(
                wire.ReleaseRequest(worker_id=self.worker_id, lease_ids=lease_ids, unplayable=unplayable)
            )

        self._call_or_skip("releases", send)

    def report(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        """Report results; None while the league is unreachable.

        Raises:
            LeagueError: The league rejects the whole batch.
        """
        return self._submit(
            "results", lambda client: client.report(wire.ResultBatch(worker_id=self.worker_id, results=results))
        )

    def _send_heartbeat(self, learners: list[wire.LearnerProgress]) -> wire.HeartbeatAnswer | None:
        request = wire.Heartbeat(learners=learners)
        answer = self._call_or_skip("heartbeats", lambda client: client.heartbeat(self.worker_id, request))
        if answer is not None:
            self.heartbeat_s = max(self._own_heartbeat_s, answer.next_heartbeat_s)
        return answer

    def _call_or_skip(self, kind: RequestKind, call: Callable[[LeagueClient], T]) -> T | None:
        return self.client.call_or_skip(kind, call, self._register) if self.worker_id else None

    def _submit(self, kind: RequestKind, call: Callable[[LeagueClient], T]) -> T | None:
        return self.client.submit(kind, call, self._register) if self.worker_id else None

    def _register(self, client: LeagueClient) -> wire.Worker:
        worker = client.register_worker(self._worker)
        # Before `worker_id`, which enables all other calls.
        self._register_player(client, worker)
        self.worker_id = worker.id
        self.heartbeat_s = self._own_heartbeat_s = min(self._heartbeat_max_s, worker.heartbeat_s)
        return worker

    def _register_player(self, client: LeagueClient, worker: wire.Worker) -> None:
        """Register the player that the worker trains or brings, if any. If this fails, the worker is not registered."""


@dataclass(frozen=True)
class LearnerRegistration:
    """Ids of this worker and its learner in the league."""

    worker_id: str
    learner_id: int
    player_id: int


class LeagueSession(WorkerSession):
    """Session of one learner with one league.

    Args:
        client: League client.
        settings: Settings of the section `league`.
        spec: Environment of the learner.
        version: Version of this program.
        instance: Distinguishes workers of one name.
        rules: Role settings that override the league's.
        run: Description of this process; None for a process that publishes nothing.

    Attributes:
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
        run: RunInfo | None = None,
    ) -> None:
        name = f"trainer-{settings.learner}-{spec.name}"[:WORKER_NAME_MAX]
        worker = wire.WorkerCreate(
            name=name, kind="trainer", version=version, signatures=[spec.signature], instance=instance
        )
        super().__init__(client, worker, settings.heartbeat_s)
        self._settings, self._spec, self._rules, self._run_info = settings, spec, rules, run
        self._run_id: int | None = None
        self._registration: LearnerRegistration | None = None
        self.learner_step = 0

    @property
    def registration(self) -> LearnerRegistration | None:
        """Ids of the last registration, or of a saved run; None before the first."""
        return self._registration

    @registration.setter
    def registration(self, known: LearnerRegistration) -> None:
        self._registration, self.worker_id = known, known.worker_id

    def wait_until_registered(self, run_context: RunContext) -> None:
        """Register; retry for up to `league.connect_s` seconds.

        Raises:
            LeagueError: The league rejects the registration, or was not reachable in time.
        """
        deadline = run_context.clock() + self._settings.connect_s
        while not self.register():
            if run_context.clock() >= deadline or run_context.stopping():
                limit = f"no server responded within {self._settings.connect_s:g} s of the first start"
                waited = "a signal arrived before a server responded" if run_context.stopping() else limit
                address = self.client.address
                raise LeagueUnreachable(address, waited, address.remedy)
            run_context.pause(REGISTER_PAUSE_S)

    def download(self, sha256: str) -> bytes | None:
        """Download a checkpoint, even before the registration; None while the league is unreachable.

        Raises:
            LeagueError: The league rejects the request.
        """
        return self.client.try_call("downloads", lambda client: client.download(sha256))

    def lease(self, count: int, *, self_play: bool) -> wire.LeaseAnswer | None:
        """Request opponent leases, with or without self-play; None while the league is unreachable."""
        if (known := self._registration) is None:
            return None
        request = wire.TrainingLeases(
            kind="training",
            worker_id=known.worker_id,
            player_id=known.player_id,
            count=count,
            budget=self._settings.lease_budget,
            self_play=self_play,
        )
        return self._call_or_skip("leases", lambda client: client.lease(request))

    def publish(self, checkpoint: bytes, step: int, since_step: int | None) -> wire.Player | None:
        """Upload a checkpoint and publish it as a snapshot; None while the league is unreachable.

        Args:
            checkpoint: Bytes of the checkpoint.
            step: Step of the learner.
            since_step: Step in the request whose decision asked for this snapshot; None without a decision.

        Raises:
            LeagueError: The league rejects the snapshot.
        """
        if (known := self._registration) is None:
            return None
        sha256 = hashlib.sha256(checkpoint).hexdigest()
        snapshot = wire.PlayerCreate(
            learner_id=known.learner_id, checkpoint=sha256, step=step, since_step=since_step, run_id=self._run_id
        )

        def send(client: LeagueClient) -> wire.Player:
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

        A `since_step`, the step of the last snapshot, also requests a decision about the next one.
        """
        if (known := self._registration) is None:
            return None
        progress = wire.LearnerProgress(
            learner_id=known.learner_id, step=step, since_step=since_step, metrics=metrics, verdicts=verdicts
        )
        return self._send_heartbeat([progress])

    def regressions(self) -> list[wire.Regression] | None:
        """Return the opponents that the learner beat before and now loses to; None while the league is unreachable.

        The league watches main learners only, so other roles send no request.
        """
        if self._settings.role != "main" or (known := self._registration) is None:
            return []
        page = self._call_or_skip("alarms", lambda client: client.regressions(self._spec.name))
        return None if page is None else [each for each in page.items if each.learner.player_id == known.player_id]

    def _register_player(self, client: LeagueClient, worker: wire.Worker) -> None:
        settings, spec = self._settings, self._spec
        baselines = [wire.BaselineCreate(name=each.name, rating=each.rating) for each in plugin_baselines(spec.name)]
        learner = client.register_learner(
            wire.LearnerCreate(
                name=settings.learner,
                role=settings.role,
                environment=spec.name,
                signature=spec.signature,
                max_decisions=spec.max_decisions,
                sides=spec.unlike_sides,
                baselines=tuple(baselines),
                rules=self._rules,
            )
        )
        if self._run_info is not None:
            self._run_id = client.start_run(self._run_info.request(learner)).id
        self.learner_step = learner.step or 0
        self.registration = LearnerRegistration(worker.id, learner.id, learner.player_id)
