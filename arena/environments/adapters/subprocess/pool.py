"""Steps a batch's matches in several processes, which share its memory; one that dies is replaced.

A worker is a plain child process with a session of its own, so that Ctrl-C in a terminal does not reach it. It hears
what to do over a socket, and ends when the other end of that is closed, whatever became of whoever held it.
"""

import contextlib
import itertools
import logging
import mmap
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections import deque
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np

from arena.environments.adapters.match import BoolArray
from arena.environments.adapters.subprocess import shared_memory
from arena.environments.adapters.subprocess.buffers import GOING_ON, Buffers
from arena.environments.adapters.subprocess.rows import Part
from arena.environments.adapters.subprocess.worker import DONE, OPEN, STEP, Task
from arena.environments.spec import EnvironmentSpec
from arena.errors import LostMatchesError

MAX_DEATHS = 3
"""So often may a worker die in a row without a match of its rows having ended in between."""

STARTING_LIMIT_S = 600.0
"""How long it may take to start and to make its games: a busy machine loads large libraries slowly."""

LEAVING_S = 2.0
"""How long a worker has to leave before it is killed."""

STDERR = 2
"""Where workers print: standard output is for what a command answers."""

logger = logging.getLogger(__name__)


class _DiedError(Exception):
    """A worker is no longer there.

    Attributes:
        cause: Why, in a line.
        told: What it said last, such as a traceback; may be empty.
    """

    def __init__(self, cause: str, told: str) -> None:
        super().__init__(cause)
        self.cause, self.told = cause, told


class _Worker:
    """One process, as those see it that it works for.

    It takes orders for parts of its rows, one after another, and whoever gave them may wait for each when it likes.
    When it dies, all its matches are lost: those that it was at are opened anew by its successor at once, and those
    that it was to wait with when somebody wants them stepped.

    Attributes:
        rows: Rows that are its own.
        deaths: How often it has died since a match of its rows ended.
    """

    def __init__(self, task: Task) -> None:
        self.rows, self.deaths = slice(task.first, task.last), 0
        self._task = task
        self._under_way: deque[Part] = deque()
        self._done: set[Part] = set()
        self._lost: set[Part] = set()
        self._anew: set[Part] = set()
        self.start()

    def start(self) -> None:
        """Start a process; `ready` says when it can be told what to do."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", __name__.replace("pool", "worker"), str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter, and a module of this package
                command,
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                pass_fds=(theirs.fileno(), self._task.memory),
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._orders = Connection(ours.detach())
        self._tell(self._task.encode())

    def ready(self) -> None:
        """Wait until it has its games.

        Raises:
            _DiedError: It has died before that, or has been ended for taking too long.
        """
        self._hear(STARTING_LIMIT_S)

    def succeed(self) -> None:
        """Start another process in the place of one that has died, and have it open what that one was at.

        Raises:
            _DiedError: As `ready`.
        """
        self.start()
        self.ready()
        self._anew |= {*self._under_way}
        self._lost = {*Part} - self._anew
        for part in self._under_way:
            self._tell(OPEN, part)

    def order(self, what: bytes, part: Part) -> None:
        """Tell it to open or to step its rows of a part; where they were lost, they are opened anew in any case."""
        if part in self._lost and what == STEP:
            self._anew.add(part)
            what = OPEN
        self._lost.discard(part)
        self._under_way.append(part)
        self._tell(what, part)

    def finish(self, part: Part, limit_s: float) -> bool:
        """Wait until it has done what it was ordered last for a part; false if its matches were lost and begin anew.

        Raises:
            _DiedError: It has died before that, or has been ended for taking longer than `limit_s` for an order.
        """
        while part not in self._done:
            self._hear(limit_s)
            self._done.add(self._under_way.popleft())
        self._done.remove(part)
        survived = part not in self._anew
        self._anew.discard(part)
        return survived

    def _tell(self, *words: bytes | Part) -> None:
        """Send something; where nobody is there any more, waiting for the answer says so."""
        said = b" ".join(word.name.encode() if isinstance(word, Part) else word for word in words)
        with contextlib.suppress(OSError):
            self._orders.send_bytes(said)

    def _hear(self, limit_s: float) -> None:
        """Wait for the next answer, that something is done."""
        try:
            if not self._orders.poll(limit_s):
                raise self._abort(limit_s)
            answer = self._orders.recv_bytes()
        except (EOFError, OSError):
            answer = b""
        if answer != DONE:
            raise _DiedError(self._leave(answer.decode(errors="replace").strip()), answer.decode(errors="replace"))

    def stop(self) -> None:
        """Let the process end, and wait until it has."""
        self._orders.close()
        try:
            self._process.wait(LEAVING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _abort(self, limit_s: float) -> _DiedError:
        """End a process that does not answer; on its way it prints to standard error what it was at."""
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVING_S)
        self.stop()
        return _DiedError(f"no answer within {limit_s:g} s: see standard error", "")

    def _leave(self, told: str) -> str:
        """Why the process has died."""
        self.stop()
        if told:
            return told.splitlines()[-1]
        code = self._process.returncode
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"it left with exit code {code}"


class Workers:
    """Processes that play a batch's matches, each some of them; see `StepHandle` for who tells them what to do.

    What is played does not depend on how many there are. A worker that dies is replaced, and the matches that it
    played are opened anew.

    Args:
        spec: What the game declares.
        opener: `module:callable` that finds the game by its name; see `worker.Task`.
        num_envs: E.
        processes: Most processes; one for each match is enough.
        step_limit_s: How long one may take for a decision of its matches: one that takes longer has died.

    Attributes:
        buffers: Where the matches are.
        each: The processes.

    Raises:
        LostMatchesError: A worker cannot find the game or make its matches.
    """

    def __init__(
        self, spec: EnvironmentSpec, opener: str, num_envs: int, *, processes: int, step_limit_s: float
    ) -> None:
        self._name, self._step_limit_s = spec.name, step_limit_s
        size_bytes, count = Buffers.size_bytes(spec, num_envs), min(processes, num_envs)
        memory = shared_memory.create(size_bytes)
        self.buffers = Buffers.over(spec, num_envs, memoryview(mmap.mmap(memory, size_bytes)))
        task = Task(opener, spec.name, spec.signature, num_envs, 0, num_envs, memory)
        borders = [number * num_envs // count for number in range(count + 1)]
        self.each = [_Worker(replace(task, first=a, last=b)) for a, b in itertools.pairwise(borders)]
        weakref.finalize(self, _stop, self.each, memory)
        for worker in self.each:
            try:
                worker.ready()
            except _DiedError as death:
                raise self._given_up(worker, death) from death

    def order(self, what: bytes, part: Part) -> None:
        """Tell all of them to open or to step their rows of a part."""
        for worker in self.each:
            worker.order(what, part)

    def finish(self, part: Part) -> BoolArray:
        """Wait until all have done what they were ordered last for a part.

        Returns:
            Rows of the part whose match was lost on the way and has been opened anew by the same seed.

        Raises:
            LostMatchesError: One of them dies again and again.
        """
        lost = np.zeros(self.buffers.num_envs, dtype=np.bool_)
        for worker in self.each:
            own = part.within(worker.rows.start, worker.rows.stop)
            if self._survives(worker, part):
                worker.deaths *= not (self.buffers.ending[own] != GOING_ON).any()
            else:
                lost[own] = True
        return lost[part.within(0, len(lost))]

    def _survives(self, worker: _Worker, part: Part) -> bool:
        """Wait for a worker; put another process in its place if it dies."""
        while True:
            try:
                return worker.finish(part, self._step_limit_s)
            except _DiedError as death:
                self._replace(worker, death)

    def _replace(self, worker: _Worker, death: _DiedError) -> None:
        """Start another process in a worker's place.

        Raises:
            LostMatchesError: It has died too often.
        """
        while True:
            worker.deaths += 1
            if worker.deaths >= MAX_DEATHS:
                raise self._given_up(worker, death) from death
            logger.warning(
                "a process that plays matches %d to %d of %s died (%s); these matches restart and do not count%s",
                worker.rows.start,
                worker.rows.stop - 1,
                self._name,
                death.cause,
                f"\n{death.told}" if death.told else "",
            )
            try:
                worker.succeed()
            except _DiedError as again:
                death = again
            else:
                return

    def _given_up(self, worker: _Worker, death: _DiedError) -> LostMatchesError:
        often = f"died {worker.deaths} times before any of them ended" if worker.deaths else "could not begin"
        return LostMatchesError(
            f"a process that plays matches {worker.rows.start} to {worker.rows.stop - 1} of {self._name} {often} "
            f"({death.cause}): fix the game; without --processes it fails with a traceback\n"
            f"{death.told}".strip()
        )


class StepHandle:
    """Has workers step a part of their matches, all or every other one; while they do, they may be told of the rest.

    Args:
        workers: Who steps.
        part: What they step.

    Attributes:
        buffers: Where these matches are.
    """

    def __init__(self, workers: Workers, part: Part) -> None:
        self.workers, self._part = workers, part
        self.buffers = workers.buffers.part(part.within(0, workers.buffers.num_envs))

    def open(self) -> None:
        """Open a match in every row."""
        self.workers.order(OPEN, self._part)
        self.workers.finish(self._part)

    def send(self) -> None:
        """Begin a decision of every row."""
        self.workers.order(STEP, self._part)

    def receive(self) -> BoolArray:
        """Wait for it; see `Stepper.receive` for what is returned."""
        return self.workers.finish(self._part)


def _stop(workers: list[_Worker], memory: int) -> None:
    for worker in workers:
        worker.stop()
    os.close(memory)
