"""Workers of a league that is killed all the time: they remember every answer, to be compared with its books."""

import hashlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from league_scene import safetensors

from league import wire
from league.client import LeagueClient
from league.errors import LeagueError

ENVIRONMENT, SIGNATURE = "witnessed", "witnessed-1"
FIRST_SERVER_FAULT = 500
BUDGET = 6
BATCH = 3
AGAIN = 0.3
"""Share of the calls that are made twice, although they were answered."""
PUBLISH = 0.1
PAUSE_S = 0.02

T = TypeVar("T")
Key = tuple[str, int]


class _LeftError(Exception):
    """A call failed that nobody waits for any more."""


@dataclass
class Memory:
    """What the league has answered.

    Attributes:
        matches: The match of every result that it took.
        published: The checkpoint of every player that it took.
        broken: Answers that no worker should ever get, in words.
        answers: How many calls it answered.
        gaps_s: How long it took from the first attempt of a call that failed to the answer.
    """

    matches: dict[Key, int] = field(default_factory=dict)
    published: dict[int, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    answers: int = 0
    gaps_s: list[float] = field(default_factory=list)


class Witness:
    """Leases, reports and publishes in a thread of its own until it is stopped; it tries again what failed.

    Args:
        url: Of the league.
        name: Of its learner and its worker.
        rng: Chance of scores, and of what is sent twice.
        timeout_s: How long it waits for an answer.

    Attributes:
        memory: What it was answered.
        failures: Calls that were not answered, or by an error of the server's.
    """

    def __init__(self, url: str, name: str, rng: random.Random, timeout_s: float = 30.0) -> None:
        self._client, self._name, self._rng = LeagueClient(url, timeout_s=timeout_s), name, rng
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._contents = 0
        self.failures = 0
        self.memory = Memory()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def at_work(self) -> bool:
        """Whether it is neither stopped nor refused."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End once the present call is answered; it may have ended already."""
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            worker = self._until_answered(lambda: self._client.register_worker(self._worker))
            learner = self._until_answered(lambda: self._client.register_learner(self._learner))
            self._publish(learner.id)
            while not self._stopping.is_set():
                if self._rng.random() < PUBLISH:
                    self._publish(learner.id)
                for lease in self._lease(worker.id, learner.player_id):
                    self._play(worker.id, lease)
                self._stopping.wait(PAUSE_S)
        except _LeftError:
            return
        except LeagueError as error:
            self.memory.broken.append(f"{self._name} was refused: {error}")

    def _lease(self, worker_id: str, player_id: int) -> list[wire.Lease]:
        request = wire.TrainingLeases(
            kind="training", worker_id=worker_id, player_id=player_id, count=2, budget=BUDGET, self_play=False
        )
        return self._until_answered(lambda: self._client.lease(request)).items

    def _play(self, worker_id: str, lease: wire.Lease) -> None:
        for first in range(0, BUDGET, BATCH):
            results = [self._result(lease, sequence) for sequence in range(first, first + BATCH)]
            batch = wire.ResultBatch(worker_id=worker_id, results=results)
            for _ in range(1 + (self._rng.random() < AGAIN)):
                self._remember(self._until_answered(lambda batch=batch: self._client.report(batch)))
            self._stopping.wait(PAUSE_S)

    def _remember(self, answer: wire.ResultBatchAnswer) -> None:
        for item in answer.items:
            key = item.lease_id, item.sequence
            if item.status not in ("accepted", "duplicate") or item.match_id is None:
                self.memory.broken.append(f"result {key} was answered with {item.status}: {item.detail}")
            elif self.memory.matches.setdefault(key, item.match_id) != item.match_id:
                self.memory.broken.append(f"result {key} became match {item.match_id} as well")

    def _publish(self, learner_id: int) -> None:
        self._contents += 1
        data = safetensors(self._contents, signature=SIGNATURE, learner=self._name)
        sha256 = hashlib.sha256(data).hexdigest()
        player = wire.PlayerCreate(learner_id=learner_id, checkpoint=sha256, step=self._contents)
        self._until_answered(lambda: self._client.upload(data, sha256))
        answer = self._until_answered(lambda: self._client.publish(player))
        self.memory.published[answer.id] = sha256

    def _result(self, lease: wire.Lease, sequence: int) -> wire.Result:
        score = self._rng.choice((0.0, 0.5, 1.0))
        return wire.Result(
            lease_id=lease.lease_id,
            sequence=sequence,
            score=score,
            decisions=5,
            reason="decided",
            seed=lease.seed,
            learner_step=self._contents,
        )

    def _until_answered(self, call: Callable[[], T]) -> T:
        """Make a call until the league answers it, as every worker does.

        Raises:
            LeagueError: It answered, and refused.
            _LeftError: It did not answer, and this is to end.
        """
        began_s, failed = time.monotonic(), False
        while True:
            try:
                answer = call()
            except LeagueError as error:
                if error.status < FIRST_SERVER_FAULT:
                    raise
                failed = True
                self.failures += 1
                if self._stopping.wait(PAUSE_S):
                    raise _LeftError from error
                continue
            if failed:
                self.memory.gaps_s.append(time.monotonic() - began_s)
            self.memory.answers += 1
            return answer

    @property
    def _worker(self) -> wire.WorkerCreate:
        return wire.WorkerCreate(name=self._name, kind="trainer", version="1", signatures=[SIGNATURE])

    @property
    def _learner(self) -> wire.LearnerCreate:
        return wire.LearnerCreate(name=self._name, role="main", environment=ENVIRONMENT, signature=SIGNATURE)
