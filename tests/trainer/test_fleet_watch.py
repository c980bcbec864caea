"""The fleet's driver, with stations that stand for a cluster."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from league.restarts import RestartRule
from trainer.errors import TrainerError
from trainer.fleet import watch
from trainer.fleet.keeper import Orders, Report
from trainer.fleet.members import Member, Share
from trainer.fleet.watch import Fleet, LostError

RULE = RestartRule(short_life_s=60.0, most_short_lives=3, first_delay_s=0.0, longest_delay_s=0.0)
RUNNING = Report("host", "running", (), None, began=True)
ENDED = Report("host", "finished", (), None, began=True)
FAILED = Report("host", "failed", (), None, began=True)

Answer = Report | Exception | None


class Scripted:
    """A station that answers by a list, its last answer for ever, and ends once it is asked to."""

    def __init__(self, orders: Orders, answers: list[Answer], *, stubborn: bool) -> None:
        self.orders = orders
        self.asked_to_leave = self.killed = False
        self._answers = answers
        self._stubborn = stubborn

    def report(self) -> Report | None:
        if self.asked_to_leave and not self._stubborn:
            return ENDED
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def leave(self) -> None:
        self.asked_to_leave = True

    def kill(self) -> None:
        self.killed = True


class Cluster:
    """Opens stations by script: for every member, a list of answers for each of its lives."""

    def __init__(self, *, stubborn: bool = False, **lives: list[list[Answer]]) -> None:
        self.opened: list[Scripted] = []
        self._lives = lives
        self._stubborn = stubborn

    def open(self, orders: Orders) -> Scripted:
        answers = self._lives[orders.member.name].pop(0)
        self.opened.append(Scripted(orders, answers, stubborn=self._stubborn))
        return self.opened[-1]


def member(name: str) -> Member:
    kind: Any = "evaluator" if name == "evaluator" else "trainer"
    return Member(name, kind, Share(1.0, 0.0), Path("/runs") / name, ("trainer",))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[bool, list[str]]]:
    monkeypatch.setattr(watch, "TICK_S", 0.0)

    def run(cluster: Cluster, *names: str, heard: Callable[[str], None] = lambda _: None) -> tuple[bool, list[str]]:
        said: list[str] = []

        def say(line: str) -> None:
            said.append(line)
            heard(line)

        members = [member(name) for name in names]
        fleet = Fleet(members, cluster.open, variables={}, began=frozenset(), say=say, rule=RULE)
        return fleet.run(), said

    return run


def test_a_fleet_ends_with_its_trainers_and_tells_its_evaluators_to_leave(run) -> None:
    talking = Report("host", "running", ("update 1",), None, began=True)
    cluster = Cluster(main=[[None, talking, ENDED]], evaluator=[[RUNNING]])
    went_well, said = run(cluster, "main", "evaluator")
    assert went_well
    assert "main      | update 1" in said
    assert "main      runs on host, run folder /runs/main" in said
    assert [station.asked_to_leave for station in cluster.opened] == [True, True]
    assert not any(station.killed for station in cluster.opened)


def test_a_lost_keeper_is_started_again_and_told_that_the_run_had_begun(run) -> None:
    cluster = Cluster(main=[[RUNNING, LostError("its machine is gone")], [ENDED]])
    went_well, said = run(cluster, "main")
    assert went_well
    assert [station.orders.began for station in cluster.opened] == [False, True]
    assert "main lost: its machine is gone; starting again in 0 s" in said


def test_a_keeper_that_is_lost_again_and_again_is_given_up(run) -> None:
    cluster = Cluster(main=[[LostError("gone")]] * 3)
    went_well, said = run(cluster, "main")
    assert not went_well
    assert len(cluster.opened) == 3
    assert said[-1] == "main lost: gone; given up after 3 times in a row"


@pytest.mark.parametrize("answer", [FAILED, TrainerError("not here")])
def test_others_go_on_where_one_is_given_up_and_the_fleet_says_that_not_all_went_well(run, answer: Answer) -> None:
    cluster = Cluster(main=[[answer]], second=[[RUNNING, RUNNING, ENDED]])
    went_well, said = run(cluster, "main", "second")
    assert not went_well
    assert "second has ended" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_all_to_leave_and_waits_for_them(run, number: signal.Signals) -> None:
    cluster = Cluster(main=[[RUNNING]], second=[[LostError("gone")], [RUNNING]])
    before = signal.getsignal(number)

    def heard(line: str) -> None:
        if line.startswith("second runs on"):
            os.kill(os.getpid(), number)

    went_well, said = run(cluster, "main", "second", heard=heard)
    assert went_well
    assert said[-2:] == ["main   has ended", "second has ended"]
    assert signal.getsignal(number) == before


def test_a_second_signal_kills_whoever_still_runs(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "GRACE_S", 3600.0)
    cluster = Cluster(stubborn=True, main=[[RUNNING]])

    def heard(line: str) -> None:
        if line.startswith(("main runs on", "the fleet ends")):
            os.kill(os.getpid(), signal.SIGINT)

    went_well, said = run(cluster, "main", heard=heard)
    assert not went_well
    assert cluster.opened[0].killed
    assert said[-1] == "main still runs and is killed"


def test_a_member_that_does_not_leave_in_time_is_killed(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "GRACE_S", 0.0)
    cluster = Cluster(stubborn=True, main=[[ENDED]], evaluator=[[RUNNING]])
    went_well, _ = run(cluster, "main", "evaluator")
    assert not went_well
    assert [station.killed for station in cluster.opened] == [False, True]


def test_a_keeper_that_is_lost_while_it_leaves_is_not_started_again(run) -> None:
    cluster = Cluster(stubborn=True, main=[[ENDED]], evaluator=[[RUNNING, RUNNING, LostError("gone")]])
    went_well, said = run(cluster, "main", "evaluator")
    assert not went_well
    assert "while it was leaving" in said[-1]
    assert len(cluster.opened) == 2
