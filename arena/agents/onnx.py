"""External agent in an ONNX file. `arena.policies.onnx.session` has the contract of its inputs and outputs."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arena.agents.base import Batch, Reply
from arena.agents.errors import ExternalPolicyError
from arena.environments.spec import EnvironmentSpec
from arena.errors import MissingPackageError, OnnxModelError
from arena.policies.onnx.session import OnnxSession

Row = Mapping[str, np.ndarray]
"""Memory of one agent: arrays by name, without the agent axis."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        ExternalPolicyError: The file cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ExternalPolicyError(f"{path} cannot be read ({error.strerror}): give the path of a file here") from error


def stack_memory(memory: Sequence[Row | None], start: Row) -> dict[str, np.ndarray]:
    """Stack the memory of B agents into arrays (B, ...); `start` replaces missing memory."""
    return {name: np.stack([(row or start)[name] for row in memory]) for name in start}


def split_memory(arrays: Mapping[str, Any], agents: int) -> list[Row]:
    """Split arrays (B, ...) into the memory of each of the B agents."""
    return [{name: array[index] for name, array in arrays.items()} for index in range(agents)]


class OnnxActor:
    """Agent that runs an ONNX model.

    Raises:
        ExternalPolicyError: onnxruntime is not installed, the file is not a model, or its inputs and outputs do not
            match.
    """

    def __init__(self, path: Path, spec: EnvironmentSpec) -> None:
        self.identity = sha256_of(path)
        try:
            self._session = OnnxSession(path, spec)
        except (MissingPackageError, OnnxModelError) as error:
            raise ExternalPolicyError(f"{path} cannot be played: {error}") from error

    def act(self, batch: Batch) -> Reply:
        """See `ExternalAgent.act`."""
        session = self._session
        memory = stack_memory(batch.memory, session.memory)
        try:
            found = session.run(session.prepare(batch.observation, batch.masks, list(memory.values())))
        except OnnxModelError as error:
            raise ExternalPolicyError(str(error)) from error
        answers = dict(zip(session.heads, found, strict=False))
        following = dict(zip(memory, found[len(answers) :], strict=True))
        return Reply(answers, split_memory(following, len(batch)) if following else ())

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
