"""Session of a custom trainer with a league: registration, heartbeats, leases, results and snapshots."""

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Condition
from types import TracebackType
from typing import Self

from league import wire
from league.client.calls.checkpoints import CheckpointCalls
from league.client.calls.learners import LearnerCalls
from league.client.calls.leases import LeaseCalls
from league.client.calls.players import PlayerCalls
from league.client.calls.runs import RunCalls
from league.client.calls.workers import WorkerCalls
from league.client.connection import Connection
from league.client.result_spool import ResultSpool
from league.client.run_info import RunInfo
from league.client.session.background import Background, is_transient, may_succeed_later
from league.client.session.folder import REFUSED, SessionFolder, steps_of
from league.client.session.match import Match, MatchQueue
from league.errors import InvalidRequestError, LeagueError, UnknownCheckpointError, WorkerQuarantinedError

POLL_S = 1.0
"""Longest pause between two rounds of calls; results are delivered this often."""

QUARANTINE_POLL_S = 30.0
OPPONENTS_CACHED = 32
RETRY_S = 0.1

logger = logging.getLogger(__name__)


class SessionCalls(Connection, WorkerCalls, CheckpointCalls, LearnerCalls, PlayerCalls, LeaseCalls, RunCalls):
    """Calls of a worker that trains a learner."""


@dataclass(frozen=True)
class SessionSettings:
    """Settings of a session.

    Attributes:
        lease_budget: Matches per opponent lease, at least 1.
        prefetch: Leases to hold ahead of need, at least 1. Use at least the number of matches that you play at once.
        self_play: Whether the league may choose the learner itself as an opponent.
        grace_s: Longest time in seconds that `Session.close` takes to deliver what waits.
    """

    lease_budget: int = 4
    prefetch: int = 8
    self_play: bool = True
    grace_s: float = 10.0


class Session:
    """Session of one worker that trains one learner; create it with `league.client.attach`. Thread-safe.

    A background thread sends heartbeats, requests leases ahead of need, and delivers results and snapshots, which are
    on disk before `report` and `publish` return. After a crash, start the same command again: the session then delivers
    what waits and releases the leases that the crashed process held.

    Args:
        client: League client.
        learner: Registration of the learner.
        worker: Name of the worker, unique among those that train this learner on this machine.
        folder: Folder that only this worker uses.
        settings: Settings of the session.
        run: Description of this process.

    Attributes:
        learner: The learner as the league knew it at the start.
        worker: The worker.
        run: This process as a run of the learner.
        decision: The league's decision that a snapshot is due; None if none is.
        should_stop: Whether the league or `close` ends the session. `next_match` then returns None.

    Raises:
        ConfigurationError: Another process uses the folder.
        LeagueError: The league cannot be reached, or rejects the registration.
    """

    def __init__(
        self,
        client: SessionCalls,
        learner: wire.LearnerCreate,
        worker: str,
        folder: Path,
        settings: SessionSettings,
        run: RunInfo,
    ) -> None:
        self._client, self._settings, self._run_info = client, settings, run
        self._files = SessionFolder(folder)
        self._registration = wire.WorkerCreate(
            name=worker,
            kind="trainer",
            version="attached",
            signatures=[learner.signature],
            instance=self._files.instance(),
        )
        self._learner_registration = learner
        self._download = lru_cache(OPPONENTS_CACHED)(client.download)
        self._changed = Condition()
        self._queue = MatchQueue()
        self._failure: Exception | None = None
        self._metrics: dict[str, float | None] = {}
        self._unplayable: dict[str, wire.UnplayablePlayer] = {}
        self._lease_at = self._heartbeat_at = self._deliver_at = 0.0
        self._closed = False
        self.decision: wire.SnapshotDecision | None = None
        self.should_stop = False
        try:
            self._register()
            self._spool = ResultSpool(self._files.spool)
        except BaseException:
            self._files.close()
            raise
        self.step = self.learner.step or 0
        self._snapshot_step = self._last_snapshot_step()
        self._stale_leases = self._files.saved_leases()
        self._background = Background(self._changed, self._work, self._fail, self._register)
        self._background.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- for the training loop

    def next_match(self, timeout_s: float | None = None) -> Match | None:
        """Return the next match; wait until the league grants one.

        Args:
            timeout_s: Longest wait in seconds; None for no limit. The session waits while the league is unreachable.

        Returns:
            The match, or None after the timeout, or once the session stops or drains.

        Raises:
            LeagueError: The league rejects the request for leases, for example because the token has expired.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not self.should_stop:
                match = self._queue.take(datetime.now(UTC))
                if match is not None:
                    # Wakes the background thread at half of the queue, so that new leases arrive before the last match
                    # starts.
                    if len(self._queue) <= self._settings.prefetch // 2:
                        self._changed.notify_all()
                    return match
                if self._failure is not None and not _is_retriable(self._failure):
                    raise self._failure
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0.0:
                    return None
                self._changed.wait(POLL_S if left_s is None else min(left_s, POLL_S))
        return None

    def matches(self) -> Iterator[Match]:
        """Iterate over the matches to play, until the session stops."""
        while (match := self.next_match()) is not None:
            yield match

    def report(
        self,
        match: Match,
        score: float,
        decisions: int,
        reason: str = "finished",
        behaviour: wire.Behaviour | None = None,
    ) -> None:
        """Report the result of a match. It is on disk when the call returns, and counts exactly once.

        Args:
            match: The match.
            score: Score of the learner in [0, 1]; 1/2 is a draw.
            decisions: Length of the match in decisions, at least 1.
            reason: Reason for the end of the match.
            behaviour: Measures of both sides.

        Raises:
            InvalidRequestError: The match was reported before, or a value is out of range.
            OSError: The disk failed or is full. The result waits in memory and is written with the next report or when
                the session ends, so do not report the match again.
        """
        if not 0.0 <= score <= 1.0:
            raise InvalidRequestError(f"score={score}", "a score is in [0, 1]", "report the learner's share of the win")
        if decisions < 1:
            raise InvalidRequestError(f"decisions={decisions}", "a match has at least one", "count every move")
        fields = {} if behaviour is None else {"behaviour": behaviour}
        with self._changed:
            if not self._queue.finish(match):
                raise InvalidRequestError(match, "it was reported before", "report each match of `next_match` once")
            result = wire.Result(
                lease_id=match.lease.lease_id,
                sequence=match.sequence,
                score=float(score if match.side == "home" else 1.0 - score),
                decisions=decisions,
                reason=reason,
                seed=match.seed,
                learner_step=self.step,
                **fields,
            )
            # Under the lock: the background thread replaces the spool's file when it rotates.
            self._spool.append(result)
            self._spool.sync()

    def reject(self, match: Match, reason: str) -> None:
        """Give up a match whose opponent cannot be played, for example because its weights are damaged."""
        opponent = match.opponent
        with self._changed:
            self._queue.finish(match)
            self._queue.drop(match.lease.lease_id)
            self._unplayable[match.lease.lease_id] = wire.UnplayablePlayer(player_id=opponent.player_id, reason=reason)
            self._changed.notify_all()

    def weights(self, player: wire.Seat) -> bytes | None:
        """Return a player's checkpoint; None for a baseline, and for a learner as it is now."""
        if player.checkpoint is None or ":" in player.checkpoint:
            return None
        return self._download(player.checkpoint)

    def publish(self, checkpoint: Path | bytes, step: int) -> None:
        """Publish a safetensors file or ONNX model as a snapshot of the learner. It is on disk when the call returns.

        Args:
            checkpoint: The file or its bytes. Publishing the same bytes and step again has no effect.
            step: Step of the learner.
        """
        content = checkpoint if isinstance(checkpoint, bytes) else Path(checkpoint).read_bytes()
        with self._changed:
            since_step = None if self.decision is None else self.decision.since_step
            self._files.add_snapshot(content, step, since_step)
            self.decision = None
            self.step = max(self.step, step)
            self._snapshot_step = max(self._snapshot_step, step)
            self._changed.notify_all()

    def log(self, metrics: Mapping[str, float | None], step: int | None = None) -> None:
        """Send metrics with the next heartbeat; later values of a metric replace earlier ones.

        Args:
            metrics: Values by name.
            step: Step of the learner; None leaves it unchanged.
        """
        with self._changed:
            self._metrics.update(metrics)
            if step is not None:
                self.step = max(self.step, step)

    def close(self) -> None:
        """Deliver results and snapshots, release unused leases and end the session; repeating it has no effect.

        Results and snapshots that the league does not accept in `grace_s` stay on disk for the next start.
        """
        if self._closed:
            return
        self._closed = self.should_stop = True
        deadline = time.monotonic() + self._settings.grace_s
        if self._background.end(self._settings.grace_s):
            self._last_calls(deadline)
            self._spool.close()
            self._files.close()  # a call that hangs may still use the folder, which otherwise stays locked

    # --- in the background

    def _register(self) -> None:
        self.worker = self._client.register_worker(self._registration)
        self.learner = self._client.register_learner(self._learner_registration)
        self.run = self._client.start_run(self._run_info.request(self.learner))

    def _last_snapshot_step(self) -> int:
        published = self.learner.latest_snapshot
        step = 0 if published is None else self._client.player(published).step or 0
        return max([step, *(steps_of(file)[0] for file in self._files.waiting_snapshots())])

    def _fail(self, error: Exception | None) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _work(self) -> float:
        """Make the calls that are due; return the seconds until the next ones."""
        now = time.monotonic()
        if now >= self._deliver_at:
            self._deliver()
            self._deliver_at = now + POLL_S
        # Leases of a crashed process are released only after its results were delivered.
        self._release(self._stale_leases)
        self._stale_leases = []
        self._release_unplayable()
        if now >= self._heartbeat_at:
            self._send_heartbeat()
        self._publish_waiting()
        self._refill()
        return min(POLL_S, max(0.0, self._heartbeat_at - time.monotonic()))

    def _deliver(self) -> None:
        unavailable: list[LeagueError] = []

        def send(results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
            try:
                return self._client.report(wire.ResultBatch(worker_id=self.worker.id, results=results))
            except LeagueError as error:
                if not may_succeed_later(error):
                    raise
                # The answer None leaves the batch in the spool. An error would make the spool split it in search of a
                # bad result.
                unavailable.append(error)
                return None

        self._spool.deliver(send)
        if unavailable:
            raise unavailable[0]
        with self._changed:
            self._spool.rotate()

    def _send_heartbeat(self) -> None:
        with self._changed:
            progress = wire.LearnerProgress(
                learner_id=self.learner.id, step=self.step, since_step=self._snapshot_step, metrics=dict(self._metrics)
            )
        answer = self._client.heartbeat(self.worker.id, wire.Heartbeat(learners=[progress]))
        self._heartbeat_at = time.monotonic() + max(self.worker.heartbeat_s, answer.next_heartbeat_s)
        with self._changed:
            # A decision about an earlier step was made before the league knew the newest snapshot.
            due = [each for each in answer.decisions if each.since_step == self._snapshot_step]
            self.decision = due[0] if due else None
            if answer.command != "continue":
                self.should_stop = True
                self._changed.notify_all()

    def _refill(self) -> None:
        with self._changed:
            held, prefetch = len(self._queue), self._settings.prefetch
            if self.should_stop or held > prefetch // 2 or time.monotonic() < self._lease_at:
                return
        request = wire.TrainingLeases(
            kind="training",
            worker_id=self.worker.id,
            player_id=self.learner.player_id,
            count=max(1, prefetch - held),
            budget=self._settings.lease_budget,
            self_play=self._settings.self_play,
        )
        try:
            # Without the lock, which would stop the training loop for the time of the call.
            answer = self._client.lease(request)
        except WorkerQuarantinedError:
            self._lease_at = time.monotonic() + QUARANTINE_POLL_S
            raise
        with self._changed:
            self._queue.add(answer.items)
            # On disk, so that the next process can release them if this one crashes.
            self._files.save_leases(self._queue.open_leases)
            if not answer.items:
                self._lease_at = time.monotonic() + answer.next_poll_s
            self._changed.notify_all()

    def _release_unplayable(self) -> None:
        with self._changed:
            unplayable, self._unplayable = self._unplayable, {}
        try:
            self._release(list(unplayable), list({each.player_id: each for each in unplayable.values()}.values()))
        except LeagueError:
            with self._changed:
                # Sent again in the next round; a report of the same lease that arrived meanwhile is newer.
                self._unplayable = unplayable | self._unplayable
            raise

    def _release(self, lease_ids: list[str], unplayable: list[wire.UnplayablePlayer] | None = None) -> None:
        if lease_ids:
            request = wire.ReleaseRequest(worker_id=self.worker.id, lease_ids=lease_ids, unplayable=unplayable or [])
            self._client.release(request)

    def _publish_waiting(self) -> None:
        for file in self._files.waiting_snapshots():
            step, since_step = steps_of(file)
            try:
                self._publish(file.read_bytes(), step, since_step)
            except LeagueError as error:
                if may_succeed_later(error):
                    raise
                aside = file.rename(file.with_suffix(REFUSED))
                logger.warning("the league rejected the snapshot of step %d, which is now %s: %s", step, aside, error)
            else:
                file.unlink()

    def _publish(self, checkpoint: bytes, step: int, since_step: int | None) -> None:
        sha256 = hashlib.sha256(checkpoint).hexdigest()
        snapshot = wire.PlayerCreate(
            learner_id=self.learner.id, checkpoint=sha256, step=step, since_step=since_step, run_id=self.run.id
        )
        self._client.upload(checkpoint, sha256)
        try:
            self._client.publish(snapshot)
        except UnknownCheckpointError:  # the league removed the unpublished checkpoint in between
            self._client.upload(checkpoint, sha256)
            self._client.publish(snapshot)

    def _last_calls(self, deadline: float) -> None:
        """Make the last calls; each is tried until it succeeds, is rejected, or the deadline has passed."""
        # What cannot be repeated comes first, in case the deadline passes. Unused leases also expire by themselves.
        for call in (self._deliver, self._publish_waiting, self._release_all, self._send_heartbeat):
            while True:
                try:
                    call()
                except LeagueError as error:
                    if not _is_retriable(error) or time.monotonic() >= deadline:
                        logger.warning("the session ends after an error: %s", error)
                        break
                    time.sleep(RETRY_S)
                else:
                    break

    def _release_all(self) -> None:
        open_leases = [*self._stale_leases, *self._queue.open_leases]
        self._release(open_leases)
        with suppress(OSError):
            self._files.save_leases([])


def _is_retriable(error: Exception) -> bool:
    """Return whether waiting may help without a change by the user."""
    return isinstance(error, LeagueError) and (is_transient(error) or isinstance(error, WorkerQuarantinedError))
