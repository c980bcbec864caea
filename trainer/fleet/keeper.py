"""Keeps one member running on its machine: starts it again when it dies, and reads its output."""

import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from league.child import Child, Death, Job, State
from league.restarts import RestartRule
from trainer.errors import TrainerError
from trainer.fleet.members import Member
from trainer.folder import RunFolder

LOG = "output.log"
"""A member's output, in its run folder."""

MOST_BYTES = 65536
"""Of output in one report: what was said before is left out, and stays in the log."""

RULE = RestartRule(short_life_s=30.0, most_short_lives=5, first_delay_s=1.0, longest_delay_s=60.0)


class StrangeMachineError(TrainerError):
    """A run that began elsewhere would begin anew here."""


@dataclass(frozen=True)
class Orders:
    """What to keep running.

    Attributes:
        member: The member.
        environment: Variables that it gets beside its machine's own; secrets are among them.
        began: Whether its run is known to have begun: a machine that does not see the run folder then refuses.
    """

    member: Member
    environment: Mapping[str, str] = field(repr=False)
    began: bool


@dataclass(frozen=True)
class Report:
    """How a member is.

    Attributes:
        machine: Where it runs.
        state: What its process does.
        lines: What it has said since the last report.
        death: An end that nobody asked for, since the last report.
        began: Whether its run has begun.
    """

    machine: str
    state: State
    lines: tuple[str, ...]
    death: Death | None
    began: bool


class Keeper:
    """Of one member. Start it in a thread that lasts: its process ends with the thread that made it."""

    def __init__(self, orders: Orders, rule: RestartRule = RULE) -> None:
        member = orders.member
        self._folder = RunFolder(member.folder)
        if orders.began and not self._folder.identity.exists():
            raise StrangeMachineError(
                f"{member.name} was trained on another machine, and {socket.gethostname()} does not see its run folder "
                f"{member.folder}: give --runs a folder that all machines share"
            )
        member.folder.mkdir(parents=True, exist_ok=True)
        command = (sys.executable, "-P", "-m", *member.words)
        common = {"OMP_NUM_THREADS": str(member.share.cpus_of_each), "PYTHONUNBUFFERED": "1"}
        variables = {**common, **os.environ, **orders.environment}
        log = member.folder / LOG
        self._child = Child(Job(member.name, command, variables, log, permanent=False), rule)
        self._output = Output(log)
        self._leaving = False
        self._child.start(time.monotonic())

    def report(self) -> Report:
        """Look after the process: start it again where that is due."""
        death = None
        if not self._leaving:
            death = self._child.poll(time.monotonic())
        elif not self._child.running:
            self._child.wait(0.0)
        if death is not None:
            death = replace(death, last_lines=())  # they come as output
        lines = self._output.new_lines(to_the_end=not self._child.running)
        return Report(socket.gethostname(), self._child.state, lines, death, self._folder.identity.exists())

    def leave(self) -> None:
        """Ask the process to save and leave, and start it no more."""
        self._leaving = True
        self._child.terminate()

    def kill(self) -> None:
        """End the process by force."""
        self._leaving = True
        self._child.kill()


class Output:
    """What is written to a log from now on, as lines."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = log.stat().st_size if log.exists() else 0
        self._rest = b""

    def new_lines(self, *, to_the_end: bool) -> tuple[str, ...]:
        """Return the lines that are new, the last `MOST_BYTES` of them; an unfinished one only `to_the_end`."""
        with self._log.open("rb") as stream:
            skipped = max(0, stream.seek(0, os.SEEK_END) - self._at - MOST_BYTES)
            stream.seek(self._at + skipped)
            read = stream.read(MOST_BYTES)
        self._at += skipped + len(read)
        *whole, self._rest = ((b"" if skipped else self._rest) + read).split(b"\n")
        if to_the_end and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        said = [f"... {skipped:,} bytes left out, see {self._log}"] if skipped else []
        return (*said, *(line.decode(errors="replace").rstrip() for line in whole if line.strip()))
