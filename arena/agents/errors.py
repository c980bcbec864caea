"""Errors of external agents, other than invalid actions."""

from arena.errors import ArenaError


class ExternalPolicyError(ArenaError):
    """An external agent cannot be opened or failed to answer: it ended, timed out, or returned an unreadable answer."""

    code = "external-policy-failed"
