"""Policies from outside: whoever answers observations with actions plays, in whatever it is written.

A Python callable, an ONNX file, a process and an HTTP server all become an `Actor`, and every
`Actor` becomes a `Policy` of the arena by `ExternalPolicy`. docs/external_players.md is the contract for their authors.
"""

from arena.agents.base import Actions, Actor, Batch, Reply
from arena.agents.errors import ExternalPolicyError
from arena.agents.open import FORMS, USUAL, Patience, form_of, open_policy
from arena.agents.policy import ExternalPolicy

__all__ = [
    "FORMS",
    "USUAL",
    "Actions",
    "Actor",
    "Batch",
    "ExternalPolicy",
    "ExternalPolicyError",
    "Patience",
    "Reply",
    "form_of",
    "open_policy",
]
