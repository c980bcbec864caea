"""Saves the state that a restart resumes from, always after the results that it counts."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena.environments import EnvironmentSpec
from arena.policies import save as save_policy
from league.client.result_spool import ResultSpool
from trainer.algorithms import Algorithm
from trainer.checkpointing import format as state_format
from trainer.checkpointing.format import SavedState
from trainer.checkpointing.run_directory import RunDirectory
from trainer.disk_retry import DiskRetry
from trainer.league_client.leases import LeaseScheduler
from trainer.league_client.session import LeagueSession, LearnerRegistration
from trainer.league_client.snapshots import SnapshotOutbox
from trainer.monitoring.metrics import MatchStatistics
from trainer.opponents.assignment import MatchAssignment
from trainer.rollout.curriculum import CurriculumSchedule


@dataclass(frozen=True)
class SavedComponents:
    """The objects of a run whose state is saved; `curriculum` is None in a run without one."""

    learner: Algorithm
    statistics: MatchStatistics
    curriculum: CurriculumSchedule | None
    outbox: SnapshotOutbox
    league_session: LeagueSession
    leases: LeaseScheduler
    spool: ResultSpool


class StateSaver:
    """Saves and restores the state of a run.

    Args:
        folder: The run directory.
        spec: Specification of the environment.
        learner_name: Name of the learner.
        components: Objects whose state is saved.
        disk: Retries writes while the disk is full.

    Attributes:
        step: Environment step of the last saved state.
        retry_due: Whether the last save failed because the disk was full.
    """

    def __init__(
        self,
        folder: RunDirectory,
        spec: EnvironmentSpec,
        learner_name: str,
        components: SavedComponents,
        disk: DiskRetry,
    ) -> None:
        self._folder, self._spec, self._learner_name, self._disk = folder, spec, learner_name, disk
        self._components = components
        self.step, self.retry_due = 0, False

    def save_results(self) -> bool:
        """Write the results of finished matches to the spool; return False if the disk is full."""
        return self._disk.write("results", self._components.spool.sync)

    def save(self, pending: Iterable[Iterable[MatchAssignment]], rank_states: Sequence[dict[str, Any]] = ()) -> bool:
        """Save the state after the results that it counts; return False if the disk is full.

        Args:
            pending: Assigned but unfinished matches of each environment.
            rank_states: States of the other ranks.
        """
        learner, counters = self._components.learner, self._counters(pending) | {"ranks": list(rank_states)}
        # Results first: a state that counts results which are not on disk would lose them in a crash.
        saved = self.save_results() and self._disk.write(
            "the run's state", lambda: state_format.save(self._folder.state, learner.tensors(), counters)
        )
        self.retry_due = not saved
        if saved:
            self.step = self._components.outbox.saved_step = learner.steps
            self._disk.write("the policy", lambda: save_policy(self._folder.policy, learner.published, self._spec))
            # After the state: a restart from it needs no sequences of earlier files.
            self._disk.write("a new file of results", self._components.spool.rotate)
        return saved

    def restore(self, saved: SavedState) -> None:
        """Restore all components.

        Raises:
            StateError: The state does not fit the learner.
        """
        components, counters = self._components, saved.counters
        components.learner.restore(saved.tensors, counters["steps"], counters["updates"])
        components.learner.began_step = counters["began_step"]
        components.statistics.episodes = counters["episodes"]
        components.statistics.self_play_episodes = counters["self_play_episodes"]
        if components.curriculum is not None:
            components.curriculum.advance(counters["taught_at"], ())
        components.outbox.resume(counters["snapshot_step"], components.learner.steps)
        components.leases.restore(counters["leases"], components.spool.highest_sequences())
        self.step = components.learner.steps

    def _counters(self, pending: Iterable[Iterable[MatchAssignment]]) -> dict[str, Any]:
        components, registration = self._components, self._components.league_session.registration
        return {
            "signature": self._spec.signature,
            "learner": self._learner_name,
            "steps": components.learner.steps,
            "updates": components.learner.updates,
            "began_step": components.learner.began_step,
            "episodes": components.statistics.episodes,
            "self_play_episodes": components.statistics.self_play_episodes,
            "taught_at": 0 if components.curriculum is None else components.curriculum.stage_start,
            "snapshot_step": components.outbox.last_step,
            "attachment": None if registration is None else asdict(registration),
            "leases": components.leases.saved(pending),
        }


def saved_registration(saved: SavedState | None) -> LearnerRegistration | None:
    """The league's ids of a saved run; None if it was never registered."""
    known = None if saved is None else saved.counters["attachment"]
    return LearnerRegistration(**known) if known else None
