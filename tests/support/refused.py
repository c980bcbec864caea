"""Assert that a call is refused: with which error code, and naming which values."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(code: str | type[Exception], *values: object) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error with this code whose message has each of these values as a word of its own.

    A class stands for an error without a code, such as `ValueError`.
    """
    kind = Exception if isinstance(code, str) else code
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    if isinstance(code, str) and code_of(error) is None:
        raise error
    assert isinstance(code, type) or code_of(error) == code, str(error)
    assert_names(str(error), *values)


def assert_names(message: str, *values: object) -> None:
    """Assert that a message has each of these values as a word of its own."""
    assert [value for value in values if not _names(message, str(value))] == [], message


def code_of(error: Exception) -> str | None:
    """Return the stable code of an error of the product; None for any other."""
    return getattr(error, "code", None) or getattr(error, "type", None)


def _names(message: str, value: str) -> bool:
    """Whether a message has a value, and not as a part of a longer word or number."""
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", message) is not None
