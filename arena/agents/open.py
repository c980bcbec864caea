"""Names of external agents, and opening them."""

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
"""Accepted names of external agents, for messages."""

PROCESS = "process:"
_PYTHON = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Timeouts:
    """Time limits of processes and servers, in seconds. Agents within this process have no time limit.

    Attributes:
        answer_s: For the response to a batch.
        start_s: For the response to the first request, which includes loading.
    """

    answer_s: float = 10.0
    start_s: float = 60.0


USUAL = Timeouts()
"""Default time limits."""


def kind_of(name: str) -> Form | None:
    """Return the kind of external agent that a name denotes; None for other names."""
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
    """Open an external agent as a policy; the caller closes it.

    Args:
        spec: The game.
        name: Name in one of the `FORMS`.
        patience: Time limits.
        on_fault: Called with every invalid action.

    Raises:
        ExternalPolicyError: The name is invalid, or the agent cannot be opened.
    """
    try:
        return ExternalPolicy(spec, _actor(spec, name, patience), name, on_fault)
    except ExternalPolicyError as error:
        raise ExternalPolicyError(f"policy {name} cannot be opened: {error}") from error


def _actor(spec: EnvironmentSpec, name: str, patience: Timeouts) -> ExternalAgent:
    """Open an agent; optional dependencies are imported only for the kind that needs them."""
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
            raise ExternalPolicyError(f"it is not one of {FORMS}")
