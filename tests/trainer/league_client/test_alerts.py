"""Alarms of the league about a learner, in its trainer's terminal."""

from datetime import UTC, datetime

import pytest
from small_runs import rps

from league import wire
from league.errors import LeagueUnreachable


def regression(learner, opponent):
    return wire.Regression(
        environment="rps",
        learner=wire.PlayerName(player_id=learner, name="main"),
        opponent=wire.PlayerName(player_id=opponent, name=f"main@{opponent}"),
        earlier=wire.Score(matches=60, score=0.8, low=0.68, high=0.88),
        recent=wire.Score(matches=40, score=0.2, low=0.12, high=0.32),
        since=datetime(2030, 1, 1, tzinfo=UTC),
    )


@pytest.fixture
def alarms(client):
    """What the league has to tell, update by update; every call for it is counted."""

    class LeagueAlerts:
        active, calls, away = [], 0, False

    def regressions(environment):
        LeagueAlerts.calls += 1
        if LeagueAlerts.away:
            raise LeagueUnreachable("here", "no answer", "start it")
        return wire.Page[wire.Regression](items=LeagueAlerts.active, next_cursor=None)

    client.regressions = regressions
    return LeagueAlerts


def run(worker, outside, alarms, opponents_by_update):
    """Train as long as there is something to tell, a minute an update."""
    learn = worker.learner.learn
    own = worker.session._league_session.registration.player_id

    def a_minute_later(*arguments):
        outside.time_s += 60.0
        alarms.active = [regression(own, each) for each in opponents_by_update[worker.learner.updates]]
        return learn(*arguments)

    worker.learner.learn = a_minute_later
    worker.run()


def test_alarm_and_its_end_are_printed_once(worker_of, client, outside, alarms):
    lines = []
    worker = worker_of(client, rps("run.total_timesteps=320"), lines=lines)
    run(worker, outside, alarms, [[7], [7], [7, 8], [8], []])
    printed = [line for line in lines if line.startswith(("alarm:", "alarm cleared:"))]
    assert printed == [
        "alarm: main loses to main@7, which it used to defeat: score 0.80 of 60 matches, then 0.20 of 40 matches; "
        "see `league player regressions`",
        "alarm: main loses to main@8, which it used to defeat: score 0.80 of 60 matches, then 0.20 of 40 matches; "
        "see `league player regressions`",
        "alarm cleared: main@7",
        "alarm cleared: main@8",
    ]
    assert alarms.calls == 5


def test_alarms_about_other_learners_are_not_printed(worker_of, client, alarms):
    lines = []
    alarms.active = [regression(12345, 7)]
    worker_of(client, rps("run.total_timesteps=128"), lines=lines).run()
    assert alarms.calls == 1, "two updates are within a minute"
    assert not [line for line in lines if line.startswith(("alarm:", "alarm cleared:"))]


def test_only_main_learners_request_alarms(worker_of, client, alarms):
    worker_of(client, rps("run.total_timesteps=64", "league.role=main_exploiter")).run()
    assert alarms.calls == 0


def test_while_the_league_is_away_alarms_stay_as_they_were(worker_of, client, outside, alarms):
    lines = []
    worker = worker_of(client, rps("run.total_timesteps=320"), lines=lines)
    update_monitor = worker.session.monitor.update

    def away_in_the_middle(update, metrics):
        alarms.away = 1 < update < 5
        return update_monitor(update, metrics)

    worker.session.monitor.update = away_in_the_middle
    run(worker, outside, alarms, [[7]] * 5)
    assert len([line for line in lines if line.startswith(("alarm:", "alarm cleared:"))]) == 1
    assert alarms.calls > 3
