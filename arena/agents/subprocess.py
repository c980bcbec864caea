"""External agent in a process: requests on its standard input, responses on its standard output.

Its standard error is inherited from the arena. It exits when its standard input is closed.
"""

import os
import shlex
import signal
import subprocess
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from arena.agents import json_messages as messages
from arena.agents.errors import ExternalPolicyError
from arena.agents.json_messages import Conversation
from arena.environments.spec import EnvironmentSpec

EXIT_TIMEOUT_S = 5.0
"""Time for a process to exit after its input is closed."""


class ProcessActor(Conversation):
    """Agent that queries a process, one request at a time.

    Args:
        command: Command line, split as by a shell; no shell runs it.
        spec: The game, sent with the first request.
        start_s: Time limit of the response to the first request, in seconds.
        answer_s: Time limit of the response to a batch, in seconds.

    Raises:
        ExternalPolicyError: The process does not start or does not respond to the hello.
    """

    def __init__(self, command: str, spec: EnvironmentSpec, *, start_s: float, answer_s: float) -> None:
        self._process = _start(command)
        # Pipes have no time limits: a thread reads, and the caller waits for the thread with a time limit.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy")
        # also runs at garbage collection and at interpreter exit
        self._finish = weakref.finalize(self, _end, self._process, self._thread)
        super().__init__(spec, start_s=start_s, answer_s=answer_s)

    def close(self) -> None:
        """Close the process's input and wait for it to exit; kill it after a timeout."""
        self._finish()

    def _exchange(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        if not self._finish.alive:
            raise ExternalPolicyError("its process has ended: open it again")
        pending = self._thread.submit(_exchange_line, self._process, messages.encode(message))
        try:
            line = pending.result(limit_s)
        except TimeoutError as error:
            _kill(self._process)  # unblocks the thread, which is reading from it
            self.close()
            raise ExternalPolicyError(
                f"it took longer than {limit_s:g} s to respond to {message['type']}: make it faster, or raise --timeout"
            ) from error
        except BaseException:  # interrupted while the thread may still be writing
            _kill(self._process)
            raise
        if not line.endswith(b"\n"):
            raise ExternalPolicyError(self._failure_reason(line))
        return messages.decode(line)

    def _failure_reason(self, line: bytes) -> str:
        """Return the reason why there is no response."""
        if len(line) >= messages.ANSWER_MAX_BYTES:
            return f"it wrote a line of more than {messages.ANSWER_MAX_BYTES} bytes: an answer is shorter"
        self.close()
        code = self._process.returncode
        return f"its process ended ({_exit_reason(code)}) instead of responding: see its standard error"


def _start(command: str) -> "subprocess.Popen[bytes]":
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ExternalPolicyError(f"command {command!r} cannot be split ({error}): quote it as in a shell") from error
    if not words:
        raise ExternalPolicyError("no command is given: write process:COMMAND, such as process:python bot.py")
    try:  # in its own session, so that Ctrl-C reaches only the arena, which then shuts the process down cleanly
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)  # noqa: S603
    except OSError as error:
        raise ExternalPolicyError(
            f"command {words[0]!r} does not start ({error.strerror}): give a program's path, or one that is on PATH"
        ) from error


def _exchange_line(process: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    """Write a line and read one; empty or incomplete if the process has exited."""
    writer, reader = _pipes(process)
    try:
        writer.write(line + b"\n")
        writer.flush()
    except (BrokenPipeError, ValueError):
        return b""
    return reader.readline(messages.ANSWER_MAX_BYTES)


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise TypeError("the process was started without pipes")
    return process.stdin, process.stdout


def _end(process: "subprocess.Popen[bytes]", thread: ThreadPoolExecutor) -> None:
    writer, reader = _pipes(process)
    with suppress(OSError):
        writer.close()
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()
    thread.shutdown()
    reader.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its children, because a child may have inherited the pipe."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _exit_reason(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
