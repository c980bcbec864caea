"""What a restart goes on from: the state of a run's parts, written after every result that it counts."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena.environments import EnvironmentSpec
from arena.policies import save as save_policy
from trainer import state
from trainer.disk import Disk
from trainer.folder import RunFolder
from trainer.learner import Learner
from trainer.leases import Assignment, LeaseBook
from trainer.lessons import Course
from trainer.membership import Attachment, Membership
from trainer.metrics import Scoreboard
from trainer.publishing import Publisher
from trainer.spool import Spool
from trainer.state import SavedState


@dataclass(frozen=True)
class Parts:
    """What changes as a run goes on, apart from its environments. A game without a curriculum has no course."""

    learner: Learner
    scores: Scoreboard
    course: Course | None
    publisher: Publisher
    membership: Membership
    book: LeaseBook
    spool: Spool


class Archive:
    """Writes the state of a run's parts into its folder, and takes it up again.

    Args:
        folder: The run's.
        spec: Of what is played.
        name: Of the learner.
        parts: What is saved.
        disk: Writes where the disk may be full.

    Attributes:
        step: Environment steps of the state that was saved last.
        behind: Whether the disk refused the last one.
    """

    def __init__(self, folder: RunFolder, spec: EnvironmentSpec, name: str, parts: Parts, disk: Disk) -> None:
        self._folder, self._spec, self._name, self._parts, self._disk = folder, spec, name, parts, disk
        self.step, self.behind = 0, False

    def save(self, pending: Iterable[Iterable[Assignment]], others: Sequence[dict[str, Any]] = ()) -> bool:
        """Write the state down, after every result that it counts; false while the disk refuses.

        Args:
            pending: For every environment, matches that were dealt and are not finished.
            others: What a restart needs of the other ranks that learn with this one.
        """
        parts, counters = self._parts, self._counters(pending) | {"ranks": list(others)}
        saved = self._disk.write("results", parts.spool.sync) and self._disk.write(
            "the run's state", lambda: state.save(self._folder.state, parts.learner.tensors(), counters)
        )
        self.behind = not saved
        if saved:
            self.step = parts.publisher.saved_step = parts.learner.steps
            policy, network = self._folder.policy, parts.learner.published
            self._disk.write("the policy", lambda: save_policy(policy, network, self._spec))
            self._disk.write("a new file of results", parts.spool.settle)
        return saved

    def restore(self, saved: SavedState) -> None:
        """Go on from what was saved.

        Raises:
            StateError: It does not fit the learner.
        """
        parts, counters = self._parts, saved.counters
        parts.learner.restore(saved.tensors, counters["steps"], counters["updates"])
        parts.learner.began_step = counters.get("began_step", 0)
        parts.scores.episodes = counters["episodes"]
        parts.scores.self_play_episodes = counters.get("self_play_episodes", 0)
        if parts.course is not None:
            parts.course.advance(counters.get("taught_at", parts.scores.episodes), ())
        parts.publisher.resume(counters["snapshot_step"], parts.learner.steps)
        parts.book.restore(counters["leases"], parts.spool.highest_sequences())
        self.step = parts.learner.steps

    def _counters(self, pending: Iterable[Iterable[Assignment]]) -> dict[str, Any]:
        parts, attachment = self._parts, self._parts.membership.attachment
        return {
            "signature": self._spec.signature,
            "learner": self._name,
            "steps": parts.learner.steps,
            "updates": parts.learner.updates,
            "began_step": parts.learner.began_step,
            "episodes": parts.scores.episodes,
            "self_play_episodes": parts.scores.self_play_episodes,
            "taught_at": 0 if parts.course is None else parts.course.taught_at,
            "snapshot_step": parts.publisher.last_step,
            "attachment": None if attachment is None else asdict(attachment),
            "leases": parts.book.saved(pending),
        }


def attachment_of(saved: SavedState | None) -> Attachment | None:
    """How the league knew a saved run; None where it never did."""
    known = None if saved is None else saved.counters["attachment"]
    return Attachment(**known) if known else None
