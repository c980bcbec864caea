"""Rating matches that an evaluator delivers over a bad network, as a share of those over a clean one.

    python -m studies.bad_network
    python -m studies.bad_network --seconds 30 --repeats 1 --environment rps --json

An HTTP proxy on loopback stands between a real `trainer evaluate` and a real `league serve`. On the bad network it
fails the given share of the calls, drawn from the seed, in four ways in turn: it resets the connection before the
server sees the call, it answers 502, it resets the connection after the server has answered, and it never answers.
Runs on the clean and on the bad network alternate. Each run ends with SIGINT on a network that works again; results
that the evaluator then leaves in its spool are counted as unsent.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import torch
from sqlalchemy import func, select

from arena.environments import declare
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Match
from served import serving
from trainer.config.loading import resolve
from league.client.result_spool import ResultSpool

FAULTS = ("reset before", "error", "reset after", "silence")
_BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class LossyProxy:
    """An HTTP proxy that fails a share of the calls.

    Args:
        server: Host and port to pass calls on to.
        seed: Of the faults.

    Attributes:
        share: Share of the calls that fail, in [0, 1].
        calls: How many calls passed, and how many failed in each way.
    """

    def __init__(self, server: tuple[str, int], seed: int) -> None:
        self._server, self._rng = server, random.Random(seed)
        self.share = 0.0
        self.calls: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one call, or fail it."""
        try:
            if call := await _read_call(reader):
                await self._answer(call, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the caller, the server or the proxy has gone
        finally:
            writer.transport.abort()

    async def _answer(self, call: bytes, writer: asyncio.StreamWriter) -> None:
        fault = self._rng.choice(FAULTS) if self._rng.random() < self.share else "passed"
        self.calls[fault] += 1
        if fault == "silence":
            await asyncio.sleep(3600.0)
        if fault == "error":
            writer.write(_BAD_GATEWAY)
        if fault in ("passed", "reset after"):
            answer = await self._fetch(call)
            if fault == "passed":
                writer.write(answer)
        if writer.transport.get_write_buffer_size() or fault in ("passed", "error"):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _fetch(self, call: bytes) -> bytes:
        source, sink = await asyncio.open_connection(*self._server)
        try:
            sink.write(call)
            return await source.read(-1)
        finally:
            sink.close()


async def _read_call(reader: asyncio.StreamReader) -> bytes:
    """Read one request; asks the server to close the connection behind its answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
    sizes = [int(line.partition(b":")[2]) for line in lines if line.lower().startswith(b"content-length:")]
    body = await reader.readexactly(sizes[0]) if sizes else b""
    return b"\r\n".join([*lines, b"Connection: close", b"", body])


@contextmanager
def proxied(server: tuple[str, int], seed: int) -> Iterator[tuple[LossyProxy, str]]:
    """Run a proxy in a thread; yields it with its address."""
    loop, proxy = asyncio.new_event_loop(), LossyProxy(server, seed)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    starting = asyncio.start_server(proxy.serve, "127.0.0.1", 0, backlog=256)
    listener = asyncio.run_coroutine_threadsafe(starting, loop).result()
    try:
        yield proxy, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(_stop(listener), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(listener: asyncio.Server) -> None:
    """Listen no more, and end the calls that are never answered."""
    listener.close()
    calls = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


@dataclass(frozen=True)
class Outcome:
    """One run of an evaluator.

    Attributes:
        network: `clean` or `bad`.
        matches: Rating matches that the server had accepted at the end of the window.
        unsent: Bytes of results that still waited in the spool after the evaluator had left.
        calls: Of the proxy, by what became of them.
        last_line: Of the evaluator.
    """

    network: str
    matches: int
    unsent: int
    calls: dict[str, int]
    last_line: str

    @property
    def line(self) -> str:
        """What to print of it."""
        calls = ", ".join(f"{count} {what}" for what, count in sorted(self.calls.items()))
        return f"{self.network:5} {self.matches:6,} matches, {self.unsent} bytes unsent; calls: {calls}"


def publish_players(url: str, environment: str, players: int) -> None:
    """Publish untrained networks as snapshots, which the evaluator rates."""
    spec, network = declare(environment), resolve(environment, None, []).network
    with LeagueClient(url) as client:
        client.register_worker(
            wire.WorkerCreate(name="publisher", kind="trainer", version="0", signatures=[spec.signature])
        )
        learner = client.register_learner(
            wire.LearnerCreate(name="main", role="main", environment=environment, signature=spec.signature)
        )
        for step in range(1, players + 1):
            torch.manual_seed(step)
            architecture = Architecture.of(
                spec, encoder_sizes=network.encoder_sizes, recurrent_size=network.recurrent_size
            )
            checkpoint = encode(ActorCritic(architecture), spec)
            sha256 = hashlib.sha256(checkpoint).hexdigest()
            client.upload(checkpoint, sha256)
            client.publish(wire.PlayerCreate(learner_id=learner.id, checkpoint=sha256, step=step))


def run_evaluator(
    proxy: LossyProxy, url: str, folder: Path, options: argparse.Namespace, *, share: float, database: Database
) -> Outcome:
    """Let an evaluator play for a while, then end it on a network that works."""
    log = folder.with_suffix(".log")
    command = [sys.executable, "-m", "trainer", "evaluate", "--url", url, "--run", str(folder)]
    command += ["--environment", options.environment, "--duty", str(options.duty), "--name", folder.name]
    command += [] if options.num_envs is None else ["--num-envs", str(options.num_envs)]
    proxy.calls.clear()
    proxy.share = share
    before = count_matches(database)
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        while b"playing rating matches" not in log.read_bytes():
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        time.sleep(options.seconds)
        matches, calls = count_matches(database) - before, dict(proxy.calls)
        proxy.share = 0.0
        process.send_signal(signal.SIGINT)
        process.wait(60.0)
    finally:
        process.kill()
        process.wait()
    return Outcome(
        "bad" if share else "clean", matches, unsent(folder), calls, log.read_text().strip().splitlines()[-1]
    )


def count_matches(database: Database) -> int:
    """Return how many rating matches the league has."""
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(Match).where(Match.kind == "rating")) or 0


def unsent(folder: Path) -> int:
    """Return the bytes of results in a run folder that the league has not answered."""
    spool = ResultSpool(folder / "spool")
    with suppress(OSError):
        spool.close()
    return spool.undelivered_bytes()


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", default="mech-duel")
    parser.add_argument("--players", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=90.0, help="of each run, after its start")
    parser.add_argument("--repeats", type=int, default=3, help="runs on each network")
    parser.add_argument("--share", type=float, default=0.36, help="of the calls that fail on the bad network")
    parser.add_argument("--duty", type=float, default=0.25, help="of the evaluator")
    parser.add_argument("--num-envs", type=int, default=None, help="of the evaluator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        outcomes = measure(Path(made), options)
    report(outcomes, options)


def measure(folder: Path, options: argparse.Namespace) -> list[Outcome]:
    """Run evaluators on the clean and the bad network in turn."""
    outcomes = []
    with serving(folder) as served:
        publish_players(served.url, options.environment, options.players)
        database = Database(f"sqlite:///{folder / 'league.db'}")
        parts = urlsplit(served.url)
        with proxied((parts.hostname or "", parts.port or 0), options.seed) as (proxy, url):
            for number in range(options.repeats):
                for share in (0.0, options.share):
                    run = folder / f"evaluator-{number}-{'bad' if share else 'clean'}"
                    outcomes.append(run_evaluator(proxy, url, run, options, share=share, database=database))
                    if not options.json:
                        print(outcomes[-1].line, flush=True)
        database.close()
    return outcomes


def report(outcomes: list[Outcome], options: argparse.Namespace) -> None:
    """Print the medians and their ratio."""
    clean, bad = (
        statistics.median(each.matches for each in outcomes if each.network == network) for network in ("clean", "bad")
    )
    found = {
        "environment": options.environment,
        "seconds": options.seconds,
        "share": options.share,
        "clean": clean,
        "bad": bad,
        "ratio": bad / max(clean, 1),
        "unsent_bytes": sum(each.unsent for each in outcomes),
        "runs": [asdict(each) for each in outcomes],
    }
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{options.environment}, {options.seconds:g} s: clean {clean:g}, bad {bad:g}, ratio {found['ratio']:.2f}")


if __name__ == "__main__":
    main()
