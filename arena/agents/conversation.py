"""A policy that is asked by messages: a question goes out, its answer comes back, one at a time."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import count
from typing import Any

from arena.agents import json_messages as messages
from arena.agents.base import Batch, Reply
from arena.agents.errors import ExternalPolicyError
from arena.environments.spec import EnvironmentSpec


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
            self.identity = messages.read_hello(self._exchange(messages.hello(spec), start_s))
        except ExternalPolicyError:
            self.close()
            raise

    def act(self, batch: Batch) -> Reply:
        """See `Actor.act`."""
        number = next(self._numbers)
        return messages.read_reply(number, self._exchange(messages.question(number, batch), self._answer_s))

    @abstractmethod
    def close(self) -> None:
        """See `Actor.close`."""

    @abstractmethod
    def _exchange(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a message, and wait so long for what it is answered."""
