"""Gates as tests open and play them."""

from collections.abc import Sequence
from typing import Any

from league_scene import ENVIRONMENT, Scene, result

from league import wire
from league.db.engine import Database
from league.services.gates.sprt import close_decided

Two = tuple[wire.Player, wire.Player]


def open_gate(scene: Scene, two: Two, **changes: Any) -> wire.Gate:
    fields = {"elo0": 0.0, "elo1": 100.0} | changes
    return scene.client.open_gate(wire.GateCreate(candidate_id=two[0].id, champion_id=two[1].id, **fields))


def outcome(lease: wire.Lease, candidate: wire.Player, score: float, sequence: int = 0) -> wire.Result:
    """A match in which the candidate has this score."""
    home = score if lease.home.player_id == candidate.id else 1.0 - score
    return result(lease, sequence, home)


def play(scene: Scene, candidate: wire.Player, scores: Sequence[float], worker: wire.Worker | None = None) -> None:
    """Lease as many pairs as there are scores, and play each so that the candidate has that score in both matches."""
    by = worker or scene.evaluator
    request = wire.RatingLeases(
        kind="rating", worker_id=by.id, environment=ENVIRONMENT, count=2 * len(scores), budget=1
    )
    seeds: dict[int, list[wire.Lease]] = {}
    for lease in sorted(scene.client.lease(request).items, key=lambda lease: lease.lease_id):
        seeds.setdefault(lease.seed, []).append(lease)
    finished = [
        outcome(lease, candidate, score) for pair, score in zip(seeds.values(), scores, strict=True) for lease in pair
    ]
    scene.report(*finished, worker=by)


def leased(scene: Scene, worker: wire.Worker, count: int) -> list[wire.Lease]:
    request = wire.RatingLeases(kind="rating", worker_id=worker.id, environment=ENVIRONMENT, count=count, budget=1)
    return scene.client.lease(request).items


def judged(scene: Scene, database: Database, time: Any) -> list[wire.Gate]:
    """Close the gates whose time has come."""
    return [scene.client.gate(each.gate_id) for each in close_decided(database, time.now)]
