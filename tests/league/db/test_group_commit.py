"""Writes of several threads share a commit where the database has one writer, and nothing else."""

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest
from added_workers import NOW, adding, names
from sqlalchemy import event, select, text, update
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from league.db.bulk_insert import insert_new
from league.db.engine import Database
from league.db.group_commit import GroupCommit, one_by_one
from league.db.models import Worker

DEFECT = ZeroDivisionError("whoever divides by zero")
FULL = OperationalError("INSERT", {}, Exception("the disk is full"))
NO_CONNECTION = PoolTimeoutError("every connection is taken")


def run_behind_a_first(shared: GroupCommit, *works: Callable[[Session], str]) -> list[str | BaseException]:
    """Run works that all arrive while an earlier one writes; return what each returned or raised."""
    begun, go_on = threading.Event(), threading.Event()

    def first(session: Session) -> str:
        begun.set()
        assert go_on.wait(60)
        return adding("first")(session)

    with ThreadPoolExecutor(1 + len(works)) as pool:
        earlier = pool.submit(shared.run, one_by_one, first)
        assert begun.wait(60)
        later = [pool.submit(shared.run, one_by_one, work) for work in works]
        wait_for(shared, len(works))
        go_on.set()
        assert earlier.result(60) == "first"
        return [outcome(each) for each in later]


def wait_for(shared: GroupCommit, count: int) -> None:
    """Return once so many wait for the write that is under way."""
    while len(shared.waiting) < count:
        time.sleep(0.001)


def outcome(told: "Future[str]") -> str | BaseException:
    return told.exception(60) or told.result()


def test_requests_during_a_commit_share_the_next_one(database: Database) -> None:
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    told = run_behind_a_first(GroupCommit(database.write), *(adding(f"w{number}") for number in range(10)))
    assert told == [f"w{number}" for number in range(10)]
    assert len(commits) == 2
    assert names(database) == {"first", *(f"w{number}" for number in range(10))}


def test_committed_request_does_not_wait_for_later_ones(database: Database) -> None:
    shared, served = GroupCommit(database.write), threading.Event()

    def last(session: Session) -> str:
        assert served.wait(60), "the writes before this one have no answer yet"
        return adding("last")(session)

    with ThreadPoolExecutor(4) as pool:

        def first(session: Session) -> "list[Future[str]]":
            later = [pool.submit(shared.run, one_by_one, second), pool.submit(shared.run, one_by_one, adding("third"))]
            wait_for(shared, 2)
            return later

        def second(session: Session) -> "Future[str]":
            later = pool.submit(shared.run, one_by_one, last)
            wait_for(shared, 1)
            return later

        second_told, third_told = pool.submit(shared.run, one_by_one, first).result(60)
        last_told = second_told.result(60)
        assert third_told.result(60) == "third"
        served.set()
        assert last_told.result(60) == "last"
    assert names(database) == {"third", "last"}


def test_writes_of_many_threads_are_each_done_once(database: Database) -> None:
    shared = GroupCommit(database.write)
    expected = {f"{thread}-{number}" for thread in range(8) for number in range(10)}

    def add_ten(thread: int) -> list[str]:
        return [shared.run(one_by_one, adding(f"{thread}-{number}")) for number in range(10)]

    with ThreadPoolExecutor(8) as pool:
        told = [name for names in pool.map(add_ten, range(8)) for name in names]
    assert sorted(told) == sorted(expected)
    assert names(database) == expected


def test_failing_request_is_rolled_back_alone(database: Database) -> None:
    works = adding("before"), adding("broken", DEFECT), adding("after")
    told = run_behind_a_first(GroupCommit(database.write), *works)
    assert told == ["before", DEFECT, "after"]
    assert names(database) == {"first", "before", "after"}


@pytest.mark.parametrize("failure", [FULL, NO_CONNECTION])
def test_database_failure_fails_the_whole_group(database: Database, failure: Exception) -> None:
    works = adding("before"), adding("unlucky", failure), adding("after")
    told = run_behind_a_first(GroupCommit(database.write), *works)
    assert told == [failure] * 3
    assert names(database) == {"first"}


def test_database_failure_at_a_savepoint_fails_the_whole_group(database: Database) -> None:
    works = adding("before"), adding("broken", DEFECT), adding("unlucky", FULL)
    told = run_behind_a_first(GroupCommit(database.write), *works)
    assert told == [FULL] * 3
    assert names(database) == {"first"}


@pytest.mark.parametrize("failure", [FULL, DEFECT])
def test_failing_commit_fails_the_whole_group_and_stores_nothing(database: Database, failure: Exception) -> None:
    commits = 0

    def fail_after_the_first(_: object) -> None:
        nonlocal commits
        commits += 1
        if commits > 1:
            raise failure

    event.listen(database.engine, "commit", fail_after_the_first)
    shared = GroupCommit(database.write)
    assert run_behind_a_first(shared, adding("one"), adding("other")) == [failure] * 2
    event.remove(database.engine, "commit", fail_after_the_first)
    assert names(database) == {"first"}
    assert shared.run(one_by_one, adding("one")) == "one"
    assert names(database) == {"first", "one"}


@pytest.mark.parametrize("failure", [FULL, NO_CONNECTION, DEFECT])
def test_failure_to_begin_is_raised_in_waiting_requests(database: Database, failure: Exception) -> None:
    refusals = [failure]

    @contextmanager
    def refusing_once() -> Iterator[Session]:
        if refusals:
            raise refusals.pop()
        with database.write() as session:
            yield session

    shared = GroupCommit(refusing_once)
    with pytest.raises(type(failure), match=re.escape(str(failure))):
        shared.run(one_by_one, adding("unlucky"))
    assert shared.run(one_by_one, adding("lucky")) == "lucky"
    assert names(database) == {"lucky"}


def test_work_of_a_league_is_committed_before_its_answer(database: Database) -> None:
    assert database.group_commit(one_by_one, adding("told")) == "told"
    assert names(database) == {"told"}
    with pytest.raises(ZeroDivisionError):
        database.group_commit(one_by_one, adding("broken", DEFECT))
    assert names(database) == {"told"}


def test_work_of_a_kind_waits_for_the_next_transaction_on_every_database(database: Database) -> None:
    with ThreadPoolExecutor(2) as pool:

        def within(session: Session) -> "Future[str]":
            later = pool.submit(database.group_commit, one_by_one, adding("later"), "kind")
            wait([later], timeout=0.2)
            assert not later.done()
            adding("earlier")(session)
            return later

        assert database.group_commit(one_by_one, within, "kind").result(60) == "later"
    assert names(database) == {"earlier", "later"}


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_work_of_another_kind_does_not_wait_where_the_database_has_many_writers(database: Database) -> None:
    def within(session: Session) -> str:
        with ThreadPoolExecutor(1) as pool:
            others = [
                pool.submit(database.group_commit, one_by_one, adding(f"of {kind}"), kind) for kind in ("b", None)
            ]
            assert [other.result(60) for other in others] == ["of b", "of None"]
        return adding("of a")(session)

    assert database.group_commit(one_by_one, within, "a") == "of a"
    assert names(database) == {"of a", "of b", "of None"}


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_of_works_that_wait_for_each_other_one_is_done_again(database: Database) -> None:
    for name in ("one", "other"):
        database.group_commit(one_by_one, adding(name))
    both_hold, tries = threading.Barrier(2), Counter[str]()

    def crossing(mine: str, yours: str) -> Callable[[Session], None]:
        def work(session: Session) -> None:
            tries[mine] += 1
            session.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
            session.execute(update(Worker).where(Worker.id == mine).values(version=f"of {mine}"))
            if tries[mine] == 1:
                both_hold.wait(60)
            session.execute(update(Worker).where(Worker.id == yours).values(version=f"of {mine}"))

        return work

    with ThreadPoolExecutor(2) as pool:
        works = crossing("one", "other"), crossing("other", "one")
        for written in [pool.submit(database.group_commit, one_by_one, work) for work in works]:
            written.result(60)
    with database.read() as session:
        assert len(set(session.scalars(select(Worker.version)))) == 1
    assert sum(tries.values()) > 2


def add_all(session: Session, groups: Sequence[Sequence[str]]) -> list[int]:
    """Add workers of several requests in one statement; some names cannot be stored."""
    common = {"kind": "trainer", "version": "1", "signatures": "[]", "command": "continue"}
    names = [name for group in groups for name in group]
    if not names:
        raise DEFECT
    times = {"registered_at": NOW, "seen_at": NOW}
    insert_new(session, Worker, [{"id": name, "name": name or None, **common, **times} for name in names])
    return [len(group) for group in groups]


def add_together(database: Database, group: Sequence[str]) -> int:
    return database.group_commit(add_all, group, "workers", briefly=True)


def hold_first(database: Database, begun: threading.Event, go_on: threading.Event) -> list[str]:
    """Have the first statement of `add_all` wait; return the list that gets all its statements."""
    statements: list[str] = []

    def hold(*told: object) -> None:
        if "INSERT INTO workers" in str(told[2]):
            statements.append(str(told[2]))
            if len(statements) == 1:
                begun.set()
                assert go_on.wait(60)

    event.listen(database.engine, "before_cursor_execute", hold)
    return statements


def test_brief_writes_that_arrive_meanwhile_are_committed_together_and_answered_apart(database: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()
    statements = hold_first(database, begun, go_on)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(add_together, database, ["first"])
        assert begun.wait(60)
        groups = [["a"], ["b", "c"], ["d", "e", "f"]]
        rest = [pool.submit(add_together, database, group) for group in groups]
        wait_until_waiting(database, 3)
        go_on.set()
        assert [each.result(60) for each in (first, *rest)] == [1, 1, 2, 3]
    assert names(database) == {"first", *"abcdef"}
    assert len(statements) == (1 + 2 if database.sqlite else 1 + 1)  # SQLite takes powers of two


def test_a_brief_write_that_fails_leaves_its_neighbours_alone(database: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()
    hold_first(database, begun, go_on)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(add_together, database, ["first"])
        assert begun.wait(60)
        groups = [["before"], [], ["fine", ""], ["after"]]
        rest = [pool.submit(add_together, database, group) for group in groups]
        wait_until_waiting(database, 4)
        go_on.set()
        told = [each.exception(60) for each in (first, *rest)]
    assert [type(each) for each in told] == [type(None), type(None), ZeroDivisionError, IntegrityError, type(None)]
    assert names(database) == {"first", "before", "after"}


def wait_until_waiting(database: Database, count: int) -> None:
    """Return once so many wait for the statement that is under way."""
    shared = database._sqlite_writes if database.sqlite else database._shared[add_all, "workers", True]
    wait_for(shared, count)


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_brief_write_is_done_again_where_it_and_others_waited_for_each_other(database: Database) -> None:
    tries = 0

    def work(session: Session) -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            code = "DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40P01'; END $$"
            session.execute(text(code))
        return adding("told")(session)

    assert database.group_commit(one_by_one, work, briefly=True) == "told"
    assert tries == 2


# --- coroutines ------------------------------------------------------------------------------------------------------


def test_coroutines_and_threads_that_wait_share_a_commit_and_are_answered_apart(database: Database) -> None:
    begun, go_on, shared = threading.Event(), threading.Event(), GroupCommit(database.write)
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)

    def first(session: Session) -> str:
        begun.set()
        assert go_on.wait(60)
        return adding("first")(session)

    async def run(leaders: ThreadPoolExecutor) -> list[str | BaseException]:
        tasks = [asyncio.create_task(shared.run_async(one_by_one, first, leaders))]
        assert await asyncio.to_thread(begun.wait, 60)
        works = adding("before"), adding("broken", DEFECT), adding("after")
        tasks += [asyncio.create_task(shared.run_async(one_by_one, work, leaders)) for work in works]
        thread = asyncio.create_task(asyncio.to_thread(shared.run, one_by_one, adding("thread")))
        await asyncio.to_thread(wait_for, shared, 4)
        go_on.set()
        return await asyncio.gather(*tasks, thread, return_exceptions=True)

    with ThreadPoolExecutor(1) as leaders:
        assert asyncio.run(run(leaders)) == ["first", "before", DEFECT, "after", "thread"]
    assert names(database) == {"first", "before", "after", "thread"}
    assert len(commits) == 2


@pytest.mark.parametrize("cancelled", [0, 1])
def test_a_cancelled_coroutine_does_not_hold_up_the_others(database: Database, cancelled: int) -> None:
    async def run() -> str:
        works = adding("one"), adding("other"), adding("last")
        tasks = [asyncio.create_task(database.group_commit_async(one_by_one, work, "kind")) for work in works]
        await asyncio.sleep(0)
        tasks[cancelled].cancel()
        return await tasks[-1]

    assert asyncio.run(run()) == "last"
