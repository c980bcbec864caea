import random
from contextlib import contextmanager

import httpx2
import pytest
from manual_clock import ManualClock

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
from trainer.league_client.retrying_client import FIRST_BACKOFF_S, UNREACHABLE_AFTER, RetryingClient


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
    return ManualClock()


@pytest.fixture
def client():
    client = Client()
    yield client
    client._http.close()


@pytest.fixture
def retrying_client(client, clock):
    return RetryingClient(client, clock=clock, rng=random.Random(0), backoff_max_s=8.0)


def try_call(retrying_client):
    return retrying_client.try_call("leases", lambda client: client.call())


def call_or_skip(retrying_client, kind):
    return retrying_client.call_or_skip(kind, lambda client: client.call(), lambda client: None)


def submit(retrying_client, kind="results"):
    return retrying_client.submit(kind, lambda client: client.call(), lambda client: None)


UNREACHABLE = LeagueUnreachable("here", "no answer", "start it")


def test_a_league_that_answers_is_asked_every_time(retrying_client, client):
    assert [try_call(retrying_client), try_call(retrying_client)] == ["answer", "answer"]
    assert not retrying_client.unreachable


def test_unknown_token_stops_all_calls_until_the_back_off_ends(retrying_client, client, clock):
    client.error = UnauthenticatedError("x", "no such token", "make one")
    assert call_or_skip(retrying_client, "leases") is None
    assert retrying_client.unreachable
    assert call_or_skip(retrying_client, "results") is None
    assert client.calls == 1
    clock.now += 0.5
    client.error = None
    assert try_call(retrying_client) == "answer"
    assert not retrying_client.unreachable


def test_calls_of_a_kind_neither_shorten_nor_lengthen_the_back_off_of_another(retrying_client, client, clock):
    def waits():
        return [retrying_client.wait_s(kind) for kind in ("leases", "results")]

    client.error = UNREACHABLE
    call_or_skip(retrying_client, "leases")
    clock.now += retrying_client.wait_s("leases")
    call_or_skip(retrying_client, "leases")
    before = waits()
    assert before[0] > 0.0
    client.error = None
    for _ in range(3):
        assert call_or_skip(retrying_client, "results") == "answer"
    assert waits() == before == [before[0], 0.0]
    client.error = UNREACHABLE
    for _ in range(3):
        call_or_skip(retrying_client, "results")
        clock.now += retrying_client.wait_s("results")
    client.error = None
    clock.now += retrying_client.wait_s("leases")
    assert call_or_skip(retrying_client, "leases") == "answer"
    client.error = UNREACHABLE
    call_or_skip(retrying_client, "leases")
    assert retrying_client.wait_s("leases") <= FIRST_BACKOFF_S, "a success of its kind ends a back-off"


def test_unreachable_league_is_probed_by_one_call_at_a_time(retrying_client, client, clock):
    client.error = UNREACHABLE
    kinds = ["leases", "results", "heartbeats", "downloads", "replays"]
    assert len(kinds) == UNREACHABLE_AFTER
    for kind in kinds:
        assert not retrying_client.unreachable
        call_or_skip(retrying_client, kind)
    assert retrying_client.unreachable
    for _ in range(10):
        calls = client.calls
        clock.now += max(retrying_client.wait_s(kind) for kind in kinds)
        for kind in [*kinds, "snapshots"]:
            call_or_skip(retrying_client, kind)
        assert client.calls == calls + 1
    clock.now += max(retrying_client.wait_s(kind) for kind in kinds)
    client.error = None
    assert call_or_skip(retrying_client, "results") == "answer"
    assert not retrying_client.unreachable
    assert retrying_client.wait_s("snapshots") == 0.0


def test_the_last_calls_before_an_exit_are_made_at_once_and_soon_again(client, clock):
    @contextmanager
    def call_context():
        yield

    retrying_client = RetryingClient(
        client, clock=clock, rng=random.Random(0), backoff_max_s=8.0, call_context=call_context
    )
    client.error = UNREACHABLE
    for _ in range(20):
        call_or_skip(retrying_client, "results")
        clock.now += retrying_client.wait_s("results")
    client.error = CallCutShortError("a signal came")
    call_or_skip(retrying_client, "leases")
    retrying_client.reset_backoff(1.0)
    client.error = UNREACHABLE
    for _ in range(20):
        calls = client.calls
        assert retrying_client.wait_s("results") <= FIRST_BACKOFF_S
        clock.now += retrying_client.wait_s("results")
        assert call_or_skip(retrying_client, "results") is None
        assert client.calls == calls + 1
    assert client.timeout_s == 1.0


def test_busy_league_delays_only_calls_of_that_kind(retrying_client, client, clock):
    client.error = BusyError("for POST /api/v1/leases", "others wait before it", "send it again in 4 s")
    assert try_call(retrying_client) is None
    assert not retrying_client.unreachable
    client.error = None
    assert try_call(retrying_client) == "answer"


@pytest.mark.parametrize("error", [UNREACHABLE, InternalError("x", "failed", "retry")])
def test_pauses_are_random_up_to_a_limit_that_doubles_up_to_the_longest(client, clock, error):
    waits = []
    client.error = error
    for seed in range(200):
        retrying_client = RetryingClient(client, clock=clock, rng=random.Random(seed), backoff_max_s=8.0)
        waits.append([])
        for _ in range(4):
            try_call(retrying_client)
            waits[-1].append(retrying_client.wait_s("leases"))
            clock.now += waits[-1][-1] + 1e-6
    for number, found in enumerate(zip(*waits, strict=True)):
        limit = FIRST_BACKOFF_S * 2.0**number
        assert max(found) <= limit + 1e-9
        assert max(found) > 0.95 * limit
        assert min(found) < 0.05 * limit
    for _ in range(20):
        try_call(retrying_client)
        assert retrying_client.wait_s("leases") <= 8.0
        clock.now += retrying_client.wait_s("leases")


def test_a_refusal_is_the_callers(retrying_client, client):
    client.error = ForbiddenError("token", "has no such scope", "use another")
    with pytest.raises(ForbiddenError):
        try_call(retrying_client)
    assert not retrying_client.unreachable


@pytest.mark.parametrize(
    "error", [ForbiddenError("token", "has no such scope", "use another"), InternalError("x", "failed", "retry")]
)
def test_rejected_or_failed_call_delays_only_calls_of_its_kind(retrying_client, client, clock, error):
    client.error = error
    assert call_or_skip(retrying_client, "leases") is None
    client.error = None
    assert not retrying_client.unreachable
    assert call_or_skip(retrying_client, "leases") is None
    assert [call_or_skip(retrying_client, kind) for kind in ("results", "heartbeats", "snapshots")] == ["answer"] * 3
    clock.now += 0.5
    assert call_or_skip(retrying_client, "leases") == "answer"


def test_rejection_and_its_end_are_logged_once(retrying_client, client, clock, caplog):
    client.error = ForbiddenError("token", "has no such scope", "use another")
    for _ in range(3):
        call_or_skip(retrying_client, "leases")
        clock.now += 100.0
    client.error = None
    call_or_skip(retrying_client, "results")
    assert "again after" not in caplog.text
    call_or_skip(retrying_client, "leases")
    assert caplog.text.count("trying again until it accepts leases") == 1
    assert caplog.text.count("the league accepts leases again after 3 failed attempts") == 1


def test_league_that_rejects_a_call_counts_as_reachable(retrying_client, client, clock, caplog):
    client.error = UNREACHABLE
    for _ in range(UNREACHABLE_AFTER):
        call_or_skip(retrying_client, "leases")
        clock.now += 100.0
    client.error = ForbiddenError("token", "has no such scope", "use another")
    call_or_skip(retrying_client, "leases")
    assert "the league is back" in caplog.text
    assert not retrying_client.unreachable


def test_permanent_rejection_is_raised_to_the_sender(retrying_client, client):
    client.error = InvalidRequestError("results", "out of range", "report the match's own")
    with pytest.raises(InvalidRequestError):
        submit(retrying_client)
    assert not retrying_client.unreachable
    client.error = None
    assert submit(retrying_client) == "answer"


class TooFastError(LeagueError):
    status = 429


@pytest.mark.parametrize(
    "error", [ForbiddenError, UnauthenticatedError, UnknownRouteError, TooFastError, InternalError]
)
def test_temporary_rejection_is_retried_later(retrying_client, client, clock, error):
    client.error = error("this", "is refused for now", "try again")
    assert submit(retrying_client) is None
    client.error = None
    assert submit(retrying_client) is None
    clock.now += 0.5
    assert submit(retrying_client) == "answer"


@pytest.mark.parametrize("way", ["call_or_skip", "submit"])
def test_unknown_worker_registers_again(retrying_client, client, way):
    client.error = UnknownWorkerError("w", "unknown", "register")
    registered = []
    assert (
        getattr(retrying_client, way)(
            "results", lambda client: client.call(), lambda c: registered.append(c) or "known"
        )
        is None
    )
    assert registered == [client]
    client.error = None
    assert submit(retrying_client) == "answer"


def test_rejected_registration_backs_off_the_call_that_needs_it(retrying_client, client, clock, caplog):
    client.error = UnknownWorkerError("w", "unknown", "register")

    def refused(client):
        raise ForbiddenError("token", "has no such scope", "use another")

    for _ in range(3):
        assert retrying_client.submit("results", lambda client: client.call(), refused) is None
    assert client.calls == 1
    assert "until it accepts registrations" in caplog.text


def test_outage_and_recovery_are_logged_once(retrying_client, client, clock, caplog):
    client.error = UNREACHABLE
    for _ in range(UNREACHABLE_AFTER + 2):
        try_call(retrying_client)
        clock.now += 100.0
    client.error = None
    try_call(retrying_client)
    assert caplog.text.count("trying again") == 1
    assert len([line for line in caplog.messages if "3 failed attempts" in line]) == 1


def test_timeout_doubles_after_each_lost_call(retrying_client, client, clock):
    client.error, waited = UNREACHABLE, []
    for _ in range(6):
        try_call(retrying_client)
        waited.append(client.timeout_s)
        clock.now += 100.0
    assert waited == [1.5, 3.0, 6.0, 12.0, 24.0, 30.0], "up to what the client was made with"
    call_or_skip(retrying_client, "results")
    assert client.timeout_s == 1.5, "each kind for itself"


def test_answers_are_awaited_for_a_multiple_of_the_time_that_the_last_one_took(retrying_client, client, clock):
    def slow(client):
        clock.now += 3.0
        return client.call()

    for _ in range(2):
        assert retrying_client.try_call("leases", slow) == "answer"
    assert client.timeout_s == 12.0
    try_call(retrying_client)
    try_call(retrying_client)
    assert client.timeout_s == 1.5


def test_transfers_are_awaited_for_as_long_as_the_client_was_made_with(retrying_client, client):
    call_or_skip(retrying_client, "snapshots")
    assert client.timeout_s == 30.0


@pytest.mark.parametrize("error", [UNREACHABLE, InternalError("x", "failed", "retry")])
def test_single_failures_of_a_bad_line_are_not_in_the_log(retrying_client, client, clock, caplog, error):
    for _ in range(10):
        for fault in (error, error, None):
            client.error = fault
            try_call(retrying_client)
            clock.now += 100.0
    assert not caplog.records


def test_after_a_call_that_was_cut_short_none_is_made_any_more(client, clock):
    entered = []

    @contextmanager
    def call_context():
        entered.append(True)
        yield

    retrying_client = RetryingClient(
        client, clock=clock, rng=random.Random(0), backoff_max_s=8.0, call_context=call_context
    )
    assert try_call(retrying_client) == "answer"
    client.error = CallCutShortError("a signal came")
    assert try_call(retrying_client) is None
    client.error = None
    clock.now += 1e9
    assert try_call(retrying_client) is None
    assert len(entered) == client.calls == 2
