"""The loop of every rank except rank 0: it plays its own environments and updates together with the others.

Rank 0 makes all calls to the league but one: each rank downloads the checkpoints of its opponents, into its own cache.
`coordinator` is the other side of every message.
"""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors

from arena.environments import EnvironmentSpec
from arena.policies import NetworkPolicy
from league.wire import LeaseAnswer, UnplayablePlayer
from trainer.algorithms import make_algorithm
from trainer.config.schema import TrainerConfig
from trainer.config.validation import check_environment
from trainer.distributed.launch import rank_seed
from trainer.distributed.messages import InitialState, MatchMessage, Metrics, RankReport, StepCommand
from trainer.league_client.leases import LEASES_PER_CALL, LeaseScheduler
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import LeagueSession
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import SELF, Opponent, OpponentPool
from trainer.process_group import ProcessGroup
from trainer.rollout.collector import CollectedMatch, RolloutCollector
from trainer.rollout.curriculum import CurriculumSchedule
from trainer.rollout.make_envs import make_env_batches
from trainer.shutdown import RunContext

MAX_LEASE_ROUNDS = 64
"""Most rounds of leases that a rank holds: in a game of one decision, a rollout uses up that many."""

OWN_RNG_STATES = {"rng.acting", "rng.update"}
"""Tensors of the learner's state that are not copied from rank 0."""


class PendingLeaseRequests:
    """Lease requests that wait for the next report to rank 0, and the leases granted in its answer."""

    def __init__(self) -> None:
        self._leases = 0
        self._unwanted: list[str] = []
        self._unplayable: dict[int, UnplayablePlayer] = {}
        self._answer: LeaseAnswer | None = None

    def request(self, count: int) -> LeaseAnswer | None:
        """Return granted leases; if there are none, request `count` in the next report."""
        answer, self._answer = self._answer, None
        if answer is None:
            self._leases = count
        return answer

    def release(self, lease_ids: list[str], unplayable: list[UnplayablePlayer]) -> None:
        """Return leases in the next report."""
        self._unwanted += lease_ids
        self._unplayable |= {each.player_id: each for each in unplayable}

    def take(self) -> dict[str, Any]:
        """Return the request fields of a report, with at most `LEASES_PER_CALL` returned leases."""
        unwanted, self._unwanted = self._unwanted[:LEASES_PER_CALL], self._unwanted[LEASES_PER_CALL:]
        fields = {"leases": self._leases, "unwanted": unwanted, "unplayable": list(self._unplayable.values())}
        self._leases, self._unplayable = 0, {}
        return fields

    def grant(self, answer: LeaseAnswer | None) -> None:
        """Store granted leases until the next request."""
        self._answer = answer


class Follower:
    """One rank of a run, other than rank 0, which sends the initial state.

    Args:
        config: This rank's share of the settings.
        cache: This rank's folder of downloaded checkpoints.
        client: Client of the league, for downloads only.
        ranks: Process group.
        version: Version of this program.
        run_context: Clock and stop flag.

    Raises:
        ConfigError: Settings do not fit the environment.
        RankLostError: Another rank is gone.
    """

    def __init__(
        self,
        config: TrainerConfig,
        cache: Path,
        client: RetryingClient,
        *,
        ranks: ProcessGroup,
        version: str,
        run_context: RunContext,
    ) -> None:
        self._ranks, self._run_context = ranks, run_context
        seed = rank_seed(config.run.seed, ranks.rank)
        batches = make_env_batches(config.environment, config.run.model_copy(update={"seed": seed}))
        spec = batches[0].spec
        check_environment(config, batches[0])
        self._curriculum = CurriculumSchedule.from_settings(batches, config.curriculum)
        self._learner = make_algorithm(config, spec, ranks)
        self._requests = PendingLeaseRequests()
        self._finished: list[MatchMessage] = []
        self._leases = self._make_lease_scheduler(
            config, spec, cache, LeagueSession(client, config.league, spec, version), seed
        )
        # In the order of `Coordinator.begin` and its first `receive`: every message is a collective call.
        self._receive_initial_state()
        self._send_report()
        self._collector = RolloutCollector(
            batches,
            self._learner.network,
            self._leases,
            self._on_match,
            self._learner.rng,
            self_play=config.environment.self_play_rows,
            device_cache_bytes=config.league.device_cache_bytes,
            process_group=ranks,
            compile_backend=config.ppo.compile.for_device(config.run.device),
        )

    def run(self) -> None:
        """Collect and update until rank 0 sends the command to stop.

        Raises:
            NonFiniteLossError: Losses or gradients were not finite in too many consecutive updates.
            RankLostError: Another rank is gone.
        """
        buffer = self._learner.allocate()
        command = self._send_report()
        while not command.stop:
            if self._curriculum is not None:
                self._curriculum.advance(command.matches, self._collector.current_matches)
            unrated = self._leases.unrated_matches
            complete = self._collector.collect(buffer, self._run_context.stopping)
            # A rollout used up its leases. They are requested only between rollouts, so ask for more at a time.
            if self._leases.unrated_matches > unrated:
                self._leases.lease_rounds = min(2 * self._leases.lease_rounds, MAX_LEASE_ROUNDS)
            metrics = self._learner.learn(buffer, self._run_context.stopping) if complete else {}
            command = self._send_report(metrics, int(buffer.active.sum()))

    def _make_lease_scheduler(
        self, config: TrainerConfig, spec: EnvironmentSpec, cache: Path, membership: LeagueSession, seed: int
    ) -> LeaseScheduler:
        pool = OpponentPool(
            spec,
            membership.download,
            CheckpointCache(cache, config.league.disk_cache_bytes),
            memory_limit_bytes=config.league.memory_cache_bytes,
            device="cpu",
            modules=[config.network.module],
        )
        live = NetworkPolicy(self._learner.network, spec.name, spec.signature)
        return LeaseScheduler(
            pool,
            Opponent(SELF, config.league.learner, live),
            request=self._requests.request,
            release=self._requests.release,
            now=self._run_context.now,
            rows=config.environment.num_envs,
            self_play=config.environment.self_play_rows,
            seed=seed,
        )

    def _receive_initial_state(self) -> None:
        start = InitialState.model_validate_json(self._ranks.broadcast_bytes(b""))
        self._receive_weights(start.steps, start.updates, start.began_step)
        if self._curriculum is not None:
            self._curriculum.advance(start.stage_start, ())
        # A rank without a saved state was added since, or the states were dropped: it begins with new matches.
        if self._ranks.rank <= len(start.states):
            own = start.states[self._ranks.rank - 1]
            self._leases.restore(own["leases"], start.written)
            tensors = self._learner.tensors() | {name: _decode(own["chance"][name]) for name in OWN_RNG_STATES}
            self._learner.restore(tensors, start.steps, start.updates)

    def _receive_weights(self, steps: int, updates: int, began_step: int) -> None:
        """Take over the weights and statistics of rank 0, and keep this rank's random states."""
        own = {name: each for name, each in self._learner.tensors().items() if name in OWN_RNG_STATES}
        self._learner.restore(load_tensors(self._ranks.broadcast_bytes(b"")) | own, steps, updates)
        self._learner.began_step = began_step

    def _send_report(self, metrics: Metrics | None = None, decisions: int = 0) -> StepCommand:
        """Send a report to rank 0, then receive and apply its command."""
        self._leases.refill()
        report = RankReport(matches=self._finished, decisions=decisions, metrics=metrics or {}, **self._requests.take())
        self._ranks.all_gather_bytes(report.encode())
        self._finished = []
        command = StepCommand.model_validate_json(self._ranks.broadcast_bytes(b""))
        self._requests.grant(command.grants[self._ranks.rank - 1])
        if not command.stop:
            self._leases.refill()
        # Collective calls must come in the order of `Coordinator.command`: weights first, then states.
        if command.reset:
            self._receive_weights(self._learner.steps, self._learner.updates, self._learner.steps)
        if command.save or command.stop:
            self._send_state()
        return command

    def _on_match(self, match: CollectedMatch) -> None:
        """Queue a match for the next report; one that a curriculum made easier counts as unrated."""
        assignment = match.assignment
        if self._curriculum is not None and not self._curriculum.is_full_game(assignment):
            # Without its lease, the match is not reported: easier games must not count for ratings.
            match = match._replace(assignment=replace(assignment, lease=None))
        self._finished.append(MatchMessage.of(match))

    def _send_state(self) -> None:
        rng_states = {name: _encode(self._learner.tensors()[name]) for name in OWN_RNG_STATES}
        state: dict[str, Any] = {"leases": self._leases.saved(self._collector.pending), "chance": rng_states}
        self._ranks.all_gather_bytes(json.dumps(state).encode())


def _encode(numbers: torch.Tensor) -> str:
    return base64.b64encode(numbers.numpy().tobytes()).decode()


def _decode(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
