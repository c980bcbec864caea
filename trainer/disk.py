"""Writing to a disk that may be full: training goes on, it is said once, and tried again until it succeeds."""

from collections.abc import Callable

from trainer.surroundings import Surroundings

ROOM_PAUSE_S = 10.0
"""How often what cannot be left unwritten is tried on a full disk."""


class Disk:
    """Remembers what could not be written, so that a person hears of it once, and once more when it is over.

    Args:
        say: Tells a person.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._refused: dict[str, str] = {}

    def write(self, what: str, action: Callable[[], object]) -> bool:
        """Do something that writes `what`; false where the disk refuses, and it is then to be done again later."""
        try:
            action()
        except OSError as error:
            self._note_refusal(what, error.strerror or str(error))
            return False
        if self._refused.pop(what, None):
            self._say(f"the disk takes {what} again")
        return True

    def insist(self, write: Callable[[], bool], outside: Surroundings) -> bool:
        """Write until all of it is written, or a signal ends the wait for room; whether all is written."""
        while not (written := write()) and not outside.stopping():
            outside.pause(ROOM_PAUSE_S)
        return written

    @property
    def refused(self) -> str:
        """What could not be written yet, and why; empty where all is written."""
        return "; ".join(f"{what}: {reason}" for what, reason in self._refused.items())

    def _note_refusal(self, what: str, reason: str) -> None:
        if what not in self._refused:
            self._say(f"cannot write {what} ({reason}): nothing stops, and it is tried again; make room on the disk")
        self._refused[what] = reason
