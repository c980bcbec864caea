"""External agents that communicate by messages: one request, then its response."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import count
from typing import Any

from arena.agents import json_messages as messages
from arena.agents.base import Batch, Reply
from arena.agents.errors import ExternalPolicyError
from arena.environments.spec import EnvironmentSpec


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
            self.identity = messages.read_hello(self._exchange(messages.hello(spec), start_s))
        except ExternalPolicyError:
            self.close()
            raise

    def act(self, batch: Batch) -> Reply:
        """See `ExternalAgent.act`."""
        number = next(self._numbers)
        return messages.read_reply(number, self._exchange(messages.question(number, batch), self._answer_s))

    @abstractmethod
    def close(self) -> None:
        """See `ExternalAgent.close`."""

    @abstractmethod
    def _exchange(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a message and wait up to `limit_s` seconds for the response."""
