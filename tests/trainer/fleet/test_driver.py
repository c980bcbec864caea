"""The fleet's driver, with stand-ins for supervisors."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from refused import assert_names

from trainer.errors import TrainerError
from trainer.fleet import driver
from trainer.fleet.driver import Fleet, MemberState
from trainer.fleet.members import Member, Resources

Answer = int | Exception | None


class Scripted:
    """A supervisor that answers by a list, its last answer for ever, and ends with a status when it is stopped."""

    def __init__(self, *answers: Answer, when_stopped: int | None = 0) -> None:
        self.calls: list[str] = []
        self._answers = list(answers)
        self._when_stopped = when_stopped

    def exit_status(self) -> int | None:
        if "stop" in self.calls and self._when_stopped is not None:
            return self._when_stopped
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        self.calls.append("stop")

    def kill(self) -> None:
        self.calls.append("kill")


def state(name: str, supervisor: Scripted) -> MemberState:
    kind: Literal["trainer", "evaluator"] = "evaluator" if name == "evaluator" else "trainer"
    return MemberState(Member(name, kind, Resources(1.0, 0.0), Path("/runs") / name, ("trainer",)), supervisor)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "POLL_S", 0.01)


def run(heard: Callable[[str], None] = lambda _: None, **supervisors: Scripted) -> tuple[bool, list[str]]:
    """Run a fleet; return whether it succeeded and its messages."""
    messages: list[str] = []

    def say(line: str) -> None:
        messages.append(line)
        heard(line)

    return Fleet([state(name, each) for name, each in supervisors.items()], say).run(), messages


def test_a_fleet_ends_with_its_trainers_and_stops_its_evaluators() -> None:
    evaluator = Scripted(None)
    succeeded, messages = run(main=Scripted(None, None, 0), evaluator=evaluator)
    assert succeeded
    assert evaluator.calls == ["stop"]
    assert messages[0] == "main ended with status 0"
    assert messages[-1] == "evaluator ended with status 0"


@pytest.mark.parametrize(("answer", "message"), [(78, "with status 78"), (TrainerError("restarts used up"), "used up")])
def test_a_fleet_continues_without_a_failed_member_and_reports_it(answer: Answer, message: str) -> None:
    succeeded, messages = run(main=Scripted(answer), second=Scripted(None, None, None, 0))
    assert not succeeded
    assert messages[0].startswith("main failed")
    assert message in messages[0]
    assert messages[-1] == "second ended with status 0"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("status", [0, 1])
def test_a_signal_stops_all_and_waits_for_them(number: signal.Signals, status: int) -> None:
    """A torchrun that is told to end does so with status 1."""
    before = signal.getsignal(number)

    def heard(line: str) -> None:
        if line == "first ended with status 0":
            os.kill(os.getpid(), number)

    members = [Scripted(None, when_stopped=status) for _ in range(2)]
    succeeded, messages = run(heard, first=Scripted(0), main=members[0], second=members[1])
    assert succeeded
    assert [each.calls for each in members] == [["stop"], ["stop"]]
    assert messages[-2:] == [f"main ended with status {status}", f"second ended with status {status}"]
    assert signal.getsignal(number) == before


def test_a_second_signal_kills_members_that_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "GRACE_S", 3600.0)

    def heard(line: str) -> None:
        if line.startswith(("first ended", "stopping the fleet")):
            os.kill(os.getpid(), signal.SIGINT)

    stubborn = Scripted(None, when_stopped=None)
    succeeded, messages = run(heard, first=Scripted(0), main=stubborn)
    assert not succeeded
    assert stubborn.calls == ["stop", "kill"]
    assert_names(messages[-1], "main", "killed")


def test_a_member_that_does_not_leave_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "GRACE_S", 0.0)
    ended, stubborn = Scripted(0), Scripted(None, when_stopped=None)
    succeeded, _ = run(main=ended, evaluator=stubborn)
    assert not succeeded
    assert (ended.calls, stubborn.calls) == ([], ["stop", "kill"])
