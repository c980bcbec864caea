"""Errors of external agents, other than invalid actions."""

from arena.errors import ArenaError


class ExternalPolicyError(ArenaError):
    """An external agent cannot be opened or failed to answer: it ended, timed out, or returned an unreadable answer."""

    code = "external-policy-failed"


EXCERPT_LENGTH = 160


def truncate(text: object) -> str:
    """Return the beginning of foreign text on one line."""
    line = " ".join(str(text).split())
    return line if len(line) <= EXCERPT_LENGTH else f"{line[:EXCERPT_LENGTH]}..."
