"""A league that tests play with: a trainer, an evaluator, a learner, and short ways to publish, lease and report."""

import hashlib
import json
import struct
from typing import Any

import pytest

from league import wire
from league.client import LeagueClient

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
"""For a test whose outcome the database has no part in."""

ENVIRONMENT = "rps"
SIGNATURE = "rps-1"


def safetensors(content: int = 0, **metadata: str) -> bytes:
    """Make a checkpoint of two numbers."""
    tensors = struct.pack("<2f", content, 0.0)
    header = json.dumps(
        {"__metadata__": metadata, "weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, len(tensors)]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header + tensors


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def result(lease: wire.Lease, sequence: int = 0, score: float = 1.0, **changes: Any) -> wire.Result:
    """A finished match of a lease."""
    fields = {"decisions": 5, "reason": "decided", "seed": lease.seed, "learner_step": 7} | changes
    return wire.Result(lease_id=lease.lease_id, sequence=sequence, score=score, **fields)


class Scene:
    """One learner of one environment, with the workers that play it."""

    def __init__(self, client: LeagueClient, environment: str = ENVIRONMENT, signature: str = SIGNATURE) -> None:
        self.client = client
        self.environment = environment
        self.signature = signature
        self.trainer = self.worker("trainer-1", "trainer")
        self.evaluator = self.worker("evaluator-1", "evaluator")
        self.learner = client.register_learner(
            wire.LearnerCreate(name="main", role="main", environment=environment, signature=signature)
        )

    def worker(self, name: str, kind: wire.WorkerKind) -> wire.Worker:
        request = wire.WorkerCreate(name=name, kind=kind, version="1", signatures=[self.signature])
        return self.client.register_worker(request)

    def publish(
        self, step: int, content: int | None = None, learner: wire.Learner | None = None, run_id: int | None = None
    ) -> wire.Player:
        """Upload a checkpoint and publish it."""
        data = safetensors(step if content is None else content, signature=self.signature)
        self.client.upload(data, sha256(data))
        learner_id = (learner or self.learner).id
        return self.client.publish(
            wire.PlayerCreate(learner_id=learner_id, checkpoint=sha256(data), step=step, run_id=run_id)
        )

    def baseline(self) -> wire.Player:
        return self.client.players(self.environment, kind="baseline").items[0]

    def lease(
        self, count: int = 1, budget: int = 1, worker: wire.Worker | None = None, *, self_play: bool = True
    ) -> list[wire.Lease]:
        """Lease opponents for the learner."""
        request = wire.TrainingLeases(
            kind="training",
            worker_id=(worker or self.trainer).id,
            player_id=self.learner.player_id,
            count=count,
            budget=budget,
            self_play=self_play,
        )
        return self.client.lease(request).items

    def opponent_leases(self, count: int, budget: int = 1) -> list[wire.Lease]:
        """Lease until there are `count` leases against somebody else."""
        found: list[wire.Lease] = []
        while len(found) < count:
            found += [lease for lease in self.lease(2 * count, budget) if lease.branch != "self-play"]
        return found[:count]

    def rating_leases(self, count: int, budget: int = 1, worker: wire.Worker | None = None) -> list[wire.Lease]:
        """Lease pairs of frozen players, as the evaluator unless another worker is given."""
        request = wire.RatingLeases(
            kind="rating",
            worker_id=(worker or self.evaluator).id,
            environment=self.environment,
            count=count,
            budget=budget,
        )
        return self.client.lease(request).items

    def report(self, *results: wire.Result, worker: wire.Worker | None = None) -> list[wire.ResultAnswer]:
        """Report as the trainer."""
        batch = wire.ResultBatch(worker_id=(worker or self.trainer).id, results=list(results))
        return self.client.report(batch).items

    def train(self, count: int, learner_score: float = 1.0) -> None:
        """Play training matches against others, each ending with this score of the learner."""
        leases = self.opponent_leases(count)
        self.report(*(result(lease, score=seen_from_home(lease, learner_score)) for lease in leases))

    def evaluate(self, count: int, winner: int) -> None:
        """Play rating matches that one player wins; the others draw among themselves."""
        finished = [
            result(lease, score={lease.home.player_id: 1.0, lease.away.player_id: 0.0}.get(winner, 0.5))
            for lease in self.rating_leases(count)
        ]
        self.report(*finished, worker=self.evaluator)

    def matches(self) -> int:
        """Count the matches of the log."""
        seen = {
            match.id
            for player in self.client.players(self.environment).items
            for match in self.client.matches(player.id, limit=1000).items
        }
        return len(seen)


def seen_from_home(lease: wire.Lease, learner_score: float) -> float:
    return learner_score if lease.learner_side == "home" else 1.0 - learner_score
