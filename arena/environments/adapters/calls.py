"""Calls of user code; a failure becomes a one-line error with its location."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from arena.errors import ArenaError, GameError

RESET = ("observations", "infos")
STEP = ("observations", "rewards", "terminations", "truncations", "infos")
"""Return values of a parallel or vector environment's `reset` and `step`."""


@contextmanager
def game_errors(name: str, for_what: str) -> Iterator[None]:
    """Run a game's code outside of its matches.

    Args:
        name: Name of the game.
        for_what: Action in progress, as in "NAME cannot be made".

    Raises:
        ArenaError: The code failed; the message contains the line of code.
    """
    try:
        yield
    except ArenaError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code may raise anything, including SystemExit
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename}, line {frame.lineno}"
        raise GameError(f"{name} cannot {for_what}: {type(error).__name__}: {error} ({where}): fix it") from error


def unpack(name: str, what: str, result: Any, parts: tuple[str, ...]) -> Any:  # noqa: ANN401  any value
    """Check the number of values that a game returned.

    Raises:
        ArenaError: The number is wrong.
    """
    if isinstance(result, tuple | list) and len(result) == len(parts):
        return result
    returned = f"{len(result)} things" if isinstance(result, tuple | list) else f"a {type(result).__name__}"
    raise GameError(f"{name} returns {returned} from {what}: return {', '.join(parts)}")
