"""External agents: Python callables, ONNX files, processes and HTTP servers that map observations to actions.

Each becomes an `ExternalAgent`, and `ExternalPolicy` wraps it as a `Policy` of the arena.
docs/guides/games/external-players.md is the contract for their authors.
"""

from arena.agents.base import Actions, Batch, ExternalAgent, Reply
from arena.agents.errors import ExternalPolicyError
from arena.agents.open import FORMS, USUAL, Timeouts, kind_of, open_policy
from arena.agents.policy import ExternalPolicy

__all__ = [
    "FORMS",
    "USUAL",
    "Actions",
    "Batch",
    "ExternalAgent",
    "ExternalPolicy",
    "ExternalPolicyError",
    "Reply",
    "Timeouts",
    "kind_of",
    "open_policy",
]
