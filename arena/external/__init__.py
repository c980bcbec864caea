"""Policies from outside: whoever answers observations with actions plays, in whatever it is written.

A Python callable, an ONNX file, a process and an HTTP server all become an `Actor`, and every
`Actor` becomes a `Policy` of the arena by `ExternalPolicy`. docs/external_players.md is the contract for their authors.
"""

from arena.external.actor import Actions, Actor, Batch, Reply
from arena.external.errors import ExternalPolicyError
from arena.external.policy import ExternalPolicy
from arena.external.specs import FORMS, USUAL, Patience, form_of, open_policy

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
