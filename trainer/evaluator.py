"""`trainer evaluate`: play the rating matches that the league asks for, with a bounded share of one core."""

import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from arena.behaviour import Behaviour, BehaviourWatcher
from arena.environments import EnvironmentSpec
from arena.playing import FORFEIT, Several, play_pairs_in
from arena.seeding import derive, match_seed
from league import wire
from league.client import LeagueClient
from league.errors import LeagueError
from trainer.disk import Disk
from trainer.errors import UnsavedError, UnusableOpponentError
from trainer.grounds import Grounds
from trainer.link import Link
from trainer.opponents import Opponent, OpponentPool, unplayable
from trainer.orders import Orders
from trainer.recordings import Recordings
from trainer.spool import Spool
from trainer.surroundings import Surroundings
from trainer.terminal import Terminal

HEARTBEAT_MAX_S = 30.0
"""Longest time between two beats: how soon a worker hears that it is to stop."""

logger = logging.getLogger(__name__)


class RatingMembership:
    """An evaluator's side of the league's contract; a league that is away or refuses is waited out.

    Attributes:
        next_poll_s: When to ask again after there was nothing to play.
        kind: Of the worker.
    """

    kind: ClassVar[wire.WorkerKind] = "evaluator"

    def __init__(
        self, link: Link, specs: Sequence[EnvironmentSpec], *, name: str, version: str, instance: str | None = None
    ) -> None:
        self._link, self._name, self._version, self._instance = link, name, version, instance
        self._signatures = [spec.signature for spec in specs]
        self._worker: wire.Worker | None = None
        self.next_poll_s = 1.0
        self._spared_s = 0.0

    def attach(self) -> bool:
        """Register once; false while the league is away.

        Raises:
            LeagueError: The league refuses.
        """
        return self._worker is not None or self._link.attempt("registrations", self._register) is not None

    @property
    def heartbeat_s(self) -> float:
        """Time between two beats; longer where the league has too many of them."""
        own_s = HEARTBEAT_MAX_S if self._worker is None else min(HEARTBEAT_MAX_S, self._worker.heartbeat_s)
        return max(own_s, self._spared_s)

    def lease(self, environment: str, count: int, budget: int) -> list[wire.Lease]:
        """Ask for pairs to play; none where there are none, or the league is away."""
        request = wire.RatingLeases(
            kind="rating", worker_id=self.worker_id, environment=environment, count=count, budget=budget
        )
        answer = self._link.ask("leases", lambda client: client.lease(request), self._register)
        if answer is None:
            return []
        self.next_poll_s = answer.next_poll_s
        return answer.items

    def release(self, lease_ids: list[str], unplayable: list[wire.UnplayablePlayer]) -> None:
        """Give leases back that will not be played, and name those on them who cannot be played at all."""
        request = wire.ReleaseRequest(worker_id=self.worker_id, lease_ids=lease_ids, unplayable=unplayable)
        self._link.ask("releases", lambda client: client.release(request), self._register)

    def report(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        """Report matches; None while the league is away.

        Raises:
            LeagueError: The league refuses the batch.
        """
        if self._worker is None:
            return None
        batch = wire.ResultBatch(worker_id=self.worker_id, results=results)
        return self._link.submit("results", lambda client: client.report(batch), self._register)

    def send_recording(self, match_id: int, recording: bytes) -> bool:
        """Send the recording of an accepted match; false where that is to be tried again later."""
        try:
            answer = self._link.submit(
                "replays", lambda client: client.upload_replay(match_id, recording), self._register
            )
        except LeagueError as error:
            logger.warning("%s", error)
            return True  # another attempt would be refused as well
        return answer is not None

    def beat(self) -> wire.HeartbeatAnswer | None:
        """Give a sign of life; None while the league is away."""
        answer = self._link.ask("heartbeats", lambda client: client.heartbeat(self.worker_id), self._register)
        if answer is not None:
            self._spared_s = answer.next_heartbeat_s
        return answer

    @property
    def worker_id(self) -> str:
        """By which the league knows this worker; empty before the first registration."""
        return "" if self._worker is None else self._worker.id

    def _register(self, client: LeagueClient) -> wire.Worker:
        self._worker = client.register_worker(
            wire.WorkerCreate(
                name=self._name,
                kind=self.kind,
                version=self._version,
                signatures=self._signatures,
                instance=self._instance,
            )
        )
        return self._worker


@dataclass(frozen=True)
class Pace:
    """How much an evaluator plays.

    Attributes:
        matches: How many at once, by environment, > 0.
        budget: Matches per lease, > 0; a pair has two leases, on either side.
        duty: Share of the time that is spent playing, in (0, 1].
        most: Matches in all; None for as many as there are.
    """

    matches: Mapping[str, int]
    budget: int
    duty: float
    most: int | None = None

    def leases(self, environment: str, played: int) -> int:
        """Return how many leases to play at once: of as many pairs as there is room for, and of one at least."""
        pairs = self.matches[environment] // (2 * self.budget)
        if self.most is not None:
            pairs = min(pairs, math.ceil((self.most - played) / (2 * self.budget)))
        return 2 * max(1, pairs)

    def over(self, played: int) -> bool:
        """Say whether that were enough matches."""
        return self.most is not None and played >= self.most


@dataclass(frozen=True)
class Table:
    """A lease, and who plays it."""

    lease: wire.Lease
    home: Opponent
    away: Opponent


class EvaluationWorker:
    """Leases pairs of frozen players, plays all of them at once and reports through a spool.

    Args:
        membership: The league.
        pools: For every environment that it can play, where players come from.
        spool: Where results wait for the league.
        pace: How much it plays.
        recordings: What it records of that.
        grounds: Where it plays.
        terminal: Tells a person how it goes.
        outside: Time and signals.
        rng: Chance of the pauses' jitter.
    """

    def __init__(
        self,
        membership: RatingMembership,
        pools: Mapping[str, OpponentPool],
        spool: Spool,
        pace: Pace,
        recordings: Recordings,
        grounds: Grounds,
        *,
        terminal: Terminal,
        outside: Surroundings,
        rng: random.Random,
    ) -> None:
        self._membership, self._pools, self._spool, self._pace = membership, pools, spool, pace
        self._recordings, self._grounds = recordings, grounds
        self._terminal, self._outside, self._rng = terminal, outside, rng
        self._disk = Disk(terminal.say)
        self._beat_at = outside.clock()
        self._orders = Orders(terminal)
        self._told: set[str] = set()
        self.matches = 0

    def run(self) -> None:
        """Play until a signal or the league's word; what was played is delivered, or waits in the spool.

        What the disk refuses is kept and tried again: a full one stops nothing.

        Raises:
            LeagueError: The league refuses the worker.
            UnsavedError: The disk refuses results, and a signal came while it was waited for.
        """
        try:
            while not self._leaving:
                self._play_and_rest()
        except BaseException:
            self._write()
            self._disk.write("results", self._spool.close)
            raise
        written = self._write() or self._disk.insist(self._write, self._outside)
        self._disk.write("results", self._spool.close)
        if not written:
            raise UnsavedError(
                f"{self._spool.folder} is not written ({self._disk.refused}), and the results of the last matches are "
                "lost: make room and start again"
            )
        self._terminal.say(f"played {self.matches:,} rating matches")

    def _play_and_rest(self) -> None:
        """Play a round, deliver it, and pause for what it took of the time, or as long as the league says."""
        started = self._outside.clock()
        played = self._membership.attach() and self._round()
        self._disk.write("how far results are delivered", lambda: self._spool.deliver(self._report))
        self._recordings.deliver(self._membership.send_recording)
        busy = self._outside.clock() - started
        jitter = self._rng.uniform(0.5, 1.5)
        self._rest(busy * (1.0 / self._pace.duty - 1.0) if played else self._membership.next_poll_s * jitter)

    def _rest(self, seconds: float) -> None:
        """Pause, with signs of life meanwhile: behind a long round the league would take the worker for gone."""
        while seconds > 0.0 and not self._leaving:
            part = min(seconds, self._membership.heartbeat_s)
            self._outside.pause(part)
            seconds -= part
            if seconds > 0.0 and self._membership.worker_id:
                self._beat()

    def _report(self, results: list[wire.Result]) -> wire.ResultBatchAnswer | None:
        answer = self._membership.report(results)
        if answer is not None:
            self._recordings.heed(answer.items)
        return answer

    def _write(self) -> bool:
        """Bring results to the disk; no lease is played on after a restart, so their sequences may be forgotten."""
        return self._disk.write("results", self._spool.sync) and self._disk.write(
            "a new file of results", self._spool.settle
        )

    @property
    def _leaving(self) -> bool:
        return self._orders.dismissed or self._outside.stopping() or self._pace.over(self.matches)

    def _round(self) -> bool:
        """Play one batch of every environment; false if there was none."""
        self._beat()
        before = self.matches
        for environment, pool in self._pools.items():
            if not self._leaving:
                count = self._pace.leases(environment, self.matches)
                leases = self._membership.lease(environment, count, self._pace.budget)
                self._play(environment, self._playable(pool, leases))
        return self.matches > before

    def _beat(self) -> None:
        if self._outside.clock() >= self._beat_at:
            self._beat_at = self._outside.clock() + self._membership.heartbeat_s
            if (answer := self._membership.beat()) is not None:
                self._orders.heed(answer, self._membership.worker_id)

    def _playable(self, pool: OpponentPool, leases: Sequence[wire.Lease]) -> list[Table]:
        """Return who sits where, and give back the leases on which somebody cannot be played."""
        players: dict[int, Opponent] = {}
        named: list[wire.UnplayablePlayer] = []
        for seat in {seat.player_id: seat for lease in leases for seat in (lease.home, lease.away)}.values():
            try:
                players[seat.player_id] = _player(pool, seat)
            except UnusableOpponentError as error:
                self._tell(seat, error)
                named += unplayable(seat.player_id, error)
        refused = [lease.lease_id for lease in leases if not players.keys() >= _seated(lease)]
        if refused:
            self._membership.release(refused, named)
        return [
            Table(lease, players[lease.home.player_id], players[lease.away.player_id])
            for lease in leases
            if lease.lease_id not in refused
        ]

    def _play(self, environment: str, tables: Sequence[Table]) -> None:
        """Play all matches of leases at once and bring their results to the disk."""
        if not tables:
            return
        entries = [(table, number) for table in tables for number in range(table.lease.budget)]
        seeds = [match_seed(table.lease.seed, number) for table, number in entries]
        rng = torch.Generator().manual_seed(derive(seeds[0], "policies", tables[0].lease.lease_id))
        watcher, film = BehaviourWatcher(len(seeds)), self._recordings.film(environment)
        pairs = [(table.home.policy, table.away.policy) for table, _ in entries]
        seen_by = watcher if film is None else Several(watcher, film)
        env = self._grounds.open(environment, len(seeds))
        results = play_pairs_in(env, pairs, seeds, rng, watcher=seen_by)
        if film is not None and results[0].reason != FORFEIT:
            first, number = entries[0]
            self._recordings.keep((first.lease.lease_id, number), film.finish((first.home.name, first.away.name)))
        for (table, number), result, behaviour in zip(entries, results, watcher.behaviours, strict=True):
            self._spool.append(
                wire.Result(
                    lease_id=table.lease.lease_id,
                    sequence=number,
                    score=result.score,
                    decisions=result.decisions,
                    reason=result.reason,
                    seed=result.seed,
                    behaviour=None if behaviour is None or result.reason == FORFEIT else _reported(behaviour),
                )
            )
        self._write()
        self.matches += len(results)
        gate, players = tables[0].lease.gate_id, set().union(*(_seated(table.lease) for table in tables))
        purpose = "rating matches" if gate is None else f"matches for gate {gate}"
        self._terminal.say(f"{environment}: {len(results)} {purpose} of {len(players)} players")

    def _tell(self, seat: wire.Seat, error: UnusableOpponentError) -> None:
        """Say that a player cannot be played, once: it may be drawn again and again."""
        if seat.name not in self._told:
            self._told.add(seat.name)
            self._terminal.say(f"rating matches of {seat.name} cannot be played: {error}")


def _reported(behaviour: Behaviour) -> wire.Behaviour:
    home, away = ([_rounded(value) for value in side] for side in (behaviour.home, behaviour.away))
    return wire.Behaviour(measures=list(behaviour.measures), home=home, away=away)


def _rounded(value: float | None) -> float | None:
    """Keep as many digits as a league stores."""
    return None if value is None else float(f"{value:.7g}")


def _seated(lease: wire.Lease) -> set[int]:
    return {lease.home.player_id, lease.away.player_id}


def _player(pool: OpponentPool, seat: wire.Seat) -> Opponent:
    if seat.checkpoint is None:
        raise UnusableOpponentError(f"{seat.name} is not frozen: rating matches are between frozen players")
    return pool.resolve(seat.checkpoint, seat.name)
