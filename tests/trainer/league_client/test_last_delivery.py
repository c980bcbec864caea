"""What a worker still delivers when it leaves: everything, where the league answers within the shutdown grace."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx2
import pytest
from refused import assert_names

from league.client import LeagueClient
from league.client import result_spool as spools
from league.client.result_spool import ResultSpool
from league.errors import BusyError, InternalError, LeagueUnreachable
from league.wire import Result, ResultAnswer, ResultBatchAnswer
from trainer.errors import CallCutShortError
from trainer.league_client.last_delivery import CALL_S, LEAST_S, LastCalls
from trainer.league_client.retrying_client import RetryingClient
from trainer.shutdown import GRACE_S, RunContext

UNREACHABLE = LeagueUnreachable("here", "no answer", "start it")


@dataclass
class Leaving:
    """A worker's time, its signal, and a league that fails as the test says.

    Attributes:
        faults: Of the next calls, in order; None for an answer. Behind them all calls are answered.
        lasts_s: How long a call takes.
    """

    time_s: float = 100.0
    signal_s: float | None = None
    faults: list[Exception | None] = field(default_factory=list)
    lasts_s: float = 0.01
    taken: list[Result] = field(default_factory=list)
    calls: int = 0

    def run_context(self) -> RunContext:
        return RunContext(
            now=lambda: datetime.now(UTC),
            clock=lambda: self.time_s,
            stopping=lambda: self.signal_s is not None,
            past_grace=lambda: self.signal_s is not None and self.time_s > self.signal_s + GRACE_S,
            pause=self.sleep,
            sleep=self.sleep,
        )

    def sleep(self, seconds):
        assert seconds > 0.0
        self.time_s += seconds

    def answer(self, results):
        self.calls += 1
        self.time_s += self.lasts_s
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        self.taken += results
        items = [
            ResultAnswer(lease_id=each.lease_id, sequence=each.sequence, status="accepted", match_id=1, detail=None)
            for each in results
        ]
        return ResultBatchAnswer(items=items, next_poll_s=1.0)


@pytest.fixture
def leaving():
    return Leaving()


@pytest.fixture
def retrying_client(leaving):
    with httpx2.Client() as http:
        client = LeagueClient(http=http)
        yield RetryingClient(client, clock=lambda: leaving.time_s, rng=random.Random(0), backoff_max_s=60.0)


@pytest.fixture
def spool(tmp_path):
    made = ResultSpool(tmp_path)
    for sequence in range(5):
        made.append(Result(lease_id="a", sequence=sequence, score=1.0, decisions=3, reason="over", seed=7))
    made.sync()
    yield made
    made.close()


@pytest.fixture
def leave(leaving, retrying_client, spool):
    """Deliver for the last time."""

    def report(results):
        return retrying_client.call_or_skip("results", lambda client: leaving.answer(results), lambda client: None)

    def deliver(report):
        spool.deliver(report)
        return True

    return lambda: LastCalls(retrying_client, leaving.run_context()).deliver(spool, deliver, report)


def test_last_delivery_ignores_earlier_back_offs(leaving, retrying_client, leave):
    leaving.faults = 30 * [UNREACHABLE]
    while leaving.faults:
        retrying_client.call_or_skip("results", lambda client: leaving.answer([]), lambda client: None)
        leaving.time_s += retrying_client.wait_s("results")
    retrying_client.call_or_skip("results", lambda client: leaving.answer([]), lambda client: None)
    leaving.faults = [UNREACHABLE]
    retrying_client.call_or_skip("results", lambda client: leaving.answer([]), lambda client: None)
    leaving.signal_s = leaving.time_s
    assert (leave().delivered, leave().waiting) == (5, 0)


@pytest.mark.parametrize(
    "fault", [UNREACHABLE, InternalError("x", "failed", "retry"), BusyError("x", "others wait before it", "later")]
)
def test_deliveries_are_repeated_until_the_grace_ends(leaving, leave, fault):
    leaving.signal_s = leaving.time_s
    leaving.faults = 10 * [fault]
    delivery = leave()
    assert (delivery.delivered, delivery.waiting) == (5, 0)
    assert leaving.time_s < leaving.signal_s + GRACE_S


def test_a_call_that_the_signal_has_cut_short_is_made_again(leaving, retrying_client, leave):
    leaving.faults = [CallCutShortError("a signal came")]
    retrying_client.call_or_skip("results", lambda client: leaving.answer([]), lambda client: None)
    leaving.signal_s = leaving.time_s
    assert leave().waiting == 0


def test_a_signal_during_the_last_delivery_ends_it_no_sooner_than_the_grace(leaving, retrying_client, leave):
    leaving.faults = [UNREACHABLE, CallCutShortError("a signal came"), UNREACHABLE]
    answer = leaving.answer

    def signalled(results):
        if leaving.faults and isinstance(leaving.faults[0], CallCutShortError):
            leaving.signal_s = leaving.time_s
        return answer(results)

    leaving.answer = signalled
    assert leave().waiting == 0


def test_a_league_that_stays_away_is_called_until_the_grace_ends_and_results_wait(leaving, leave):
    leaving.signal_s = leaving.time_s
    leaving.faults = 1000 * [UNREACHABLE]
    delivery = leave()
    assert (delivery.delivered, delivery.waiting) == (0, 5)
    assert leaving.calls > 10
    assert GRACE_S <= leaving.time_s - leaving.signal_s <= GRACE_S + 1.0
    assert_names(str(delivery), 5)


def test_lost_calls_leave_time_for_retries(leaving, retrying_client, leave):
    leaving.signal_s = leaving.time_s
    leaving.lasts_s = CALL_S
    leaving.faults = 3 * [UNREACHABLE]
    assert leave().waiting == 0
    assert retrying_client._client.timeout_s == CALL_S


def test_worker_that_stops_late_still_delivers_its_results(leaving, leave):
    leaving.signal_s, leaving.faults = leaving.time_s - 2.0 * GRACE_S, [UNREACHABLE]
    assert leave().waiting == 0


def test_late_worker_retries_only_briefly(leaving, leave):
    leaving.signal_s, leaving.faults = leaving.time_s - 2.0 * GRACE_S, 1000 * [UNREACHABLE]
    began = leaving.time_s
    assert leave().waiting == 5
    assert leaving.time_s - began <= LEAST_S + 0.5


def test_a_long_spool_is_delivered_as_long_as_that_makes_progress(leaving, leave, monkeypatch):
    monkeypatch.setattr(spools, "BATCH_SIZE", 1)
    leaving.lasts_s = 0.9 * GRACE_S
    assert leave().waiting == 0
    assert leaving.calls == 5


def test_after_a_signal_a_long_spool_is_delivered_as_far_as_the_grace_allows(leaving, leave, monkeypatch):
    monkeypatch.setattr(spools, "BATCH_SIZE", 1)
    leaving.signal_s, leaving.lasts_s = leaving.time_s, 0.45 * GRACE_S
    delivery = leave()
    assert (delivery.delivered, delivery.waiting) == (3, 2)


def test_a_worker_without_waiting_results_makes_no_call(leaving, leave):
    assert leave().delivered == 5
    calls = leaving.calls
    delivery = leave()
    assert (delivery.delivered, delivery.waiting, leaving.calls) == (0, 0, calls)
    assert "all results are delivered" in str(delivery)
