"""Builds the objects of a training run, new or from its saved state, and connects them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from arena.environments import EnvironmentSpec, declare
from arena.policies import NetworkPolicy
from league.client import RunInfo
from league.client.result_spool import ResultSpool
from league.wire import RoleNumbers
from trainer.algorithms import make_algorithm
from trainer.checkpointing import format as state_format
from trainer.checkpointing.format import SavedState
from trainer.checkpointing.provenance import Provenance
from trainer.checkpointing.resume import check_changes, check_origin
from trainer.checkpointing.run_directory import RunDirectory
from trainer.checkpointing.saver import SavedComponents, StateSaver, saved_registration
from trainer.config.schema import TrainerConfig
from trainer.config.validation import check_environment
from trainer.disk_retry import DiskRetry
from trainer.distributed.coordinator import Coordinator
from trainer.league_client.leases import LeaseScheduler
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import LeagueSession
from trainer.league_client.snapshot_schedule import SnapshotScheduler
from trainer.league_client.snapshots import SnapshotOutbox
from trainer.league_client.sync import LeagueSync
from trainer.monitoring.console import RunConsole
from trainer.monitoring.health.history import Setup
from trainer.monitoring.health.monitor import Monitor
from trainer.monitoring.metrics import MatchStatistics
from trainer.monitoring.report.reader import read_recent
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import SELF, Opponent, OpponentPool
from trainer.process_group import SINGLE_PROCESS, ProcessGroup
from trainer.rollout.collector import CollectedMatch, RolloutCollector
from trainer.rollout.curriculum import CurriculumSchedule
from trainer.rollout.make_envs import make_env_batches
from trainer.shutdown import RunContext

COMPILING = "kernels are compiled on first use"


class TrainingSession:
    """All objects of one training run, in a run directory that must be locked.

    Args:
        config: Settings of the whole run.
        folder: The run directory.
        client: Client of the league.
        version: Version of this program.
        console: Prints progress.
        run_context: Clock and stop flag.
        ranks: Process group; this process is rank 0.
        own: This rank's share of the settings; `config` if there is one rank.
        offline: Train without a league, against the learner itself and its own snapshots.

    Attributes:
        config, folder, console, run_context, ranks: As given.
        curriculum: Schedule of the environments' stages; None without a curriculum.
        learner: Network, optimiser and their update.
        statistics: Statistics of recent matches.
        monitor: Health rules.
        leases: Matches to play next.
        spool: Results that wait for delivery.
        outbox: Snapshots that wait for publication.
        league_sync: Delivers both, and sends heartbeats.
        saver: Saves the state that a restart resumes from.
        provenance: Record of the sessions of this run.
        collector: Plays the environments.
        coordinator: Exchanges messages with the other ranks.
        disk: Retries writes while the disk is full.

    Raises:
        ConfigError: Settings do not fit the environment.
        StateError: The saved state cannot be read, or belongs to another run.
        LeagueError: The league rejects the learner, or did not answer a new run in time.
    """

    def __init__(
        self,
        config: TrainerConfig,
        folder: RunDirectory,
        client: RetryingClient,
        *,
        version: str,
        console: RunConsole,
        run_context: RunContext,
        ranks: ProcessGroup = SINGLE_PROCESS,
        own: TrainerConfig | None = None,
        offline: bool = False,
    ) -> None:
        self.config, self.folder, self.console, self.run_context = config, folder, console, run_context
        self._own, self.ranks = own or config, ranks
        self.disk = DiskRetry(console.print)
        environment = self._own.environment
        saved = self._load(declare(environment.name))  # before kernels are compiled for a run that may be refused
        with console.waiting(f"opening {environment.num_envs} x {environment.name}", COMPILING):
            self._batches = make_env_batches(environment, self._own.run)
        spec = self._batches[0].spec
        check_environment(self._own, self._batches[0])
        self.curriculum = CurriculumSchedule.from_settings(self._batches, config.curriculum)
        self.learner = make_algorithm(self._own, spec, ranks)
        self.statistics = MatchStatistics()
        self.monitor = Monitor(Setup.of(config.model_dump()))
        role_numbers = RoleNumbers(**config.given_role_numbers)
        run = RunInfo(config.model_dump(mode="json", exclude_none=True), config.run.seed)
        self._league_session = LeagueSession(client, config.league, spec, version, folder.instance(), role_numbers, run)
        if not offline:
            self._register(saved)
        cache = CheckpointCache(folder.opponents, config.league.disk_cache_bytes)
        self.outbox = SnapshotOutbox(folder.snapshots, spec, cache if offline else None)
        self.leases = self._make_lease_scheduler(spec, cache)
        self.spool = ResultSpool(folder.spool)
        self.league_sync = LeagueSync(
            client,
            self._league_session,
            self.spool,
            self.outbox,
            disk=self.disk,
            console=console,
            run_context=run_context,
        )
        self._snapshots = SnapshotScheduler(
            config,
            self.learner,
            self.outbox,
            self.league_sync,
            self._league_session,
            disk=self.disk,
            console=console,
        )
        self.saver = self._make_saver(spec)
        if saved is None:
            self.outbox.resume(0, 0)
        else:
            self._resume(saved)
        folder.save_settings(config)
        self.provenance = self._begin_provenance(spec)
        leased_self_play = not environment.self_play_rows
        self.coordinator = Coordinator(ranks, self.learner, self._league_session, self_play=leased_self_play)
        # In this order on every rank: each of these calls is collective.
        self.coordinator.begin(
            0 if self.curriculum is None else self.curriculum.stage_start,
            [] if saved is None else saved.counters["ranks"],
            self.spool.highest_sequences(),
        )
        self.receive_reports(self.learner.steps)
        self.send_command(stop=False)
        self.collector = self._make_collector()

    def save(self) -> bool:
        """Save the state of the run after the results that it counts; return False if the disk is full."""
        return self.saver.save(self.collector.pending, self.coordinator.states)

    def maybe_snapshot(self, metrics: Mapping[str, float | None]) -> bool:
        """Take a snapshot and reset the learner as the league decides; return whether there is something to save."""
        if not self._snapshots.maybe_snapshot(metrics):
            return False
        if self.learner.began_step == self.learner.steps:
            self.monitor = Monitor(Setup.of(self.config.model_dump()))
        return True

    def write_last_snapshot(self) -> bool:
        """Write the final weights of a complete run as a snapshot; return False if the disk is full."""
        return self._snapshots.finish()

    def receive_reports(self, learner_step: int) -> None:
        """Receive the other ranks' reports, whose matches were played by the weights of `learner_step`."""
        self.coordinator.receive(partial(self._record_match, learner_step), self._live)

    def send_command(self, *, stop: bool, save: bool = False, reset: bool = False) -> None:
        """Answer the other ranks' reports; see `StepCommand`."""
        self.coordinator.command(self.statistics.episodes, stop=stop, save=save, reset=reset)

    def advance_curriculum(self) -> None:
        """Switch the environments to the stage that is due."""
        if self.curriculum is not None:
            self.curriculum.advance(self.statistics.episodes, self.collector.current_matches)

    def _load(self, spec: EnvironmentSpec) -> SavedState | None:
        """Load the saved state; None if there is none.

        Raises:
            StateError: It cannot be read, or belongs to another run.
        """
        saved = state_format.load(self.folder.state)
        if saved is not None:
            check_origin(spec, self.config.league.learner, saved, self.folder)
            if changed := check_changes(self.folder, self.config):
                self.console.print(f"settings that changed: {', '.join(map(str, changed))}")
        return saved

    def _register(self, saved: SavedState | None) -> None:
        """Register with the league. A run that was registered before starts without it; any other waits for it."""
        known = saved_registration(saved)
        if known is not None:
            self._league_session.registration = known
            self._league_session.register()
        else:
            self._league_session.wait_until_registered(self.run_context)
            self._warn_of_another_run(saved)

    def _warn_of_another_run(self, saved: SavedState | None) -> None:
        """Warn if the league knows this learner from another run."""
        if step := self._league_session.learner_step:
            name = self.config.league.learner
            own = (
                "has no saved state and starts at step 0"
                if saved is None
                else f"was trained offline and continues at step {saved.counters['steps']:,}"
            )
            self.console.print(
                f"learner {name!r} is at step {step:,} in this league, but {self.folder.path} {own}: two runs under "
                "one name spoil its rating and its snapshots; stop and choose another --learner, or continue the "
                "other run with --run ITS_FOLDER --resume",
                "yellow",
            )

    def _make_lease_scheduler(self, spec: EnvironmentSpec, cache: CheckpointCache) -> LeaseScheduler:
        league, environment = self.config.league, self._own.environment
        self._live = NetworkPolicy(self.learner.network, spec.name, spec.signature)
        pool = OpponentPool(
            spec,
            self._league_session.download,
            cache,
            memory_limit_bytes=league.memory_cache_bytes,
            device="cpu",  # opponents are copied to the acting device when they play
            modules=[self.config.network.module],
        )
        return LeaseScheduler(
            pool,
            Opponent(SELF, league.learner, self._live),
            request=partial(self._league_session.lease, self_play=not environment.self_play_rows),
            release=self._league_session.release,
            now=self.run_context.now,
            rows=environment.num_envs,
            self_play=environment.self_play_rows,
            seed=self.config.run.seed,
        )

    def _make_saver(self, spec: EnvironmentSpec) -> StateSaver:
        components = SavedComponents(
            learner=self.learner,
            statistics=self.statistics,
            curriculum=self.curriculum,
            outbox=self.outbox,
            league_session=self._league_session,
            leases=self.leases,
            spool=self.spool,
        )
        return StateSaver(self.folder, spec, self.config.league.learner, components, self.disk)

    def _resume(self, saved: SavedState) -> None:
        self.saver.restore(saved)
        for record in read_recent(self.folder.path):
            # Later records are of updates that the saved state does not have: they will be made again.
            if record.update <= self.learner.updates:
                self.monitor.update(record.update, record.metrics)
        self.console.print(f"resumed at step {self.learner.steps:,}")

    def _begin_provenance(self, spec: EnvironmentSpec) -> Provenance:
        run = {
            "environment": spec.name,
            "signature": spec.signature,
            "learner": self.config.league.learner,
            "seed": self.config.run.seed,
        }
        provenance = Provenance(self.folder.path, self.disk)
        provenance.begin_session(run, self.run_context.now(), self.learner.steps)
        return provenance

    def _make_collector(self) -> RolloutCollector:
        return RolloutCollector(
            self._batches,
            self.learner.network,
            self.leases,
            self._on_match,
            self.learner.rng,
            self_play=self._own.environment.self_play_rows,
            device_cache_bytes=self.config.league.device_cache_bytes,
            process_group=self.ranks,
            compile_backend=self.config.ppo.compile.for_device(self.config.run.device),
        )

    def _on_match(self, match: CollectedMatch) -> None:
        """Record a match of this rank; one that a curriculum made easier counts as unrated."""
        assignment = match.assignment
        if self.curriculum is not None and not self.curriculum.is_full_game(assignment):
            match = match._replace(assignment=replace(assignment, lease=None))
        self._record_match(self.learner.steps, match)

    def _record_match(self, learner_step: int, match: CollectedMatch) -> None:
        self.statistics.add(match)
        self.league_sync.record_match(match, learner_step)
