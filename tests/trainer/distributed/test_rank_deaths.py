"""Rank 0 is killed at every point of its bookkeeping: each result that was written down counts once, none is lost.

Ranks are threads here, and the league is in this process, so that death comes at its very point every time.
"""

import json

import pytest
from deaths import POINTS, Death, mortal
from small_runs import logged, same_results, waiting, without_gaps
from two_ranks import Run

from trainer.errors import CallCutShortError, RankLostError

DECISIVE = ["results: taken, no answer yet", "state: written aside", "file: to go"]
LONG = "run.total_timesteps=1_000_000", "run.save_every_updates=3", "environment.self_play=0"


@pytest.fixture
def run(worker_of, transport, outside, tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.league_client.sync.DELIVERY_S", 0.0)
    return Run(worker_of, transport, outside, tmp_path, monkeypatch)


@pytest.fixture
def deaths(transport, monkeypatch, tmp_path):
    made = mortal(tmp_path / "run", transport, monkeypatch)
    yield made
    for file in made.opened:
        file.close()


def die_and_go_on(run, deaths, points, passes):
    """Live once for every point, die there, and live once more to an end."""
    for point in points:
        with deaths.at(point, passes):
            killed, lost = run.go(*LONG)
        assert (type(killed), str(killed), type(lost)) == (Death, point, RankLostError)
    steps = run.saved().counters["steps"]
    assert run.go(*LONG, f"run.total_timesteps={steps + 192}") == [None, None]


def assert_exactly_once(deaths, client, run):
    assert waiting(run) == set()
    assert set(deaths.written.values()) == {1}
    results = [json.loads(line) for line in deaths.written]
    assert len({(each["lease_id"], each["sequence"]) for each in results}) == len(results), "a match was played anew"
    log = logged(client)
    assert same_results(results, log)
    assert without_gaps(log)


@pytest.mark.parametrize(
    ("points", "passes"),
    [
        (DECISIVE, 2),
        pytest.param(POINTS, 1, marks=pytest.mark.slow),
        pytest.param(POINTS, 3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(600)
def test_results_count_once_wherever_rank_0_is_killed(run, deaths, client, tmp_path, points, passes):
    die_and_go_on(run, deaths, points, passes)
    assert_exactly_once(deaths, client, tmp_path / "run")


def test_results_wait_for_an_answer_that_a_signal_cut_short_although_they_count(
    run, deaths, client, transport, outside, tmp_path, monkeypatch
):
    """Of the same results the run says that they wait, and the league that it has them: the next start settles it."""
    request = transport.request

    def cut_short(method, url, **options):
        answer = request(method, url, **options)
        if str(url).endswith("/results"):
            outside.asked = True
            raise CallCutShortError("a signal came")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(transport, "request", cut_short)
        assert run.go(*LONG) == [None, None]
    assert [line for line in run.lines if "wait in the spool" in line]
    counted = {(each.lease_id, each.sequence) for each in logged(client)}
    assert counted & waiting(tmp_path / "run")
    outside.asked = False
    steps = run.saved().counters["steps"]
    assert run.go(*LONG, f"run.total_timesteps={steps + 64}") == [None, None]
    assert_exactly_once(deaths, client, tmp_path / "run")
    assert run.session.spool.outcomes["duplicate"] == len(counted)
