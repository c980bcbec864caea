"""What can go wrong with a policy from outside, other than its choices."""

from arena.errors import ArenaError


class ExternalPolicyError(ArenaError):
    """A policy from outside cannot be opened, or failed to answer: it ended, was late, or gave no answer at all."""

    code = "external-policy-failed"


EXCERPT_LENGTH = 160


def truncate(text: object) -> str:
    """Return the beginning of what somebody else wrote, on one line."""
    line = " ".join(str(text).split())
    return line if len(line) <= EXCERPT_LENGTH else f"{line[:EXCERPT_LENGTH]}..."
