"""Backups of a running league, taken and restored as the operator's guide says, hold what was there when they began."""

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import s3_server
from fastapi.testclient import TestClient
from league_scene import Scene
from sqlalchemy import make_url
from tools import postgres_programs

from league.app import create_app
from league.cli import main
from league.cli.maintenance.database import migrate
from league.client import LeagueClient
from league.settings import Settings


@dataclass(frozen=True)
class Kept:
    """Where a league lives, where its copy is to live, and the two steps between, each in its order.

    Attributes:
        settings: Of the league.
        restored: Of its copy, which is not there yet.
        save_tables: Copies the database to a file.
        save_checkpoints: Copies the store to a folder or a bucket.
        restore: Brings both to where the copy lives, the store first.
    """

    settings: dict[str, Any]
    restored: dict[str, Any]
    save_tables: Callable[[], None]
    save_checkpoints: Callable[[], None]
    restore: Callable[[], None]


@pytest.fixture(params=["sqlite and a folder", "postgresql and a bucket"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param.startswith("sqlite"):
        yield _in_files(tmp_path)
    else:
        yield from _on_servers(tmp_path, request.getfixturevalue("postgres_url"), request.getfixturevalue("store"))


def _in_files(folder: Path) -> Kept:
    home, copy = folder / "home", folder / "copy"

    def save_tables() -> None:
        with sqlite3.connect(home / "league.db") as database:
            database.execute("VACUUM INTO ?", [str(folder / "backup.db")])
        database.close()

    def restore() -> None:
        shutil.copytree(folder / "backup-checkpoints", copy / "checkpoints")
        shutil.copy(folder / "backup.db", copy / "league.db")

    return Kept(
        {"home": home},
        {"home": copy},
        save_tables,
        lambda: shutil.copytree(home / "checkpoints", folder / "backup-checkpoints"),
        restore,
    )


def _on_servers(folder: Path, server: str, service: s3_server.Service) -> Iterator[Kept]:
    names = [f"backup_{uuid4().hex}" for _ in range(2)]
    base = make_url(server).set(drivername="postgresql")
    address = base.render_as_string(hide_password=False)
    urls = [base.set(database=name).render_as_string(hide_password=False) for name in names]
    programs = postgres_programs()
    buckets = [service.bucket(), service.bucket()]
    dump = folder / "league.dump"
    with psycopg.connect(address, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}")

    def settings(number: int) -> dict[str, Any]:
        return {
            "home": folder / str(number),
            "database_url": urls[number],
            "store_url": f"s3://{buckets[number]}",
            "store_endpoint_url": service.url,
            "store_hashing": "server",
        }

    def save_checkpoints() -> None:
        for entry in service.client.list_objects_v2(Bucket=buckets[0])["Contents"]:
            source = {"Bucket": buckets[0], "Key": entry["Key"]}
            service.client.copy_object(Bucket=buckets[1], Key=entry["Key"], CopySource=source)

    yield Kept(
        settings(0),
        settings(1),
        lambda: _run(programs / "pg_dump", "--format=custom", f"--file={dump}", urls[0]),
        save_checkpoints,
        lambda: _run(programs / "pg_restore", "--exit-on-error", "--no-owner", f"--dbname={urls[1]}", str(dump)),
    )
    with psycopg.connect(address, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _run(program: Path, *arguments: str) -> None:
    subprocess.run([program, *arguments], check=True, capture_output=True)


def matches(client: LeagueClient) -> set[int]:
    return {match.id for player in client.players().items for match in client.matches(player.id, limit=1000).items}


def test_a_running_league_is_saved_and_restored(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET)
    settings = Settings.load(aggregation_interval_s=3600.0, **kept.settings)
    migrate(settings)
    with TestClient(create_app(settings)) as http:
        scene = Scene(LeagueClient(http=http))
        first = scene.publish(step=1)
        scene.train(3)
        scene.evaluate(count=4, winner=first.id)
        scene.client.close_period(scene.environment)
        then, played = scene.client.player(first.id), matches(scene.client)
        kept.save_tables()
        scene.publish(step=2)  # what comes while the backup is taken is not in it, and does not spoil it
        scene.train(2)
        kept.save_checkpoints()
        assert len(matches(scene.client)) == len(played) + 2
    kept.restore()
    copy = Settings.load(aggregation_interval_s=3600.0, **kept.restored)
    with TestClient(create_app(copy)) as http:
        client = LeagueClient(http=http)
        assert client.player(first.id) == then
        assert matches(client) == played
        assert client.download(then.checkpoint)
    for name, value in kept.restored.items():
        monkeypatch.setenv(f"LEAGUE_{name.upper()}", str(value))
    with pytest.raises(SystemExit) as ended:
        main(["admin", "check"])
    assert not ended.value.code, capsys.readouterr().out
