"""Worker processes that step a batch's matches in shared memory; a worker that dies is replaced.

A worker is a plain child process in its own session, so Ctrl-C in a terminal does not reach it. It receives commands
over a socket and exits when the other end is closed, even if the parent was killed.
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
"""Most consecutive deaths of a worker without a match of its rows ending in between."""

STARTING_LIMIT_S = 600.0
"""Time limit for a worker to start and create its games; large libraries load slowly on a busy machine."""

LEAVING_S = 2.0
"""Time for a worker to exit before it is killed."""

STDERR = 2
"""Output of workers goes here, because standard output carries the results of a command."""

logger = logging.getLogger(__name__)


class _DiedError(Exception):
    """A worker process has exited.

    Attributes:
        cause: Reason, in one line.
        output: Its last message, such as a traceback; may be empty.
    """

    def __init__(self, cause: str, output: str) -> None:
        super().__init__(cause)
        self.cause, self.output = cause, output


class _Worker:
    """Parent's handle of one worker process.

    Commands for parts of its rows are queued, and each can be waited for separately. If the process dies, all its
    matches are lost. Matches with a command in progress are restarted at once, the others with their next step.

    Attributes:
        rows: Rows of this worker.
        deaths: Deaths since a match of its rows ended.
    """

    def __init__(self, task: Task) -> None:
        self.rows, self.deaths = slice(task.first, task.last), 0
        self._task = task
        self._under_way: deque[Part] = deque()
        self._done: set[Part] = set()
        self._lost: set[Part] = set()
        self._restarted: set[Part] = set()
        self.start()

    def start(self) -> None:
        """Start the process; `ready` waits until it accepts commands."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", __name__.replace("pool", "worker"), str(theirs.fileno())]
        # Closes the parent's copy of the child's end; otherwise a dead child would not end the stream.
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter, and a module of this package
                command,
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                pass_fds=(theirs.fileno(), self._task.memory),
                start_new_session=True,
                # the worker must find the same modules as this process
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._connection = Connection(ours.detach())
        self._send(self._task.encode())

    def ready(self) -> None:
        """Wait until the process has created its games.

        Raises:
            _DiedError: It exited before that, or was killed because of the time limit.
        """
        self._receive(STARTING_LIMIT_S)

    def restart(self) -> None:
        """Start a replacement process and restart the matches with a command in progress.

        Raises:
            _DiedError: As in `ready`.
        """
        self.start()
        self.ready()
        self._restarted |= {*self._under_way}
        self._lost = {*Part} - self._restarted
        # The rows of other parts are opened by their next step: nobody waits for them now.
        for part in self._under_way:
            self._send(OPEN, part)

    def send_command(self, what: bytes, part: Part) -> None:
        """Send a command to open or step the rows of a part; a step of lost rows opens them instead."""
        if part in self._lost and what == STEP:
            self._restarted.add(part)
            what = OPEN
        self._lost.discard(part)
        self._under_way.append(part)
        self._send(what, part)

    def finish(self, part: Part, limit_s: float) -> bool:
        """Wait for the last command of a part; false if its matches were lost and have been restarted.

        Raises:
            _DiedError: The process exited, or was killed because a command took longer than `limit_s`.
        """
        while part not in self._done:
            self._receive(limit_s)
            self._done.add(self._under_way.popleft())
        self._done.remove(part)
        survived = part not in self._restarted
        self._restarted.discard(part)
        return survived

    def _send(self, *words: bytes | Part) -> None:
        """Send a message; a closed socket is reported by the wait for the answer."""
        message = b" ".join(word.name.encode() if isinstance(word, Part) else word for word in words)
        with contextlib.suppress(OSError):
            self._connection.send_bytes(message)

    def _receive(self, limit_s: float) -> None:
        """Wait for the next completed command."""
        try:
            if not self._connection.poll(limit_s):
                raise self._abort(limit_s)
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            answer = b""
        if answer != DONE:
            raise _DiedError(
                self._exit_reason(answer.decode(errors="replace").strip()), answer.decode(errors="replace")
            )

    def stop(self) -> None:
        """Close the connection and wait for the process to exit."""
        self._connection.close()
        try:
            self._process.wait(LEAVING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _abort(self, limit_s: float) -> _DiedError:
        """Abort a process that does not answer; faulthandler prints its stack to standard error."""
        # Not SIGKILL, which would leave no stack of the hanging game.
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVING_S)
        self.stop()
        return _DiedError(f"no answer within {limit_s:g} s: see standard error", "")

    def _exit_reason(self, output: str) -> str:
        """Return the reason of the exit."""
        self.stop()
        if output:
            return output.splitlines()[-1]
        code = self._process.returncode
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"it left with exit code {code}"


class Workers:
    """Worker processes that play a batch's matches, each some of the rows; `StepHandle` sends the commands.

    Results do not depend on the number of workers. A worker that dies is replaced, and its matches are restarted.

    Args:
        spec: Spec of the game.
        opener: `module:callable` that finds the game by name (see `worker.Task`).
        num_envs: E.
        processes: Most processes; at most one per match is used.
        step_limit_s: Time limit of a worker for one decision of its matches; a worker that exceeds it is replaced.

    Attributes:
        buffers: Arrays of the matches.
        each: The workers.

    Raises:
        LostMatchesError: A worker cannot find the game or create its matches.
    """

    def __init__(
        self, spec: EnvironmentSpec, opener: str, num_envs: int, *, processes: int, step_limit_s: float
    ) -> None:
        self._name, self._step_limit_s = spec.name, step_limit_s
        size_bytes, count = Buffers.size_bytes(spec, num_envs), min(processes, num_envs)
        memory = shared_memory.create(size_bytes)
        self.buffers = Buffers.over(spec, num_envs, memoryview(mmap.mmap(memory, size_bytes)))
        task = Task(opener, spec.name, spec.signature, num_envs, 0, num_envs, memory)
        # Contiguous and of nearly equal size: no worker waits for another with more matches.
        borders = [number * num_envs // count for number in range(count + 1)]
        self.each = [_Worker(replace(task, first=a, last=b)) for a, b in itertools.pairwise(borders)]
        weakref.finalize(self, _stop, self.each, memory)  # also runs at garbage collection and at interpreter exit
        for worker in self.each:
            try:
                worker.ready()
            except _DiedError as death:
                raise self._give_up_error(worker, death) from death

    def send_command(self, what: bytes, part: Part) -> None:
        """Send a command to open or step a part to all workers."""
        for worker in self.each:
            worker.send_command(what, part)

    def finish(self, part: Part) -> BoolArray:
        """Wait until all workers have finished the last command of a part.

        Returns:
            Rows of the part whose match was lost and has been restarted with the same seed.

        Raises:
            LostMatchesError: A worker dies repeatedly.
        """
        lost = np.zeros(self.buffers.num_envs, dtype=np.bool_)
        for worker in self.each:
            own = part.within(worker.rows.start, worker.rows.stop)
            if self._survives(worker, part):
                # A match that ended shows that the game works, so a later death does not continue the series.
                worker.deaths *= not (self.buffers.ending[own] != GOING_ON).any()
            else:
                lost[own] = True
        return lost[part.within(0, len(lost))]

    def _survives(self, worker: _Worker, part: Part) -> bool:
        """Wait for a worker, replacing it if it dies."""
        while True:
            try:
                return worker.finish(part, self._step_limit_s)
            except _DiedError as death:
                self._replace(worker, death)

    def _replace(self, worker: _Worker, death: _DiedError) -> None:
        """Replace a worker process.

        Raises:
            LostMatchesError: It has died too often.
        """
        while True:
            worker.deaths += 1
            if worker.deaths >= MAX_DEATHS:
                raise self._give_up_error(worker, death) from death
            logger.warning(
                "a process that plays matches %d to %d of %s died (%s); these matches restart and do not count%s",
                worker.rows.start,
                worker.rows.stop - 1,
                self._name,
                death.cause,
                f"\n{death.output}" if death.output else "",
            )
            try:
                worker.restart()
            except _DiedError as again:
                death = again
            else:
                return

    def _give_up_error(self, worker: _Worker, death: _DiedError) -> LostMatchesError:
        often = f"died {worker.deaths} times before any of them ended" if worker.deaths else "could not begin"
        return LostMatchesError(
            f"a process that plays matches {worker.rows.start} to {worker.rows.stop - 1} of {self._name} {often} "
            f"({death.cause}): fix the game; without --processes it fails with a traceback\n"
            f"{death.output}".strip()
        )


class StepHandle:
    """Stepper of all rows or of every other row; two handles can have steps in progress at once.

    Args:
        workers: The workers.
        part: Rows to step.

    Attributes:
        buffers: Arrays of these matches.
    """

    def __init__(self, workers: Workers, part: Part) -> None:
        self.workers, self._part = workers, part
        self.buffers = workers.buffers.part(part.within(0, workers.buffers.num_envs))

    def open(self) -> None:
        """Open a match in every row."""
        self.workers.send_command(OPEN, self._part)
        self.workers.finish(self._part)

    def send(self) -> None:
        """Start a decision of every row."""
        self.workers.send_command(STEP, self._part)

    def receive(self) -> BoolArray:
        """Wait for the decision (see `Stepper.receive`)."""
        return self.workers.finish(self._part)


def _stop(workers: list[_Worker], memory: int) -> None:
    for worker in workers:
        worker.stop()
    os.close(memory)
