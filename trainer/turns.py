"""When the learner leaves a snapshot, and begins anew behind it, as the league decides.

The league is asked from a part of the limit on. A decision is carried out between two rollouts: the snapshot is written
down, the learner begins anew, and both are in the next saved state together. A run that is killed before that asks
again and hears the same. While the league is away a snapshot is left at the limit, and nothing begins anew. A run that
ends leaves its last weights.
"""

import logging
from collections.abc import Mapping

from arena.errors import ArenaError, CheckpointError
from arena.policies import ActorCritic
from arena.policies.checkpoint import decode
from league.errors import LeagueError
from league.wire import SnapshotDecision
from trainer.correspondence import Correspondence
from trainer.disk import Disk
from trainer.learner import Learner
from trainer.membership import Membership
from trainer.publishing import Publisher
from trainer.settings import TrainerConfig
from trainer.terminal import Terminal

logger = logging.getLogger(__name__)


class Turns:
    """One learner's snapshots.

    Args:
        config: Has the limit, and from when on the league is asked.
        learner: Whose.
        publisher: Takes them.
        letters: Asks the league.
        membership: Fetches weights.
        disk: Writes where the disk may be full.
        terminal: Tells a person.
    """

    def __init__(
        self,
        config: TrainerConfig,
        learner: Learner,
        publisher: Publisher,
        letters: Correspondence,
        membership: Membership,
        *,
        disk: Disk,
        terminal: Terminal,
    ) -> None:
        self._learner, self._publisher, self._letters, self._membership = learner, publisher, letters, membership
        self._disk, self._terminal = disk, terminal
        numbers = config.role_numbers
        self._steps, self._limit = numbers["snapshot_steps"], numbers["snapshot_limit"]
        self._pending: SnapshotDecision | None = None

    def follow(self, metrics: Mapping[str, float | None]) -> bool:
        """Leave a snapshot if it is due, and begin anew if that is; whether there is something to save."""
        step, since_step = self._learner.steps, self._publisher.last_step
        if step - since_step < self._steps:
            return False
        late = step - since_step >= self._limit
        decision = self._pending or self._letters.ask(step, since_step, metrics, now=late)
        if decision is None:
            return late and self._take(step, None)
        done = self._carry_out(decision, step)
        self._pending = None if done else decision
        return done

    def finish(self) -> bool:
        """Leave the last weights of a run that is over as a snapshot, if none has them; false while the disk refuses.

        Nobody is asked, and nothing begins anew: a run that goes on has its next decision from here on.
        """
        step = self._learner.steps
        return step == self._publisher.last_step or self._take(step, None)

    def _carry_out(self, decision: SnapshotDecision, step: int) -> bool:
        if not decision.reset:
            return self._take(step, decision.since_step)
        start = None
        if decision.start is not None:
            try:
                data = self._membership.download(decision.start)
                if data is None:  # the league is away
                    return False
                start = self._fitting(data, decision.start)
            except (LeagueError, ArenaError) as error:
                logger.warning(
                    "the learner begins anew with its first weights, not those of %s: %s", decision.start, error
                )
        if not self._take(step, decision.since_step):
            return False
        self._learner.begin_anew(start)
        whose = "its first weights" if start is None else f"those of {decision.start}"
        self._terminal.say(f"the learner begins anew with {whose} at step {step:,}: {decision.reason}")
        return True

    def _take(self, step: int, since_step: int | None) -> bool:
        return self._disk.write("a snapshot", lambda: self._publisher.take(self._learner.published, step, since_step))

    def _fitting(self, data: bytes, sha256: str) -> ActorCritic:
        """Load weights that the learner's network can take.

        Raises:
            CheckpointError: They are not, or are damaged.
        """
        named = self._learner.network.architecture.module
        network = decode(data, source=sha256, modules=[named.path] if named else []).network
        if network.architecture != self._learner.network.architecture:
            raise CheckpointError(f"{sha256} has another network than this run's [network] section: give both the same")
        return network
