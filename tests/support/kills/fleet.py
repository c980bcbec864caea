"""All processes of one league: a database, servers behind one address, trainers of every role, evaluators."""

import math
import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import postgres_server
from fault_proxy import Address, Proxy, passing_on

from kills.processes import Command, kill_child

ENVIRONMENT = "recall"
SMALL = ("environment.num_envs=8", "rollout.num_steps=16", "rollout.bptt_horizon=8", "run.save_every_updates=7")
PACE = ("league.backoff_max_s=0.5", "league.heartbeat_s=1", "league.lease_budget=4")
SERVER = {
    "LEAGUE_AGGREGATION_INTERVAL_S": "0.2",
    "LEAGUE_AGGREGATION_TERM_S": "1",
    "LEAGUE_PERIOD_GAMES": "5",
    "LEAGUE_PERIOD_SPACING_S": "1",
}
OF_DATABASE = "database", "connection"
WEIGHTS = {"server": 4, "books": 2, "trainer": 4, "evaluator": 3, "network": 2, "database": 1, "connection": 1}
"""How often what is killed; `connection` is one of the database's own processes, `network` what is under way to servers
and comes from them, for a moment."""

BAD_WEATHER_MAX_S = 1.0


@dataclass(frozen=True)
class Size:
    """How many processes.

    Attributes:
        servers: API processes; each has another that keeps the books.
        roles: Of the trainers, one each; the name of a trainer's learner is its role.
        evaluators: How many.
        snapshot_steps: A main publishes a snapshot every so many steps.
    """

    servers: int
    roles: tuple[str, ...]
    evaluators: int
    snapshot_steps: int


class Fleet:
    """Processes of a league, started when entered; what ended by itself or was killed is started by `revive`.

    Args:
        folder: Where all of it is; empty.
        backend: `sqlite` or `postgresql`.
        size: How many processes.

    Attributes:
        proxy: The one address of all servers.
        workers: Trainers and evaluators.
        kills: How many of each kind so far.
    """

    def __init__(self, folder: Path, backend: str, size: Size) -> None:
        self.folder, self._backend, self._size = folder, backend, size
        self.kills: Counter[str] = Counter()
        self._stack = ExitStack()
        self._fair_at_s = math.inf
        self._kinds = [kind for kind in WEIGHTS if backend != "sqlite" or kind not in OF_DATABASE]
        self._deck: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._database = self._start_database(stack)
            home = self.folder / "home"
            home.mkdir()
            self.variables = {"LEAGUE_HOME": str(home), "LEAGUE_DATABASE_URL": self.database_url, **SERVER}
            self.servers = [
                Command("server", ["league", "serve", "--port", "0"], self.variables, self.folder / f"server-{n}.log")
                for n in range(self._size.servers)
            ]
            self.proxy: Proxy = stack.enter_context(passing_on(self.addresses))
            self.workers = [*map(self._trainer, self._size.roles), *map(self._evaluator, range(self._size.evaluators))]
            stack.callback(self._end)
            self.revive()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kill(self, rng: random.Random) -> None:
        """Kill a process that is there; of every kind in turn as often as its weight says, in a random order."""
        if not self._deck:
            self._deck = [kind for kind in self._kinds for _ in range(WEIGHTS[kind])]
        kind = rng.choice(self._deck)
        if self._kill(kind, rng):
            self._deck.remove(kind)
            self.kills[kind] += 1

    def revive(self) -> None:
        """Start again what is not there: the same command, and nothing else."""
        if self._database is not None and self._database.ended:
            self._database.start()
        if time.monotonic() >= self._fair_at_s:
            self.proxy.fair()
            self._fair_at_s = math.inf
        for command in (*self.servers, *self.workers):
            command.revive()

    @property
    def database_url(self) -> str:
        """Of the league."""
        return f"sqlite:///{self.folder / 'home' / 'league.db'}" if self._database is None else self._database.url

    def _kill(self, kind: str, rng: random.Random) -> bool:
        if kind in OF_DATABASE:
            return self._kill_in_database(kind, rng)
        if kind == "network":
            return self._break_network(rng)
        wanted = "server" if kind == "books" else kind
        there = [each for each in (*self.servers, *self.workers) if each.kind == wanted and each.pid is not None]
        if not there:
            return False
        chosen = rng.choice(there)
        if kind == "books":
            return chosen.pid is not None and kill_child(chosen.pid, rng)
        chosen.kill(rng)
        return True

    def _break_network(self, rng: random.Random) -> bool:
        rng.choice((self.proxy.cut, self.proxy.hold, self.proxy.deafen))()
        self._fair_at_s = time.monotonic() + rng.uniform(0.0, BAD_WEATHER_MAX_S)
        return True

    def _kill_in_database(self, kind: str, rng: random.Random) -> bool:
        if self._database is None or self._database.ended:
            return False
        if kind == "connection":
            return kill_child(self._database.pid, rng)
        self._database.kill()
        return True

    def _start_database(self, stack: ExitStack) -> postgres_server.Server | None:
        return None if self._backend == "sqlite" else stack.enter_context(postgres_server.killable())

    def addresses(self) -> list[Address]:
        """Where servers listen that are there."""
        said = [
            command.said().partition("listening on ")[2].partition(";")[0] for command in self.servers if command.pid
        ]
        urls = [urlsplit(url) for url in said if url]
        return [(url.hostname, url.port) for url in urls if url.hostname and url.port]

    def _trainer(self, role: str) -> Command:
        settings = (*SMALL, *PACE, f"league.snapshot_every_steps={self._size.snapshot_steps}")
        learner = ("--learner", role.replace("_", "-"), "--role", role)
        return self._worker("trainer", role, "run", *learner, *(word for each in settings for word in ("--set", each)))

    def _evaluator(self, number: int) -> Command:
        name = f"evaluator-{number}"
        return self._worker("evaluator", name, "evaluate", "--name", name, "--num-envs", "8", "--record-every", "5")

    def _worker(self, kind: str, name: str, command: str, *options: str) -> Command:
        folder = self.folder / name
        reach = ("--url", self.proxy.url, "--run", str(folder), "--environment", ENVIRONMENT)
        return Command(kind, ["trainer", command, *reach, *options], {}, folder.with_suffix(".log"))

    def _end(self) -> None:
        for command in (*self.workers, *self.servers):
            command.end()
