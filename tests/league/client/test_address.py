"""Where commands, workers and scripts look for the league, and what they say where none answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from refused import refused
from reserved_port import reserved
from served import serving

from league.client import LeagueClient, find_league
from league.client.address import DEFAULT_URL
from league.home import address_file, publish_address, withdraw_address


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAGUE_URL", raising=False)
    monkeypatch.delenv("LEAGUE_HOME", raising=False)


def test_the_most_explicit_address_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_league() == DEFAULT_URL
    publish_address(Path("var"), "http://127.0.0.1:8001")
    assert find_league() == "http://127.0.0.1:8001"
    publish_address(Path("elsewhere"), "http://127.0.0.1:8002")
    monkeypatch.setenv("LEAGUE_HOME", "elsewhere")
    assert find_league() == "http://127.0.0.1:8002"
    monkeypatch.setenv("LEAGUE_URL", "http://league")
    assert find_league() == "http://league"
    assert find_league("http://given") == "http://given"


@pytest.mark.integration
def test_a_client_without_an_address_calls_the_running_league(tmp_path: Path) -> None:
    with serving(tmp_path) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAGUE_HOME", str(tmp_path))
        with LeagueClient() as client:
            assert client.health().status == "ok"
        assert address_file(tmp_path).read_text().strip() == server.url
        server.process.terminate()
        server.process.wait()
        assert not address_file(tmp_path).exists(), "a clean stop removes it"


def test_a_server_leaves_the_address_of_a_later_one() -> None:
    publish_address(Path("var"), "http://127.0.0.1:8001")
    publish_address(Path("var"), "http://127.0.0.1:8002")
    withdraw_address(Path("var"), "http://127.0.0.1:8001")
    assert find_league() == "http://127.0.0.1:8002"


@pytest.fixture
def dead() -> Iterator[str]:
    """Give an address at which nothing listens."""
    with reserved() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("place", "value"),
    [("file", "var/league.url"), ("variable", "LEAGUE_URL"), ("caller", "http://127.0.0.1")],
)
def test_where_no_league_answers_the_error_names_the_place_of_the_address(
    dead: str, monkeypatch: pytest.MonkeyPatch, place: str, value: str
) -> None:
    if place == "file":
        publish_address(Path("var"), dead)
    elif place == "variable":
        monkeypatch.setenv("LEAGUE_URL", dead)
    client = LeagueClient(dead) if place == "caller" else LeagueClient()
    with client, refused("league-unreachable", value) as away:
        client.health()
    assert dead in str(away.value)


def test_default_address_reports_its_origin() -> None:
    assert "LEAGUE_URL is not set and var/league.url does not exist" in find_league().remedy


@pytest.mark.parametrize("place", ["file", "variable"])
def test_an_address_that_is_not_of_http_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    if place == "file":
        publish_address(Path("var"), "localhost")
    else:
        monkeypatch.setenv("LEAGUE_URL", "localhost")
    with refused("configuration", "localhost"):
        find_league()
