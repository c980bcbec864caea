"""The token of `league up`'s own trainer and evaluator, once it ended; test_up.py has the rest."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from refused import refused

from league import wire
from league.auth import OPEN, Principal, Scope
from league.cli.up.token import own_credential
from league.db import schema
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.services.population import learners
from league.settings import Settings

NOW = datetime.now(UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings.load(home=tmp_path)
    database = Database(made.database_address)
    schema.upgrade(database)
    database.close()
    return made


def close(settings: Settings) -> None:
    database = Database(settings.database_address)
    with database.write() as session:
        tokens.create(session, "person", "admin", Cause("test", "", NOW))
    database.close()


@pytest.mark.parametrize("ended", ["revoked", "expired"])
def test_one_that_ended_is_renewed_so_that_the_run_keeps_its_learner(
    settings: Settings, tmp_path: Path, ended: str
) -> None:
    close(settings)
    first = own_credential(settings, tmp_path / "token", "rps", "main")
    database = Database(settings.database_address)
    with database.write() as session:
        name = tokens.name_of(session, str(first))
        if ended == "revoked":
            tokens.revoke(session, str(name), Cause("test", "", NOW))
        else:
            early = NOW - timedelta(days=2)
            first = tokens.renew(session, str(name), Cause("test", "", early), expires_at=NOW - timedelta(days=1))
            (tmp_path / "token").write_text(first)
    second = own_credential(settings, tmp_path / "token", "rps", "main")
    with database.read() as session:
        assert tokens.name_of(session, str(second)) == name
        assert tokens.authenticate(session, settings, second, NOW).name == name
    database.close()
    assert second != first


def test_learner_of_an_open_league_is_assigned_to_the_new_token(settings: Settings, tmp_path: Path) -> None:
    database = Database(settings.database_address)
    request = wire.LearnerCreate(name="main", role="main", environment="rps", signature="rps-1")
    with database.write() as session:
        learners.register(session, settings, request, OPEN, NOW)
    close(settings)
    secret = own_credential(settings, tmp_path / "token", "rps", "main")
    with database.write() as session:
        caller = tokens.authenticate(session, settings, secret, NOW)
        assert learners.register(session, settings, request, caller, NOW).name == "main"
        other = Principal("another", Scope.WORKER)
        with refused("forbidden", caller.name):
            learners.register(session, settings, request, other, NOW)
    database.close()
