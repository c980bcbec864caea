"""Workers that come, lease, fetch opponents, report, beat, and drop out, each by the clock of a faster world."""

import asyncio
import hashlib
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors.numpy import save

from studies.fleet_simulation.pace import Pace
from benchmarks.server.leases import ENVIRONMENT, LEASES_PATH, RESULTS_PATH, result_batch
from benchmarks.server.open_loop import OpenLoopLoad
from league import wire
from league.client import LeagueClient

WORKERS_PATH = f"{wire.PREFIX}/workers"
STANDINGS_PATH = f"{wire.PREFIX}/standings?limit=100"


@dataclass
class Fleet:
    """Simulated workers over one server.

    Args:
        arrivals: Their calls.
        pace: How each lives, in its own time.
        speed: Seconds of its time to one of ours, > 0.
        learners: Ids of the learners, and of each one's player.
        end_s: When nobody calls any more, in our seconds since the beginning.
        seed: Of all chance.

    Attributes:
        sent: Results, by what became of them.
        drawn: Leases with an opponent that has a checkpoint, and those of which it was fetched.
    """

    arrivals: OpenLoopLoad
    pace: Pace
    speed: float
    learners: list[tuple[int, int]]
    end_s: float
    seed: int
    sent: Counter[str] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)

    async def live(self, workers: int, ramp_s: float) -> None:
        """Let so many workers live, and create_league look; all have come after `ramp_s`."""
        chance = np.random.default_rng(self.seed)
        came_s = chance.uniform(0.0, ramp_s, workers)
        await asyncio.gather(
            self._look(),
            *(self._publish(place) for place in range(len(self.learners))),
            *(self._stay(number, float(at)) for number, at in enumerate(came_s)),
        )

    async def _stay(self, number: int, at: float) -> None:
        """Register, live, drop out without a word, and come back."""
        rng = np.random.default_rng((self.seed, number))
        kept: OrderedDict[str, None] = OrderedDict()
        body = {
            "name": f"worker-{number}",
            "kind": "trainer",
            "version": "1",
            "signatures": [ENVIRONMENT],
            "instance": f"run-{number}",
        }
        while at < self.end_s:
            until = at + rng.exponential(self.pace.stay_s) / self.speed
            worker = await self.arrivals.post("registration", at, WORKERS_PATH, body)
            if worker is not None:
                last = min(until, self.end_s)
                player_id = self.learners[number % len(self.learners)][1]
                await asyncio.gather(
                    self._beat(worker["id"], at, last),
                    self._lease_and_report(worker["id"], player_id, kept, at, last),
                )
            at = until + self.pace.away_s / self.speed

    async def _beat(self, worker_id: str, at: float, until: float) -> None:
        while (at := at + self.pace.heartbeat_s / self.speed) < until:
            await self.arrivals.post("heartbeat", at, f"{WORKERS_PATH}/{worker_id}/heartbeat", {})

    async def _lease_and_report(
        self, worker_id: str, player_id: int, kept: "OrderedDict[str, None]", at: float, until: float
    ) -> None:
        """Lease and report round after round; what is not reported when the worker drops out is lost with it."""
        pace, step_s = self.pace, self.pace.round_s / self.speed
        request = {"kind": "training", "worker_id": worker_id, "player_id": player_id,
                   "count": pace.leases, "budget": pace.budget}  # fmt: skip
        sequences = np.array_split(np.arange(pace.budget), pace.reports)
        while at < until:
            leased = await self.arrivals.post("leases", at, LEASES_PATH, request)
            if leased is not None and leased["items"]:
                await self._fetch(leased["items"], kept)
                for number, some in enumerate(sequences, start=1):
                    due = at + step_s * number / (pace.reports + 1)
                    if due < until:
                        await self._report(worker_id, leased["items"], some.tolist(), due)
            at += step_s

    async def _fetch(self, leases: list[dict[str, Any]], kept: "OrderedDict[str, None]") -> None:
        """Fetch whom it is to play and does not have; keep the most recently used."""
        for lease in leases:
            seat = lease["home"] if lease["learner_side"] == "away" else lease["away"]
            sha256, key = seat["checkpoint"], str(seat["player_id"])
            self.drawn["all"] += 1
            if sha256 is None or ":" in sha256:
                continue
            if key not in kept:
                self.drawn["fetched"] += 1
                path = f"{wire.PREFIX}/checkpoints/{sha256}"
                await self.arrivals.get("download", self.arrivals.now_s(), path)
            kept[key] = None
            kept.move_to_end(key)
            while len(kept) > self.pace.cache:
                kept.popitem(last=False)

    async def _report(self, worker_id: str, leases: list[dict[str, Any]], sequences: list[int], due: float) -> None:
        batch = result_batch(worker_id, leases, sequences)
        told = await self.arrivals.post("results", due, RESULTS_PATH, batch)
        statuses = [item["status"] for item in told["items"]] if told else ["unanswered"] * len(batch["results"])
        self.sent.update(statuses)

    async def _look(self) -> None:
        """Look at the table, as create_league do."""
        at = 0.0
        while (at := at + self.pace.visits_s / self.speed) < self.end_s:
            await self.arrivals.get("standings", at, STANDINGS_PATH)

    async def _publish(self, place: int) -> None:
        """Leave snapshots of a learner."""
        rng = np.random.default_rng((self.seed, place, 1))
        learner_id, step_s = self.learners[place][0], self.pace.snapshot_s / self.speed
        at, step = float(rng.uniform(0.0, step_s)), 1_000_000
        while at < self.end_s:
            await asyncio.sleep(at - self.arrivals.now_s())
            await asyncio.to_thread(publish, self.arrivals.url, learner_id, step, rng)
            self.arrivals.latencies_s["snapshot"].append(self.arrivals.now_s() - at)
            at, step = at + step_s, step + 1


def publish(url: str, learner_id: int, step: int, rng: np.random.Generator) -> None:
    """Send a small checkpoint and publish it."""
    content = checkpoint(rng)
    sha256 = hashlib.sha256(content).hexdigest()
    with LeagueClient(url) as client:
        client.upload(content, sha256)
        client.publish(wire.PlayerCreate(learner_id=learner_id, checkpoint=sha256, step=step))


def checkpoint(rng: np.random.Generator) -> bytes:
    """Return a small file of the right form."""
    return bytes(save({"weights": rng.standard_normal(256).astype(np.float32)}))
