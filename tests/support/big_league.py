"""A league as it is after weeks: three lineages, 200 players, 10,000 matches, periods, gates, events.

It is played by simulated workers through the league's own calls, on a clock that goes from START to about now, so that
everything is there which a real one leaves. Who wins is decided by hidden strengths, which grow with the steps of a
lineage, and by a rock-paper-scissors of lineages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient
from league_scene import safetensors, sha256

from arena.environments.registry import declare
from arena.replay import pack_recording, read_recording
from arena.seeding import match_seed
from league import wire
from league.client import LeagueClient, RunInfo

ENVIRONMENT = "mech-company"
ROUNDS = 20
ROUND = timedelta(hours=18)
SNAPSHOTS_A_ROUND = {"main": 4, "main-exploiter": 3, "league-exploiter": 3}
ROLES: dict[str, wire.Role] = {
    "main": "main",
    "main-exploiter": "main_exploiter",
    "league-exploiter": "league_exploiter",
}
STEPS_A_SNAPSHOT = 2_000_000
BEATS_A_ROUND = 6
RATING_LEASES, RATING_BUDGET = 100, 4
TRAINING_LEASES, TRAINING_BUDGET = 12, 4
BATCH = 1000

RECORDED = Path(__file__).parents[1] / "browser" / "mech-company.replay.json.gz"
"""A match of two baselines, ten mechs a side."""

_BEGUN = {"random": -500.0, "turret": -500.0, "lieutenant-half": -300.0, "lieutenant": 100.0}
_MEASURES = ("shots_per_min", "engagement_range_m", "in_zone", "hit_rate")


_ORIGIN = {
    "command": ["trainer", "run", "--environment", ENVIRONMENT],
    "git": {"revision": "4f" * 20, "changed": True},
    "machine": {"host": "gpu-0", "cpu": "a processor", "gpus": ["a device"]},
}


@dataclass(frozen=True)
class BigLeague:
    """What a test may want to know of it; `recorded` is the id of the match that can be watched."""

    environment: str
    players: int
    matches: int
    learners: dict[str, wire.Learner]
    champion: int
    recorded: int


class Simulation:
    """The workers of a league and the hidden strengths of its players.

    Args:
        client: An admin's, or of an open league.
        advance: Moves the clock of the league on.
        seed: Of all chance.
    """

    def __init__(self, client: LeagueClient, advance: Callable[[timedelta], None], seed: int = 7) -> None:
        self._client, self._advance = client, advance
        self._rng = np.random.default_rng(seed)
        self._further = np.random.default_rng(seed + 1)  # of what nothing else hangs on
        self._signature = declare(ENVIRONMENT).signature
        self._strength: dict[int, float] = {}
        self._kind: dict[int, int] = {}
        self._style: dict[int, Any] = {}
        self._runs: dict[int, int] = {}
        self._steps = dict.fromkeys(ROLES, 0)
        self.trainers = {name: self._worker(f"gpu-{place}", "trainer") for place, name in enumerate(ROLES)}
        self.evaluators = [self._worker(f"rater-{place}", "evaluator") for place in range(2)]
        self.learners = {name: self._learner(name, role) for name, role in ROLES.items()}
        for each in client.players(ENVIRONMENT, kind="baseline").items:
            self._strength[each.id] = _BEGUN[each.name]
        self.matches = 0

    def play(self, rounds: int = ROUNDS) -> BigLeague:
        """Train, publish, evaluate and rate, again and again."""
        for number in range(rounds):
            self._advance(ROUND / 2)
            self._beat()
            for name, learner in self.learners.items():
                self._train(name, learner)
            self._evaluate(self.evaluators[number % len(self.evaluators)])
            self._client.close_period()
        self._govern()
        champion = self._client.champion(ENVIRONMENT).player.id
        return BigLeague(ENVIRONMENT, len(self._strength), self.matches, self.learners, champion, self._watch())

    def _watch(self) -> int:
        """Report one match as a recording of a real one has it, send that along, and return the match's id."""
        recording = read_recording(RECORDED)
        worker, outcome = self.evaluators[0], recording.header.outcome
        request = wire.RatingLeases(kind="rating", worker_id=worker.id, environment=ENVIRONMENT, count=2, budget=1)
        lease = self._client.lease(request).items[0]
        result = wire.Result(
            lease_id=lease.lease_id,
            sequence=0,
            score=outcome.score,
            decisions=outcome.decisions,
            reason=outcome.reason,
            seed=match_seed(lease.seed, 0),
        )
        (answer,) = self._client.report(wire.ResultBatch(worker_id=worker.id, results=[result])).items
        match = self._client.match(answer.match_id or 0)
        header = replace(
            recording.header, seed=result.seed, players=(match.home.name, match.away.name), signature=self._signature
        )
        self._client.upload_replay(match.id, pack_recording(replace(recording, header=header)))
        self.matches += 1
        return match.id

    def _worker(self, name: str, kind: wire.WorkerKind) -> wire.Worker:
        request = wire.WorkerCreate(name=name, kind=kind, version="0.1.0", signatures=[self._signature])
        return self._client.register_worker(request)

    def _learner(self, name: str, role: wire.Role) -> wire.Learner:
        learner = self._client.register_learner(
            wire.LearnerCreate(name=name, role=role, environment=ENVIRONMENT, signature=self._signature)
        )
        self._know(learner.player_id, name, 0.0)
        settings = {"ppo": {"learning_rate": 0.0003 * (1 + len(self._runs)), "update_epochs": 3}}
        info = RunInfo(settings, seed=len(self._runs), origin=_ORIGIN)
        self._runs[learner.id] = self._client.start_run(info.request(learner)).id
        return learner

    def _know(self, player_id: int, lineage: str, strength: float) -> None:
        self._strength[player_id] = strength
        self._kind[player_id] = list(ROLES).index(lineage)

    def _train(self, name: str, learner: wire.Learner) -> None:
        for _ in range(SNAPSHOTS_A_ROUND[name]):
            self._steps[name] += STEPS_A_SNAPSHOT
            strength = 900.0 * (1.0 - np.exp(-self._steps[name] / 6e7)) - 400.0 + self._rng.normal(0.0, 40.0)
            self._know(learner.player_id, name, strength)
            data = safetensors(self._steps[name], signature=self._signature, lineage=name)
            self._client.upload(data, sha256(data))
            player = self._client.publish(
                wire.PlayerCreate(
                    learner_id=learner.id,
                    checkpoint=sha256(data),
                    step=self._steps[name],
                    run_id=self._runs[learner.id],
                )
            )
            self._know(player.id, name, strength)
        request = wire.TrainingLeases(
            kind="training",
            worker_id=self.trainers[name].id,
            player_id=learner.player_id,
            count=TRAINING_LEASES,
            budget=TRAINING_BUDGET,
        )
        self._play_out(self.trainers[name], self._client.lease(request).items)

    def _beat(self) -> None:
        """Report how training goes until the next snapshots, a point for each of some updates."""
        for part in range(1, BEATS_A_ROUND + 1):
            self._advance(ROUND / 2 / BEATS_A_ROUND)
            for name, worker in self.trainers.items():
                self._client.heartbeat(worker.id, wire.Heartbeat(learners=[self._progress(name, part)]))
            for worker in self.evaluators:
                self._client.heartbeat(worker.id)

    def _progress(self, name: str, part: int) -> wire.LearnerProgress:
        step = self._steps[name] + part * STEPS_A_SNAPSHOT * SNAPSHOTS_A_ROUND[name] // BEATS_A_ROUND
        return wire.LearnerProgress(
            learner_id=self.learners[name].id, step=step, metrics=self._metrics(step), verdicts=self._verdicts(name)
        )

    def _metrics(self, step: int) -> dict[str, float | None]:
        done = 1.0 - np.exp(-step / 6e7)
        means = {
            "charts/SPS": 41_000.0,
            "charts/updates": step / 65_536,
            "charts/episodic_return": -1.0 + 4.0 * done,
            "charts/score": 0.35 + 0.25 * done,
            "charts/learning_rate": 3e-4 * (1.0 - 0.6 * done),
            "win_rate_by_branch/pfsp": 0.42 + 0.2 * done,
            "win_rate_by_branch/self-play": 0.5,
            "losses/approx_kl": 0.009,
            "losses/clipfrac": 0.11,
            "losses/explained_variance": 0.4 + 0.5 * done,
            "losses/gradient_norm": 0.6,
            "heads/move/entropy": 1.9 - 0.8 * done,
            "heads/fire/entropy": 0.69 - 0.3 * done,
        }
        further = {
            "charts/episodic_length": 420.0 - 120.0 * done,
            "losses/policy_loss": 0.02,
            "losses/value_loss": 0.4 - 0.25 * done,
            "heads/move/approx_kl": 0.007,
            "heads/fire/approx_kl": 0.002,
            "heads/move/gradient_norm": 0.5,
            "heads/fire/gradient_norm": 0.2,
            "scales/advantage_mean": -0.02,
            "scales/advantage_std": 1.4 - 0.5 * done,
            "reward_share/zone": 0.2 + 0.1 * done,
            "reward_share/damage": 0.45 - 0.1 * done,
            "reward_share/win": 0.35,
        }
        told = {name: float(mean * self._rng.normal(1.0, 0.04)) for name, mean in means.items()}
        return told | {name: float(mean * self._further.normal(1.0, 0.04)) for name, mean in further.items()}

    def _verdicts(self, name: str) -> list[wire.HealthVerdict]:
        if name == "main":
            return []
        return [
            wire.HealthVerdict(
                name="entropy_collapsed",
                severity="warning",
                since_update=31,
                meaning="the policy tries hardly anything new any more",
                evidence="head fire has 0.39 of 0.69 nats left",
                advice="raise ppo.normalized_ent_coef, or look at the run with `trainer doctor`",
            )
        ]

    def _evaluate(self, worker: wire.Worker) -> None:
        request = wire.RatingLeases(
            kind="rating", worker_id=worker.id, environment=ENVIRONMENT, count=RATING_LEASES, budget=RATING_BUDGET
        )
        self._play_out(worker, self._client.lease(request).items)

    def _play_out(self, worker: wire.Worker, leases: list[wire.Lease]) -> None:
        results = [self._result(lease, sequence) for lease in leases for sequence in range(lease.budget)]
        for start in range(0, len(results), BATCH):
            batch = wire.ResultBatch(worker_id=worker.id, results=results[start : start + BATCH])
            answers = self._client.report(batch).items
            assert all(answer.status == "accepted" for answer in answers)
        self.matches += len(results)

    def _result(self, lease: wire.Lease, sequence: int) -> wire.Result:
        home, away = lease.home.player_id, lease.away.player_id
        score = float(self._rng.random() < self._expected(home, away))
        training = lease.learner_side is not None
        return wire.Result(
            lease_id=lease.lease_id,
            sequence=sequence,
            score=0.5 if self._rng.random() < 0.04 else score,
            decisions=int(self._rng.integers(120, 600)),
            reason=str(self._rng.choice(["zone", "destroyed", "time"])),
            seed=match_seed(lease.seed, sequence),
            learner_step=max(self._steps.values()) if training else None,
            behaviour=None if training else self._behaviour(home, away),
        )

    def _expected(self, home: int, away: int) -> float:
        gap = self._strength[home] - self._strength[away]
        turn = (self._kind.get(home, 0) - self._kind.get(away, 0)) % 3
        gap += (0.0, 70.0, -70.0)[turn]
        return float(1.0 / (1.0 + 10.0 ** (-gap / 400.0)))

    def _behaviour(self, home: int, away: int) -> wire.Behaviour:
        return wire.Behaviour(measures=list(_MEASURES), home=self._played(home), away=self._played(away))

    def _played(self, player: int) -> list[float | None]:
        kind, strength = self._kind.get(player, 0), self._strength[player]
        means = (20.0 + 8.0 * kind, 260.0 - 60.0 * kind, 0.35 + 0.1 * kind, 0.3 + strength / 4000.0)
        spread = (4.0, 40.0, 0.1, 0.06)
        return [float(value) for value in self._rng.normal(means, spread)]

    def _govern(self) -> None:
        """Promote who is surely strong, crown the first, retire and quarantine others, say why."""
        playing = [
            each
            for each in self._client.standings(ENVIRONMENT, limit=1000).items
            if each.kind == "snapshot" and each.standing in ("candidate", "commander")
        ]
        proven = [each for each in playing if each.games >= 32][:10]
        for each in proven:
            if each.standing == "candidate":
                self._client.promote(each.id, f"{each.games} games, surely above {each.conservative:.0f}", "candidate")
        champions = self._client.champions(ENVIRONMENT, limit=1).items
        holder = champions[0].player if champions else None
        self._client.crown(proven[0].id, "the surest of all", expected=None if holder is None else holder.player_id)
        for each in playing[-3:]:
            self._client.retire(each.id, "long surpassed")
        self._client.quarantine(playing[-4].id, "its results do not look right")


def play(http: TestClient, advance: Callable[[timedelta], None]) -> BigLeague:
    """Play a whole league through a server that reads the advanced clock, and do to it what people do."""
    return Simulation(LeagueClient(http=http), advance).play()
