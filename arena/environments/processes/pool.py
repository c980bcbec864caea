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
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np

from arena import shared_memory
from arena.environments.processes.buffers import GOING_ON, Buffers
from arena.environments.processes.match import BoolArray
from arena.environments.processes.worker import DONE, OPEN, STEP, Task
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

    Attributes:
        rows: Rows that are its own.
        deaths: How often it has died since a match of its rows ended.
    """

    def __init__(self, task: Task) -> None:
        self.rows, self.deaths = slice(task.first, task.last), 0
        self._task = task
        self.start()

    def start(self) -> None:
        """Start a process; `wait` says when it is ready."""
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
        self.tell(self._task.encode())

    def tell(self, order: bytes) -> None:
        """Send an order; where nobody is there any more, `wait` says so."""
        with contextlib.suppress(OSError):
            self._orders.send_bytes(order)

    def wait(self, limit_s: float = STARTING_LIMIT_S) -> None:
        """Wait until the order is carried out.

        Raises:
            _DiedError: The process has died before that, or has been ended for taking longer than `limit_s`.
        """
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
        return _DiedError(f"no answer within {limit_s:g} s: standard error says what it was at", "")

    def _leave(self, told: str) -> str:
        """Why the process has died."""
        self.stop()
        if told:
            return told.splitlines()[-1]
        code = self._process.returncode
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"it left with exit code {code}"


class Workers:
    """Steps a batch's matches, each in one of several processes.

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

    Raises:
        LostMatchesError: A worker cannot find the game or make its matches.
    """

    def __init__(
        self, spec: EnvironmentSpec, opener: str, num_envs: int, *, processes: int, step_limit_s: float
    ) -> None:
        self._name, self._step_limit_s = spec.name, step_limit_s
        size_bytes, count = Buffers.size_bytes(spec, num_envs), min(processes, num_envs)
        memory = shared_memory.create(size_bytes)
        self.buffers = Buffers(spec, num_envs, memoryview(mmap.mmap(memory, size_bytes)))
        task = Task(opener, spec.name, spec.signature, num_envs, 0, num_envs, memory)
        borders = [number * num_envs // count for number in range(count + 1)]
        self._workers = [_Worker(replace(task, first=a, last=b)) for a, b in itertools.pairwise(borders)]
        weakref.finalize(self, _stop, self._workers, memory)
        for worker in self._workers:
            try:
                worker.wait()
            except _DiedError as death:
                raise self._given_up(worker, death) from death

    def open(self) -> None:
        """Open a match in every row."""
        self._order(OPEN)

    def step(self) -> BoolArray:
        """Play one decision of every row; see `Stepper.step` for what is returned."""
        lost = np.zeros(self.buffers.num_envs, dtype=np.bool_)
        for worker, survived in zip(self._workers, self._order(STEP), strict=True):
            if survived:
                worker.deaths *= not (self.buffers.ending[worker.rows] != GOING_ON).any()
            else:
                lost[worker.rows] = True
        return lost

    def _order(self, order: bytes) -> list[bool]:
        """Have all workers carry an order out at once; say which of them did, the others having been replaced."""
        for worker in self._workers:
            worker.tell(order)
        return [self._survives(worker) for worker in self._workers]

    def _survives(self, worker: _Worker) -> bool:
        """Wait for a worker; put another process in its place if it dies."""
        try:
            worker.wait(self._step_limit_s)
        except _DiedError as death:
            self._replace(worker, death)
            return False
        return True

    def _replace(self, worker: _Worker, death: _DiedError) -> None:
        """Start another process in a worker's place, and open its matches anew.

        Raises:
            LostMatchesError: It has died too often.
        """
        while True:
            worker.deaths += 1
            if worker.deaths >= MAX_DEATHS:
                raise self._given_up(worker, death) from death
            logger.warning(
                "a process that plays matches %d to %d of %s died (%s); they begin anew, and do not count until then%s",
                worker.rows.start,
                worker.rows.stop - 1,
                self._name,
                death.cause,
                f"\n{death.told}" if death.told else "",
            )
            worker.start()
            try:
                worker.wait()
                worker.tell(OPEN)
                worker.wait(self._step_limit_s)
            except _DiedError as again:
                death = again
            else:
                return

    def _given_up(self, worker: _Worker, death: _DiedError) -> LostMatchesError:
        often = f"died {worker.deaths} times before any of them ended" if worker.deaths else "could not begin"
        return LostMatchesError(
            f"a process that plays matches {worker.rows.start} to {worker.rows.stop - 1} of {self._name} {often} "
            f"({death.cause}): mend the game; where it is played without processes of its own, it fails in sight\n"
            f"{death.told}".strip()
        )


def _stop(workers: list[_Worker], memory: int) -> None:
    for worker in workers:
        worker.stop()
    os.close(memory)
