"""Display names of players."""

from typing import Protocol


class Named(Protocol):
    """Who has a name and perhaps a call-sign."""

    @property
    def name(self) -> str:
        """Unique in its environment and signature."""

    @property
    def call_sign(self) -> str | None:
        """What a commander is called."""


def display_name(one: Named) -> str:
    """Return a call-sign, or the name of who has none."""
    return one.call_sign or one.name
