"""Kills at random moments, and what the league is worth after them."""

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kills import witness
from kills.fleet import ENVIRONMENT, Fleet, Size
from kills.verdict import Keeper, Verdict, judge
from kills.witness import Memory, Witness
from league.client import LeagueClient
from league.errors import LeagueError

TICK_S = 0.02
Say = Callable[[str], None]


@dataclass(frozen=True)
class Campaign:
    """How much is killed, and what.

    Attributes:
        backend: `sqlite` or `postgresql`.
        size: How many processes.
        witnesses: Workers beside those of the fleet that remember every answer.
        kills: How many.
        mean_gap_s: Seconds from one kill to the next, on the average of an exponential distribution.
        seed: Of who is killed when, and of the witnesses.
    """

    backend: str
    size: Size
    witnesses: int
    kills: int
    mean_gap_s: float
    seed: int


@dataclass(frozen=True)
class Report:
    """What became of a campaign.

    Attributes:
        verdict: Of the league at the end.
        kills: How many of each kind of process.
        took_s: From the first kill to the last.
        recovered_s: From the last kill until everything was at work again.
        memories: Of the witnesses.
        starts_in_vain: How servers ended that nobody killed, such as those that found no database.
    """

    verdict: Verdict
    kills: dict[str, int]
    took_s: float
    recovered_s: float
    memories: list[Memory]
    starts_in_vain: list[str]


def run(campaign: Campaign, folder: Path, say: Say) -> Report:
    """Start a league in an empty folder, kill its processes, and judge what is left."""
    rng = random.Random(campaign.seed)
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(folder, campaign.backend, campaign.size))
        keeper = Keeper(folder / "results")
        witnesses = [
            Witness(fleet.proxy.url, f"witness-{n}", random.Random(rng.random())) for n in range(campaign.witnesses)
        ]
        for each in witnesses:
            each.start()
            stack.callback(each.stop)
        _wait_for_work(fleet, keeper, witnesses)
        say("everything is at work")
        began_s = time.monotonic()
        _kill(campaign, fleet, keeper, rng, say)
        ended_s = time.monotonic()
        _wait_for_work(fleet, keeper, witnesses)
        recovered_s = time.monotonic() - ended_s
        say("everything is at work again")
        for each in witnesses:
            each.stop()
        broken = _leave(fleet, keeper)
        memories = [each.memory for each in witnesses]
        verdict = judge(fleet, keeper, memories)
        verdict.broken[:0] = broken
        in_vain = [end for server in fleet.servers for end in server.by_itself]
    return Report(verdict, dict(fleet.kills), ended_s - began_s, recovered_s, memories, in_vain)


def _kill(campaign: Campaign, fleet: Fleet, keeper: Keeper, rng: random.Random, say: Say) -> None:
    due_s = time.monotonic()
    told = 0
    while (done := fleet.kills.total()) < campaign.kills:
        if time.monotonic() >= due_s:
            fleet.kill(rng)
            due_s = time.monotonic() + rng.expovariate(1.0 / campaign.mean_gap_s)
        if done // 100 > told:
            told = done // 100
            say(f"{done} kills")
        _tick(fleet, keeper)


def _tick(fleet: Fleet, keeper: Keeper) -> None:
    fleet.revive()
    for worker in fleet.workers:
        keeper.look(worker)
    time.sleep(TICK_S)


def _wait_for_work(fleet: Fleet, keeper: Keeper, witnesses: Sequence[Witness]) -> None:
    """Wait until every server answers and the league takes something new from every trainer and witness."""
    before: dict[str, int] = {}
    taken = [len(each.memory.matches) for each in witnesses]
    while not (_answer(fleet) and _go_on(fleet, before) and _reported(witnesses, taken)):
        _tick(fleet, keeper)


def _reported(witnesses: Sequence[Witness], taken: Sequence[int]) -> bool:
    """Say whether each witness has had more taken than before, or was refused, which is judged later."""
    return all(
        len(each.memory.matches) > before or not each.at_work for each, before in zip(witnesses, taken, strict=True)
    )


def _answer(fleet: Fleet) -> bool:
    addresses = fleet.addresses()
    return len(addresses) == len(fleet.servers) and all(map(_ready, addresses))


def _ready(address: tuple[str, int]) -> bool:
    host, port = address
    try:
        with LeagueClient(f"http://{host}:{port}") as client:
            return client.health().status == "ok"
    except LeagueError:
        return False


def _go_on(fleet: Fleet, before: dict[str, int]) -> bool:
    """Say whether every learner has come further, by what the league knows, than when this was first asked."""
    try:
        with LeagueClient(fleet.proxy.url) as client:
            steps = {each.name: each.step or 0 for each in client.learners(ENVIRONMENT).items}
    except LeagueError:
        return False
    if len(steps) < sum(worker.kind == "trainer" for worker in fleet.workers):
        return False
    for name, step in steps.items():
        before.setdefault(name, step)
    return all(steps[name] > step for name, step in before.items())


def _leave(fleet: Fleet, keeper: Keeper) -> list[str]:
    """End all as one does, and have everything rated; return who did not end well."""
    broken = []
    for worker in fleet.workers:
        status = worker.terminate()
        keeper.look(worker)
        if status != 0:
            broken.append(f"{worker.log.stem} left with status {status}")
    with LeagueClient(fleet.proxy.url) as client:
        for environment in (ENVIRONMENT, witness.ENVIRONMENT):
            client.close_period(environment)
    ended = {server.log.stem: server.terminate() for server in fleet.servers}
    well = (0, -signal.SIGTERM)
    return broken + [f"{name} ended with status {status}" for name, status in ended.items() if status not in well]
