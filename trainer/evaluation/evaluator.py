"""Evaluator (`trainer evaluate`): plays rating matches between frozen players with a bounded share of one core."""

import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from arena.play.behaviour import Behaviour, BehaviourCallback
from arena.play.runner import FORFEIT, CallbackList, play_pairs_in
from arena.seeding import derive, match_seed
from league import wire
from league.client.result_spool import Report, ResultSpool
from league.errors import LeagueError
from trainer.disk_retry import DiskRetry
from trainer.errors import UnavailableOpponentError, UnsavedError, UnusableOpponentError
from trainer.evaluation.env_cache import EnvironmentCache
from trainer.evaluation.replay_upload import ReplayUploader
from trainer.evaluation.session import EvaluatorSession
from trainer.league_client.commands import WorkerCommands
from trainer.league_client.last_delivery import LastCalls, LastDelivery
from trainer.league_client.lease_queue import AHEAD_S, LeaseQueue
from trainer.monitoring.console import RunConsole
from trainer.opponents.pool import Opponent, OpponentPool, unplayable_report
from trainer.shutdown import RunContext

DELIVERY_S = 2.0
"""Seconds between two deliveries of results. A call can take longer than playing a short round."""

DOWNLOAD_PATIENCE_S = 10.0
"""Longest wait for a checkpoint that cannot be downloaded; then the leases of its player are released."""

PAUSE_MIN_S = 0.02
"""Shortest pause without matches to play."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluationBudget:
    """Amount of matches that an evaluator plays.

    Attributes:
        parallel_matches: Matches at once by environment, > 0.
        matches_per_lease: Matches of a lease, > 0. A pair of players has two leases, one for each side.
        duty: Fraction of the time to play, in (0, 1]. Calls to the league are made in the rest of the time.
        max_matches: Total number of matches; None for no limit.
    """

    parallel_matches: Mapping[str, int]
    matches_per_lease: int
    duty: float
    max_matches: int | None = None

    def lease_count(self, environment: str, played: int) -> int:
        """Return the number of leases in a round: two for each pair that fits, and for one pair at least."""
        matches_per_pair = 2 * self.matches_per_lease
        pairs = self.parallel_matches[environment] // matches_per_pair
        if self.max_matches is not None:
            pairs = min(pairs, math.ceil((self.max_matches - played) / matches_per_pair))
        return 2 * max(1, pairs)

    def rest_s(self, play_s: float) -> float:
        """Return the seconds of rest after some seconds of play."""
        return play_s * (1.0 / self.duty - 1.0)

    def is_exhausted(self, played: int) -> bool:
        """Return whether `max_matches` are played."""
        return self.max_matches is not None and played >= self.max_matches


@dataclass(frozen=True)
class LoadedLease:
    """A lease with its two loaded players."""

    lease: wire.Lease
    home: Opponent
    away: Opponent


class EvaluationWorker:
    """Requests leases for pairs of frozen players, plays all of them at once and reports results through a spool.

    Args:
        session: Session with the league.
        pools: Opponent pool of each environment that it can play.
        spool: Spool of results.
        budget: Amount of matches to play.
        replays: Records and uploads some matches.
        env_cache: Opens environments.
        console: Prints progress.
        run_context: Clock and stop flag.
        rng: Random numbers for the jitter of polling.

    Attributes:
        matches: Number of matches played.
    """

    def __init__(
        self,
        session: EvaluatorSession,
        pools: Mapping[str, OpponentPool],
        spool: ResultSpool,
        budget: EvaluationBudget,
        replays: ReplayUploader,
        env_cache: EnvironmentCache,
        *,
        console: RunConsole,
        run_context: RunContext,
        rng: random.Random,
    ) -> None:
        self._session, self._pools, self._spool, self._budget = session, pools, spool, budget
        self._replays, self._env_cache = replays, env_cache
        self._console, self._run_context, self._rng = console, run_context, rng
        self._disk = DiskRetry(console.print)
        self._heartbeat_at = self._deliver_at = run_context.clock()
        self._commands = WorkerCommands(console)
        self._reported_players: set[str] = set()
        self._missing_since: float | None = None
        self._queues = {each: self._open_queue(each) for each in pools}
        self.matches = 0

    def run(self) -> None:
        """Play until a signal, a command of the league or the end of the budget, then deliver the results.

        Results that the league does not take in time stay in the spool. A full disk does not stop the evaluator.

        Raises:
            LeagueError: The league rejects the worker.
            UnsavedError: Results could not be written before a signal came.
        """
        try:
            while not self._stopping:
                self._sync_with_league(0.0)
                play_s = 0.0 if self._stopping else self._play_round()
                self._rest(self._budget.rest_s(play_s) if play_s else self._idle_s())
        except BaseException as error:
            # Not after Ctrl-C: a second signal asks to leave at once.
            if self._sync_spool() and isinstance(error, Exception):
                self._shut_down()
            self._disk.write("results", self._spool.close)
            raise
        written = self._sync_spool() or self._disk.retry_until_written(self._sync_spool, self._run_context)
        delivery = self._shut_down()
        self._disk.write("results", self._spool.close)
        if not written:
            raise UnsavedError(
                f"cannot write {self._spool.folder} ({self._disk.failures}): the results of the last matches are lost; "
                "free space on the disk and start again"
            )
        self._console.print(f"played {self.matches:,} rating matches; {delivery}")

    def _open_queue(self, environment: str) -> LeaseQueue:
        def request(count: int) -> list[wire.Lease] | None:
            return self._session.lease(environment, count, self._budget.matches_per_lease)

        return LeaseQueue(request, self._run_context.clock, self._run_context.now)

    def _sync_with_league(self, wait_s: float) -> None:
        """Make the calls to the league that are due.

        Args:
            wait_s: Seconds until the next round.
        """
        # Every other call needs the worker's id.
        if not self._session.register():
            return
        self._send_heartbeat()
        for environment, queue in self._queues.items():
            if not self._stopping:
                count = self._budget.lease_count(environment, self.matches)
                queue.refill(count, wait_s, self._poll_s)
                following = [seat.checkpoint for seat in queue.next_players(count) if seat.checkpoint]
                self._pools[environment].prefetch(following, self._must_not_download)
        if self._run_context.clock() >= self._deliver_at:
            self._deliver(self._report)
            if not self._spool.undelivered_bytes():  # a failed call is retried when its back-off ends
                self._deliver_at = self._run_context.clock() + DELIVERY_S
        self._replays.deliver(self._session.upload_replay)

    def _rest(self, seconds: float) -> None:
        """Rest for a time; meanwhile deliver results, request leases and retry failed calls."""
        until = self._run_context.clock() + seconds
        while not self._stopping and (left := until - self._run_context.clock()) > 0.0:
            self._sync_with_league(left)
            left = until - self._run_context.clock()
            self._run_context.pause(max(0.0, min(left, max(PAUSE_MIN_S, self._next_call_s(left)))))

    def _idle_s(self) -> float:
        """Return the seconds to wait if there is nothing to play."""
        wait_s = self._session.client.wait_s
        if not self._session.worker_id:
            return max(PAUSE_MIN_S, wait_s("registrations"))
        waits = [max(each.wait_s(), wait_s("downloads" if each else "leases")) for each in self._queues.values()]
        return max(PAUSE_MIN_S, min(waits))

    def _next_call_s(self, left: float) -> float:
        """Return the seconds until the next call is due in a rest with `left` seconds to go."""
        now = self._run_context.clock()
        waits = [self._heartbeat_at - now]
        if self._spool.undelivered_bytes():
            waits.append(max(self._deliver_at - now, self._session.client.wait_s("results")))
        for environment, queue in self._queues.items():
            if queue.shortage(self._budget.lease_count(environment, self.matches), left):
                waits.append(max(queue.wait_s(), self._session.client.wait_s("leases")))
            else:
                waits.append(left - AHEAD_S if left > AHEAD_S else left)
        return min(waits)

    def _poll_s(self) -> float:
        # Jitter, so that evaluators that found no pairs at the same time do not ask again together.
        return self._session.next_poll_s * self._rng.uniform(0.5, 1.5)

    def _shut_down(self) -> LastDelivery:
        """Deliver results within the shutdown grace, and release the leases that will not be played."""
        calls = LastCalls(self._session.client, self._run_context)
        delivery = calls.deliver(self._spool, self._deliver, self._report_registered)
        self._replays.deliver(self._session.upload_replay)
        # Returned, so that others can play these pairs before the leases expire.
        lease_ids = [lease_id for queue in self._queues.values() for lease_id in queue.clear()]
        if lease_ids and not self._run_context.past_grace():
            self._session.release(lease_ids, [])
        return delivery

    def _deliver(self, report: Report) -> bool:
        return self._disk.write("the delivery state of results", lambda: self._spool.deliver(report))

    def _report(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        answer = self._session.report(results)
        if answer is not None:
            self._replays.on_results(answer.items)
        return answer

    def _report_registered(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        """Register if necessary, then report results; the spool may hold those of an earlier process."""
        try:
            return self._report(results) if self._session.register() else None
        except LeagueError as error:
            if self._session.worker_id:
                raise
            logger.warning("%s", error)  # the worker is rejected, not the results
            return None

    def _sync_spool(self) -> bool:
        """Sync the spool. A restart continues no lease, so `rotate` may drop the sequences."""
        return self._disk.write("results", self._spool.sync) and self._disk.write(
            "a new file of results", self._spool.rotate
        )

    @property
    def _stopping(self) -> bool:
        return self._commands.stop_requested or self._run_context.stopping() or self._budget.is_exhausted(self.matches)

    def _must_not_download(self) -> bool:
        return self._stopping or self._session.client.wait_s("downloads") > 0.0

    def _play_round(self) -> float:
        """Play one round in every environment; return its duration in seconds, 0 if there were no matches."""
        play_s = 0.0
        for environment, pool in self._pools.items():
            queue = self._queues[environment]
            leases = [] if self._stopping else queue.take(self._budget.lease_count(environment, self.matches))
            loaded = self._load_players(pool, queue, leases)
            if loaded:
                began = self._run_context.clock()
                queue.start_round()
                self._play(environment, loaded)
                play_s += self._run_context.clock() - began
        return play_s

    def _send_heartbeat(self) -> None:
        if self._run_context.clock() >= self._heartbeat_at:
            self._heartbeat_at = self._run_context.clock() + self._session.heartbeat_s
            if (answer := self._session.heartbeat()) is None:
                self._heartbeat_at = self._run_context.clock() + self._session.client.wait_s("heartbeats")
            else:
                self._commands.handle(answer, self._session.worker_id)

    def _load_players(self, pool: OpponentPool, queue: LeaseQueue, leases: Sequence[wire.Lease]) -> list[LoadedLease]:
        """Load the players of leases; return no match while a checkpoint is still to be downloaded.

        Leases of players that cannot be loaded, or not be downloaded for `DOWNLOAD_PATIENCE_S`, are released.
        """
        players: dict[int, Opponent] = {}
        missing: list[tuple[wire.Seat, UnusableOpponentError]] = []
        for seat in {seat.player_id: seat for lease in leases for seat in (lease.home, lease.away)}.values():
            try:
                players[seat.player_id] = _load_player(pool, seat)
            except UnusableOpponentError as error:
                missing.append((seat, error))
        if self._should_wait(missing):
            # All of them, also those with loaded players: rounds of few matches would waste the time of a full one.
            queue.put_back(leases)
            return []
        for seat, reason in missing:
            if seat.name not in self._reported_players:  # once, because the league may choose the player often
                self._reported_players.add(seat.name)
                self._console.print(f"cannot play rating matches of {seat.name}: {reason}")
        loaded, refused = [], []
        for lease in leases:
            home, away = players.get(lease.home.player_id), players.get(lease.away.player_id)
            if home is None or away is None:
                refused.append(lease.lease_id)
            else:
                loaded.append(LoadedLease(lease, home, away))
        if refused:
            named = [each for seat, reason in missing for each in unplayable_report(seat.player_id, reason)]
            self._session.release(refused, named)
        return loaded

    def _should_wait(self, missing: Sequence[tuple[wire.Seat, UnusableOpponentError]]) -> bool:
        """Return whether to wait for checkpoints, because a small round takes as long as a full one."""
        now = self._run_context.clock()
        if not any(isinstance(error, UnavailableOpponentError) for _, error in missing):
            self._missing_since = None
            return False
        self._missing_since = now if self._missing_since is None else self._missing_since
        return now - self._missing_since < DOWNLOAD_PATIENCE_S

    def _play(self, environment: str, loaded: Sequence[LoadedLease]) -> None:
        """Play all matches at once and write their results to the spool."""
        entries = [(each, number) for each in loaded for number in range(each.lease.budget)]
        seeds = [match_seed(each.lease.seed, number) for each, number in entries]
        # From the leases and not from the clock: the same leases give the same matches.
        rng = torch.Generator().manual_seed(derive(seeds[0], "policies", loaded[0].lease.lease_id))
        watcher, recorder = BehaviourCallback(len(seeds)), self._replays.start_recording(environment)
        pairs = [(each.home.policy, each.away.policy) for each, _ in entries]
        seen_by = watcher if recorder is None else CallbackList(watcher, recorder)
        env = self._env_cache.open(environment, len(seeds))
        results = play_pairs_in(env, pairs, seeds, rng, watcher=seen_by)
        # A forfeited match goes on without a result, so its recording would show another end.
        if recorder is not None and results[0].reason != FORFEIT:
            first, number = entries[0]
            self._replays.add((first.lease.lease_id, number), recorder.finish((first.home.name, first.away.name)))
        for (each, number), result, behaviour in zip(entries, results, watcher.behaviours, strict=True):
            self._spool.append(
                wire.Result(
                    lease_id=each.lease.lease_id,
                    sequence=number,
                    score=result.score,
                    decisions=result.decisions,
                    reason=result.reason,
                    seed=result.seed,
                    behaviour=None if behaviour is None or result.reason == FORFEIT else _wire_behaviour(behaviour),
                )
            )
        self._sync_spool()
        self.matches += len(results)
        gate, players = loaded[0].lease.gate_id, {player.name for each in loaded for player in (each.home, each.away)}
        purpose = "rating matches" if gate is None else f"matches for gate {gate}"
        self._console.print(f"{environment}: {len(results)} {purpose} of {len(players)} players")


def _wire_behaviour(behaviour: Behaviour) -> wire.Behaviour:
    """Convert behaviour to its wire form, rounded to the precision that the league stores."""

    def rounded(side: Sequence[float | None]) -> list[float | None]:
        return [None if value is None else float(f"{value:.7g}") for value in side]

    return wire.Behaviour(measures=list(behaviour.measures), home=rounded(behaviour.home), away=rounded(behaviour.away))


def _load_player(pool: OpponentPool, seat: wire.Seat) -> Opponent:
    if seat.checkpoint is None:
        raise UnusableOpponentError(f"{seat.name} is not frozen: rating matches are between frozen players")
    return pool.resolve(seat.checkpoint, seat.name)
