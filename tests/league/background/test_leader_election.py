"""One office, one holder: until its term ends, or it resigns."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from league.background import leader_election
from league.db.engine import Database

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def stands(database: Database, candidate: str, after_s: float = 0.0, task: str = "periods of rps") -> bool:
    with database.write() as session:
        return leader_election.acquire(session, task, candidate, NOON + timedelta(seconds=after_s), term_s=30.0)


def test_leader_keeps_its_role_until_the_lease_expires(database: Database) -> None:
    assert stands(database, "first")
    assert not stands(database, "second", after_s=29.9)
    assert stands(database, "second", after_s=30.0)
    assert not stands(database, "first", after_s=30.1)


def test_a_holder_at_work_stays_in_office(database: Database) -> None:
    assert all(stands(database, "first", after_s) for after_s in (0.0, 20.0, 40.0, 60.0))
    assert not stands(database, "second", after_s=89.0)
    assert stands(database, "second", after_s=90.0)


def test_offices_are_apart_and_resigning_frees_all_of_one_s_own(database: Database) -> None:
    assert stands(database, "first")
    assert stands(database, "second", task="periods of recall")
    with database.write() as session:
        leader_election.release(session, "first")
    assert stands(database, "third")
    assert not stands(database, "third", task="periods of recall")


def test_an_office_that_a_clock_took_before_it_was_set_back_is_free(database: Database) -> None:
    assert stands(database, "first", after_s=86_400.0)
    assert not stands(database, "second", after_s=86_400.0 - 30.0), "clocks of two servers are a little apart"
    assert stands(database, "second")
    assert not stands(database, "first")


def test_concurrent_candidates_elect_one_leader(database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        elected = list(pool.map(lambda name: stands(database, str(name)), range(16)))
    assert sum(elected) == 1
