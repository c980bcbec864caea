"""How players play: reported with results, stored, added up when asked, and compared."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from refused import refused
from sqlalchemy import func, select

from league import wire
from league.cli import connection, main
from league.db.engine import Database
from league.db.models import Behaviour, MeasureSet
from league.errors import UnknownPlayerError
from league.services.audit.log import Cause
from league.services.matches import behaviours
from league.services.operations import export, fork, import_, integrity
from league.services.operations.archive import ArchiveReader
from league.services.operations.fork import League
from league.services.population.cache import load
from league.services.promotion import behaviour_profiles
from league.services.promotion.behaviour_profiles import RecentBehaviour
from league.storage.local import DirectoryStore

MEASURES = ["range_m", "zone_share"]


def played(home: list[float | None], away: list[float | None], measures: list[str] = MEASURES) -> wire.Behaviour:
    return wire.Behaviour(measures=measures, home=home, away=away)


def report(scene: Scene, styles: dict[int, list[float | None]], count: int = 4) -> list[wire.Lease]:
    """Play rating matches in which everybody plays in its style."""
    leases = scene.rating_leases(count)
    results = [
        result(lease, behaviour=played(*(styles.get(seat.player_id, [0.0, 0.0]) for seat in (lease.home, lease.away))))
        for lease in leases
    ]
    assert {each.status for each in scene.report(*results, worker=scene.evaluator)} == {"accepted"}
    return leases


def sums(database: Database) -> dict[tuple[int, str], tuple[int, float, float]]:
    with database.read() as session:
        recent = behaviour_profiles.of_environment(session, load(session, "rps"))
    return {
        (player, measure): (int(matches), total, squares)
        for player, row in recent.rows.items()
        for measure, (matches, total, squares) in zip(recent.measures, recent.sums[:, row].T.tolist(), strict=True)
        if matches
    }


def count(database: Database, table: Any) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_behaviour_is_stored_once_with_its_result(scene: Scene, database: Database) -> None:
    scene.publish(1)
    lease = scene.rating_leases(1)[0]
    with_it = result(lease, behaviour=played([7.5, None], [3.0, 0.25]))
    told = [scene.report(each, worker=scene.evaluator)[0].status for each in (with_it, with_it)]
    assert told == ["accepted", "duplicate"]
    others = [result(lease, behaviour=played([7.5, 0.0], [3.0, 0.25])), result(lease)]
    assert [scene.report(each, worker=scene.evaluator)[0].status for each in others] == ["conflict", "conflict"]
    assert (count(database, Behaviour), count(database, MeasureSet)) == (1, 1)


def test_match_shows_reported_behaviour_of_both_sides_exactly(scene: Scene) -> None:
    scene.publish(1)
    first, second = scene.rating_leases(2)
    style = played([0.1, None], [3.0, 1e-7])
    told = scene.report(result(first, behaviour=style), result(second), worker=scene.evaluator)
    shown = [scene.client.match(each.match_id or 0) for each in told]
    assert [each.behaviour for each in shown] == [style, None]
    assert [each.lease_id for each in shown] == [first.lease_id, second.lease_id]


def test_integrity_check_finds_changed_behaviour(scene: Scene, database: Database, tmp_path: Any, time: Any) -> None:
    store = DirectoryStore(tmp_path / "checkpoints", 2**20)
    scene.publish(1)
    report(scene, {})
    assert integrity.check(database, store, unpublished_before=time.now) == []
    with database.write() as session:
        changed = session.scalars(select(Behaviour).limit(1)).one()
        changed.home = changed.home[::-1] if changed.home != changed.home[::-1] else b"\1" * len(changed.home)
    (found,) = integrity.check(database, store, unpublished_before=time.now)
    assert f"(wrong hash): {changed.match_id}" in found.finding


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ({"measures": ["a"], "home": [1.0, 2.0], "away": [1.0]}, "measure"),
        ({"measures": ["a", "a"], "home": [1.0, 2.0], "away": [1.0, 2.0]}, "measures"),
        ({"measures": ["a\nb"], "home": [1.0], "away": [1.0]}, "behaviour.measures.0='a\\nb'"),
        ({"measures": ["a"], "home": [1e31], "away": [1.0]}, "behaviour.home.0=1e+31"),
        ({"measures": ["a"], "home": [True], "away": [1.0]}, "behaviour.home.0=True"),
        ({"measures": [f"m{k}" for k in range(65)], "home": [0] * 65, "away": [0] * 65}, "at most 64 items"),
        ({"measures": ["a"], "home": [1.0]}, "behaviour.away"),
    ],
)
@ON_SQLITE
def test_invalid_behaviour_is_rejected(scene: Scene, http: TestClient, behaviour: dict[str, Any], told: str) -> None:
    scene.publish(1)
    good, bad = (result(lease).model_dump(mode="json") for lease in scene.rating_leases(2))
    body = {"worker_id": scene.evaluator.id, "results": [good, bad | {"behaviour": behaviour}]}
    items = http.post("/api/v1/results", json=body).json()["items"]
    assert [item["status"] for item in items] == ["accepted", "rejected"]
    assert told in items[1]["detail"]


@ON_SQLITE
def test_a_value_that_is_no_number_fails_no_other_result(scene: Scene, http: TestClient) -> None:
    scene.publish(1)
    good, bad = (result(lease).model_dump(mode="json") for lease in scene.rating_leases(2))
    bad["behaviour"] = {"measures": ["a"], "home": [float("nan")], "away": [1]}
    body = json.dumps({"worker_id": scene.evaluator.id, "results": [good, bad]})
    items = http.post("/api/v1/results", content=body, headers={"content-type": "application/json"}).json()["items"]
    assert [item["status"] for item in items] == ["accepted", "rejected"]
    assert "behaviour.home.0=nan" in items[1]["detail"]


def test_sums_are_those_of_the_matches(scene: Scene, database: Database) -> None:
    one, other = scene.publish(1), scene.publish(2)
    styles: dict[int, list[float | None]] = {one.id: [2.0, None], other.id: [5.0, 0.5]}
    leases = report(scene, styles)
    seats = [seat.player_id for lease in leases for seat in (lease.home, lease.away)]
    expected = {}
    for player, style in styles.items():
        for measure, value in zip(MEASURES, style, strict=True):
            if value is not None and (matches := seats.count(player)):
                expected[player, measure] = (matches, matches * value, matches * value**2)
    baseline = scene.baseline().id
    assert {key: each for key, each in sums(database).items() if key[0] != baseline} == expected


def test_only_a_player_s_newest_matches_count(
    scene: Scene, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = scene.publish(1).id
    for style in (1.0, 3.0):
        report(scene, {player: [style, style]})
    monkeypatch.setattr(behaviour_profiles, "RECENT", 2)
    assert sums(database)[player, "range_m"] == (2, 6.0, 18.0)
    monkeypatch.setattr(behaviour_profiles, "NEWEST", 1)
    assert sums(database)[player, "range_m"] == (1, 3.0, 9.0)


def test_behaviour_follows_the_trust_in_its_worker(scene: Scene, database: Database, time: Any) -> None:
    styles: dict[int, list[float | None]] = {scene.publish(step).id: [1.0, 0.5] for step in range(2)}
    report(scene, styles)
    scene.client.close_period()
    trusted = sums(database)
    scene.client.quarantine_worker(scene.evaluator.id, time.now, "it lies")
    assert sums(database) == {}
    scene.client.reinstate_worker(scene.evaluator.id, restore=True)
    assert sums(database) == trusted


def test_names_that_never_end_are_left_out(scene: Scene, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviour_profiles, "MEASURES_MAX", 3)
    scene.publish(1)
    for first in ("a", "c", "e"):
        lease = scene.rating_leases(1)[0]
        names = [first, first + "2"]
        scene.report(result(lease, behaviour=played([1.0, 2.0], [3.0, 4.0], names)), worker=scene.evaluator)
    assert {measure for _, measure in sums(database)} == {"c", "e", "e2"}, "the newest"


def test_sets_of_names_that_never_end_are_left_out_and_their_results_count(
    scene: Scene, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behaviours, "SETS_MAX", 2)
    scene.publish(1)
    shown = []
    for name in ("a", "b", "c", "d", "e", "a", "e"):
        lease = scene.rating_leases(1)[0]
        style = played([1.0], [2.0], [name])
        (answer,) = scene.report(result(lease, behaviour=style), worker=scene.evaluator)
        assert answer.status == "accepted"
        shown.append(scene.client.match(answer.match_id or 0).behaviour is not None)
    assert shown == [True, True, False, False, False, True, False]
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(MeasureSet)) == 2


def test_new_measure_covers_later_matches_only(scene: Scene, database: Database) -> None:
    player = scene.publish(1).id
    for measures in (["range_m"], ["heat_share", "range_m"]):
        lease = next(each for each in scene.rating_leases(8) if player in (each.home.player_id, each.away.player_id))
        values: list[float | None] = [2.0] * len(measures)
        scene.report(result(lease, behaviour=played(values, values, measures)), worker=scene.evaluator)
    scene.client.close_period()
    found = sums(database)
    assert (found[player, "range_m"][0], found[player, "heat_share"][0]) == (2, 1)


def test_fork_keeps_behaviour_profiles(
    scene: Scene, database: Database, twin_database_url: str, tmp_path: Path, time: Any
) -> None:
    styles: dict[int, list[float | None]] = {scene.publish(step).id: [1.0 / (step + 1), None] for step in range(3)}
    report(scene, styles)
    cut = scene.client.close_period()
    then = sums(database)
    time.advance(60)
    report(scene, styles)
    scene.client.close_period()
    store, other = (DirectoryStore(tmp_path / name, 2**20) for name in ("checkpoints", "other"))
    twin = Database(twin_database_url)
    fork.fork(League(database, store), League(twin, other), cut.id, tmp_path, Cause("test", "", time.now), silent)
    assert sums(twin) == then != sums(database)
    twin.close()


def test_a_copy_has_all_that_was_reported(
    scene: Scene, database: Database, other_empty_url: str, tmp_path: Path, time: Any
) -> None:
    report(scene, {scene.publish(1).id: [0.1, None]})
    scene.client.close_period()
    export.export(database, DirectoryStore(tmp_path / "checkpoints", 2**20), tmp_path / "copy.zip", time.now, silent)
    copy = Database(other_empty_url)
    with ArchiveReader(tmp_path / "copy.zip") as archive:
        import_.load(archive, copy, DirectoryStore(tmp_path / "other", 2**20), time.now, silent)
    assert sums(copy) == sums(database) != {}
    assert behaviours_of(copy) == behaviours_of(database)
    copy.close()


# --- shown -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[wire.Player]:
    """Five snapshots that go closer and closer; the second plays like the first, the last was never measured."""
    players = [scene.publish(step) for step in range(5)]
    ranges = {players[0].id: 10.0, players[1].id: 10.1, players[2].id: 5.0, players[3].id: 1.0}
    rows = {player: row for row, player in enumerate(sorted(ranges))}
    sums = np.array([[_sums(ranges[player], 1.0), _sums(0.5, 0.01)] for player in rows])
    recent = RecentBehaviour(rows, MEASURES, sums.transpose(2, 0, 1))
    monkeypatch.setattr(behaviour_profiles, "of_environment", lambda *_: recent)
    return players


def _sums(mean: float, variance: float) -> list[float]:
    return [100.0, 100.0 * mean, 100.0 * (mean**2 + variance)]


def test_player_profile_lists_similar_players(scene: Scene, measured: list[wire.Player]) -> None:
    first, twin, third, fourth, _ = measured
    shown = scene.client.fingerprint(first.id)
    assert (shown.player.player_id, shown.environment) == (first.id, scene.environment)
    assert shown.players == 5, "four snapshots and a baseline"
    range_m, zone = shown.measures
    assert (range_m.name, range_m.matches, range_m.mean, range_m.population_mean) == ("range_m", 100, 10.0, 6.525)
    assert range_m.error == pytest.approx(0.1005, abs=1e-4)
    assert range_m.spread == pytest.approx(4.39, abs=0.05)
    assert range_m.z_score == pytest.approx((10.0 - 6.525) / range_m.spread, abs=1e-4)
    assert (zone.mean, zone.spread, zone.z_score) == (0.5, 0.0, None)
    assert [each.player.player_id for each in shown.nearest] == [twin.id, third.id, fourth.id]
    assert shown.nearest[0].distance <= shown.nearest[0].bound < 0.1
    assert shown.nearest[1].distance == pytest.approx(5.0 / range_m.spread, abs=1e-2)
    assert [each.measures for each in shown.nearest] == [1, 1, 1]
    assert scene.client.fingerprint(first.id, limit=1).nearest == shown.nearest[:1]


def test_unmeasured_player_has_no_profile(scene: Scene, measured: list[wire.Player]) -> None:
    shown = scene.client.fingerprint(measured[4].id)
    assert [(each.matches, each.mean, each.error, each.z_score) for each in shown.measures] == [
        (0, None, None, None)
    ] * 2
    assert shown.nearest == []


def test_league_without_behaviour_has_an_empty_state(scene: Scene) -> None:
    shown = scene.client.fingerprint(scene.publish(1).id)
    assert (shown.measures, shown.nearest) == ([], [])


def test_two_players_are_compared_though_one_is_out_of_play(scene: Scene, measured: list[wire.Player]) -> None:
    first, _, third, *_ = measured
    scene.client.retire(third.id)
    assert third.id not in {each.player.player_id for each in scene.client.fingerprint(first.id).nearest}
    (there,) = scene.client.fingerprint(first.id, other=third.id).nearest
    assert there.player.player_id == third.id
    assert there.distance > 1.0
    with pytest.raises(UnknownPlayerError):
        scene.client.fingerprint(first.id, other=10**6)


def test_players_of_different_signatures_are_not_compared(scene: Scene, measured: list[wire.Player]) -> None:
    stranger = Scene(scene.client, "recall", "recall-1").publish(1, content=77)
    with refused("invalid-request", "recall", "recall-1", "main@0", "rps"):
        scene.client.fingerprint(measured[0].id, other=stranger.id)


@ON_SQLITE
def test_the_command_prints_one_player_or_two(
    scene: Scene, measured: list[wire.Player], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: scene.client)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["player", "compare", *map(str, arguments)])
        assert not ended.value.code
        return capsys.readouterr().out

    first, twin, third, _, unknown = measured
    one = run(first.id)
    assert f"{first.name} of rps, compared with 5 other" in one
    assert re.search(r"range_m +10 +0\.2 +6\.5\d +\+0\.79 +100", one)
    assert re.search(rf"{twin.id} +{twin.name}", one)
    two = run(first.id, third.id)
    assert re.search(r"range_m +10 +0\.2 +5 +0\.2 +-1\.\d\d", two)
    assert re.search(r"1\.1\d standard deviations apart over 1 measures \(95 % upper bound 1\.\d\d\)", two)
    assert "no common measure" in run(first.id, unknown.id)
    assert json.loads(run(first.id, "--json")) == scene.client.fingerprint(first.id, 5).model_dump(mode="json")
    both = json.loads(run(first.id, third.id, "--json"))
    assert both["player"]["nearest"][0]["player"]["player_id"] == third.id


# --- carried ---------------------------------------------------------------------------------------------------------


def silent(_what: str, _done: int, _of: int) -> None:
    """Hear of no progress."""


def behaviours_of(database: Database) -> list[tuple[Any, ...]]:
    with database.read() as session:
        query = select(*Behaviour.__table__.columns, MeasureSet.measures).join(MeasureSet).order_by(Behaviour.match_id)
        return [tuple(row) for row in session.execute(query)]
