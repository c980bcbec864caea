"""The fleet's driver: waits for the members, reports how they end, and shuts the fleet down."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from league.process.signals import EndSignals
from trainer.errors import TrainerError
from trainer.fleet.members import Member
from trainer.shutdown import LEAVE_WITHIN_S

POLL_S = 0.5
GRACE_S = LEAVE_WITHIN_S + 5.0
"""Time to leave: trainers leave within `LEAVE_WITHIN_S`, and a restart of a supervisor may be under way."""


class SupervisorHandle(Protocol):
    """A supervisor on some node. No call blocks."""

    def exit_status(self) -> int | None:
        """Return how the member has ended for good, or None while it runs or is restarted.

        Raises:
            TrainerError: The node cannot run the member, or its supervisor has died too often.
        """
        ...

    def stop(self) -> None:
        """Ask the member to save and leave."""
        ...

    def kill(self) -> None:
        """Kill the member's process."""
        ...


@dataclass
class MemberState:
    """A member and its state; `ended` and `failed` are final."""

    member: Member
    supervisor: SupervisorHandle
    state: Literal["running", "ended", "failed"] = "running"

    def update(self, *, stopping: bool) -> str | None:
        """Check whether the member has ended; return the message of its end."""
        try:
            exit_status = self.supervisor.exit_status() if self.state == "running" else None
        except TrainerError as error:
            self.state = "failed"
            return f"failed: {error}"
        if exit_status is None:
            return None
        self.state = "ended" if exit_status == 0 or stopping else "failed"
        return f"{self.state} with status {exit_status}"


class Fleet:
    """All members, until they have ended or a signal ends them.

    The fleet ends with its trainers: evaluators, which never end by themselves, are then asked to leave.

    Args:
        members: The members, running.
        log: Prints a line.
    """

    def __init__(self, members: Sequence[MemberState], log: Callable[[str], None]) -> None:
        self._members, self._log = members, log
        self._trainers = [each for each in members if each.member.kind == "trainer"]
        self._signals = EndSignals()

    def run(self) -> bool:
        """Run the fleet; return whether every member ended by itself or as requested."""
        with self._signals:
            try:
                while not self._signals.wait(POLL_S) and _running(self._trainers or self._members):
                    self._update(stopping=False)
            finally:
                self._shut_down()
        return all(each.state == "ended" for each in self._members)

    def _update(self, *, stopping: bool) -> None:
        for each in self._members:
            if message := each.update(stopping=stopping):
                self._log(f"{each.member.name} {message}")

    def _shut_down(self) -> None:
        """Ask all members to leave; kill them after `GRACE_S` or at the next signal."""
        self._update(stopping=False)
        signals_before, deadline_s = self._signals.count, time.monotonic() + GRACE_S
        if _running(self._members):
            self._log("stopping the fleet: trainers save and exit (Ctrl-C again kills them) ...")
        for each in _running(self._members):
            each.supervisor.stop()
        while _running(self._members) and self._signals.count == signals_before and time.monotonic() < deadline_s:
            self._update(stopping=True)
            time.sleep(POLL_S / 5)
        for each in _running(self._members):
            each.state = "failed"
            self._log(f"{each.member.name} is still running and will be killed")
            each.supervisor.kill()


def _running(members: Sequence[MemberState]) -> list[MemberState]:
    return [each for each in members if each.state == "running"]
