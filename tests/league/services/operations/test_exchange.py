"""A whole league moves between SQLite and PostgreSQL in one file, and is equal afterwards."""

import fcntl
import json
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from fastapi.testclient import TestClient
from league_history import recomputed
from league_scene import ON_SQLITE, Scene, result
from recorded_match import play_recorded
from recordings import make_steps
from refused import refused
from sqlalchemy import func, insert, inspect, null, select

from league import wire
from league.app import create_app
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.db.models import Base, Event, Learner, Match, Replay
from league.errors import (
    HashMismatchError,
    RefusedArchiveError,
)
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.services.operations import export, import_
from league.services.operations.archive import ArchiveReader, Manifest
from league.services.replays import service as replays
from league.services.replays.service import ReplayService
from league.settings import ReplayConfig, Settings
from league.storage.local import DirectoryStore

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
ENVIRONMENTS = ("rps", "recall")
SIDES = {"rps": None, "recall": ("caller", "listener")}


def silent(_what: str, _done: int, _of: int) -> None:
    """Hear of no progress."""


def store_at(folder: Path) -> DirectoryStore:
    return DirectoryStore(folder, 2**20)


def export_league(database: Database, store: DirectoryStore, path: Path, **options: bool) -> Manifest:
    return export.export(database, store, path, NOW, silent, export.ExportOptions(**options))


def import_league(path: Path, database: Database, store: DirectoryStore) -> None:
    with ArchiveReader(path) as archive:
        import_.load(archive, database, store, NOW, silent)


def content(path: Path) -> dict[str, bytes]:
    """All members of an archive."""
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def fill(league: LeagueClient, database: Database) -> str:
    """Give a league everything that it may hold, close it, and return the token that opens it."""
    for environment in ENVIRONMENTS:
        scene = Scene(league, environment, f"{environment}-1")
        named = {"name": "main", "role": "main", "environment": environment, "signature": scene.signature}
        league.register_learner(wire.LearnerCreate(**named, sides=SIDES[environment]))
        players = [scene.publish(step) for step in range(1, 5)]
        for winner in players[:2]:
            scene.train(6, learner_score=0.3)
            scene.evaluate(8, winner=winner.id)
            league.close_period(environment)
        league.set_champion(players[0].id, "held its ground", expected=None)
        league.promote(players[1].id)
        league.retire(players[2].id, "superseded \u2014 'quoted' \\ \n two lines")
        league.quarantine(players[3].id)
        progress = wire.LearnerProgress(
            learner_id=scene.learner.id, step=2**52, metrics={"loss": 0.1 + 0.2, "kl": None}
        )
        league.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
        play_recorded(scene, make_steps())
        held, given_back = scene.opponent_leases(2, budget=3)
        scene.report(result(held, score=1 / 3))  # of no period yet
        league.release(wire.ReleaseRequest(worker_id=scene.trainer.id, lease_ids=[given_back.lease_id]))
    with database.write() as session:
        tokens.create(session, "revoked", "worker", Cause("test", "", NOW))
        tokens.revoke(session, "revoked", Cause("test", "", NOW))
        return tokens.create(session, "admin", "admin", Cause("test", "", NOW))


@pytest.fixture
def secret(league: LeagueClient, database: Database) -> str:
    """Fill the test's league; return the token that opens it."""
    return fill(league, database)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """Where the test's server keeps its checkpoints."""
    return store_at(tmp_path / "checkpoints")


@pytest.fixture
def archive(secret: str, database: Database, store: DirectoryStore, tmp_path: Path) -> Path:
    path = tmp_path / "league.zip"
    export_league(database, store, path)
    return path


@pytest.fixture(scope="module")
def kept_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive that tests copy."""
    home = tmp_path_factory.mktemp("exchange")
    database = Database(f"sqlite:///{home / 'league.db'}")
    schema.upgrade(database)
    with TestClient(create_app(Settings.load(home=home, aggregation_interval_s=3600.0))) as http:
        fill(LeagueClient(http=http), database)
    export_league(database, store_at(home / "checkpoints"), home / "league.zip")
    database.close()
    return home / "league.zip"


@pytest.fixture
def copied(kept_archive: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(kept_archive, tmp_path / "copied.zip"))


@pytest.fixture
def other(other_empty_url: str) -> Iterator[Database]:
    opened = Database(other_empty_url)
    yield opened
    opened.close()


def test_league_round_trips_through_the_other_database(archive: Path, other: Database, tmp_path: Path) -> None:
    store = store_at(tmp_path / "there")
    import_league(archive, other, store)
    export_league(other, store, tmp_path / "again.zip")
    first, again = content(archive), content(tmp_path / "again.zip")
    assert first == again
    members = {f"tables/{name}.jsonl" for name in inspect(other.engine).get_table_names()}
    assert members - {"tables/alembic_version.jsonl"} <= first.keys()
    assert all(first[f"tables/{name}.jsonl"].count(b"\n") >= 4 for name in ("ratings", "side_payoffs"))
    assert sum(name.startswith("checkpoints/") for name in first) == 8
    assert sum(name.startswith("replays/") for name in first) == len(ENVIRONMENTS)
    assert list(replays.find_damaged(other, store.recordings)) == []


def test_sql_null_is_not_exported_as_json_null(copied: Path, other: Database, tmp_path: Path) -> None:
    import_league(copied, other, store_at(tmp_path / "there"))
    with other.read() as session:
        absent = select(func.count()).select_from(Learner).where(Learner.rules.is_(null()))
        assert session.scalar(absent) == len(ENVIRONMENTS)


def test_imported_league_shows_the_same_data(
    archive: Path, secret: str, http: TestClient, other: Database, other_empty_url: str, tmp_path: Path
) -> None:
    home = tmp_path / "there"
    import_league(archive, other, store_at(home / "checkpoints"))
    app = create_app(Settings.load(home=home, database_url=other_empty_url, aggregation_interval_s=3600.0))
    with TestClient(app) as there:
        old, new = (LeagueClient(http=server, token=secret) for server in (http, there))
        assert all_of(new) == all_of(old)
        for environment in ENVIRONMENTS:
            assert new.download(new.champion(environment).player.checkpoint or "")
    assert [outcome.differing for outcome in recomputed(other)] == [0, 0]


def recorded(client: LeagueClient, environment: str) -> list[int]:
    """Matches that lasted as long as the recorded one."""
    matches = {
        match.id: match
        for player in client.players(environment).items
        for match in client.matches(player.id, limit=1000).items
    }
    return [match.id for match in matches.values() if match.decisions == make_steps().header.outcome.decisions]


def all_of(client: LeagueClient) -> list[object]:
    """Everything that a league tells about its environments."""
    return [
        answer
        for environment in ENVIRONMENTS
        for answer in (
            client.standings(environment),
            client.payoff(environment),
            client.periods(environment),
            client.champion(environment),
            client.champions(environment),
            client.learners(environment),
            *(client.replay(match) for match in recorded(client, environment)),
            *(client.ratings(player.id) for player in client.players(environment).items),
            *(client.matches(player.id, limit=1000) for player in client.players(environment).items),
        )
    ]


@ON_SQLITE
def test_replays_are_exported_only_on_request(
    secret: str, database: Database, store: DirectoryStore, other: Database, tmp_path: Path
) -> None:
    view = export.WITHOUT_REPLAYS
    export.export(database, store, tmp_path / "small.zip", NOW, silent, export.ExportOptions(view=lambda _: view))
    import_league(tmp_path / "small.zip", other, store_at(tmp_path / "there"))
    with database.read() as here, other.read() as there:
        assert replays.usage(here).count == len(ENVIRONMENTS)
        assert replays.usage(there).count == 0
        assert there.scalar(select(func.count(Match.id))) == here.scalar(select(func.count(Match.id)))


def test_imported_league_continues(
    archive: Path, secret: str, other: Database, other_empty_url: str, tmp_path: Path
) -> None:
    home = tmp_path / "there"
    import_league(archive, other, store_at(home / "checkpoints"))
    with other.read() as session:
        last_match = session.scalar(select(func.max(Match.id))) or 0
    app = create_app(Settings.load(home=home, database_url=other_empty_url, aggregation_interval_s=3600.0))
    with TestClient(app, headers={"Authorization": f"Bearer {secret}"}) as there:
        scene = Scene(LeagueClient(http=there), "rps", "rps-1")
        assert scene.publish(9).id > 0
        (accepted,) = scene.report(result(scene.opponent_leases(1)[0]))
        assert (accepted.status, accepted.match_id) == ("accepted", last_match + 1)
        assert scene.client.close_period("rps").number == 3


@ON_SQLITE
def test_of_tokens_the_file_has_hashes_alone(archive: Path, secret: str) -> None:
    members = content(archive)
    assert b'"digest"' in members["tables/tokens.jsonl"]
    assert not any(secret.encode() in member for member in members.values())
    assert archive.stat().st_mode & 0o077 == 0


def test_export_is_a_consistent_snapshot_of_a_running_league(
    secret: str, http: TestClient, database: Database, store: DirectoryStore, tmp_path: Path, other: Database
) -> None:
    scene = Scene(LeagueClient(http=http, token=secret), "rps", "rps-1")
    with database.read() as session:
        before = session.scalar(select(func.count()).select_from(Match))
    played: list[str] = []

    def go_on(what: str, _done: int, _of: int) -> None:
        if what not in played:
            played.append(what)
            scene.train(2)
            scene.client.close_period("rps")

    manifest = export.export(database, store, tmp_path / "busy.zip", NOW, go_on)
    assert "matches" in played
    assert manifest.rows["matches"] == before
    import_league(tmp_path / "busy.zip", other, store_at(tmp_path / "there"))
    assert [outcome.differing for outcome in recomputed(other)] == [0, 0]


# --- refusals --------------------------------------------------------------------------------------------------------


def test_an_import_does_not_mix_two_leagues(archive: Path, database: Database, store: DirectoryStore) -> None:
    with refused("occupied-league"):
        import_league(archive, database, store)


def test_an_empty_league_of_this_version_takes_an_import(copied: Path, other: Database, tmp_path: Path) -> None:
    schema.upgrade(other)
    import_league(copied, other, store_at(tmp_path / "there"))
    schema.check(other)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_refused(copied: Path, share: float, tmp_path: Path) -> None:
    whole = copied.read_bytes()
    cut = tmp_path / "cut.zip"
    cut.write_bytes(whole[: int(len(whole) * share)])
    with refused("refused-archive", "cut.zip"):
        ArchiveReader(cut)


@pytest.mark.parametrize("member", ["tables/matches.jsonl", "checkpoints/", "replays/"])
@ON_SQLITE
def test_damaged_bytes_are_refused_and_leave_the_database_as_it_was(
    copied: Path, member: str, other: Database, tmp_path: Path
) -> None:
    with ZipFile(copied) as intact:
        entry = next(entry for entry in intact.infolist() if entry.filename.startswith(member))
    damaged = bytearray(copied.read_bytes())
    middle = entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2
    damaged[middle] ^= 0xFF
    copied.write_bytes(damaged)
    with pytest.raises((RefusedArchiveError, HashMismatchError)):
        import_league(copied, other, store_at(tmp_path / "there"))
    assert inspect(other.engine).get_table_names() == []


def rewritten(archive: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Write an archive anew with changed members."""
    members = content(archive)
    change(members)
    path = archive.with_name("changed.zip")
    with ZipFile(path, "w", ZIP_DEFLATED) as changed:
        for name, data in members.items():
            changed.writestr(name, data)
    return path


def manifest_with(**changes: object) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | changes).encode()

    return change


def without(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        del members[next(member for member in members if member.startswith(name))]

    return change


def shortened(members: dict[str, bytes]) -> None:
    lines = members["tables/matches.jsonl"].splitlines(keepends=True)
    members["tables/matches.jsonl"] = b"".join(lines[:-1])


def renamed_column(members: dict[str, bytes]) -> None:
    members["tables/periods.jsonl"] = members["tables/periods.jsonl"].replace(b'"number"', b'"ordinal"')


def renamed_recording(members: dict[str, bytes]) -> None:
    members["replays/other"] = members.pop(next(name for name in members if name.startswith("replays/")))


def recording_outside(members: dict[str, bytes]) -> None:
    members["replays/../league.db"] = members.pop(next(name for name in members if name.startswith("replays/")))


@pytest.mark.parametrize(
    ("change", "code", "values"),
    [
        (manifest_with(format=3, version="9.9"), "newer-archive", (3, 2, "9.9")),
        (manifest_with(revision="9999", version="9.9"), "newer-archive", (9999, "9.9")),
        (manifest_with(rows={}), "refused-archive", (schema.head(),)),
        (manifest_with(rows=[]), "refused-archive", ("manifest.json",)),
        (manifest_with(surprise=1), "refused-archive", ("manifest.json",)),
        (without("manifest.json"), "refused-archive", ("manifest.json",)),
        (without("tables/matches.jsonl"), "refused-archive", ("tables/matches.jsonl",)),
        (without("checkpoints/"), "refused-archive", (7, 8)),
        (without("replays/"), "refused-archive", (1, 2)),
        (renamed_recording, "refused-archive", ("match",)),
        (recording_outside, "refused-archive", ("../league.db",)),
        (shortened, "refused-archive", ("matches",)),
        (renamed_column, "refused-archive", (1, "tables/periods.jsonl", "ordinal")),
    ],
)
@ON_SQLITE
def test_inconsistent_archive_is_rejected(
    copied: Path,
    change: Callable[[dict[str, bytes]], None],
    code: str,
    values: tuple[object, ...],
    other: Database,
    tmp_path: Path,
) -> None:
    path = rewritten(copied, change)
    with refused(code, *values):
        import_league(path, other, store_at(tmp_path / "there"))
    assert inspect(other.engine).get_table_names() == []


@ON_SQLITE
def test_a_lost_checkpoint_is_refused_or_named(
    secret: str, database: Database, store: DirectoryStore, tmp_path: Path, other: Database
) -> None:
    lost = next(path for path in store.folder.glob("??/*") if path.is_file())
    lost.unlink()
    with refused("unknown-checkpoint", lost.name):
        export_league(database, store, tmp_path / "league.zip")
    assert list(tmp_path.glob("*.zip*")) == []
    assert list(tmp_path.glob(".*.part")) == []
    manifest = export_league(database, store, tmp_path / "league.zip", allow_missing=True)
    assert (manifest.missing, manifest.checkpoints) == ([lost.name], 7)
    import_league(tmp_path / "league.zip", other, store_at(tmp_path / "there"))


@ON_SQLITE
def test_a_lost_recording_is_refused_or_omitted_with_its_row(
    secret: str, database: Database, store: DirectoryStore, tmp_path: Path, other: Database
) -> None:
    with database.read() as session:
        kept, lost = session.scalars(select(Replay).order_by(Replay.match_id)).all()
    store.recordings.put(lost.key, b"damaged")
    with refused("unknown-replay", lost.match_id, lost.key):
        export_league(database, store, tmp_path / "league.zip")
    manifest = export_league(database, store, tmp_path / "league.zip", allow_missing=True)
    assert (manifest.recordings, manifest.missing_recordings) == (1, [lost.match_id])
    import_league(tmp_path / "league.zip", other, store_at(tmp_path / "there"))
    with other.read() as session:
        assert session.scalars(select(Replay.key)).all() == [kept.key]


def test_recordings_that_expire_during_an_export_are_omitted(
    secret: str, database: Database, store: DirectoryStore, tmp_path: Path, other: Database
) -> None:
    service = ReplayService(database, store.recordings, ReplayConfig(keep_days=1.0))

    def expire(what: str, _done: int, _of: int) -> None:
        if what == "checkpoints":
            list(service.prune(NOW + timedelta(days=365)))

    manifest = export.export(database, store, tmp_path / "busy.zip", NOW, expire)
    assert (manifest.recordings, len(manifest.missing_recordings)) == (0, len(ENVIRONMENTS))
    import_league(tmp_path / "busy.zip", other, store_at(tmp_path / "there"))
    with other.read() as session:
        assert replays.usage(session).count == 0


@ON_SQLITE
def test_export_removes_only_leftovers_of_killed_exports(
    secret: str, database: Database, store: DirectoryStore, tmp_path: Path
) -> None:
    left, written, other = (tmp_path / name for name in (".a.zip.1.part", ".a.zip.2.part", ".b.zip.3.part"))
    left.write_bytes(b"PK")
    other.write_bytes(b"PK")
    with written.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        export_league(database, store, tmp_path / "a.zip")
    assert set(tmp_path.glob(".*.part")) == {written, other}


@ON_SQLITE
def test_a_file_that_exists_or_cannot_be_made_is_refused(
    archive: Path, database: Database, store: DirectoryStore, tmp_path: Path
) -> None:
    before = archive.read_bytes()
    with refused("configuration", "league.zip"):
        export_league(database, store, archive)
    assert archive.read_bytes() == before
    with refused("configuration"):
        export_league(database, store, tmp_path / "nowhere" / "league.zip")


# --- larger ones ------------------------------------------------------------------------------------------------------


@pytest.mark.integration
def test_memory_does_not_grow_with_the_league(
    database: Database, store: DirectoryStore, other: Database, tmp_path: Path
) -> None:
    row_bytes, rows, bound_bytes = 4_000, 7_500, 9_500_000  # it takes 6.8 million, and what garbage waits
    line = {"kind": "note", "actor": "test", "reason": "", "details": {"text": "x" * row_bytes}, "created_at": NOW}
    with database.write() as session:
        for _ in range(rows // 100):
            session.execute(insert(Event), [line] * 100)
    export_league(database, store, tmp_path / "small.zip")  # imports and caches, which the measurement leaves out
    tracemalloc.start()
    try:
        export_league(database, store, tmp_path / "large.zip")
        import_league(tmp_path / "large.zip", other, store_at(tmp_path / "there"))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < bound_bytes < rows * row_bytes / 3


def test_every_table_of_the_models_is_exported(copied: Path) -> None:
    rows = json.loads(content(copied)["manifest.json"])["rows"]
    assert rows.keys() == Base.metadata.tables.keys()
    filled = {"champions", "environments", "events", "leases", "learners", "matches", "opponent_distributions"}
    filled |= {"payoffs", "periods", "players", "ratings", "tokens", "workers"}
    assert all(rows[table] for table in filled)
