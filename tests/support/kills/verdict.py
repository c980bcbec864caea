"""What must hold of a league whose processes were killed, whatever the moment."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import func, select

from arena.errors import CheckpointError
from arena.policies import load
from kills.fleet import ENVIRONMENT
from kills.processes import Command
from kills.witness import Key, Memory
from league.client.result_spool import ResultSpool
from league.db.engine import Database
from league.db.models import Lease, Match, Period, Player, Worker
from trainer.checkpointing import format as state
from trainer.errors import StateError

EXAMPLES = 3
Told = tuple[float, int]
"""Score and seed of a result."""


@dataclass
class Verdict:
    """What was found.

    Attributes:
        broken: What should hold and does not, in words.
        matches: In the league's log, by who reported them.
        periods: Closed.
        checkpoints: Read and whole.
    """

    broken: list[str] = field(default_factory=list)
    matches: Counter[str] = field(default_factory=Counter)
    periods: int = 0
    checkpoints: int = 0


class Remains(Protocol):
    """What is left of a league whose servers have ended.

    Attributes:
        folder: With a server's `home` in it.
        database_url: Its database, which still runs.
        variables: Settings of its servers.
        workers: Trainers and evaluators.
    """

    folder: Path
    variables: Mapping[str, str]
    workers: Sequence[Command]

    @property
    def database_url(self) -> str: ...


class Keeper:
    """Keeps a second name of every file of results, so that they can be read after their worker removed them.

    Args:
        folder: Where, on the same disk; made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def look(self, worker: Command) -> None:
        """Keep what there is by now."""
        for path in (worker.run_folder / "spool").glob("results-*.jsonl"):
            name = self._folder / f"{worker.log.stem}-{path.name}"
            if not name.exists():
                os.link(path, name)

    def results(self, worker: Command) -> Iterator[dict[str, object]]:
        """Read all results that a worker has ever written down."""
        for path in sorted(self._folder.glob(f"{worker.log.stem}-results-*.jsonl")):
            yield from map(json.loads, path.read_text().splitlines())


def judge(left: Remains, keeper: Keeper, memories: Iterable[Memory]) -> Verdict:
    """Look at everything; all processes have ended but the database, and every period is closed."""
    verdict = Verdict()
    database = Database(left.database_url)
    try:
        with database.read() as session:
            names = {row.id: row.name for row in session.execute(select(Worker.id, Worker.name))}
            query = select(Match.lease_id, Match.sequence, Match.id, Match.score, Match.seed, Lease.worker_id)
            log = session.execute(query.join(Lease, Lease.id == Match.lease_id)).all()
            rated = session.scalar(select(func.sum(Period.matches))) or 0
            verdict.periods = session.scalar(select(func.count()).select_from(Period)) or 0
            checkpoints = {row.id: row.checkpoint for row in session.execute(select(Player.id, Player.checkpoint))}
    finally:
        database.close()
    verdict.matches.update(names[row.worker_id] for row in log)
    if rated != len(log):
        verdict.broken.append(f"{len(log)} matches were accepted, {rated} are counted by periods")
    matches = {(row.lease_id, row.sequence): row.id for row in log}
    for memory in memories:
        verdict.broken += memory.broken
        verdict.broken += _forgotten("answered results", memory.matches, matches)
        verdict.broken += _forgotten("published snapshots", memory.published, checkpoints)
    told = {(row.lease_id, row.sequence): (row.score, row.seed) for row in log}
    for worker in left.workers:
        reported = {key: told[key] for key, row in zip(told, log, strict=True) if _is_of(names[row.worker_id], worker)}
        verdict.broken += _compare(worker, keeper, reported)
    verdict.broken += [f"`league admin check`: {line}" for line in _checked(left)]
    verdict.broken += [*_unloadable(left), *_unsound(left)]
    verdict.checkpoints = sum(checkpoint is not None for checkpoint in checkpoints.values())
    return verdict


def _is_of(name: str, worker: Command) -> bool:
    stem = worker.log.stem
    return name == (stem if worker.kind == "evaluator" else f"trainer-{stem.replace('_', '-')}-{ENVIRONMENT}")


def _forgotten(what: str, remembered: Mapping[object, object], kept: Mapping[object, object]) -> Iterator[str]:
    wrong = [key for key, value in remembered.items() if kept.get(key) != value]
    if wrong:
        yield f"{what} that the league does not have so: {len(wrong)}, such as {wrong[:EXAMPLES]}"


def _compare(worker: Command, keeper: Keeper, reported: Mapping[Key, Told]) -> Iterator[str]:
    """What a worker has written down, but for what still waits, is what the league has of it."""
    name, lines = worker.log.stem, list(keeper.results(worker))
    written = {(str(line["lease_id"]), int(str(line["sequence"]))): line for line in lines}
    if len(written) != len(lines):
        yield f"{name} wrote {len(lines) - len(written)} results twice"
    lost = written.keys() - reported.keys() - _waiting(worker)
    if lost:
        yield f"of {len(lines)} results that {name} delivered the league lacks {len(lost)}: {sorted(lost)[:EXAMPLES]}"
    invented = reported.keys() - written.keys()
    if invented:
        yield f"{name} never wrote {len(invented)} of its matches: {sorted(invented)[:EXAMPLES]}"
    other = [key for key in reported.keys() & written.keys() if reported[key] != _told(written[key])]
    if other:
        yield f"{len(other)} matches of {name} ended otherwise than it says: {other[:EXAMPLES]}"
    refused = worker.run_folder / "spool" / "refused.jsonl"
    if refused.exists():
        yield f"{name} was refused results: {refused.read_text().splitlines()[:EXAMPLES]}"


def _told(line: Mapping[str, object]) -> Told:
    return float(str(line["score"])), int(str(line["seed"]))


def _waiting(worker: Command) -> set[Key]:
    """Results that a worker had no time to send before it left; it sends them when it goes on."""
    found: list[Key] = []
    spool = ResultSpool(worker.run_folder / "spool")
    spool.deliver(lambda results: found.extend((each.lease_id, each.sequence) for each in results))
    spool.close()
    return set(found)


def _checked(left: Remains) -> list[str]:
    """What `league admin check` finds, which computes every rating and payoff again from the log."""
    command = [sys.executable, "-m", "league", "admin", "check", "--json"]
    ended = subprocess.run(command, env=os.environ | left.variables, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return []
    return [str(item) for item in json.loads(ended.stdout)["items"]] if ended.stdout else [ended.stderr.strip()]


def _unloadable(left: Remains) -> Iterator[str]:
    """Every checkpoint of a trainer plays; `league admin check` has compared the hashes of all."""
    for path in sorted((left.folder / "home" / "checkpoints").glob("[0-9a-f][0-9a-f]/*")):
        if path.name.startswith(".") or b"witnessed-1" in path.read_bytes()[:500]:
            continue
        try:
            load(path)
        except CheckpointError as error:
            yield f"checkpoint {path.name} does not load: {error}"


def _unsound(left: Remains) -> Iterator[str]:
    """Runs can be resumed, and no worker or server stumbled over what a kill had left."""
    for worker in left.workers:
        if worker.kind == "trainer":
            try:
                state.load(worker.run_folder / "state.safetensors")
            except StateError as error:
                yield f"the state of {worker.log.stem} does not load: {error}"
        if "Traceback" in worker.log.read_text():
            yield f"{worker.log.stem} failed: see {worker.log}"
        yield from (f"{worker.log.stem} ended by itself, {end}" for end in worker.by_itself)
