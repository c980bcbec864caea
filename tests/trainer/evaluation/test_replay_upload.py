import pytest
from league_scene import ENVIRONMENT
from manual_clock import ManualClock

from arena.play.recording import RecordFirstMatch
from arena.play.series import play_series, resolve_policy
from arena.replay import file, pack_recording
from league.wire import ResultAnswer
from trainer.evaluation.replay_upload import MAX_WAITING, ReplayUploader


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(scope="module")
def recording():
    start_recording, random = RecordFirstMatch(), resolve_policy(ENVIRONMENT, "random")
    play_series(ENVIRONMENT, random, random, matches=1, seed=4, watcher=start_recording)
    return start_recording.finish(("a", "b"))


class League:
    """Accepts recordings unless `away`."""

    def __init__(self):
        self.away, self.got = False, {}

    def take(self, match_id, data):
        if not self.away:
            self.got[match_id] = data
        return not self.away


def answer(number, status="accepted", match_id=7):
    return ResultAnswer(lease_id="lease", sequence=number, status=status, match_id=match_id, detail=None)


def test_each_environment_is_recorded_at_intervals(clock):
    recordings = ReplayUploader(60.0, clock)
    filmed = []
    for clock.now in (0.0, 30.0, 60.0, 61.0, 200.0):
        filmed.append([recordings.start_recording(name) is not None for name in ("rps", "recall")])
    assert filmed == [[True, True], [False, False], [True, True], [False, False], [True, True]]


def test_nothing_is_recorded_without_an_interval(clock):
    assert ReplayUploader(None, clock).start_recording("rps") is None


def test_recordings_go_to_the_matches_that_the_league_accepted(clock, recording):
    recordings, league = ReplayUploader(60.0, clock), League()
    for number in range(4):
        recordings.add(("lease", number), recording)
    recordings.deliver(league.take)
    assert league.got == {}, "nothing is accepted yet"
    recordings.on_results([answer(0), answer(1, "rejected", None), answer(2, "duplicate", 9)])
    recordings.deliver(league.take)
    assert league.got == {7: pack_recording(recording), 9: pack_recording(recording)}
    league.got.clear()
    recordings.deliver(league.take)
    assert league.got == {}, "each is sent once"


def test_recordings_wait_for_a_league_that_is_away_and_the_oldest_are_dropped(clock, recording):
    recordings, league = ReplayUploader(60.0, clock), League()
    league.away = True
    count = MAX_WAITING + 3
    for number in range(count):
        recordings.add(("lease", number), recording)
    recordings.on_results([answer(number, match_id=100 + number) for number in range(count)])
    recordings.deliver(league.take)
    league.away = False
    recordings.deliver(league.take)
    assert sorted(league.got) == [100 + number for number in range(3, count)]


def test_a_recording_that_no_league_takes_is_dropped(clock, recording, monkeypatch, caplog):
    monkeypatch.setattr(file, "MAX_BYTES", 10)
    recordings, league = ReplayUploader(60.0, clock), League()
    recordings.add(("lease", 0), recording)
    recordings.on_results([answer(0)])
    recordings.deliver(league.take)
    assert league.got == {}
    assert "record a shorter match" in caplog.text
