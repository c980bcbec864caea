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
    return link.attempt("leases", lambda client: client.call())


def ask(link, kind):
    return link.ask(kind, lambda client: client.call(), lambda client: None)


def submit(link, kind="results"):
    return link.submit(kind, lambda client: client.call(), lambda client: None)


UNREACHABLE = LeagueUnreachable("here", "no answer", "start it")


def test_a_league_that_answers_is_asked_every_time(link, client):
    assert [attempt(link), attempt(link)] == ["answer", "answer"]
    assert not link.away


@pytest.mark.parametrize("error", [UNREACHABLE, UnauthenticatedError("x", "no such token", "make one")])
def test_a_league_that_takes_no_calls_is_left_alone_until_the_next_attempt_is_due(link, client, clock, error):
    client.error = error
    assert ask(link, "leases") is None
    assert link.away
    assert ask(link, "results") is None
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


@pytest.mark.parametrize(
    "error", [ForbiddenError("token", "has no such scope", "use another"), InternalError("x", "failed", "retry")]
)
def test_a_call_that_is_refused_or_fails_holds_up_those_of_its_kind_alone(link, client, clock, error):
    client.error = error
    assert ask(link, "leases") is None
    client.error = None
    assert not link.away
    assert ask(link, "leases") is None
    assert [ask(link, kind) for kind in ("results", "heartbeats", "snapshots")] == ["answer"] * 3
    clock.now += 0.5
    assert ask(link, "leases") == "answer"


def test_a_refusal_is_said_once_and_so_is_its_end(link, client, clock, caplog):
    client.error = ForbiddenError("token", "has no such scope", "use another")
    for _ in range(3):
        ask(link, "leases")
        clock.now += 100.0
    client.error = None
    ask(link, "results")
    assert "again after" not in caplog.text
    ask(link, "leases")
    assert caplog.text.count("trying again until it takes leases") == 1
    assert caplog.text.count("the league takes leases again after 3 failed attempts") == 1


def test_a_league_that_refuses_something_is_back(link, client, clock, caplog):
    client.error = UNREACHABLE
    ask(link, "leases")
    clock.now += 100.0
    client.error = ForbiddenError("token", "has no such scope", "use another")
    ask(link, "leases")
    assert "the league is back" in caplog.text
    assert not link.away


def test_what_the_league_will_never_have_is_the_senders_to_set_aside(link, client):
    client.error = InvalidRequestError("results", "out of range", "report the match's own")
    with pytest.raises(InvalidRequestError):
        submit(link)
    assert not link.away
    client.error = None
    assert submit(link) == "answer"


class TooFastError(LeagueError):
    status = 429


@pytest.mark.parametrize(
    "error", [ForbiddenError, UnauthenticatedError, UnknownRouteError, TooFastError, InternalError]
)
def test_what_may_be_taken_later_is_sent_later(link, client, clock, error):
    client.error = error("this", "is refused for now", "try again")
    assert submit(link) is None
    client.error = None
    assert submit(link) is None
    clock.now += 0.5
    assert submit(link) == "answer"


@pytest.mark.parametrize("way", ["ask", "submit"])
def test_a_league_that_forgot_the_worker_is_told_again(link, client, way):
    client.error = UnknownWorkerError("w", "no worker has this id", "register")
    registered = []
    assert (
        getattr(link, way)("results", lambda client: client.call(), lambda c: registered.append(c) or "known") is None
    )
    assert registered == [client]
    client.error = None
    assert submit(link) == "answer"


def test_a_league_that_refuses_a_worker_it_forgot_is_not_troubled_with_its_calls(link, client, clock, caplog):
    client.error = UnknownWorkerError("w", "no worker has this id", "register")

    def refused(client):
        raise ForbiddenError("token", "has no such scope", "use another")

    for _ in range(3):
        assert link.submit("results", lambda client: client.call(), refused) is None
    assert client.calls == 1
    assert "until it takes registrations" in caplog.text


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
