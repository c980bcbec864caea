"""Validation of the parts of a recording."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from arena.replay.columns import Integers

LONGEST_NAME = 200

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""No control characters, because names are printed in terminals."""


def require(holds: bool, rule: str) -> None:
    """Check a rule.

    Raises:
        ValueError: It is violated.
    """
    if not holds:
        raise ValueError(rule)


def require_within(values: Sequence[int] | Integers, count: int, what: str) -> None:
    """Check that values lie from 0 to count - 1.

    Raises:
        ValueError: A value is out of range.
    """
    if len(values) and (np.min(values) < 0 or np.max(values) >= count):
        raise ValueError(f"{what} {np.min(values)} to {np.max(values)}: only 0 to {count - 1} exist")


def to_name(text: str) -> str:
    """Return a valid name: the end of the text, with ? for unprintable characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[-LONGEST_NAME:] or "?"
