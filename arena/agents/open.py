"""How a policy from outside is named, and opened."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arena.agents.base import ExternalAgent
from arena.agents.errors import ExternalPolicyError
from arena.agents.policy import ExternalPolicy, ignore_faults
from arena.environments.spec import EnvironmentSpec

Form = Literal["python", "onnx", "process", "http"]

FORMS = "MODULE:ATTRIBUTE, FILE.onnx, process:COMMAND or http://ADDRESS"
"""How policies from outside are written, in words."""

PROCESS = "process:"
_PYTHON = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Timeouts:
    """How long a process or a server may take, in seconds. What runs in this process cannot be cut short.

    Attributes:
        answer_s: To answer a batch.
        start_s: To answer the first question, before which it may load what it needs.
    """

    answer_s: float = 10.0
    start_s: float = 60.0


USUAL = Timeouts()
"""As patient as one is who says nothing about it."""


def kind_of(name: str) -> Form | None:
    """Say which policy from outside a name is; None where it is none."""
    if name.startswith(("http://", "https://")):
        return "http"
    if name.startswith(PROCESS):
        return "process"
    if Path(name).suffix == ".onnx":
        return "onnx"
    return "python" if _PYTHON.fullmatch(name) else None


def open_policy(
    spec: EnvironmentSpec,
    name: str,
    patience: Timeouts = USUAL,
    on_fault: Callable[[str], None] = ignore_faults,
) -> ExternalPolicy:
    """Open a policy from outside, to be closed by who opened it.

    Args:
        spec: The game that it is to play.
        name: Written as `FORMS` says.
        patience: How long it may take.
        on_fault: Told each time that it does what is not allowed.

    Raises:
        ExternalPolicyError: The name is none, or the policy cannot be opened.
    """
    try:
        return ExternalPolicy(spec, _actor(spec, name, patience), name, on_fault)
    except ExternalPolicyError as error:
        raise ExternalPolicyError(f"policy {name} cannot be opened: {error}") from error


def _actor(spec: EnvironmentSpec, name: str, patience: Timeouts) -> ExternalAgent:
    """Open an actor; what only one form takes is imported for that form alone."""
    match kind_of(name):
        case "http":
            from arena.agents.http import HttpActor

            return HttpActor(name, spec, start_s=patience.start_s, answer_s=patience.answer_s)
        case "process":
            from arena.agents.subprocess import ProcessActor

            command = name.removeprefix(PROCESS)
            return ProcessActor(command, spec, start_s=patience.start_s, answer_s=patience.answer_s)
        case "onnx":
            from arena.agents.onnx import OnnxActor

            return OnnxActor(Path(name), spec)
        case "python":
            from arena.agents.python import open_callable

            return open_callable(name, spec)
        case None:
            raise ExternalPolicyError(f"it is none of {FORMS}")
