"""The client raises what the server raised, and waits for nobody in vain."""

import json

import httpx2
import pytest
from league_scene import ON_SQLITE
from refused import refused
from reserved_port import reserved

from league import errors, wire
from league.client import LeagueClient
from league.errors import LeagueError, from_problem


def kinds() -> list[type[LeagueError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LeagueError)]


def test_every_kind_of_error_has_a_slug_of_its_own_and_travels() -> None:
    assert len({kind.type for kind in kinds()}) == len(kinds()) > 25
    for kind in kinds():
        sent = kind("7", "it is not so", "make it so")
        received = from_problem(sent.problem())
        assert type(received) is kind
        assert (received.value, received.rule, received.remedy) == ("7", "it is not so", "make it so")
        assert str(received) == str(sent) == sent.problem()["detail"]
        assert 400 <= kind.status < 600


def test_unknown_problem_type_keeps_its_detail() -> None:
    error = from_problem({"type": "brand-new", "detail": "something else: entirely"})
    assert type(error) is LeagueError
    assert "something else: entirely" in str(error)


def test_unreachable_server_error_names_the_start_command() -> None:
    with (
        reserved() as port,
        LeagueClient(f"http://127.0.0.1:{port}") as client,
        refused("league-unreachable", "league serve") as lost,
    ):
        client.players()
    assert str(port) in str(lost.value)


@pytest.mark.parametrize(("status", "content"), [(200, b"<html>hello</html>"), (502, b"bad gateway"), (200, b"{}")])
def test_other_server_at_the_address_is_recognised(status: int, content: bytes) -> None:
    elsewhere = httpx2.MockTransport(lambda _request: httpx2.Response(status, content=content))
    client = LeagueClient(http=httpx2.Client(transport=elsewhere, base_url="http://elsewhere"))
    with refused("league-error", "elsewhere"):
        client.player(1)


def test_an_older_server_gets_no_field_that_the_caller_did_not_fill() -> None:
    sent = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return httpx2.Response(200, json={"command": "continue", "next_poll_s": 1.0})

    client = LeagueClient(http=httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://league"))
    progress = wire.LearnerProgress(learner_id=1, step=2, since_step=None)
    client.heartbeat("w", wire.Heartbeat(learners=[progress]))
    client.heartbeat("w")
    assert sent == [{"learners": [{"learner_id": 1, "step": 2, "since_step": None}]}, {}]


@pytest.mark.parametrize("token", ["", "päss", "two words", "word\n"])
def test_malformed_token_is_rejected_without_echoing_it(token: str) -> None:
    with refused("unauthenticated", "league token create") as refusal:
        LeagueClient(token=token)
    assert not token or token not in str(refusal.value)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:8000", ""])
def test_an_address_that_is_not_of_http_is_refused_by_name(url: str) -> None:
    with refused("configuration", url):
        LeagueClient(url)


def test_the_token_travels_as_a_bearer() -> None:
    seen: list[str | None] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("authorization"))
        return httpx2.Response(200, json={"items": [], "next_cursor": None})

    http = httpx2.Client(transport=httpx2.MockTransport(note), base_url="http://league")
    LeagueClient(http=http, token="abc").players()
    LeagueClient(http=http).players()
    assert seen == ["Bearer abc", None]


@ON_SQLITE
def test_an_answer_with_fields_to_come_is_still_read(league: LeagueClient) -> None:
    worker = league.register_worker(wire.WorkerCreate(name="a", kind="trainer", version="1", signatures=[]))
    newer = worker.model_dump(mode="json") | {"mood": "fine"}
    assert wire.Worker.model_validate(newer) == worker
    with refused(ValueError, "mood"):
        wire.WorkerCreate.model_validate(
            {"name": "a", "kind": "trainer", "version": "1", "signatures": [], "mood": "fine"}
        )
