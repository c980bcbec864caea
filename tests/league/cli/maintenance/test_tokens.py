"""`league token`."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from league_command import Run
from refused import assert_names

from league import wire
from league.auth import OPEN, new_secret
from league.cli.maintenance.tokens import end_of
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import UnplayableReport, Worker
from league.services.audit import log as audit_log
from league.services.auth import tokens
from league.services.population import learners
from league.settings import Settings


def test_a_token_is_printed_alone_on_stdout_and_listed_without_its_secret(command: Run, tmp_path: Path) -> None:
    created = command("token", "create", "laptop", "--scope", "worker", "--home", tmp_path)
    assert created.code == 0
    secret = created.out.strip()
    assert len(secret.split()) == 1
    assert "migrating" in created.err
    listed = command("token", "list", "--home", tmp_path)
    assert "laptop" in listed.out
    assert "worker" in listed.out
    assert secret not in listed.out + (tmp_path / "league.db").read_bytes().decode("latin-1")


def test_a_revoked_token_stays_on_the_list(command: Run, tmp_path: Path) -> None:
    command("token", "create", "laptop", "--scope", "read", "--json", "--home", tmp_path)
    assert command("token", "revoke", "laptop", "--home", tmp_path).out.strip() == "revoked laptop"
    items = json.loads(command("token", "list", "--json", "--home", tmp_path).out)["items"]
    assert [(item["name"], item["scope"]) for item in items] == [("laptop", "read")]
    assert items[0]["revoked_at"] is not None


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("create", "laptop", "--scope", "worker"), 1, "name taken laptop"),
        (("revoke", "nobody"), 1, "unknown token nobody"),
        (("create", "", "--scope", "worker"), 2, "token name ''"),
        (("create", "two\nlines", "--scope", "worker"), 2, "one line"),
        (("create", "x" * 129, "--scope", "worker"), 2, "at most 128 characters"),
        (("create", "other", "--scope", "root"), 2, "root"),
        (("create", "other"), 2, "--scope"),
    ],
)
def test_invalid_token_command_is_a_one_line_error(
    command: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    command("token", "create", "laptop", "--scope", "worker", "--home", tmp_path)
    outcome = command("token", *arguments, "--home", tmp_path)
    assert outcome.code == code
    assert says in outcome.err
    assert "Traceback" not in outcome.err


def test_a_token_has_an_end_and_a_renewed_one_a_new_secret(command: Run, tmp_path: Path) -> None:
    first = json.loads(
        command("token", "create", "a", "--scope", "read", "--expires", "30d", "--json", "--home", tmp_path).out
    )
    left = datetime.fromisoformat(first["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)
    renewed = command("token", "renew", "a", "--expires", "2099-01-31", "--home", tmp_path).out.strip()
    assert renewed != first["token"]
    (listed,) = json.loads(command("token", "list", "--json", "--home", tmp_path).out)["items"]
    assert datetime.fromisoformat(listed["expires_at"]) == datetime(2099, 1, 31).astimezone()
    assert "2099-01-31 00:00:00" in command("token", "list", "--home", tmp_path).out


@pytest.mark.parametrize(
    ("expires", "end"),
    [
        ("12h", datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ("2w", datetime(2030, 1, 15, tzinfo=UTC)),
        ("2030-02-01", datetime(2030, 2, 1).astimezone()),
        ("2030-02-01T12:00:00+02:00", datetime(2030, 2, 1, 10, tzinfo=UTC)),
    ],
)
def test_an_end_is_a_span_or_a_time(expires: str, end: datetime) -> None:
    assert end_of(expires, datetime(2030, 1, 1, tzinfo=UTC)) == end


@pytest.mark.parametrize(
    ("expires", "code"),
    [("soon", 2), ("0d", 2), ("-3d", 2), ("30", 2), ("9999-12-31T23:59:59-10:00", 2), ("2001-01-01", 2)],
)
def test_an_end_that_is_none_is_refused_by_name(command: Run, tmp_path: Path, expires: str, code: int) -> None:
    outcome = command("token", "create", "a", "--scope", "read", "--expires", expires, "--home", tmp_path)
    assert outcome.code == code
    assert expires in outcome.err
    assert "Traceback" not in outcome.err


def test_audit_log_names_the_system_user(command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    command("token", "create", "a", "--scope", "read", "--home", tmp_path)
    database = Database(f"sqlite:///{tmp_path / 'league.db'}")
    with database.read() as session:
        (event,) = audit_log.read_after(session, 0, 10)
    database.close()
    assert (event.kind, event.actor) == ("token", "ann at the command line")


def test_false_reports_are_listed_and_cleared(command: Run, tmp_path: Path) -> None:
    command("token", "create", "laptop", "--scope", "worker", "--home", tmp_path)
    refused = command("token", "clear", "laptop", "--home", tmp_path)
    assert_names(refused.one_line_error, "laptop")
    database, now = Database(f"sqlite:///{tmp_path / 'league.db'}"), datetime.now(UTC)
    told = {"version": "1", "signatures": [], "command": "continue", "registered_at": now, "seen_at": now}
    seen = {"reason": "damaged", "checked": True, "reported_at": now, "resolution": "refuted", "resolved_at": now}
    with database.write() as session:
        request = wire.LearnerCreate(name="main", role="main", environment="rps", signature="rps-1")
        player_id = learners.register(session, Settings.load(home=tmp_path), request, OPEN, now).player_id
        session.add(Worker(id="one", name="one", kind="trainer", owner="laptop", **told))
        session.flush()
        session.add(UnplayableReport(worker_id="one", player_id=player_id, owner="laptop", **seen))
    listed = command("token", "list", "--json", "--home", tmp_path)
    assert [each["false_reports"] for each in json.loads(listed.out)["items"]] == [1]
    assert command("token", "clear", "laptop", "--home", tmp_path).out == "cleared laptop of 1 false report\n"
    with database.read() as session:
        assert [each.false_reports for each in tokens.listing(session)] == [0]
    database.close()


def test_a_learner_is_assigned_to_a_worker_token(command: Run, tmp_path: Path) -> None:
    command("token", "create", "laptop", "--scope", "worker", "--home", tmp_path)
    assert command("token", "assign", "laptop", "main", "--home", tmp_path).one_line_error
    settings = Settings.load(home=tmp_path)
    database = Database(settings.database_address)
    with database.write() as session:
        request = wire.LearnerCreate(name="main", role="main", environment="rps", signature="rps-1")
        learners.register(session, settings, request, OPEN, datetime.now(UTC))
    database.close()
    told = command("token", "create", "desk", "--scope", "worker", "--home", tmp_path)
    assert_names(told.err, "main", "rps", "league token assign desk main --environment rps")
    assert "has no owner" not in command("token", "create", "boss", "--scope", "admin", "--home", tmp_path).err
    assert command("token", "assign", "laptop", "main", "--home", tmp_path).out == "laptop now owns main of rps\n"
    assert "has no owner" not in command("token", "create", "new", "--scope", "worker", "--home", tmp_path).err
    refused = command("token", "assign", "laptop", "other", "--home", tmp_path)
    assert_names(refused.one_line_error, "other", "rps")


# --- in files --------------------------------------------------------------------------------------------------------


def test_token_is_written_to_a_private_file_and_never_printed(command: Run, tmp_path: Path) -> None:
    file = tmp_path / "worker"
    made = command("token", "create", "fleet", "--scope", "worker", "--out", file, "--home", tmp_path)
    secret = file.read_text().strip()
    assert made.code == 0
    assert secret not in made.out + made.err
    assert file.stat().st_mode & 0o777 == 0o600
    with closing(Database(f"sqlite:///{tmp_path / 'league.db'}")) as database, database.read() as session:
        assert tokens.name_of(session, secret) == "fleet"
    assert [path.name for path in tmp_path.iterdir() if "worker" in path.name] == ["worker"]


def test_a_start_that_makes_its_token_every_time_makes_it_once(command: Run, tmp_path: Path) -> None:
    file = tmp_path / "worker"
    create = ("token", "create", "fleet", "--scope", "worker", "--out", file, "--home", tmp_path)
    command(*create)
    kept = file.read_text()
    again = command(*create)
    assert again.code == 0
    assert "already contains the token fleet" in again.err
    assert file.read_text() == kept
    file.unlink()
    lost = command(*create)
    assert "league token renew fleet" in lost.one_line_error
    assert not file.exists()
    assert command("token", "renew", "fleet", "--out", file, "--home", tmp_path).code == 0
    assert file.read_text() != kept
    assert command(*create).code == 0


def test_a_token_of_another_league_is_replaced(command: Run, tmp_path: Path) -> None:
    file = tmp_path / "worker"
    for home in ("old", "new"):
        outcome = command("token", "create", "fleet", "--scope", "worker", "--out", file, "--home", tmp_path / home)
        assert outcome.code == 0
    with closing(Database(f"sqlite:///{tmp_path / 'new' / 'league.db'}")) as database, database.read() as session:
        assert tokens.name_of(session, file.read_text().strip()) == "fleet"


def test_a_file_of_something_else_is_left_alone(command: Run, tmp_path: Path) -> None:
    note, other = tmp_path / "note", tmp_path / "other"
    note.write_text("not a token\n")
    command("token", "create", "other", "--scope", "read", "--out", other, "--home", tmp_path)
    kept = other.read_text()
    for file in (note, other):
        for how in (("create", "fleet", "--scope", "worker"), ("renew", "other")):
            if (file, how[0]) != (other, "renew"):
                assert_names(command("token", *how, "--out", file, "--home", tmp_path).one_line_error, file)
    assert (note.read_text(), other.read_text()) == ("not a token\n", kept)


def test_a_token_that_something_else_made_is_taken_from_its_file_once(command: Run, tmp_path: Path) -> None:
    file, other = tmp_path / "secret", tmp_path / "other"
    secret = new_secret()
    file.write_text(f"{secret}\n")
    create = ("token", "create", "prometheus", "--scope", "read", "--home", tmp_path)
    made = command(*create, "--from", file)
    assert made.code == 0
    assert secret not in made.out + made.err
    with closing(Database(f"sqlite:///{tmp_path / 'league.db'}")) as database, database.read() as session:
        assert tokens.name_of(session, secret) == "prometheus"
    again = command(*create, "--from", file)
    assert (again.code, f"already has the token prometheus of {file}" in again.err) == (0, True)
    other.write_text("password")
    assert_names(command(*create, "--from", other).one_line_error, other)
    assert_names(command(*create, "--from", tmp_path / "nowhere").one_line_error, tmp_path / "nowhere")
    another = command("token", "create", "another", "--scope", "read", "--home", tmp_path, "--from", file)
    assert "contains the token prometheus" in another.one_line_error
    both = command(*create, "--from", file, "--out", other)
    assert (both.code, "use one of them" in both.err.replace("\n", " ")) == (2, True)
    assert other.read_text() == "password"


def test_a_token_that_cannot_be_written_down_is_not_made(command: Run, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "worker"
    refused = command("token", "create", "fleet", "--scope", "worker", "--out", nowhere, "--home", tmp_path)
    assert refused.code == 2
    assert "it cannot be written" in refused.err
    assert json.loads(command("token", "list", "--json", "--home", tmp_path).out)["items"] == []


def test_commands_take_their_token_from_a_file(
    command: Run, online: Run, connect: Callable[..., LeagueClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect("admin")
    monkeypatch.setenv("LEAGUE_TOKEN_FILE", str(tmp_path / "nothing"))
    assert "LEAGUE_TOKEN_FILE" in online("players").one_line_error
    made = command("token", "create", "me", "--scope", "read", "--out", tmp_path / "me", "--home", tmp_path)
    assert made.code == 0
    monkeypatch.setenv("LEAGUE_TOKEN_FILE", str(tmp_path / "me"))
    assert online("players").code == 0
    monkeypatch.setenv("LEAGUE_TOKEN", "wrong")
    assert online("players").code == 1
