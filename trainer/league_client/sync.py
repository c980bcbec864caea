"""Synchronisation with the league between rollouts: results, snapshots, heartbeats and alarms.

While the league is unreachable, results and snapshots wait in the run directory and training goes on.
"""

from collections.abc import Mapping, Sequence

from league.client.result_spool import Report, ResultSpool
from league.wire import HealthVerdict, HeartbeatAnswer, Regression, Result, SnapshotDecision
from league.wire import Severity as WireSeverity
from trainer.disk_retry import DiskRetry
from trainer.league_client.commands import WorkerCommands
from trainer.league_client.last_delivery import LastCalls, LastDelivery
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import LeagueSession
from trainer.league_client.snapshots import SnapshotOutbox
from trainer.monitoring.console import RunConsole
from trainer.monitoring.health.monitor import HealthAlert
from trainer.monitoring.health.rules import Severity
from trainer.rollout.collector import CollectedMatch
from trainer.shutdown import RunContext

DELIVERY_S = 1.0
"""Seconds between two deliveries of results. A call after every short update would load the league needlessly."""

SEVERITIES: Mapping[Severity, WireSeverity] = {
    Severity.HINT: "hint",
    Severity.WARNING: "warning",
    Severity.ALARM: "alarm",
}

TEXT_MAX = 500
"""Longest text of a verdict that the league accepts, in characters."""

REGRESSIONS_S = 60.0
"""Seconds between two requests for alarms, which change once per rating period."""


class LeagueSync:
    """Synchronises one learner with a league that may be unreachable.

    Args:
        client: League client.
        session: The learner's session.
        spool: Results that wait for delivery.
        outbox: Snapshots that wait for publication.
        disk: Retries writes on a full disk.
        console: Prints to the terminal.
        run_context: Clock and stop flag.

    Attributes:
        commands: The league's commands to this worker.
        alerts: Current health alerts of training, worst first. They are sent with each heartbeat.
    """

    def __init__(
        self,
        client: RetryingClient,
        session: LeagueSession,
        spool: ResultSpool,
        outbox: SnapshotOutbox,
        *,
        disk: DiskRetry,
        console: RunConsole,
        run_context: RunContext,
    ) -> None:
        self._client, self._session, self._spool, self._outbox = client, session, spool, outbox
        self._disk, self._console, self._run_context = disk, console, run_context
        self._deliver_at = self._heartbeat_at = self._decision_at = self._regressions_at = run_context.clock()
        self._regression_alerts = LeagueAlerts(console)
        self.commands = WorkerCommands(console)
        self.alerts: Sequence[HealthAlert] = ()

    def record_match(self, match: CollectedMatch, learner_step: int) -> None:
        """Append the result of a leased match to the spool; unrated matches have none."""
        assignment = match.assignment
        if assignment.lease is not None:
            self._spool.append(
                Result(
                    lease_id=assignment.lease.lease_id,
                    sequence=assignment.sequence,
                    score=match.score,
                    decisions=match.decisions,
                    reason=match.reason,
                    seed=assignment.seed,
                    learner_step=learner_step,
                )
            )

    def sync(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Publish waiting snapshots; when due, deliver results, send a heartbeat and request alarms."""
        if self._run_context.clock() >= self._deliver_at:
            self.deliver()
        self._publish_waiting()
        if self._run_context.clock() >= self._heartbeat_at:
            self._send_heartbeat(step, metrics)
        if self._run_context.clock() >= self._regressions_at:
            self._check_regressions()

    def request_snapshot_decision(
        self, step: int, since_step: int, metrics: Mapping[str, float | None], *, now: bool
    ) -> SnapshotDecision | None:
        """Return the league's decision about the next snapshot; None if there is none yet or no request is due.

        Args:
            step: Current step of the learner.
            since_step: Step of the last snapshot, 0 before the first.
            metrics: Metrics of the last update.
            now: Whether to ask now instead of at the league's polling interval.
        """
        if self._run_context.stopping() or not (now or self._run_context.clock() >= self._decision_at):
            return None
        answer = self._send_heartbeat(step, metrics, since_step)
        if answer is None:
            return None
        self._decision_at = self._run_context.clock() + answer.next_poll_s
        return answer.decisions[0] if answer.decisions else None

    def deliver(self) -> None:
        """Deliver the synced results of the spool."""
        self._deliver(self._session.report)
        self._deliver_at = self._run_context.clock() + DELIVERY_S

    def close(self, step: int, metrics: Mapping[str, float | None]) -> LastDelivery | None:
        """Deliver the last results, publish, send a last heartbeat and close the spool; None without a league."""
        if self._session.registration is None:
            self._disk.write("results", self._spool.close)
            return None
        calls = LastCalls(self._client, self._run_context)
        delivery = calls.deliver(self._spool, self._deliver, self._session.report)
        if not self._run_context.stopping():  # do not delay a shutdown by uploads
            calls.repeat("snapshots", self._publish_waiting, self._outbox.count_waiting)
        if metrics and not self._run_context.past_grace():
            self._send_heartbeat(step, metrics)
        self._disk.write("results", self._spool.close)
        return delivery

    def _deliver(self, report: Report) -> bool:
        return self._disk.write("the delivery state of results", lambda: self._spool.deliver(report))

    def _publish_waiting(self) -> bool:
        if self._session.registration is None:
            return False
        return self._disk.write("the list of published snapshots", lambda: self._outbox.publish(self._publish))

    def _publish(self, checkpoint: bytes, step: int, since_step: int | None) -> bool:
        player = None if self._run_context.stopping() else self._session.publish(checkpoint, step, since_step)
        if player is not None:
            self._console.print(f"published snapshot {player.name} of step {step:,}")
        return player is not None

    def _check_regressions(self) -> None:
        self._regressions_at = self._run_context.clock() + REGRESSIONS_S
        regressions = self._session.regressions()
        if regressions is not None:
            self._regression_alerts.handle(regressions)

    def _send_heartbeat(
        self, step: int, metrics: Mapping[str, float | None], since_step: int | None = None
    ) -> HeartbeatAnswer | None:
        self._heartbeat_at = self._run_context.clock() + self._session.heartbeat_s
        verdicts = [_verdict(alert) for alert in self.alerts]
        answer = self._session.heartbeat(step, dict(metrics), verdicts, since_step)
        registration = self._session.registration
        if answer is None:
            self._heartbeat_at = self._run_context.clock()  # retry as soon as the back-off ends
        elif registration is not None:
            self.commands.handle(answer, registration.worker_id)
        return answer


class LeagueAlerts:
    """Alarms of the league about opponents that the learner beat before and now loses to; each is printed once.

    Args:
        console: Prints alarms and their end.
    """

    def __init__(self, console: RunConsole) -> None:
        self._console = console
        self._active: dict[int, str] = {}

    def handle(self, regressions: Sequence[Regression]) -> None:
        """Print the alarms that are new, and those that have ended."""
        current = {each.opponent.player_id: each for each in regressions}
        for opponent, regression in current.items():
            if opponent not in self._active:
                self._console.print(_regression_line(regression), "yellow")
        for opponent, name in self._active.items():
            if opponent not in current:
                self._console.print(f"alarm cleared: {name}", "green")
        self._active = {opponent: each.opponent.name for opponent, each in current.items()}


def _regression_line(regression: Regression) -> str:
    before, now = (f"{each.score:.2f} of {each.matches} matches" for each in (regression.earlier, regression.recent))
    return (
        f"alarm: {regression.learner.name} loses to {regression.opponent.name}, which it used to defeat: score "
        f"{before}, then {now}; see `league player regressions`"
    )


def _verdict(alert: HealthAlert) -> HealthVerdict:
    """Convert an alert to its wire form, with texts cut to the league's limit."""
    return HealthVerdict(
        name=alert.name,
        severity=SEVERITIES[alert.rule.severity],
        since_update=alert.since,
        meaning=alert.meaning[:TEXT_MAX],
        evidence=alert.numbers[:TEXT_MAX],
        advice=alert.advice[:TEXT_MAX],
    )
