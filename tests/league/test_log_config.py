"""Requests have ids, which answers, problems and the log share; the log is text for people or JSON for programs."""

import json
import logging
import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, safetensors, sha256
from refused import assert_names

from league import log_config
from league.errors import InternalError, LeagueError

OWN = re.compile(r"[0-9a-f]{16}")


@pytest.fixture
def backend() -> str:
    """The database has no part in this."""
    return "sqlite"


@pytest.fixture(autouse=True)
def _no_request() -> Iterator[None]:
    """Leave no request behind for other tests of this process."""
    before = log_config.request_id.set(None)
    yield
    log_config.request_id.reset(before)


@pytest.fixture
def failing(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A server with a defect in GET /players."""

    def fail(*_arguments: object, **_settings: object) -> None:
        logging.getLogger("league.test").warning("about to fail")
        raise ZeroDivisionError

    monkeypatch.setattr("league.services.population.snapshots.list_players", fail)
    return http


# --- ids -------------------------------------------------------------------------------------------------------------


def test_every_request_gets_an_id_of_its_own(http: TestClient) -> None:
    ids = [http.get(path).headers["x-request-id"] for path in ("/healthz", "/healthz", "/nowhere", "/metrics")]
    assert all(OWN.fullmatch(each) for each in ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("sent", ["run-7.step:12_a", "A" * 64])
def test_request_id_of_the_caller_is_used(http: TestClient, sent: str) -> None:
    assert http.get("/healthz", headers={"X-Request-ID": sent}).headers.get_list("x-request-id") == [sent]


@pytest.mark.parametrize("sent", ["", "A" * 65, "two words", "a\tb", "caf\u00e9".encode(), "{}"])
def test_an_id_that_is_not_fit_for_the_log_is_replaced(http: TestClient, sent: str | bytes) -> None:
    assert OWN.fullmatch(http.get("/healthz", headers={"X-Request-ID": sent}).headers["x-request-id"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/players/999", 404),
        ("GET", "/api/v1/players/seven", 422),
        ("GET", "/nowhere", 404),
        ("DELETE", "/api/v1/players", 405),
        ("POST", "/api/v1/workers", 422),
    ],
)
def test_a_problem_names_its_request(http: TestClient, method: str, path: str, status: int) -> None:
    answer = http.request(method, path, headers={"X-Request-ID": "mine"})
    assert answer.status_code == status
    assert answer.json()["request_id"] == "mine"
    assert answer.headers.get_list("x-request-id") == ["mine"]


def test_a_body_that_is_refused_unread_names_its_request(http: TestClient) -> None:
    answer = http.post("/api/v1/workers", content=b" " * 2**25, headers={"X-Request-ID": "mine"})
    assert (answer.status_code, answer.json()["request_id"]) == (413, "mine")


def test_a_defect_names_its_request_in_answer_and_log(
    failing: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caplog.handler, "formatter", log_config.JsonFormatter())  # it is that of all tests
    answer = failing.get("/api/v1/players", headers={"X-Request-ID": "mine"})
    assert (answer.status_code, answer.json()["type"]) == (500, InternalError.type)
    assert answer.json()["request_id"] == "mine"
    assert_names(answer.json()["detail"], "mine")
    assert answer.headers.get_list("x-request-id") == ["mine"]
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    assert {line["logger"] for line in lines} >= {"league.test", "league.api.errors", "league.requests"}
    assert {line["request_id"] for line in lines if line["logger"].startswith("league.")} == {"mine"}


# --- what is logged --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "level"),
    [("/healthz", "DEBUG"), ("/api/v1/players/999", "INFO"), ("/nowhere?token=hunter2", "INFO"), ("/a%0Ab", "INFO")],
)
def test_a_request_is_a_line_as_loud_as_its_end(
    http: TestClient, caplog: pytest.LogCaptureFixture, path: str, level: str
) -> None:
    caplog.set_level(logging.DEBUG, "league.requests")
    http.get(path)
    (line,) = (record for record in caplog.records if record.name == "league.requests")
    assert line.levelname == level
    assert re.fullmatch(rf"GET {re.escape(path.split('?')[0])}: \d{{3}} in \d+\.\d{{3}} s", line.getMessage())


@pytest.mark.parametrize("status", [429, 503])
def test_calls_that_are_sent_away_do_not_flood_the_log(
    http: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    def busy(*_arguments: object, **_settings: object) -> None:
        raise refusal("GET /players", "the server is busy", "come back later")

    refusal = type("Refusal", (LeagueError,), {"status": status})
    monkeypatch.setattr("league.services.population.snapshots.list_players", busy)
    assert http.get("/api/v1/players").status_code == status
    assert [record for record in caplog.records if record.name == "league.requests"] == []


def test_a_failed_request_is_a_warning(failing: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    failing.get("/api/v1/players")
    (line,) = (record for record in caplog.records if record.name == "league.requests")
    assert (line.levelname, line.status) == ("WARNING", 500)  # type: ignore[attr-defined]


def test_uploaded_bytes_and_tokens_are_never_logged(
    scene: Scene, http: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(caplog.handler, "formatter", log_config.JsonFormatter())  # it is that of all tests
    data = safetensors(7)
    http.put(f"/api/v1/checkpoints/{sha256(data)}", content=data, headers={"Authorization": "Bearer hunter2"})
    assert "hunter2" not in caplog.text
    assert "data_offsets" not in caplog.text


# --- formats ---------------------------------------------------------------------------------------------------------


def record(message: str = "closed period %d", *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "league.x", "levelname": "INFO", "created": 0.5, "msg": message, **extra})
    made.args = arguments
    return made


def test_json_log_line_has_all_fields() -> None:
    line = log_config.JsonFormatter().format(record("closed period %d", 7, matches=12))
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "level": "info",
        "logger": "league.x",
        "message": "closed period 7",
        "matches": 12,
    }


def test_text_log_messages_are_one_line() -> None:
    log_config.request_id.set("mine")
    line = log_config.TextFormatter().format(record("two\nlines"))
    assert line.endswith(" info league.x [mine]: two\\nlines")
    assert "\n" not in line


@pytest.mark.parametrize("formatter", [log_config.TextFormatter(), log_config.JsonFormatter()])
def test_a_defect_is_logged_with_its_traceback(formatter: logging.Formatter) -> None:
    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError as error:
        info = (type(error), error, error.__traceback__)
    assert "ZeroDivisionError: by nothing" in formatter.format(record("failed", exc_info=info))


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_league_logs_from_its_level_on_and_libraries_from_warnings_on(
    form: log_config.Format, capsys: pytest.CaptureFixture[str]
) -> None:
    root, league = logging.getLogger(), logging.getLogger("league")
    before = root.handlers[:], root.level, league.level
    try:
        log_config.configure("info", form)
        for name in ("league.x", "library"):
            for level in (logging.DEBUG, logging.INFO, logging.WARNING):
                logging.getLogger(name).log(level, "%s at %d", name, level)
    finally:
        root.handlers[:], root.level, league.level = before
    said = capsys.readouterr().err.splitlines()
    assert [line.count("league.x at 20") + 2 * line.count("league.x at 30") for line in said] == [1, 2, 0]
    assert "library at 30" in said[2]
    assert said[0].startswith("{") is (form == "json")
