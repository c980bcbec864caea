"""Assert that a call is refused: with which error code, and naming which values."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(code: str, *values: object) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error with this code whose message has each of these values as a word of its own."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the code says which
        yield caught
    found, message = code_of(caught.value), str(caught.value)
    if found is None:
        raise caught.value
    assert found == code, message
    assert [value for value in values if not _names(message, str(value))] == [], message


def code_of(error: Exception) -> str | None:
    """Return the stable code of an error of the product; None for any other."""
    return getattr(error, "code", None) or getattr(error, "type", None)


def _names(message: str, value: str) -> bool:
    """Whether a message has a value, and not as a part of a longer word or number."""
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", message) is not None
