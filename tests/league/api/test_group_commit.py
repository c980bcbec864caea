"""Writes that arrive together share a commit, and nothing else."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from added_workers import adding, names
from league_scene import Scene
from refused import refused
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from league import wire
from league.api.group_commit import AsyncGroupCommit
from league.db.engine import Database
from league.db.models import Worker
from league.errors import UnknownWorkerError

REFUSED = UnknownWorkerError("nobody", "no worker has this id", "register")


Work = Callable[[Session], str]


def one_after_another(session: Session, works: Sequence[Work]) -> list[str]:
    """Do works as they come."""
    return [work(session) for work in works]


def run_behind_a_first(database: Database, *works: Work, most: int = 64) -> tuple[list[Any], int]:
    """Run works that all arrive while an earlier one writes; return what they came to, and the transactions it took."""
    begun, go_on, transactions = threading.Event(), threading.Event(), 0

    def count(_: object) -> None:
        nonlocal transactions
        transactions += 1

    def first(session: Session) -> str:
        begun.set()
        assert go_on.wait(60)
        return adding("first")(session)

    async def run() -> list[Any]:
        commits = AsyncGroupCommit(database, one_after_another, most=most)
        tasks = [asyncio.create_task(commits.run(first))]
        assert await asyncio.to_thread(begun.wait, 60)
        tasks += [asyncio.create_task(commits.run(work)) for work in works]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    event.listen(database.engine, "commit", count)
    outcomes = asyncio.run(run())
    assert outcomes[0] == "first"
    return outcomes[1:], transactions - 1


def test_requests_during_a_commit_share_the_next_one(database: Database) -> None:
    told, transactions = run_behind_a_first(database, *(adding(f"w{number}") for number in range(10)))
    assert told == [f"w{number}" for number in range(10)]
    assert transactions == 1
    assert names(database) == {"first", *told}


def test_transactions_have_a_size_limit(database: Database) -> None:
    told, transactions = run_behind_a_first(database, *(adding(f"w{number}") for number in range(10)), most=4)
    assert (len(told), transactions) == (10, 3)
    assert len(names(database)) == 11


def test_a_refusal_leaves_nothing_behind_and_its_neighbours_alone(database: Database) -> None:
    told, _ = run_behind_a_first(database, adding("before"), adding("refused", REFUSED), adding("after"))
    assert told == ["before", REFUSED, "after"]
    assert names(database) == {"first", "before", "after"}


def test_a_refusal_alone_leaves_nothing_behind_either(database: Database) -> None:
    told, _ = run_behind_a_first(database, adding("refused", REFUSED))
    assert told == [REFUSED]
    assert names(database) == {"first"}


def test_a_defect_leaves_its_neighbours_alone(database: Database) -> None:
    defect = ZeroDivisionError("whoever divides by zero")
    told, _ = run_behind_a_first(database, adding("before"), adding("broken", defect), adding("after"))
    assert told == ["before", defect, "after"]
    assert names(database) == {"first", "before", "after"}


def test_cancelled_request_does_not_block_the_group_commit(database: Database) -> None:
    async def run() -> str:
        commits = AsyncGroupCommit(database, one_after_another)
        cut_off = asyncio.create_task(commits.run(adding("cut-off")))
        stayed = asyncio.create_task(commits.run(adding("stayed")))
        await asyncio.sleep(0)
        cut_off.cancel()
        return await stayed

    assert asyncio.run(run()) == "stayed"


def test_many_workers_at_once_are_each_answered_for_themselves(scene: Scene, database: Database) -> None:
    def call(number: int) -> str:
        worker = scene.worker(f"crowd-{number}", "trainer")
        if number % 3 == 0:
            with refused("unknown-worker", f"ghost-{number}"):
                scene.client.heartbeat(f"ghost-{number}")
        progress = wire.LearnerProgress(learner_id=scene.learner.id, step=number)
        assert scene.client.heartbeat(worker.id, wire.Heartbeat(learners=[progress])).command == "continue"
        return worker.id

    with ThreadPoolExecutor(12) as pool:
        ids = list(pool.map(call, range(36)))
    assert len(set(ids)) == 36
    with database.read() as session:
        assert session.scalar(select(func.count()).where(Worker.name.startswith("crowd-"))) == 36
