"""Values that no command can use end in one line, or in the usage, whatever they are."""

import httpx2
import pytest
from league_command import Run
from refused import assert_names

from league.client import LeagueClient
from league.errors import LeagueError

LONG = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("admin", "check", "--home", LONG),
        ("db", "check", "--home", LONG),
        ("import", LONG),
        ("rebuild", "--home", LONG),
    ],
)
def test_a_place_that_cannot_be_is_named_with_the_reason(command: Run, arguments: tuple[str, ...]) -> None:
    outcome = command(*arguments)
    assert outcome.code == 2
    assert f"'{LONG[:100]}" in outcome.one_line_error
    assert "File name too long; choose another path" in outcome.one_line_error


@pytest.mark.parametrize(
    "arguments",
    [("players", "--environment=\udcff"), ("match", "lease", "\udcff"), ("db", "upgrade", "--home=caf\udce9")],
)
def test_bytes_that_are_no_characters_are_refused(command: Run, arguments: tuple[str, ...]) -> None:
    outcome = command(*arguments)
    assert outcome.code == 2
    assert "\\udc" in outcome.one_line_error
    assert_names(outcome.one_line_error, "UTF-8")


@pytest.mark.parametrize(
    ("arguments", "unit", "limit"),
    [
        (("admin", "prune", "--older-than"), "d", "36500"),
        (("admin", "gc", "--older-than"), "d", "36500"),
        (("admin", "fork", "elsewhere", "--at"), "", "9223372036854775807"),
    ],
)
@pytest.mark.parametrize("value", ["inf", "nan", "1e308", "99999999999999999999"])
def test_numbers_beyond_all_use_are_bad_usage(
    command: Run, arguments: tuple[str, ...], unit: str, limit: str, value: str
) -> None:
    outcome = command(*arguments, value + unit)
    assert outcome.code == 2
    assert arguments[-1] in outcome.err
    assert limit in outcome.err or "valid int" in outcome.err


@pytest.mark.parametrize("name", ["x\x07b", "a?b", "a/b", "a#b", "ü"])
def test_ids_are_escaped_in_paths(name: str) -> None:
    asked: list[httpx2.URL] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url)
        return httpx2.Response(404, json={"type": "unknown-lease", "detail": "unknown"})

    client = LeagueClient(http=httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://league"))
    with client, pytest.raises(LeagueError):
        client.explain_lease(name)
    with client, pytest.raises(LeagueError):
        client.heartbeat(name)
    assert [url.path for url in asked] == [f"/api/v1/leases/{name}", f"/api/v1/workers/{name}/heartbeat"]
    assert {(url.query, url.fragment) for url in asked} == {(b"", "")}
