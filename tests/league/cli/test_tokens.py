"""`league token`."""

import json
from pathlib import Path

import pytest
from league_command import Run


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
        (("create", "", "--scope", "worker"), 1, "token name ''"),
        (("create", "two\nlines", "--scope", "worker"), 1, "one line"),
        (("create", "other", "--scope", "root"), 2, "root"),
        (("create", "other"), 2, "--scope"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    command: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    command("token", "create", "laptop", "--scope", "worker", "--home", tmp_path)
    outcome = command("token", *arguments, "--home", tmp_path)
    assert outcome.code == code
    assert says in outcome.err
    assert "Traceback" not in outcome.err
