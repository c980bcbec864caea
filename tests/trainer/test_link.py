import random
from contextlib import contextmanager

import httpx2
import pytest

from league.client import LeagueClient
from league.errors import (
    BusyError,
    ForbiddenError,
    InternalError,
    InvalidRequestError,
    LeagueError,
    LeagueUnreachable,
    UnauthenticatedError,
    UnknownRouteError,
    UnknownWorkerError,
)
from trainer.errors import CallCutShortError
from trainer.link import Link


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Client(LeagueClient):
    """Answers, or raises what it was given."""

    def __init__(self):
        super().__init__(http=httpx2.Client())
        self.error = None
        self.calls = 0

    def call(self):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return "answer"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def client():
    client = Client()
    yield client
    client._http.close()


@pytest.fixture
def link(client, clock):
    return Link(client, clock=clock, rng=random.Random(0), backoff_max_s=8.0)


def attempt(link):
    return link.attempt(lambda client: client.call())


UNREACHABLE = LeagueUnreachable("here", "no answer", "start it")


def test_a_league_that_answers_is_asked_every_time(link, client):
    assert [attempt(link), attempt(link)] == ["answer", "answer"]
    assert not link.away


@pytest.mark.parametrize("error", [UNREACHABLE, InternalError("x", "failed", "retry")])
def test_a_league_that_is_away_is_left_alone_until_the_next_attempt_is_due(link, client, clock, error):
    client.error = error
    assert attempt(link) is None
    assert link.away
    assert attempt(link) is None
    assert client.calls == 1
    clock.now += 0.5
    client.error = None
    assert attempt(link) == "answer"
    assert not link.away


def test_a_busy_league_holds_up_no_calls_of_another_kind(link, client, clock):
    client.error = BusyError("for POST /api/v1/leases", "others wait before it", "send it again in 4 s")
    assert attempt(link) is None
    assert not link.away
    client.error = None
    assert attempt(link) == "answer"


def test_pauses_double_up_to_the_longest_and_are_shortened_by_chance(link, client, clock):
    client.error = UNREACHABLE
    attempt(link)
    for number in range(12):
        left, calls = clock.now, client.calls
        while client.calls == calls:
            clock.now += 0.01
            attempt(link)
        longest = min(8.0, 0.5 * 2.0**number)
        assert longest / 2.0 <= clock.now - left <= longest + 0.02


def test_a_refusal_is_the_callers(link, client):
    client.error = ForbiddenError("token", "has no such scope", "use another")
    with pytest.raises(ForbiddenError):
        attempt(link)
    assert not link.away


def test_a_refusal_while_training_is_waited_out(link, client):
    client.error = ForbiddenError("token", "has no such scope", "use another")
    assert link.ask(lambda client: client.call(), lambda client: None) is None
    assert link.away


def test_what_the_league_will_never_have_is_the_senders_to_set_aside(link, client):
    client.error = InvalidRequestError("results", "out of range", "report the match's own")
    with pytest.raises(InvalidRequestError):
        link.submit(lambda client: client.call(), lambda client: None)
    assert not link.away


class TooFastError(LeagueError):
    status = 429


@pytest.mark.parametrize(
    "error", [ForbiddenError, UnauthenticatedError, UnknownRouteError, TooFastError, InternalError]
)
def test_what_may_be_taken_later_is_sent_later(link, client, error):
    client.error = error("this", "is refused for now", "try again")
    assert link.submit(lambda client: client.call(), lambda client: None) is None
    assert link.away


@pytest.mark.parametrize("way", ["ask", "submit"])
def test_a_league_that_forgot_the_worker_is_told_again(link, client, way):
    client.error = UnknownWorkerError("w", "no worker has this id", "register")
    registered = []
    assert getattr(link, way)(lambda client: client.call(), registered.append) is None
    assert registered == [client]
    assert not link.away


def test_retry_now_asks_at_once(link, client):
    client.error = UNREACHABLE
    attempt(link)
    client.error = None
    link.retry_now()
    assert attempt(link) == "answer"


def test_going_away_and_coming_back_is_said_once(link, client, clock, caplog):
    client.error = UNREACHABLE
    for _ in range(3):
        attempt(link)
        clock.now += 100.0
    client.error = None
    attempt(link)
    assert caplog.text.count("trying again until it answers") == 1
    assert caplog.text.count("the league is back after 3 failed attempts") == 1


def test_after_a_call_that_was_cut_short_none_is_made_any_more(client, clock):
    entered = []

    @contextmanager
    def calling():
        entered.append(True)
        yield

    link = Link(client, clock=clock, rng=random.Random(0), backoff_max_s=8.0, calling=calling)
    assert attempt(link) == "answer"
    client.error = CallCutShortError("a signal came")
    assert attempt(link) is None
    client.error = None
    clock.now += 1e9
    assert attempt(link) is None
    assert len(entered) == client.calls == 2
