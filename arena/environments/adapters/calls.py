"""Asking games of the reader's own for something, so that what goes wrong is one line that says whose fault it is."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from arena.errors import ArenaError, GameError

RESET = ("observations", "infos")
STEP = ("observations", "rewards", "terminations", "truncations", "infos")
"""Return values of a parallel or vector environment's `reset` and `step`."""


@contextmanager
def blame_game(name: str, for_what: str) -> Iterator[None]:
    """Run a game's code outside of its matches.

    Args:
        name: Of the game.
        for_what: What it does meanwhile, as in "NAME cannot be made".

    Raises:
        ArenaError: It failed; the message has the line of code that raised.
    """
    try:
        yield
    except ArenaError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the reader's code raises, `sys.exit` too
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}"
        raise GameError(f"{name} cannot {for_what}: {type(error).__name__}: {error} ({where}): mend it") from error


def unpack(name: str, what: str, told: Any, parts: tuple[str, ...]) -> Any:  # noqa: ANN401  whatever it returns
    """What a game returned, which has to be so many things.

    Raises:
        ArenaError: It is something else.
    """
    if isinstance(told, tuple | list) and len(told) == len(parts):
        return told
    returned = f"{len(told)} things" if isinstance(told, tuple | list) else f"a {type(told).__name__}"
    raise GameError(f"{name} returns {returned} from {what}: return {', '.join(parts)}")
