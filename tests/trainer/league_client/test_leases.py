import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fake_games import tagged
from nonsense_weights import as_integers, huge, named, not_numbers

from arena.environments import make
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from arena.seeding import match_seed
from league.wire import Lease, LeaseAnswer, Seat
from trainer.league_client.leases import LeaseScheduler
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import SELF, Opponent, OpponentPool

LEARNER = Seat(player_id=1, checkpoint=None, name="main")
RANDOM = Seat(player_id=2, checkpoint="baseline:random", name="random")
BROKEN = Seat(player_id=3, checkpoint="f" * 64, name="broken")
STRANGER = Seat(player_id=4, checkpoint=None, name="stranger")


class League:
    """Grants leases that count up, one after another, and remembers what was given back."""

    def __init__(self):
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.granted, self.requests, self.released, self.unplayable = 0, [], [], []
        self.seats, self.budget, self.lifetime_s = [RANDOM], 2, 360.0
        self.away, self.empty = False, False

    def request(self, count):
        self.requests.append(count)
        if self.away:
            return None
        items = [] if self.empty else [self._grant() for _ in range(count)]
        return LeaseAnswer(items=items, next_poll_s=5.0)

    def release(self, lease_ids, unplayable):
        self.released += lease_ids
        self.unplayable += unplayable

    def _grant(self):
        number, self.granted = self.granted, self.granted + 1
        opponent, away = self.seats[number % len(self.seats)], bool(number % 2)
        return Lease(
            lease_id=f"lease{number}",
            kind="training",
            home=opponent if away else LEARNER,
            away=LEARNER if away else opponent,
            learner_side="away" if away else "home",
            seed=1000 + number,
            budget=self.budget,
            expires_at=self.now + timedelta(seconds=self.lifetime_s),
            propensity=0.5,
            branch="pfsp",
        )


@pytest.fixture
def league():
    return League()


LIVE = Opponent(SELF, "main", tagged(0.0).policy)


@pytest.fixture
def book_of(tmp_path, league):
    spec = make("recall", num_envs=1).spec

    def make_book(rows=2, self_play=frozenset()):
        pool = OpponentPool(
            spec, lambda sha256: None, CheckpointCache(tmp_path, 2**20), memory_limit_bytes=2**20, device="cpu"
        )
        return LeaseScheduler(
            pool,
            LIVE,
            request=league.request,
            release=league.release,
            now=lambda: league.now,
            rows=rows,
            self_play=self_play,
            seed=7,
        )

    return make_book


def keys(assignments):
    return [(each.lease.lease_id if each.lease else None, each.sequence) for each in assignments]


def test_a_lease_is_played_by_one_environment_until_its_budget_is_spent(book_of):
    book = book_of()
    drawn = [book.next_match(row) for row in (0, 1, 0, 1, 0)]
    assert keys(drawn) == [("lease0", 0), ("lease1", 0), ("lease0", 1), ("lease1", 1), ("lease2", 0)]
    assert [each.away for each in drawn] == [False, True, False, True, False]
    assert drawn[2].seed == match_seed(1000, 1)


def test_leases_are_asked_for_ahead(book_of, league):
    book = book_of(rows=4)
    book.refill()
    assert league.requests == [4]
    for row in range(4):
        book.next_match(row)
    assert league.requests == [4]
    book.refill()
    assert league.requests == [4, 4]


def test_environments_of_self_play_need_no_lease_and_are_at_home(book_of, league):
    book = book_of(rows=3, self_play={1})
    drawn = [book.next_match(1) for _ in range(3)]
    assert league.requests == []
    assert all(
        (each.opponent, each.lease, each.away, each.self_play_match) == (LIVE, None, False, True) for each in drawn
    )
    assert [each.sequence for each in drawn] == [0, 1, 2]
    assert len({each.seed for each in drawn}) == 3
    assert not book.next_match(0).self_play_match
    assert league.requests == [2]
    assert book.unrated_matches == 0


def test_a_league_is_not_asked_where_all_environments_are_of_self_play(book_of, league):
    book = book_of(rows=2, self_play={0, 1})
    book.refill()
    assert [book.next_match(row).self_play_match for row in (0, 1)] == [True, True]
    assert league.requests == []


def test_matches_of_self_play_go_on_after_a_restart(book_of):
    book = book_of(rows=2, self_play={1})
    pending = [(book.next_match(row), book.next_match(row)) for row in (0, 1)]
    restored = book_of(rows=2, self_play={1})
    restored.restore(book.saved(pending), {})
    for row in (0, 1):
        for before in pending[row]:
            after = restored.next_match(row)
            assert replace(after, opponent=before.opponent) == before
            assert after.opponent.key == before.opponent.key
    assert restored.next_match(1).sequence == 2


def test_an_environment_that_has_come_to_self_play_or_left_it_begins_with_new_matches(book_of):
    book = book_of(rows=2, self_play={1})
    pending = [(book.next_match(row),) for row in (0, 1)]
    swapped = book_of(rows=2, self_play={0})
    swapped.restore(book.saved(pending), {})
    assert [swapped.next_match(row).self_play_match for row in (0, 1)] == [True, False]


def test_self_play_uses_the_live_weights(book_of, league):
    league.seats = [LEARNER]
    assert book_of().next_match(0).opponent is LIVE


def test_expired_leases_are_not_played(book_of, league):
    book = book_of()
    assert keys([book.next_match(0)]) == [("lease0", 0)]
    league.now += timedelta(seconds=400)
    assert keys([book.next_match(0)]) == [("lease2", 0)]


def test_expired_leases_are_skipped_at_any_position_of_the_queue(book_of, league):
    league.seats, league.lifetime_s = [RANDOM, BROKEN], 900.0
    book = book_of()
    assert keys([book.next_match(0)]) == [("lease0", 0)]
    league.lifetime_s = 100.0  # of a league that was started again, with shorter leases
    book.refill()
    league.now += timedelta(seconds=200)
    assert book.next_match(1).lease is None
    assert keys([book.next_match(1)]) == [("lease4", 0)]


@pytest.mark.parametrize("seat", [BROKEN, STRANGER])
def test_an_opponent_that_cannot_be_played_is_given_back_and_another_taken(book_of, league, seat, caplog):
    league.seats = [seat, RANDOM]
    book = book_of()
    assert keys([book.next_match(0)]) == [("lease1", 0)]
    assert f"opponent {seat.name} cannot be played" in caplog.text
    book.refill()
    assert league.released == ["lease0"]
    assert league.unplayable == []  # it could not be fetched, which says nothing about it


def test_damaged_opponents_are_named_once_with_the_reason(book_of, league, tmp_path):
    data = b"not a checkpoint"
    damaged = Seat(player_id=5, checkpoint=hashlib.sha256(data).hexdigest(), name="damaged")
    CheckpointCache(tmp_path, 2**20).put(damaged.checkpoint, data)
    league.seats = [damaged, damaged, RANDOM]
    book = book_of(rows=3)
    book._pool._download = lambda sha256: data
    assert keys([book.next_match(0)]) == [("lease2", 0)]
    book.refill()
    assert league.released == ["lease0", "lease1"]
    (named,) = league.unplayable
    assert named.player_id == 5
    assert damaged.checkpoint in named.reason


@pytest.mark.parametrize("damage", [as_integers, huge, not_numbers])
def test_opponents_with_invalid_weights_are_reported_as_unplayable(book_of, league, damage):
    spec = make("recall", num_envs=1).spec
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    sha256, data = named(damage(encode(network, spec)))
    league.seats = [Seat(player_id=6, checkpoint=sha256, name="nonsense"), RANDOM]
    book = book_of()
    book._pool._download = lambda _: data
    assert keys([book.next_match(0)]) == [("lease1", 0)]
    book.refill()
    assert league.released == ["lease0"]
    (reported,) = league.unplayable
    assert reported.player_id == 6
    assert "actor.bias" in reported.reason


def test_unplayable_opponent_is_logged_once(book_of, league, caplog):
    league.seats, league.budget = [BROKEN, STRANGER, RANDOM], 1
    book = book_of(rows=6)
    drawn = [book.next_match(0) for _ in range(3)]
    assert keys(drawn) == [("lease2", 0), ("lease5", 0), ("lease8", 0)]
    assert [caplog.text.count(f"opponent {seat.name} cannot be played") for seat in (BROKEN, STRANGER)] == [1, 1]


def test_only_unusable_opponents_do_not_hang_a_draw(book_of, league):
    league.seats = [BROKEN]
    drawn = book_of().next_match(0)
    assert drawn.lease is None
    assert drawn.opponent is LIVE


def test_cached_opponents_are_played_unrated_while_the_league_is_unreachable(book_of, league):
    book = book_of()
    book.next_match(0), book.next_match(0)
    league.away = True
    book.next_match(1), book.next_match(1)
    drawn = [book.next_match(0) for _ in range(20)]
    assert all(each.lease is None for each in drawn)
    assert {each.opponent.key for each in drawn} == {SELF, "baseline:random"}
    assert {each.away for each in drawn} == {True, False}
    assert len({each.seed for each in drawn}) == 20
    league.away = False
    assert book.next_match(0).lease is not None


def test_queued_leases_are_played_while_the_league_is_unreachable(book_of, league):
    book = book_of()
    book.refill()
    league.away = True
    assert keys([book.next_match(0), book.next_match(0), book.next_match(1)]) == [
        ("lease0", 0),
        ("lease0", 1),
        ("lease1", 0),
    ]


def test_empty_lease_answer_is_retried_after_its_poll_interval(book_of, league):
    league.empty = True
    book = book_of()
    book.next_match(0), book.next_match(0)
    assert len(league.requests) == 1
    league.now += timedelta(seconds=5)
    book.next_match(0)
    assert len(league.requests) == 2


def restarted(book_of, book, pending, written):
    again = book_of()
    again.restore(book.saved(pending), written)
    return again


def test_restart_assigns_pending_matches_first(book_of, league):
    book = book_of()
    pending = [[book.next_match(row), book.next_match(row)] for row in range(2)]
    again = restarted(book_of, book, pending, {})
    assert keys([again.next_match(0), again.next_match(0), again.next_match(0)]) == [
        ("lease0", 0),
        ("lease0", 1),
        ("lease2", 0),
    ]
    resumed = again.next_match(1)
    assert (resumed.opponent.name, resumed.away, resumed.seed) == ("random", True, pending[1][0].seed)


def test_no_sequence_is_used_twice_after_a_crash(book_of):
    """The state is older than the spool: what was reported since is not played again under its number."""
    book = book_of()
    pending = [[book.next_match(row), book.next_match(row)] for row in range(2)]
    book.refill()
    again = restarted(book_of, book, pending, {"lease0": 0, "lease1": 1, "lease2": 0})
    drawn = [again.next_match(0), again.next_match(0), again.next_match(1)]
    assert keys(drawn) == [("lease0", 1), ("lease2", 1), ("lease3", 0)]


def test_pending_matches_of_expired_leases_are_not_played(book_of, league):
    book = book_of()
    pending = [[book.next_match(0), book.next_match(0)], []]
    league.now += timedelta(seconds=1000)
    again = restarted(book_of, book, pending, {})
    assert keys([again.next_match(0)]) == [("lease2", 0)]


def test_unrated_matches_resume_with_their_opponent_seed_and_number(book_of, league):
    league.away = True
    book = book_of()
    pending = [[book.next_match(0), book.next_match(0)], [book.next_match(1), book.next_match(1)]]
    again = restarted(book_of, book, pending, {})
    drawn = [again.next_match(0), again.next_match(0), again.next_match(0)]
    assert [each.seed for each in drawn[:2]] == [each.seed for each in pending[0]]
    assert drawn[2].seed == book.next_match(0).seed


def test_opponents_of_leases_to_come_are_loaded_between_rollouts(book_of, league, monkeypatch):
    book, loaded = book_of(rows=3), []
    monkeypatch.setattr(book._pool, "prefetch", lambda checkpoints, enough: loaded.append((checkpoints, enough())))
    league.seats = [RANDOM, LEARNER, BROKEN]
    book.refill()
    assert loaded == [([RANDOM.checkpoint, BROKEN.checkpoint], False)]


def test_loading_ahead_does_not_hold_up_training_for_long(book_of, league, monkeypatch):
    book, asked = book_of(rows=3), []

    def slowly(checkpoints, enough):
        while not enough():
            asked.append(checkpoints)
            league.now += timedelta(seconds=0.2)

    monkeypatch.setattr(book._pool, "prefetch", slowly)
    book.refill()
    assert len(asked) == 3
