"""A member kept running by its keeper, with processes that stand for trainers."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from league.restarts import RestartRule
from trainer.fleet import keeper as module
from trainer.fleet.keeper import Keeper, Orders, Output, Report, StrangeMachineError
from trainer.fleet.members import Member, Share
from trainer.folder import RunFolder

AT_ONCE = RestartRule(short_life_s=60.0, most_short_lives=3, first_delay_s=0.0, longest_delay_s=0.0)

LEARNER = """
import os, pathlib, signal, sys
def leave(number, frame):
    os.write(1, b"saved\\n")  # print() refuses a handler while it prints itself
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
folder = pathlib.Path(sys.argv[1])
print("going on" if (folder / "instance").exists() else "beginning", os.environ["LEAGUE_TOKEN"], flush=True)
(folder / "instance").write_text("one")
(folder / "pid").write_text(str(os.getpid()))
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Member:
    (tmp_path / "learner.py").write_text(LEARNER)
    (tmp_path / "failing.py").write_text("raise SystemExit(3)")
    (tmp_path / "misused.py").write_text("raise SystemExit(2)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = tmp_path / "runs" / "main"
    return Member("main", "trainer", Share(1.0, 0.0), folder, ("learner", str(folder)))


class Watcher:
    """Collects what a keeper reports."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.lines: list[str] = []
        self.reports: list[Report] = []

    def until(self, there: Callable[[], bool]) -> None:
        """Ask until it is so; the test's own time limit is the limit."""
        while not there():
            self.reports.append(self.keeper.report())
            self.lines += self.reports[-1].lines
            time.sleep(0.01)

    def until_said(self, line: str, times: int = 1) -> None:
        self.until(lambda: self.lines.count(line) == times)

    def until_state(self, state: str) -> None:
        self.until(lambda: bool(self.reports) and self.reports[-1].state == state)


def keep(member: Member, *, began: bool = False) -> Watcher:
    return Watcher(Keeper(Orders(member, {"LEAGUE_TOKEN": "a-secret"}, began), AT_ONCE))


def test_a_member_that_is_killed_goes_on_from_its_run_folder_and_ends_as_it_is_told(member: Member) -> None:
    watcher = keep(member)
    watcher.until_said("ready")
    os.kill(int((member.folder / "pid").read_text()), signal.SIGKILL)
    watcher.until_said("ready", times=2)
    assert watcher.lines == ["beginning a-secret", "ready", "going on a-secret", "ready"]
    [death] = [report.death for report in watcher.reports if report.death]
    assert "SIGKILL" in death.cause
    assert watcher.reports[-1].began
    watcher.keeper.leave()
    watcher.until_state("stopped")
    assert watcher.lines[-1] == "saved"
    assert (member.folder / "output.log").read_text().split("\n")[:4] == watcher.lines[:4]


@pytest.mark.parametrize(("words", "lives"), [("failing", 3), ("misused", 1)])
def test_a_member_that_always_fails_is_given_up_and_one_that_is_misused_at_once(
    member: Member, words: str, lives: int
) -> None:
    watcher = keep(Member(member.name, member.kind, member.share, member.folder, (words,)))
    watcher.until_state("failed")
    deaths = [report.death for report in watcher.reports if report.death]
    assert len(deaths) == lives
    assert deaths[-1].delay_s is None


def test_a_member_that_is_killed_by_its_keeper_is_not_started_again(member: Member) -> None:
    watcher = keep(member)
    watcher.until_said("ready")
    watcher.keeper.kill()
    watcher.until_state("stopped")
    assert "saved" not in watcher.lines


def test_a_machine_that_does_not_see_a_run_refuses_to_begin_it_anew(member: Member) -> None:
    with pytest.raises(StrangeMachineError, match="give --runs a folder that all machines share"):
        keep(member, began=True)
    assert not member.folder.exists()


def test_a_machine_that_sees_a_run_goes_on_with_it(member: Member) -> None:
    member.folder.mkdir(parents=True)
    RunFolder(member.folder).identity.write_text("one")
    watcher = keep(member, began=True)
    watcher.until_said("ready")
    assert watcher.lines[0] == "going on a-secret"
    watcher.keeper.kill()
    watcher.until_state("stopped")


def test_orders_do_not_show_their_secrets(member: Member) -> None:
    orders = Orders(member, {"LEAGUE_TOKEN": "a-secret"}, began=False)
    assert "a-secret" not in repr(orders)
    assert not any("a-secret" in word for word in member.words)


def test_output_comes_as_whole_lines_once_and_the_rest_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("from an earlier life\n")
    output = Output(log)
    with log.open("ab") as stream:
        stream.write("für\n\nhal".encode())
    assert output.new_lines(to_the_end=False) == ("für",)
    assert output.new_lines(to_the_end=False) == ()
    with log.open("ab") as stream:
        stream.write(b"f\nlast")
    assert output.new_lines(to_the_end=True) == ("half", "last")
    assert output.new_lines(to_the_end=True) == ()


def test_output_that_is_too_much_loses_its_beginning_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    log = tmp_path / "log"
    log.touch()
    output = Output(log)
    log.write_text("".join(f"line {number}\n" for number in range(5)))
    left_out, *kept = output.new_lines(to_the_end=False)
    assert "25 bytes left out" in left_out
    assert kept[-1] == "line 4"
