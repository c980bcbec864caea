"""The fleet's driver: starts every member on the cluster, tells what they say, and ends them in order."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

from league.child import Death
from league.restarts import RestartRule, count_short_lives, restart_delay_s
from league.signals import EndSignals
from trainer.errors import TrainerError
from trainer.fleet.keeper import RULE, Orders, Report
from trainer.fleet.members import Member
from trainer.surroundings import LEAVE_WITHIN_S

TICK_S = 0.5
GRACE_S = LEAVE_WITHIN_S + 5.0
"""How long members may take to leave: trainers end by themselves within `LEAVE_WITHIN_S`, their reports travel."""


class LostError(TrainerError):
    """A member's keeper is gone: its process, its machine, or the way there."""


class Station(Protocol):
    """A keeper somewhere. No call waits for its machine."""

    def report(self) -> Report | None:
        """Return its next report, or None until there is one.

        Raises:
            LostError: It is gone.
            TrainerError: It cannot keep this member.
        """
        ...

    def leave(self) -> None:
        """Ask the member to save and leave."""
        ...

    def kill(self) -> None:
        """End the member by force."""
        ...


Open = Callable[[Orders], Station]
"""Starts a keeper for a member on the machine that its place is on."""

State = Literal["starting", "running", "waiting", "ended", "failed"]


class Post:
    """One member as the driver sees it."""

    def __init__(self, member: Member, variables: Mapping[str, str], began: bool, rule: RestartRule) -> None:
        self.member = member
        self.state: State = "starting"
        self._variables = variables
        self._began = began
        self._rule = rule
        self._machine = ""
        self._station: Station | None = None
        self._opened_at_s = self._due_at_s = 0.0
        self._short_lives = 0
        self._leaving = False

    @property
    def over(self) -> bool:
        """Whether nothing runs and nothing will."""
        return self.state in ("ended", "failed")

    def open(self, where: Open, now_s: float) -> None:
        """Start a keeper."""
        self._station = where(Orders(self.member, self._variables, self._began))
        self.state, self._opened_at_s, self._machine = "starting", now_s, ""

    def look(self, where: Open, now_s: float) -> Iterator[str]:
        """Take the next report; yield what there is to say."""
        if self.state == "waiting" and now_s >= self._due_at_s:
            self.open(where, now_s)
        if self._station is None or self.over:
            return
        try:
            report = self._station.report()
        except LostError as error:
            yield from self._lose(str(error), now_s)
        except TrainerError as error:
            self.state, self._station = "failed", None
            yield f"given up: {error}"
        else:
            if report is not None:
                yield from self._take(report)

    def leave(self) -> None:
        """Ask the member to save and leave; one that has no keeper ends here."""
        self._leaving = True
        if self._station is not None:
            self._station.leave()
        elif not self.over:
            self.state = "ended"

    def kill(self) -> None:
        """End the member by force."""
        if self._station is not None and not self.over:
            self._station.kill()
            self.state = "failed"

    def _take(self, report: Report) -> Iterator[str]:
        if not self._machine:
            self._machine = report.machine
            yield f"runs on {report.machine}, run folder {self.member.folder}"
        self._began = self._began or report.began
        yield from (f"| {line}" for line in report.lines)
        if report.death is not None:
            yield _told(report.death)
        if report.state == "failed":
            self.state = "failed"
        elif report.state in ("finished", "stopped"):
            self.state = "ended"
            yield "has ended"
        else:
            self.state = "running"

    def _lose(self, why: str, now_s: float) -> Iterator[str]:
        self._station = None
        if self._leaving:
            self.state = "failed"
            yield f"lost: {why}, while it was leaving; it saves by itself if its machine lives"
            return
        self._short_lives = count_short_lives(self._short_lives, now_s - self._opened_at_s, self._rule)
        delay_s = restart_delay_s(self._short_lives, self._rule)
        if delay_s is None:
            self.state = "failed"
            yield f"lost: {why}; given up after {self._short_lives} times in a row"
        else:
            self.state, self._due_at_s = "waiting", now_s + delay_s
            yield f"lost: {why}; starting again in {delay_s:g} s"


class Fleet:
    """All members, until they have ended or a signal ends them.

    The fleet ends with its trainers: evaluators, which never end by themselves, are told to leave then.

    Args:
        members: Who is in it.
        where: Starts keepers.
        variables: What members get in their environment.
        began: Names of members whose runs have begun before.
        say: Tells a person a line.
        rule: How often lost keepers are started again.
    """

    def __init__(
        self,
        members: Sequence[Member],
        where: Open,
        *,
        variables: Mapping[str, str],
        began: frozenset[str],
        say: Callable[[str], None],
        rule: RestartRule = RULE,
    ) -> None:
        self._posts = [Post(member, variables, member.name in began, rule) for member in members]
        self._where = where
        self._say = say
        self._width = max(len(member.name) for member in members)
        self._signals = EndSignals()

    def run(self) -> bool:
        """Run; say whether every member ended by itself or as it was told, none was given up or killed."""
        with self._signals:
            try:
                for post in self._posts:
                    post.open(self._where, time.monotonic())
                while not (self._signals.count or self._trainers_over()):
                    self._look()
                    self._signals.wait(TICK_S)
            finally:
                self._end()
        return all(post.state == "ended" for post in self._posts)

    def _trainers_over(self) -> bool:
        """Whether the work is done: that of trainers where there are any."""
        trainers = [post for post in self._posts if post.member.kind == "trainer"]
        return all(post.over for post in trainers or self._posts)

    def _look(self) -> None:
        for post in self._posts:
            for line in post.look(self._where, time.monotonic()):
                self._say(f"{post.member.name:<{self._width}} {line}")

    def _end(self) -> None:
        if all(post.over for post in self._posts):
            return
        hurry = self._signals.count + 1
        self._say("the fleet ends: trainers save and leave (Ctrl-C again kills them) ...")
        for post in self._posts:
            post.leave()
        deadline_s = time.monotonic() + GRACE_S
        while (
            not all(post.over for post in self._posts) and time.monotonic() < deadline_s and self._signals.count < hurry
        ):
            self._look()
            time.sleep(TICK_S / 5)
        for post in self._posts:
            if not post.over:
                self._say(f"{post.member.name:<{self._width}} still runs and is killed")
                post.kill()


def _told(death: Death) -> str:
    after = "given up" if death.delay_s is None else f"starting again in {death.delay_s:g} s"
    return f"{death.cause}; {after}; log: {death.log}"
