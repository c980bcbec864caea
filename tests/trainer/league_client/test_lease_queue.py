"""How many rating leases are asked for ahead of need."""

from datetime import UTC, datetime, timedelta

import pytest
from manual_clock import ManualClock

from league.wire import Lease, Seat
from trainer.league_client.lease_queue import AHEAD_S, LeaseQueue
from trainer.league_client.leases import LEASES_PER_CALL

NOW = datetime(2026, 11, 23, tzinfo=UTC)


class League:
    """Grants leases, unless it is away."""

    def __init__(self):
        self.asked = []
        self.away = self.empty = False
        self.gate_ids = []

    def request(self, count):
        self.asked.append(count)
        if self.away:
            return None
        return [] if self.empty else [self._lease() for _ in range(count)]

    def _lease(self):
        seat = Seat(player_id=1, checkpoint="baseline:random", name="random")
        self.gate_ids.append(None)
        return Lease(
            lease_id=f"{len(self.gate_ids)}",
            kind="rating",
            home=seat,
            away=seat,
            learner_side=None,
            seed=1,
            budget=1,
            expires_at=NOW + timedelta(minutes=6),
            propensity=None,
            branch="pairing",
            reason="",
            gate_id=None,
        )


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def league():
    return League()


@pytest.fixture
def queue(league, clock):
    return LeaseQueue(league.request, clock, lambda: NOW)


def refill(queue, wait_s=0.0, count=8):
    queue.refill(count, wait_s, lambda: 5.0)


def play_rounds(queue, clock, cycle_s, rounds=2, count=8):
    for _ in range(rounds):
        refill(queue)
        queue.take(count)
        queue.start_round()
        clock.now += cycle_s


def test_the_first_call_asks_for_one_round(queue, league):
    refill(queue)
    assert league.asked == [8]
    assert len(queue.take(8)) == 8
    assert len(queue) == 0


def test_short_rounds_are_provided_for_ahead_in_one_call(queue, league, clock):
    play_rounds(queue, clock, cycle_s=0.5, rounds=3)
    refill(queue)
    assert league.asked[-1] > 8
    calls = len(league.asked)
    play_rounds(queue, clock, cycle_s=0.5, rounds=8)
    assert len(league.asked) == calls, "half of what is at hand lasts for so many rounds"


def test_a_league_that_is_away_for_a_while_stops_no_short_rounds(queue, league, clock):
    play_rounds(queue, clock, cycle_s=0.5, rounds=20)
    league.away = True
    for _ in range(int(0.4 * AHEAD_S / 0.5)):
        refill(queue)
        assert len(queue.take(8)) == 8
        queue.start_round()
        clock.now += 0.5


def test_before_a_long_rest_ends_no_leases_are_asked_for_that_would_grow_old(queue, league, clock):
    play_rounds(queue, clock, cycle_s=60.0)
    calls = len(league.asked)
    refill(queue, wait_s=AHEAD_S + 1.0)
    assert len(league.asked) == calls
    refill(queue, wait_s=AHEAD_S - 1.0)
    assert league.asked[calls:] == [8]


def test_no_call_asks_for_more_than_the_league_grants(queue, league, clock):
    play_rounds(queue, clock, cycle_s=0.0, rounds=5)
    assert max(league.asked) <= LEASES_PER_CALL


def test_a_failed_call_is_no_answer_and_an_empty_one_is(queue, league, clock):
    league.away = True
    refill(queue)
    assert queue.wait_s() == 0.0
    league.away, league.empty = False, True
    refill(queue)
    assert queue.wait_s() == 5.0
    refill(queue)
    assert len(league.asked) == 2
    clock.now += 5.0
    refill(queue)
    assert len(league.asked) == 3


def test_leases_of_a_gate_and_others_are_not_played_in_one_round(queue, clock):
    refill(queue)
    leases = queue.take(8)
    queue.put_back([*(each.model_copy(update={"gate_id": 7}) for each in leases[:2]), *leases[2:]])
    assert [each.gate_id for each in queue.take(8)] == [7, 7]
    assert len(queue.take(8)) == 6


def test_leases_that_were_put_back_come_first_and_in_order(queue, clock):
    refill(queue)
    leases = queue.take(4)
    queue.put_back(leases)
    assert [each.lease_id for each in queue.take(8)][:4] == [each.lease_id for each in leases]


def test_leases_that_ended_while_they_waited_are_not_played(league, clock):
    queue = LeaseQueue(league.request, clock, lambda: NOW + timedelta(minutes=7))
    refill(queue)
    assert queue.take(8) == []
    assert len(queue) == 0


def test_leases_that_will_not_be_played_are_named(queue):
    refill(queue)
    played = queue.take(6)
    assert len(queue.clear()) == 2
    assert len(played) == 6
    assert len(queue) == 0
