"""How workers come by their token."""

from pathlib import Path
from typing import Any

import pytest
from refused import refused

from league.client import LeagueClient
from trainer.cli import clients as connection


def test_a_worker_takes_its_token_from_a_file_unless_one_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str | None] = []

    class Watched(LeagueClient):
        def __init__(self, url: str, token: str | None, **terms: Any) -> None:
            seen.append(token)
            super().__init__(url, token, **terms)

    monkeypatch.setattr(connection, "LeagueClient", Watched)
    file = tmp_path / "worker"
    monkeypatch.setenv("LEAGUE_TOKEN_FILE", str(file))
    with refused("configuration", "LEAGUE_TOKEN_FILE"):
        connection.connect("http://league:8000", None, 1.0)
    file.write_text("out-of-a-file\n")
    connection.connect("http://league:8000", None, 1.0)
    connection.connect("http://league:8000", "given", 1.0)
    monkeypatch.delenv("LEAGUE_TOKEN_FILE")
    connection.connect("http://league:8000", "", 1.0)
    assert seen == ["out-of-a-file", "given", None]
