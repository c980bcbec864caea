"""Rollout collector: plays the learner against its assigned opponents and fills one rollout buffer per call.

`collect` calls `VectorWorker.step` for each batch of environments and each step. The worker stores observations,
actions and rewards in the buffer; the collector reports finished matches and assigns the next ones.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from arena.environments.base import Environment
from arena.policies import ActorCritic
from trainer.config.algorithm import CompileBackend
from trainer.opponents.assignment import MatchAssignment
from trainer.process_group import SINGLE_PROCESS, ProcessGroup, any_of
from trainer.rollout.buffer import RolloutBuffer
from trainer.rollout.thread_team import ThreadTeam
from trainer.rollout.vector_worker import FinishedMatches, VectorWorker


class CollectedMatch(NamedTuple):
    """Result of a finished match.

    Attributes:
        assignment: Opponent, side and lease of the match.
        score: Home's score in [0, 1].
        reason: Reason of its end.
        decisions: Length in steps.
        mean_return: Undiscounted return, averaged over the learner's agents; in self-play over the home side's.
        components: The same for each component of the reward, by name; empty if the environment does not itemise it.
    """

    assignment: MatchAssignment
    score: float
    reason: str
    decisions: int
    mean_return: float
    components: Mapping[str, float]

    @property
    def learner_score(self) -> float:
        """The learner's score in [0, 1]."""
        return 1.0 - self.score if self.assignment.away else self.score


@runtime_checkable
class MatchSource(Protocol):
    """Source of match assignments, such as the lease scheduler."""

    def next_match(self, row: int) -> MatchAssignment:
        """Return the next match of an environment."""
        ...


class RolloutCollector:
    """Collects rollouts from E environments with the learner's current weights.

    Every environment holds its current match and its next one. When a match ends, only this environment's opponent is
    replaced. When an episode ends (a match, or one round of it), only this environment's recurrent states are reset.
    Within an episode recurrent state carries over from one rollout to the next.

    Environments may come in several batches. Batches are stepped in parallel, one thread each. If the environments
    step in worker processes, one thread acts in one batch while the processes step the others. Results do not depend
    on timing: everything that batches share is done in their order, after each step.

    Args:
        environments: Batches of matches, E in all, numbered consecutively.
        network: The learner's network.
        match_source: Source of match assignments.
        on_match: Called with every finished match.
        rng: Source of action noise for the learner and the opponents.
        self_play: Numbers of the environments where the learner plays both sides.
        device_cache_bytes: Weights that stay on the device for opponents that are not playing.
        process_group: Ranks of the learner, each with its own environments.
        compile_backend: Backend of torch.compile for the learner's decisions, where there is no native code for them.

    Attributes:
        workers: One vector worker per batch.
    """

    def __init__(
        self,
        environments: Sequence[Environment],
        network: ActorCritic,
        match_source: MatchSource,
        on_match: Callable[[CollectedMatch], None],
        rng: torch.Generator,
        *,
        self_play: Set[int],
        device_cache_bytes: int,
        process_group: ProcessGroup = SINGLE_PROCESS,
        compile_backend: CompileBackend = CompileBackend.NONE,
    ) -> None:
        self._match_source, self._on_match, self._rng = match_source, on_match, rng
        self._process_group, self._device = process_group, network.observation_mean.device
        self.workers: list[VectorWorker] = []
        num_envs, cache_bytes = 0, device_cache_bytes // len(environments)
        for env in environments:
            worker = VectorWorker(
                env,
                network,
                first=num_envs,
                self_play=self_play,
                device_cache_bytes=cache_bytes,
                compile_backend=compile_backend,
            )
            self.workers.append(worker)
            num_envs += env.num_envs
        self._pipelined = len(self.workers) > 1 and all(worker.is_async for worker in self.workers)
        self._threads = ThreadTeam(1 if self._pipelined else len(self.workers))
        # One batch draws from the run's generator itself, several from generators that it seeds for every chunk.
        self._rngs = [rng] if len(self.workers) == 1 else [torch.Generator(rng.device) for _ in self.workers]
        self._matches = [deque([match_source.next_match(row)]) for row in range(num_envs)]
        self._reset_environments()

    @property
    def rows(self) -> int:
        """R, the learner's rows in all environments."""
        return sum(worker.agents.rows for worker in self.workers)

    @property
    def current_matches(self) -> list[MatchAssignment]:
        """The running match of every environment."""
        return [matches[0] for matches in self._matches]

    @property
    def pending(self) -> list[tuple[MatchAssignment, ...]]:
        """Unfinished matches of every environment: the running one and, unless the source failed, the next one."""
        return [tuple(matches) for matches in self._matches]

    @torch.inference_mode()
    def collect(self, buffer: RolloutBuffer, should_stop: Callable[[], bool]) -> bool:
        """Fill a rollout buffer.

        Returns:
            False if `should_stop` was true on any rank; the buffer is then incomplete.

        Raises:
            TrainerError: An observation or a step does not match the environment's spec.
            ArenaError: An observation or a reward is NaN or infinite, or the environment tried to exit the program.
        """
        buffers = self._split_buffer(buffer)
        for worker in self.workers:
            worker.refresh_weights()
        step = self._step_pipelined if self._pipelined else self._step_parallel
        with self._threads:
            for t in range(len(buffer.reward)):
                chunk_start = t % buffer.bptt_horizon == 0
                if self._agree_to_stop(should_stop, chunk_start=chunk_start):
                    self._drain_pipeline(buffers, t)
                    return False
                if chunk_start:
                    self._seed_worker_rngs()
                step(buffers, t)
            # The value after the last step needs its observation.
            self._drain_pipeline(buffers, len(buffer.reward))
            self._for_each_worker(partial(self._finish_rollout, buffers))
        return True

    def _step_parallel(self, buffers: Sequence[RolloutBuffer], t: int) -> None:
        """Step all workers at the same time."""
        self._for_each_worker(partial(self._step, buffers, t))
        for worker in self.workers:
            self._finish_matches(worker)

    def _step_pipelined(self, buffers: Sequence[RolloutBuffer], t: int) -> None:
        """For each worker, receive step t - 1 and send step t, while the environments of the others are stepped.

        Apart from timing this equals stepping the workers in turn: they share nothing but the match source, which
        `_finish_matches` calls in their order.
        """
        for index, worker in enumerate(self.workers):
            self._receive(buffers, t - 1, index)
            worker.send(buffers[index], t, self._rngs[index])

    def _drain_pipeline(self, buffers: Sequence[RolloutBuffer], t: int) -> None:
        """Receive step t - 1, if steps are pipelined."""
        if self._pipelined:
            for index in range(len(self.workers)):
                self._receive(buffers, t - 1, index)

    def _receive(self, buffers: Sequence[RolloutBuffer], t: int, index: int) -> None:
        if t >= 0:
            self.workers[index].receive(buffers[index], t)
            self._finish_matches(self.workers[index])

    def _for_each_worker(self, work: Callable[[int], None]) -> None:
        """Call a function with the index of every worker, in parallel if each has a thread."""
        if not self._pipelined:
            self._threads.run_all(work)
            return
        for index in range(len(self.workers)):
            work(index)

    def _step(self, buffers: Sequence[RolloutBuffer], t: int, index: int) -> None:
        self.workers[index].step(buffers[index], t, self._rngs[index])

    def _finish_rollout(self, buffers: Sequence[RolloutBuffer], index: int) -> None:
        self.workers[index].bootstrap(buffers[index])
        self.workers[index].check_masks(buffers[index])

    def _agree_to_stop(self, should_stop: Callable[[], bool], *, chunk_start: bool) -> bool:
        """Check for a stop: before every step with one rank, else before every chunk, because ranks must stop together.

        A rank that stopped alone would leave the others waiting in their next collective call.
        """
        if self._process_group.world_size == 1:
            return should_stop()
        return chunk_start and any_of(self._process_group, should_stop(), self._device)

    def _split_buffer(self, buffer: RolloutBuffer) -> list[RolloutBuffer]:
        """View of each worker's rows of a buffer."""
        buffers, first = [], 0
        for worker in self.workers:
            buffers.append(buffer.select_rows(slice(first, first + worker.agents.rows)))
            first += worker.agents.rows
        return buffers

    def _seed_worker_rngs(self) -> None:
        """Seed the workers' generators for a chunk from the run's generator, the only one that is saved."""
        if len(self.workers) > 1:
            for rng in self._rngs:
                # torch refuses a generator of another device than that of the tensor, which is the CPU by default
                seed = torch.randint(2**63 - 1, (), generator=self._rng, device=self._rng.device)
                rng.manual_seed(int(seed))

    def _reset_environments(self) -> None:
        for worker in self.workers:
            rows = range(worker.environment.num_envs)
            self._start_matches(worker, rows)
            worker.reset([self._matches[worker.first + row][0].seed for row in rows])
        for worker in self.workers:
            self._queue_next_matches(worker, range(worker.environment.num_envs))

    def _finish_matches(self, worker: VectorWorker) -> None:
        """Report a worker's finished matches, start the queued ones and queue the next."""
        if (finished := worker.finished) is None:
            return
        rows = finished.rows.tolist()
        queues = [self._matches[worker.first + row] for row in rows]
        matches = _collected_matches(worker, finished, [queue[0] for queue in queues])
        for queue, match in zip(queues, matches, strict=True):
            self._on_match(match)
            queue.popleft()
        self._start_matches(worker, rows)
        self._queue_next_matches(worker, rows)

    def _start_matches(self, worker: VectorWorker, rows: Sequence[int]) -> None:
        worker.assign_matches({row: self._matches[worker.first + row][0] for row in rows})

    def _queue_next_matches(self, worker: VectorWorker, rows: Sequence[int]) -> None:
        seeds = []
        for row in rows:
            match = self._match_source.next_match(worker.first + row)
            # One match ahead, because environments reset by themselves at an end and need the next seed before.
            self._matches[worker.first + row].append(match)
            seeds.append(match.seed)
        worker.set_next_seeds(rows, seeds)


def _collected_matches(
    worker: VectorWorker, finished: FinishedMatches, assignments: Sequence[MatchAssignment]
) -> list[CollectedMatch]:
    """Combine the finished matches of a worker with their assignments."""
    reasons, names = worker.environment.spec.reasons, worker.returns.names
    means = worker.returns.mean_per_agent(finished.sums, np.array([each.away for each in assignments]))
    return list(
        map(
            CollectedMatch,
            assignments,
            finished.scores.tolist(),
            [reasons[reason] for reason in finished.reasons.tolist()],
            finished.decisions.tolist(),
            means[:, 0].tolist(),
            [dict(zip(names, each, strict=True)) for each in means[:, 1:].tolist()],
        )
    )
