"""Simulated workers that fill a league through its own calls: snapshots, matches, rating periods, gates and events."""

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.resources import files

import numpy as np

from arena.environments.registry import declare
from arena.replay import Recording, pack_recording, unpack_recording
from arena.seeding import match_seed
from league import wire
from league.cli.demo import metrics
from league.cli.demo.outcomes import Outcomes
from league.client import LeagueClient, RunInfo

ENVIRONMENT = "mech-company"
ROLES: dict[str, wire.Role] = {
    "main": "main",
    "main-exploiter": "main_exploiter",
    "league-exploiter": "league_exploiter",
}

_RECORDING = "match.replay.json.gz"
_BASELINES = {"random": -500.0, "turret": -500.0, "lieutenant-half": -300.0, "lieutenant": 100.0}
_FIRST_ELO, _GAINED_ELO, _NOISE_ELO = -400.0, 900.0, 40.0
_STEPS_PER_SNAPSHOT = 2_000_000
_BUDGET = 4
_BATCH = 1000
_MANAGED_EVERY = 4


@dataclass(frozen=True)
class Scale:
    """Length and size of a simulated history.

    Attributes:
        rounds: Number of rounds; in each, learners train and publish, an evaluator plays, and a period is closed.
        round_length: Simulated time of a round.
        snapshots: Snapshots per round by learner.
        heartbeats: Heartbeats of each trainer per round.
        rating_leases: Leases of the evaluator per round.
        rating_budget: Matches of each of these leases.
        training_leases: Leases of each trainer per round.
    """

    rounds: int
    round_length: timedelta
    snapshots: Mapping[str, int]
    heartbeats: int
    rating_leases: int
    rating_budget: int
    training_leases: int

    @property
    def length(self) -> timedelta:
        """Simulated time of the whole history."""
        return self.rounds * self.round_length


@dataclass(frozen=True)
class SimulatedLeague:
    """Summary of a history; `champion` is the id of a player, `recorded` that of the match with a recording."""

    environment: str
    players: int
    matches: int
    learners: dict[str, wire.Learner]
    champion: int
    recorded: int


@dataclass
class _Trainee:
    """A learner with its trainer, its current run and its step."""

    learner: wire.Learner
    trainer: wire.Worker
    lineage: int
    run_id: int = 0
    step: int = 0


class Simulation:
    """The workers of a league.

    Args:
        client: Client of the league with scope `admin`.
        advance: Advances the clock of the league.
        scale: Length and size of the history.
        seed: Seed of the simulation.
    """

    def __init__(self, client: LeagueClient, advance: Callable[[timedelta], None], scale: Scale, seed: int = 7) -> None:
        self._client, self._advance, self._scale = client, advance, scale
        self._rng = np.random.default_rng(seed)
        self._outcomes = Outcomes(self._rng)
        self._signature = declare(ENVIRONMENT).signature
        self._matches = self._run_count = 0
        self._evaluators = [self._register(f"rater-{index}", "evaluator") for index in range(2)]
        self._trainees = [self._register_trainee(index, name) for index, name in enumerate(ROLES)]
        for baseline in client.players(ENVIRONMENT, kind="baseline").items:
            self._outcomes.set_strength(baseline.id, _BASELINES[baseline.name])

    def play(self) -> SimulatedLeague:
        """Play all rounds, then annotate players and report the recorded match."""
        for index in range(self._scale.rounds):
            if index == self._scale.rounds // 2:
                self._start_run(self._trainees[0])  # a second run with other settings
            self._advance(self._scale.round_length / 2)
            self._report_progress()
            for trainee in self._trainees:
                self._train(trainee)
            self._evaluate(self._evaluators[index % len(self._evaluators)])
            self._client.close_period()
            if index % _MANAGED_EVERY == _MANAGED_EVERY - 1:
                self._manage_population()
        champion = self._annotate()
        recorded = self._record_match()
        learners = {each.learner.name: each.learner for each in self._trainees}
        return SimulatedLeague(ENVIRONMENT, len(self._outcomes), self._matches, learners, champion, recorded)

    def _register(self, name: str, kind: wire.WorkerKind) -> wire.Worker:
        request = wire.WorkerCreate(name=name, kind=kind, version="0.1.0", signatures=[self._signature])
        return self._client.register_worker(request)

    def _register_trainee(self, index: int, name: str) -> _Trainee:
        trainer = self._register(f"gpu-{index}", "trainer")
        request = wire.LearnerCreate(name=name, role=ROLES[name], environment=ENVIRONMENT, signature=self._signature)
        trainee = _Trainee(self._client.register_learner(request), trainer, index)
        self._outcomes.set_strength(trainee.learner.player_id, 0.0, index)
        self._start_run(trainee)
        return trainee

    def _start_run(self, trainee: _Trainee) -> None:
        number = self._run_count
        self._run_count += 1
        origin = {
            "command": ["trainer", "run", "--environment", ENVIRONMENT, "--learner", trainee.learner.name],
            "git": {"revision": f"{number:x}f" * 20, "changed": number == 1},
            "machine": {"host": trainee.trainer.name, "cpu": "simulated", "gpus": ["simulated"]},
        }
        settings = {"ppo": {"learning_rate": 0.0003 * (1 + number), "update_epochs": 3}}
        request = RunInfo(settings, seed=number, origin=origin).request(trainee.learner)
        trainee.run_id = self._client.start_run(request.model_copy(update={"step": trainee.step})).id

    def _report_progress(self) -> None:
        """Advance to the end of the round with heartbeats on the way."""
        count = self._scale.heartbeats
        for part in range(1, count + 1):
            self._advance(self._scale.round_length / 2 / count)
            for trainee in self._trainees:
                steps = _STEPS_PER_SNAPSHOT * self._scale.snapshots[trainee.learner.name]
                progress = self._progress(trainee, trainee.step + part * steps // count)
                self._client.heartbeat(trainee.trainer.id, wire.Heartbeat(learners=[progress]))
        for evaluator in self._evaluators:
            self._client.heartbeat(evaluator.id)

    def _progress(self, trainee: _Trainee, step: int) -> wire.LearnerProgress:
        return wire.LearnerProgress(
            learner_id=trainee.learner.id,
            step=step,
            metrics=metrics.sample(step, self._rng),
            verdicts=[] if trainee.learner.role == "main" else [metrics.ENTROPY_COLLAPSED],
        )

    def _train(self, trainee: _Trainee) -> None:
        for _ in range(self._scale.snapshots[trainee.learner.name]):
            self._publish(trainee)
        request = wire.TrainingLeases(
            kind="training",
            worker_id=trainee.trainer.id,
            player_id=trainee.learner.player_id,
            count=self._scale.training_leases,
            budget=_BUDGET,
        )
        self._play(trainee.trainer, self._client.lease(request).items, trainee.step)

    def _publish(self, trainee: _Trainee) -> None:
        trainee.step += _STEPS_PER_SNAPSHOT
        elo = _FIRST_ELO + _GAINED_ELO * metrics.progress(trainee.step) + self._rng.normal(0.0, _NOISE_ELO)
        weights = _checkpoint(trainee.step, signature=self._signature, lineage=trainee.learner.name)
        sha256 = hashlib.sha256(weights).hexdigest()
        self._client.upload(weights, sha256)
        player = self._client.publish(
            wire.PlayerCreate(
                learner_id=trainee.learner.id, checkpoint=sha256, step=trainee.step, run_id=trainee.run_id
            )
        )
        for player_id in (trainee.learner.player_id, player.id):
            self._outcomes.set_strength(player_id, elo, trainee.lineage)

    def _evaluate(self, evaluator: wire.Worker) -> None:
        """Play all rating leases of a round; a request that gets an open gate returns only the pairs that it needs."""
        missing = self._scale.rating_leases
        while missing > 0:
            leases = self._lease_ratings(evaluator, missing, self._scale.rating_budget)
            if not leases:
                return
            self._play(evaluator, leases, 0)
            missing -= len(leases)

    def _lease_ratings(self, evaluator: wire.Worker, count: int, budget: int) -> list[wire.Lease]:
        request = wire.RatingLeases(
            kind="rating", worker_id=evaluator.id, environment=ENVIRONMENT, count=count, budget=budget
        )
        return self._client.lease(request).items

    def _play(self, worker: wire.Worker, leases: list[wire.Lease], learner_step: int) -> None:
        results = [result for lease in leases for result in self._outcomes.draw(lease, learner_step)]
        for start in range(0, len(results), _BATCH):
            self._client.report(wire.ResultBatch(worker_id=worker.id, results=results[start : start + _BATCH]))
        self._matches += len(results)

    def _manage_population(self) -> None:
        """Retire the weakest snapshot; the strongest with a certain rating becomes champion. The rule opens gates."""
        standings = self._client.standings(ENVIRONMENT, limit=1000).items
        active = [each for each in standings if each.kind == "snapshot" and each.standing in ("candidate", "commander")]
        self._client.retire(active[-1].id, "superseded")
        certain = [each.id for each in active if not each.provisional]
        if not certain:
            return
        champion = self._champion()
        if certain[0] != champion:
            self._client.set_champion(certain[0], "highest lower bound", expected=champion)

    def _champion(self) -> int | None:
        changes = self._client.champions(ENVIRONMENT, limit=1).items
        return changes[0].player.player_id if changes and changes[0].player else None

    def _annotate(self) -> int:
        """Tag the champion and quarantine the newest candidate; return the champion's id."""
        champion = self._client.champion(ENVIRONMENT).player.id
        self._client.annotate(champion, ["paper", "reference"], "Opponent of all further experiments.")
        newest = self._client.players(ENVIRONMENT, kind="snapshot", standing="candidate", limit=1000).items[-1]
        self._client.quarantine(newest.id, "its results are implausible")
        return champion

    def _record_match(self) -> int:
        """Report the recorded match with its recording; return the match's id."""
        evaluator = self._evaluators[0]
        lease = self._lease_ratings(evaluator, 2, 1)[0]
        self._matches += 1
        return report_recording(
            self._client, evaluator, lease, recorded_match(), environment=ENVIRONMENT, signature=self._signature
        ).id


def report_recording(
    client: LeagueClient,
    evaluator: wire.Worker,
    lease: wire.Lease,
    recording: Recording,
    *,
    environment: str,
    signature: str,
) -> wire.PlayedMatch:
    """Report that the first match of a lease went as a recording shows, and upload the recording with its header."""
    outcome, seed = recording.header.outcome, match_seed(lease.seed, 0)
    result = wire.Result(
        lease_id=lease.lease_id,
        sequence=0,
        score=outcome.score,
        decisions=outcome.decisions,
        reason=outcome.reason,
        seed=seed,
    )
    (answer,) = client.report(wire.ResultBatch(worker_id=evaluator.id, results=[result])).items
    match = client.match(answer.match_id or 0)
    players = match.home.name, match.away.name
    header = replace(recording.header, environment=environment, signature=signature, seed=seed, players=players)
    client.upload_replay(match.id, pack_recording(replace(recording, header=header)))
    return match


def recorded_match() -> Recording:
    """Return a real match of two baselines with ten mechs on each side."""
    return unpack_recording(files(__package__).joinpath(_RECORDING).read_bytes(), _RECORDING)


def _checkpoint(step: int, **metadata: str) -> bytes:
    """Return a safetensors file of two numbers."""
    tensors = struct.pack("<2f", step, 0.0)
    header = json.dumps(
        {"__metadata__": metadata, "weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, len(tensors)]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header + tensors
