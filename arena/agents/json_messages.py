"""Protocol of agents that are processes or servers: one JSON object per request and per response.

    {"type": "hello", "protocol": 1, "game": {...}}
        -> {"protocol": 1, "identity": "..."}
    {"type": "act", "id": 7, "observation": [[...]], "masks": {"choice": [[...]]}, "memory": [null]}
        -> {"id": 7, "actions": {"choice": [2]}, "memory": [...]}

Fields may be added to both within a version, and receivers ignore unknown fields.
docs/guides/games/external-players.md is the full specification.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import count
from typing import Any

from arena.agents.base import Batch, Reply
from arena.agents.errors import ExternalPolicyError
from arena.environments.spec import EnvironmentSpec
from arena.errors import truncate

PROTOCOL = 1
ANSWER_MAX_BYTES = 64 * 2**20


def hello(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return the first request, which describes the game."""
    return {"type": "hello", "protocol": PROTOCOL, "game": declared(spec)}


def declared(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return a game's spec as JSON; an unbounded end of a range is null."""
    return {
        "environment": spec.name,
        "signature": spec.signature,
        "agents_per_side": list(spec.agents_per_side),
        **spec.describe_spaces(),
        "max_decisions": spec.max_decisions,
        "turn_based": spec.turn_based,
    }


def read_hello(answer: Mapping[str, Any]) -> str | None:
    """Return the identity in the response to the hello, if any.

    Raises:
        ExternalPolicyError: The agent uses another version of the protocol.
    """
    if answer.get("protocol") != PROTOCOL:
        raise ExternalPolicyError(
            f"it answered the hello with protocol {truncate(json.dumps(answer.get('protocol')))}: this version "
            f"requires protocol {PROTOCOL}"
        )
    identity = answer.get("identity")
    return identity if isinstance(identity, str) else None


def question(number: int, batch: Batch) -> dict[str, Any]:
    """Return the request for the actions of a batch."""
    return {
        "type": "act",
        "id": number,
        "observation": batch.observation.tolist(),
        "masks": {name: mask.tolist() for name, mask in batch.masks.items()},
        "memory": list(batch.memory),
    }


def read_reply(number: int, answer: Mapping[str, Any]) -> Reply:
    """Decode the response to a batch.

    Raises:
        ExternalPolicyError: It belongs to another request, or has no actions.
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
    """Encode a message as one line of JSON, without the newline.

    Raises:
        ExternalPolicyError: The agent's memory is not valid JSON.
    """
    try:
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:  # NaN, which JSON does not have; the second as in `decode`
        raise ExternalPolicyError(
            f"its memory is not JSON ({truncate(error)}): let it be of finite numbers, text, lists, objects"
        ) from error


def decode(line: bytes) -> dict[str, Any]:
    """Decode a response.

    Raises:
        ExternalPolicyError: It is not a JSON object, or reports that the agent failed.
    """
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:  # RecursionError: deeply nested brackets
        raise ExternalPolicyError(
            f"it wrote {truncate(repr(line[:200]))} instead of a JSON object: write nothing else to stdout"
        ) from error
    if not isinstance(answer, dict):
        raise ExternalPolicyError(f"it answered {truncate(answer)}: an answer is a JSON object")
    if "error" in answer:
        raise ExternalPolicyError(f"it gave up: {truncate(answer['error'])}")
    return answer


class Conversation(ABC):
    """Base of message-based agents. A subclass opens its channel before calling this constructor.

    Args:
        spec: The game, sent with the first request.
        start_s: Time limit of the response to the first request, in seconds.
        answer_s: Time limit of the response to a batch, in seconds.

    Raises:
        ExternalPolicyError: The agent does not respond to the hello.
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
        """See `ExternalAgent.act`."""
        number = next(self._numbers)
        return read_reply(number, self._exchange(question(number, batch), self._answer_s))

    @abstractmethod
    def close(self) -> None:
        """See `ExternalAgent.close`."""

    @abstractmethod
    def _exchange(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a message and wait up to `limit_s` seconds for the response."""
