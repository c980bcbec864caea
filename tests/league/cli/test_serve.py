"""`league serve`: what it refuses before it starts, what it says, how it stops."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
import uvloop
from league_command import Run
from refused import assert_names

from league.cli import bind, serve
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.errors import ConfigurationError, UnauthenticatedError
from league.settings import Settings


@pytest.fixture
def server_with(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a server process on any free port, with these variables set."""
    command = [sys.executable, "-m", "league", "serve", "--port", "0", "--home", str(tmp_path)]
    with ExitStack() as stack:

        def start(**variables: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | variables
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def server(server_with: Callable[..., subprocess.Popen[str]]) -> subprocess.Popen[str]:
    return server_with()


def read_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """Read its output up to the line with this word."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"no line with {word!r} in {lines}")


def address(line: str) -> str:
    return line.split("listening on ")[1].split(";")[0]


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_migrates_prints_its_address_and_stops_on_sigterm(
    server: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    lines = read_until(server, "listening on ")
    assert "migrating" in lines[0]
    assert f"home {tmp_path}; authentication disabled" in lines[1]
    with LeagueClient(address(lines[-1])) as client:
        assert client.health().status == "ok"
    server.send_signal(number)
    assert read_until(server, "stopped")[-1] == "stopped\n"
    assert server.wait() == 0


@pytest.mark.integration
def test_open_event_stream_does_not_delay_shutdown(server: subprocess.Popen[str]) -> None:
    url = address(read_until(server, "listening on ")[-1])
    with httpx2.stream("GET", f"{url}/api/v1/events") as events:
        pieces = events.iter_text()
        next(pieces)
        server.send_signal(signal.SIGINT)
        assert not "".join(pieces).replace(": keep-alive\n\n", "")
    assert read_until(server, "stopped") == ["stopped\n"]
    assert server.wait() == 0


@pytest.mark.integration
def test_client_disconnect_during_upload_is_not_logged_as_an_error(server: subprocess.Popen[str]) -> None:
    url = httpx2.URL(address(read_until(server, "listening on ")[-1]))
    head = f"PUT /api/v1/checkpoints/{'0' * 64} HTTP/1.1\r\nHost: league\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection((url.host, url.port or 0)) as caller:
        caller.sendall(head.encode() + b"half")
    with LeagueClient(str(url)) as client:
        assert client.players().items == []
    server.send_signal(signal.SIGINT)
    *log, last = read_until(server, "stopped")
    assert last == "stopped\n"
    assert [line.split()[2:4] for line in log] == [["info", "league.requests"]]


def test_clients_drop_idle_connections_before_the_server_does() -> None:
    """Else a call meets a connection that the server is closing, and fails."""
    with LeagueClient("http://127.0.0.1") as client:
        assert client._http._transport._pool._keepalive_expiry < serve._KEEP_ALIVE_S  # type: ignore[attr-defined]


@pytest.mark.integration
def test_the_first_token_closes_a_running_server(server: subprocess.Popen[str], command: Run, tmp_path: Path) -> None:
    url = address(read_until(server, "listening on ")[-1])
    token = command("token", "create", "me", "--scope", "read", "--home", tmp_path).out.strip()
    with LeagueClient(url) as client, pytest.raises(UnauthenticatedError):
        client.players()
    assert command("players", "--url", url).code == 1
    assert command("players", "--url", url, "--token", token).code == 0


AWAY = "postgresql://nobody@127.0.0.1:1/league"


def test_serve_without_a_database_exits_with_tempfail(command: Run, tmp_path: Path) -> None:
    outcome = command("serve", "--port", "0", "--home", tmp_path, "--database-url", AWAY)
    assert outcome.code == os.EX_TEMPFAIL
    assert "database unavailable postgresql://nobody@127.0.0.1:1/league: it cannot be used" in outcome.one_line_error


@pytest.mark.integration
def test_database_loss_during_startup_exits_with_tempfail(tmp_path: Path) -> None:
    code = "from league import cli; from league.cli import serve; serve.prepare = lambda _: None; cli.main()"
    words = "serve", "--port", "0", "--home", str(tmp_path), "--database-url", AWAY
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=300)
    assert ended.returncode == os.EX_TEMPFAIL
    assert ended.stderr.startswith("league: database unavailable postgresql://nobody@127.0.0.1:1/league: ")
    assert ended.stderr.count("\n") == 1
    assert "stopped" not in ended.stdout


def test_a_taken_port_is_named_before_anything_is_touched(command: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = command("serve", "--port", port, "--home", tmp_path / "home")
    assert outcome.code == 1
    assert f"port taken 127.0.0.1:{port}" in outcome.one_line_error
    assert "--port" in outcome.one_line_error
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("arguments", [("serve", "--port", "0"), ("up", "--port", "0", "--environment", "rps")])
def test_an_address_beyond_loopback_needs_a_token_and_creates_nothing_without(
    command: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    outcome = command(*arguments, "--host", "0.0.0.0", "--home", tmp_path / "home")
    assert outcome.code == 78
    assert "open server on 0.0.0.0" in outcome.one_line_error
    assert "league token create" in outcome.one_line_error
    assert not (tmp_path / "home").exists()


@pytest.mark.integration
def test_an_address_beyond_loopback_leaves_a_database_without_tables_as_it_is(
    command: Run, postgres_url: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    outcome = command("serve", "--host", "0.0.0.0", "--port", "0", "--home", home, "--database-url", postgres_url)
    assert "open server on 0.0.0.0" in outcome.one_line_error
    assert not home.exists()
    database = Database(postgres_url)
    assert schema.is_missing(database)
    database.close()


def test_an_address_beyond_loopback_is_served_once_a_token_exists(command: Run, tmp_path: Path) -> None:
    command("token", "create", "boss", "--scope", "admin", "--home", tmp_path)
    serve.require_token_beyond_loopback(Settings.load(host="0.0.0.0", home=tmp_path))


def test_an_address_of_another_machine_is_refused(command: Run, tmp_path: Path) -> None:
    outcome = command("serve", "--host", "192.0.2.1", "--port", "0", "--home", tmp_path)
    assert outcome.code == 2
    assert "--host" in outcome.one_line_error


def test_a_port_beyond_the_range_is_bad_usage(command: Run) -> None:
    assert command("serve", "--port", "70000").code == 2


def test_a_setting_of_the_environment_is_named(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_TAU", "9")
    outcome = command("serve")
    assert outcome.code == 2
    assert "LEAGUE_TAU=9" in outcome.one_line_error


def test_a_bound_socket_has_an_address_that_this_machine_reaches() -> None:
    for host, url in (("127.0.0.1", "http://127.0.0.1"), ("0.0.0.0", "http://127.0.0.1"), ("::1", "http://[::1]")):
        try:
            listener = bind.take(host, 0)
        except ConfigurationError:
            assert ":" in host, "IPv4 is always there"
            continue
        with listener:
            assert bind.url_of(listener) == f"{url}:{listener.getsockname()[1]}"


@pytest.mark.parametrize(("host", "everywhere"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_server_on_all_interfaces_names_the_port_for_other_machines(host: str, everywhere: bool) -> None:
    with bind.take(host, 0) as listener:  # bound, never connected to
        port, sentence = listener.getsockname()[1], bind.sentence_of(listener)
    assert sentence.startswith(f"listening on http://127.0.0.1:{port}")
    assert (f"other machines: port {port} on all interfaces" in sentence) == everywhere


@pytest.mark.parametrize("at_once", [1, 8])
def test_connections_that_wait_are_taken_in_many_a_turn_of_the_loop(at_once: int) -> None:
    taken = 0

    class Counted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            nonlocal taken
            taken += 1
            transport.close()

    async def most_in_a_turn() -> int:
        loop, most, before = asyncio.get_running_loop(), 0, 0
        with ExitStack() as stack:
            listener = bind.take("127.0.0.1", 0)
            listeners = [stack.enter_context(each) for each in bind.at_once(listener, at_once)]
            listener.listen(64)
            for _ in range(24):
                stack.enter_context(socket.create_connection(listener.getsockname()))
            servers = [await loop.create_server(Counted, sock=each) for each in listeners]
            while taken < 24:
                await asyncio.sleep(0)
                most, before = max(most, taken - before), taken
            for server in servers:
                server.close()
        return most

    assert uvloop.run(most_in_a_turn()) == at_once


def test_settings_listing_marks_changed_values(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_PERIOD_GAMES", "30")
    rows = {line.split()[0]: line.split()[1:] for line in command("settings").out.splitlines()}
    about = "Number of rated games per active player after which a period is due."
    assert rows["LEAGUE_PERIOD_GAMES"] == ["30", "15", *about.split()]
    assert rows["LEAGUE_HOST"][:2] == ["127.0.0.1", "Interface"]
    listed = json.loads(command("settings", "--json").out)["items"]
    assert {"variable": "LEAGUE_PERIOD_GAMES", "value": "30", "default": "15", "about": about} in listed


@pytest.mark.parametrize(
    ("variable", "hint"), [("LEAGUE_PROT", "LEAGUE_PORT"), ("LEAGUE_DATABSE_URL", "LEAGUE_DATABASE_URL")]
)
def test_a_server_does_not_start_with_a_mistyped_setting(
    command: Run, monkeypatch: pytest.MonkeyPatch, variable: str, hint: str
) -> None:
    monkeypatch.setenv(variable, "8001")
    outcome = command("serve")
    assert outcome.code == 2
    assert_names(outcome.one_line_error, variable, hint)


@pytest.mark.integration
def test_it_logs_json_lines_where_that_is_set(server_with: Callable[..., subprocess.Popen[str]]) -> None:
    server = server_with(LEAGUE_LOG_FORMAT="json", LEAGUE_LOG_LEVEL="debug")
    url = address(read_until(server, "listening on ")[-1])
    assert httpx2.get(f"{url}/api/v1/players", headers={"X-Request-ID": "mine"}).status_code == 200
    line = json.loads(read_until(server, "league.requests")[-1])
    assert (line["request_id"], line["path"], line["status"]) == ("mine", "/api/v1/players", 200)
