"""The protocol of policies that are processes or servers: one JSON object for each question, one for each answer.

    {"type": "hello", "protocol": 1, "game": {...}}
        -> {"protocol": 1, "identity": "..."}
    {"type": "act", "id": 7, "observation": [[...]], "masks": {"choice": [[...]]}, "memory": [null]}
        -> {"id": 7, "actions": {"choice": [2]}, "memory": [...]}

Fields may be added to both within a version, and are ignored by who does not know them.
docs/guides/games/external-players.md has the whole of it.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import count
from typing import Any

from arena.agents.base import Batch, Reply
from arena.agents.errors import ExternalPolicyError, truncate
from arena.environments.spec import EnvironmentSpec

PROTOCOL = 1
ANSWER_MAX_BYTES = 64 * 2**20


def hello(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return the first question: it declares the game."""
    return {"type": "hello", "protocol": PROTOCOL, "game": declared(spec)}


def declared(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return what a game declares, as JSON; a range without an end has null for it."""
    return {
        "environment": spec.name,
        "signature": spec.signature,
        "agents_per_side": list(spec.agents_per_side),
        "observation": [
            {"name": block.name, "shape": list(block.shape), "low": _end(block.low), "high": _end(block.high)}
            for block in spec.observation
        ],
        "heads": [
            {"name": head.name, "kind": str(head.kind), "size": head.size, "masked": head.masked} for head in spec.heads
        ],
        "max_decisions": spec.max_decisions,
        "turn_based": spec.turn_based,
    }


def read_hello(answer: Mapping[str, Any]) -> str | None:
    """Return by what the policy is known again, where it says so.

    Raises:
        ExternalPolicyError: It speaks another version of the protocol.
    """
    if answer.get("protocol") != PROTOCOL:
        raise ExternalPolicyError(
            f"it answered the hello with protocol {truncate(json.dumps(answer.get('protocol')))}: this arena speaks "
            f"{PROTOCOL}, and an answer must say that it does"
        )
    identity = answer.get("identity")
    return identity if isinstance(identity, str) else None


def question(number: int, batch: Batch) -> dict[str, Any]:
    """Return the question what a batch of agents does."""
    return {
        "type": "act",
        "id": number,
        "observation": batch.observation.tolist(),
        "masks": {name: mask.tolist() for name, mask in batch.masks.items()},
        "memory": list(batch.memory),
    }


def read_reply(number: int, answer: Mapping[str, Any]) -> Reply:
    """Return what was answered.

    Raises:
        ExternalPolicyError: It is the answer to another question, or none.
    """
    if answer.get("id") != number:
        raise ExternalPolicyError(f"it answered question {truncate(answer.get('id'))} when {number} was asked")
    actions, memory = answer.get("actions"), answer.get("memory")
    if not isinstance(actions, dict) or not isinstance(memory, list | None):
        raise ExternalPolicyError(
            f"it answered {truncate(json.dumps(answer))}: an answer has actions by head and, at most, a list of "
            "memories"
        )
    return Reply(actions, memory or ())


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line of JSON, without its end.

    Raises:
        ExternalPolicyError: The policy gave an agent something to remember that cannot be given back to it.
    """
    try:
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:  # NaN, which JSON does not have; the second as in `decode`
        raise ExternalPolicyError(
            f"what it gave to remember is no JSON ({truncate(error)}): let it be of finite numbers, text, lists, "
            "objects"
        ) from error


def decode(line: bytes) -> dict[str, Any]:
    """Read an answer.

    Raises:
        ExternalPolicyError: It is no JSON object, or says that the policy failed.
    """
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:  # the second: brackets within brackets without end
        raise ExternalPolicyError(
            f"it wrote {truncate(repr(line[:200]))} where a JSON object was due: write nothing else there"
        ) from error
    if not isinstance(answer, dict):
        raise ExternalPolicyError(f"it answered {truncate(answer)}: an answer is a JSON object")
    if "error" in answer:
        raise ExternalPolicyError(f"it gave up: {truncate(answer['error'])}")
    return answer


def _end(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Conversation(ABC):
    """What all actors share that are asked so. Whoever inherits it opens its channel first.

    Args:
        spec: The game, which the policy is told first.
        start_s: The longest wait for the answer to that, in seconds.
        answer_s: The longest wait for the answer to a batch, in seconds.

    Raises:
        ExternalPolicyError: It does not answer the hello.
    """

    def __init__(self, spec: EnvironmentSpec, *, start_s: float, answer_s: float) -> None:
        self._answer_s = answer_s
        self._numbers = count(1)
        try:
            self.identity = read_hello(self._exchange(hello(spec), start_s))
        except ExternalPolicyError:
            self.close()
            raise

    def act(self, batch: Batch) -> Reply:
        """See `Actor.act`."""
        number = next(self._numbers)
        return read_reply(number, self._exchange(question(number, batch), self._answer_s))

    @abstractmethod
    def close(self) -> None:
        """See `Actor.close`."""

    @abstractmethod
    def _exchange(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a message, and wait so long for what it is answered."""
