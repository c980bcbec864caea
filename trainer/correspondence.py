"""What a trainer and the league tell each other between rollouts: results, snapshots, signs of life."""

from collections.abc import Mapping, Sequence

from league.wire import HealthVerdict, HeartbeatAnswer, Result, ResultBatchAnswer, SnapshotDecision
from league.wire import Severity as ToldSeverity
from trainer.alarms import Alarms
from trainer.collector import Episode
from trainer.disk import Disk
from trainer.health import Severity, Verdict
from trainer.membership import Membership
from trainer.orders import Orders
from trainer.publishing import Publisher
from trainer.spool import Spool
from trainer.surroundings import Surroundings
from trainer.terminal import Terminal

DELIVERY_S = 1.0
"""How often results are delivered: where updates are shorter, a call each would cost the league more than they say."""

SEVERITIES: Mapping[Severity, ToldSeverity] = {
    Severity.HINT: "hint",
    Severity.WARNING: "warning",
    Severity.ALARM: "alarm",
}

WORDS_MAX = 500
"""Characters of each that the league takes."""

ALARMS_S = 60.0
"""How often the league is asked for alarms: they change with its rating periods."""


class Correspondence:
    """One learner's, with a league that may be away: what it has not got waits in the run folder.

    Args:
        membership: How the league knows the learner.
        spool: Results on their way.
        publisher: Snapshots on theirs.
        disk: Writes where the disk may be full.
        terminal: Tells a person.
        outside: Time and signals.

    Attributes:
        orders: What the league has said of this worker.
        verdicts: What is wrong with training now, the worst first; told with every sign of life.
    """

    def __init__(
        self,
        membership: Membership,
        spool: Spool,
        publisher: Publisher,
        *,
        disk: Disk,
        terminal: Terminal,
        outside: Surroundings,
    ) -> None:
        self._membership, self._spool, self._publisher = membership, spool, publisher
        self._disk, self._terminal, self._outside = disk, terminal, outside
        self._deliver_at = self._beat_at = self._ask_at = self._look_at = outside.clock()
        self._alarms = Alarms(terminal)
        self.orders = Orders(terminal)
        self.verdicts: Sequence[Verdict] = ()

    def take_in(self, episode: Episode, learner_step: int) -> None:
        """Write a match down; without a lease it is nobody's business."""
        played = episode.assignment
        if played.lease is not None:
            self._spool.append(
                Result(
                    lease_id=played.lease.lease_id,
                    sequence=played.sequence,
                    score=episode.score,
                    decisions=episode.decisions,
                    reason=episode.reason,
                    seed=played.seed,
                    learner_step=learner_step,
                )
            )

    def exchange(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Publish what waits; when it is due, deliver, say how far training has come and look for alarms."""
        if self._outside.clock() >= self._deliver_at:
            self.deliver()
        self._publish_waiting()
        if self._outside.clock() >= self._beat_at:
            self._beat(step, metrics)
        if self._outside.clock() >= self._look_at:
            self._look()

    def ask(
        self, step: int, since_step: int, metrics: Mapping[str, float | None], *, now: bool
    ) -> SnapshotDecision | None:
        """Ask whether a snapshot is due, as often as the league wants to be asked, or now; None while it is not known.

        Args:
            step: How far training has come.
            since_step: Step of the last snapshot, 0 before the first.
            metrics: Of the last update.
            now: Whether the limit is reached.
        """
        if self._outside.stopping() or not (now or self._outside.clock() >= self._ask_at):
            return None
        answer = self._beat(step, metrics, since_step)
        if answer is None:
            return None
        self._ask_at = self._outside.clock() + answer.next_poll_s
        return answer.decisions[0] if answer.decisions else None

    def deliver(self) -> None:
        """Send results; when it is high time to leave, no more of them."""

        def report(results: list[Result]) -> ResultBatchAnswer | None:
            return None if self._outside.late() else self._membership.report(results)

        self._disk.write("how far results are delivered", lambda: self._spool.deliver(report))
        self._deliver_at = self._outside.clock() + DELIVERY_S

    def part(self, step: int, metrics: Mapping[str, float | None]) -> int:
        """Deliver and publish once more, say how far it went, and close.

        Returns:
            The bytes of results that wait for the next time.
        """
        self.deliver()
        self._publish_waiting()
        if metrics and not self._outside.late():
            self._beat(step, metrics)
        waiting = self._spool.undelivered()
        self._disk.write("results", self._spool.close)
        return waiting

    def _publish_waiting(self) -> None:
        self._disk.write("which snapshots are published", lambda: self._publisher.publish(self._publish))

    def _publish(self, checkpoint: bytes, step: int, since_step: int | None) -> bool:
        player = None if self._outside.stopping() else self._membership.publish(checkpoint, step, since_step)
        if player is not None:
            self._terminal.say(f"published snapshot {player.name} of step {step:,}")
        return player is not None

    def _look(self) -> None:
        self._look_at = self._outside.clock() + ALARMS_S
        regressions = self._membership.regressions()
        if regressions is not None:
            self._alarms.heed(regressions)

    def _beat(
        self, step: int, metrics: Mapping[str, float | None], since_step: int | None = None
    ) -> HeartbeatAnswer | None:
        self._beat_at = self._outside.clock() + self._membership.heartbeat_s
        wrong = [_told(verdict) for verdict in self.verdicts]
        answer, known = self._membership.beat(step, dict(metrics), wrong, since_step), self._membership.attachment
        if answer is not None and known is not None:
            self.orders.heed(answer, known.worker_id)
        return answer


def _told(verdict: Verdict) -> HealthVerdict:
    """A verdict as the league keeps it, which bounds words."""
    symptom = verdict.symptom
    return HealthVerdict(
        name=verdict.name,
        severity=SEVERITIES[symptom.severity],
        since_update=verdict.since,
        meaning=symptom.meaning[:WORDS_MAX],
        evidence=verdict.numbers[:WORDS_MAX],
        advice=symptom.advice[:WORDS_MAX],
    )
