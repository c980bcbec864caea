"""What a fleet takes is added up rightly, its workers live as the paper says, and what it used is read rightly."""

import asyncio
import sqlite3
from collections import Counter, OrderedDict, defaultdict
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from tools import tool

from benchmarks import fleet_simulation
from benchmarks.fleet import meter, trial
from benchmarks.fleet.life import Fleet, checkpoint
from benchmarks.fleet.pace import KINDS, Costs, Line, Pace, miss_rate, needs, rows_of
from league.storage.safetensors_header import read_header

PACE = Pace(snapshot_s=1e9, stay_s=300.0, away_s=30.0)
LEARNERS = [(1, 11), (2, 12)]


class Book:
    """A league that answers at once and writes down who asked for what, and when it was due."""

    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.due = defaultdict(list)
        self.bodies = defaultdict(list)
        self.latencies_s = defaultdict(list)
        self.granted = 0

    def now_s(self):
        return 0.0

    async def get(self, kind, due_s, path):
        self.due[kind].append(due_s)
        return b""

    async def post(self, kind, due_s, path, body):
        self.due[kind].append(due_s)
        self.bodies[kind].append(body)
        match kind:
            case "registration":
                return {"id": f"id of {body['name']}"}
            case "leases":
                return {"items": [self._lease() for _ in range(body["count"])]}
            case "results":
                return {"items": [{"status": "accepted"} for _ in body["results"]]}
        return {}

    def _lease(self):
        self.granted += 1
        opponent = {"player_id": int(self.rng.integers(100)), "checkpoint": "0" * 64}
        own = {"player_id": 11, "checkpoint": None}
        side = "away" if self.granted % 2 else "home"
        home, away = (opponent, own) if side == "away" else (own, opponent)
        return {"lease_id": str(self.granted), "seed": self.granted, "learner_side": side, "home": home, "away": away}


def lived(pace=PACE, workers=100, speed=10.0, minutes=30.0, ramp_s=0.0, seed=0):
    book = Book()
    fleet = Fleet(book, pace, speed, LEARNERS, 60.0 * minutes / speed, seed)
    asyncio.run(fleet.live(workers, ramp_s))
    return book, fleet


def costs(**changes):
    each = {kind: Line(0.001 * number, 0.0) for number, kind in enumerate(KINDS, start=1)}
    plain = Costs(
        calls=each, database=dict.fromkeys(KINDS, Line(0.0, 0.0)), idle_cores=0.5, close_s=2.0, close_database_s=1.0,
        lease_bytes=100.0, match_bytes=10.0, period_bytes=1_000.0, period_written_bytes=5_000.0,
        written_bytes={"leases": 7.0, "results": 3.0},
    )  # fmt: skip
    return replace(plain, **changes)


def test_a_fleet_calls_as_often_as_the_paper_says():
    pace = replace(PACE, stay_s=1800.0, away_s=180.0)
    book, fleet = lived(pace, minutes=60.0)
    foretold = {kind: 3600.0 * rate for kind, rate in pace.calls_per_s(100, miss=0.98).items()}
    for kind in ("heartbeat", "leases", "results", "download", "standings"):
        assert len(book.due[kind]) == pytest.approx(foretold[kind], rel=0.05), kind
    assert len(book.due["registration"]) - 100 == pytest.approx(foretold["registration"], rel=0.15)
    assert fleet.sent["accepted"] == pytest.approx(3600.0 * pace.matches_per_s(100), rel=0.05)
    assert fleet.drawn["all"] == pytest.approx(3600.0 * pace.leases_per_s(100), rel=0.05)


def test_nobody_calls_after_the_end_or_before_coming():
    book, fleet = lived(ramp_s=30.0)
    for kind in ("heartbeat", "leases", "results", "registration"):
        assert 0.0 <= min(book.due[kind]) <= max(book.due[kind]) < fleet.end_s
    assert sum(due <= 30.0 for due in book.due["registration"]) >= 100


def test_the_same_seed_is_the_same_fleet():
    first, again, other = (lived(workers=20, seed=seed)[0].due for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_each_match_of_a_lease_is_reported_once_and_none_beyond_its_budget():
    book, _ = lived(pace=replace(PACE, budget=5, reports=2))
    told = Counter(
        (each["lease_id"], each["sequence"]) for batch in book.bodies["results"] for each in batch["results"]
    )
    assert set(told.values()) == {1}
    assert {sequence for _, sequence in told} == set(range(5))
    assert len(told) <= 5 * book.granted  # who dropped out told the rest to nobody
    assert len(told) > 4 * book.granted


def test_workers_that_return_are_the_same_instances():
    book, _ = lived(workers=20)
    names = Counter((each["name"], each["instance"]) for each in book.bodies["registration"])
    assert len(names) == 20
    assert sum(names.values()) > 40


def test_workers_fetch_whom_they_do_not_keep():
    none, _ = lived(pace=replace(PACE, cache=0), workers=20)
    assert len(none.due["download"]) == none.granted
    few, fleet = lived(pace=replace(PACE, cache=50), workers=20, minutes=120.0)
    assert len(few.due["download"]) == fleet.drawn["fetched"]
    assert fleet.drawn["fetched"] / fleet.drawn["all"] == pytest.approx(miss_rate(np.full(100, 0.01), 50), abs=0.1)


@pytest.mark.parametrize("cache", [1, 10, 60])
def test_the_miss_rate_is_that_of_a_cache_of_the_most_recently_used(cache):
    rng = np.random.default_rng(cache)
    chances = 1.0 / np.arange(1, 101)
    chances /= chances.sum()
    kept, misses, draws = OrderedDict(), 0, rng.choice(100, 40_000, p=chances)
    for drawn in draws.tolist():
        misses += drawn not in kept
        kept[drawn] = None
        kept.move_to_end(drawn)
        if len(kept) > cache:
            kept.popitem(last=False)
    assert miss_rate(chances, cache) == pytest.approx(misses / len(draws), abs=0.02)


def test_the_miss_rate_at_its_ends():
    assert miss_rate(np.full(10, 0.1), 10) == 0.0
    assert miss_rate([0.5, 0.5, 0.0], 2) == 0.0
    assert miss_rate(np.full(10, 0.08), 0) == pytest.approx(0.8)
    assert miss_rate(np.full(1000, 0.001), 250) == pytest.approx(0.75)


def test_a_line_goes_through_both_kinds_of_call():
    line = Line.through(2, 0.005, 102, 0.010)
    assert (line.cpu_s(2), line.cpu_s(102)) == pytest.approx((0.005, 0.010))
    assert Line.through(2, 0.005, 102, 0.004) == Line(0.005, 0.0)
    assert Line.through(2, 0.001, 102, 0.500).fixed_s == 0.0


def test_needs_by_hand():
    pace = Pace(beat_s=10.0, round_s=60.0, leases=3, budget=4, reports=2, stay_s=90.0, away_s=10.0, learners=6,
                snapshot_s=60.0, visits_s=2.0)  # fmt: skip
    told = needs(costs(), pace, workers=1_000, miss=0.5, periods_per_s=0.1)
    # 900 are there: 10 registrations, 90 heartbeats, 15 leases, 30 results, 22.5 downloads, 0.1 snapshots, 0.5 tables
    assert told.calls_per_s == pytest.approx(168.1)
    assert told.api_cores == pytest.approx(0.5 + 0.01 + 0.18 + 0.045 + 0.12 + 0.1125 + 0.0006 + 0.0035)
    assert told.books_cores == pytest.approx(0.2)
    assert told.database_cores == pytest.approx(0.1)
    assert told.commits_per_s == pytest.approx(15 + 30 + 0.1)
    assert told.written_bytes_per_s == pytest.approx(500 + 15 * 7 + 30 * 3)
    assert told.grown_bytes_per_s == pytest.approx(180 * 10 + 45 * 100 + 100)
    assert told.downloads_per_s == pytest.approx(22.5)


def test_rows_cost_what_they_are():
    pace = Pace(leases=2, budget=4, reports=2)
    assert rows_of(pace)["leases"] == 2
    assert rows_of(pace)["results"] == 4
    dear = costs(calls=costs().calls | {"results": Line(0.0, 0.01)}, idle_cores=0.0)
    plain = costs(calls=costs().calls | {"results": Line(0.0, 0.0)}, idle_cores=0.0)
    matches = pace.matches_per_s(100)
    both = [needs(each, pace, 100, 0.0, 0.0).api_cores for each in (dear, plain)]
    assert both[0] - both[1] == pytest.approx(0.01 * matches)


def test_commits_to_a_sqlite_file_are_counted_one_by_one(tmp_path):
    file = tmp_path / "league.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers (number INTEGER, padding BLOB)")
        before, bytes_before = meter._sqlite_commits(file), meter._sqlite_bytes(file)
        for number in range(7):
            connection.execute("INSERT INTO numbers VALUES (?, zeroblob(4096))", (number,))
        connection.execute("SELECT * FROM numbers").fetchall()
        assert meter._sqlite_commits(file) - before == 7
        assert meter._sqlite_bytes(file) - bytes_before >= 7 * 4096
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("INSERT INTO numbers VALUES (7, NULL)")
        assert meter._sqlite_commits(file) - before == 8


def test_what_is_used_between_two_readings():
    assert meter.Used(3.0, 2.0, 1.0, 30, 20, 10) - meter.Used(1.0, 1.0, 1.0, 5, 6, 7) == meter.Used(
        2.0, 1.0, 0.0, 25, 14, 3
    )


def test_checkpoints_of_the_fleet_are_such_as_a_league_takes(tmp_path):
    rng = np.random.default_rng(0)
    first, second = checkpoint(rng), checkpoint(rng)
    assert first != second
    file = tmp_path / "one"
    file.write_bytes(first)
    with file.open("rb") as content:
        assert read_header(content, len(first), "one").metadata == {}


@pytest.mark.parametrize(
    "argument", ["--workers=0", "--speed=0", "--minutes=nan", "--minutes=2.9", "--cache=-1", "--beat-s=inf"]
)
def test_numbers_out_of_range_are_refused(argument, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fleet_simulation", argument])
    with pytest.raises(SystemExit) as ended:
        fleet_simulation.main()
    assert ended.value.code == 2
    assert argument.split("=")[0] in capsys.readouterr().err


def test_several_servers_are_refused_where_the_database_has_room_for_one(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fleet_simulation", "--servers", "2"])
    with pytest.raises(SystemExit):
        fleet_simulation.main()
    assert "give --backend postgresql" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "servers"), [("sqlite", 1), ("postgresql", 1), ("postgresql", 2)])
def test_a_small_fleet_on_a_real_server(backend, servers, monkeypatch, capsys):
    if servers > 1:
        tool("nginx", "install it to simulate several servers, as `apt-get install nginx` does")
    for name, least in (("CALLS", 30), ("SNAPSHOTS", 2), ("IDLE_S", 0.1), ("BULK_CALLS", 10)):
        monkeypatch.setattr(trial, name, least)
    given = ["--workers", "20", "--minutes", "3", "--speed", "30", "--servers", str(servers)]
    monkeypatch.setattr("sys.argv", ["fleet_simulation", "--backend", backend, *given])
    fleet_simulation.main()
    told = capsys.readouterr().out
    assert f"{backend}: each call by itself" in told
    assert "20 workers at 30 times their pace" in told
    assert "foretold by the costs above, not measured" in told
    assert ("cores of the proxy" in told) == (servers > 1)
