"""Display names of players."""

from typing import Protocol


class Named(Protocol):
    """A player with a name and perhaps a call-sign."""

    @property
    def name(self) -> str:
        """Unique in its environment and signature."""

    @property
    def call_sign(self) -> str | None:
        """Call-sign of a commander; None for other players."""


def display_name(one: Named) -> str:
    """Return the call-sign, or the name of a player without one."""
    return one.call_sign or one.name
