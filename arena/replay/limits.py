"""Rules that parts of a recording keep."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from arena.replay.columns import Integers

LONGEST_NAME = 200

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Without control characters: names end up in terminals."""


def require(holds: bool, rule: str) -> None:
    """Refuse what breaks a rule.

    Raises:
        ValueError: It does not hold.
    """
    if not holds:
        raise ValueError(rule)


def require_within(values: Sequence[int] | Integers, count: int, what: str) -> None:
    """Refuse numbers outside 0 to count - 1.

    Raises:
        ValueError: There is one.
    """
    if len(values) and (np.min(values) < 0 or np.max(values) >= count):
        raise ValueError(f"{what} {np.min(values)} to {np.max(values)}: only 0 to {count - 1} exist")


def to_name(text: str) -> str:
    """A name that a recording may hold: the end of the text, with ? for what cannot be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[-LONGEST_NAME:] or "?"
