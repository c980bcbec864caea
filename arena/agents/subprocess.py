"""A policy that is a process: it reads questions from its standard input and writes answers to its standard output.

What it writes to its standard error is seen where the arena's own is. It ends when its standard input does.
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

FAREWELL_S = 5.0
"""How long a process may take to end once its input has."""


class ProcessActor(Conversation):
    """Asks a process, one question at a time.

    Args:
        command: Its command line, split as a shell would split it; no shell runs it.
        spec: The game, which the process is told first.
        start_s: How long it may take to answer that, in seconds.
        answer_s: How long it may take to answer a batch, in seconds.

    Raises:
        ExternalPolicyError: It does not start, or does not answer the hello.
    """

    def __init__(self, command: str, spec: EnvironmentSpec, *, start_s: float, answer_s: float) -> None:
        self._process = _start(command)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy")
        self._finish = weakref.finalize(self, _end, self._process, self._thread)
        super().__init__(spec, start_s=start_s, answer_s=answer_s)

    def close(self) -> None:
        """End its input, and it; where it stays, it is killed."""
        self._finish()

    def _exchange(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        if not self._finish.alive:
            raise ExternalPolicyError("its process was ended before: open it again")
        asked = self._thread.submit(_ask, self._process, messages.encode(message))
        try:
            line = asked.result(limit_s)
        except TimeoutError as error:
            _kill(self._process)  # the thread waits for it
            self.close()
            raise ExternalPolicyError(
                f"it took longer than {limit_s:g} s to answer the {message['type']}: make it faster, or allow it more"
            ) from error
        except BaseException:  # whoever waits was interrupted, and the thread may still be writing
            _kill(self._process)
            raise
        if not line.endswith(b"\n"):
            raise ExternalPolicyError(self._silence(line))
        return messages.decode(line)

    def _silence(self, line: bytes) -> str:
        """Say why there is no answer."""
        if len(line) >= messages.ANSWER_MAX_BYTES:
            return f"it wrote a line of more than {messages.ANSWER_MAX_BYTES} bytes: an answer is shorter"
        self.close()
        code = self._process.returncode
        return f"its process ended ({_told(code)}) instead of answering: what it wrote to its standard error says why"


def _start(command: str) -> "subprocess.Popen[bytes]":
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ExternalPolicyError(f"command {command!r} cannot be split ({error}): quote it as in a shell") from error
    if not words:
        raise ExternalPolicyError("no command is given: write process:COMMAND, such as process:python bot.py")
    try:  # a session of its own: what a terminal's Ctrl-C ends is the arena, which ends the process in good order
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)  # noqa: S603
    except OSError as error:
        raise ExternalPolicyError(
            f"command {words[0]!r} does not start ({error.strerror}): give a program's path, or one that is on PATH"
        ) from error


def _ask(process: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    """Write a line and read one; empty, or without its end, where the process has ended."""
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
        process.wait(FAREWELL_S)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()
    thread.shutdown()
    reader.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and those that it started: one of them may hold the pipe."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _told(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
