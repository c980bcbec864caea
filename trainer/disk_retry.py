"""Writes that survive a full disk: a failed write is logged once and tried again, and training goes on."""

from collections.abc import Callable

from trainer.shutdown import RunContext

RETRY_PAUSE_S = 10.0
"""Seconds between two attempts to write to a full disk at the end of a run."""


class DiskRetry:
    """Logs the first failure of a write and its first success after that, and nothing in between.

    Args:
        log: Prints a line.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._failed: dict[str, str] = {}

    def write(self, subject: str, action: Callable[[], object]) -> bool:
        """Run an action that writes `subject`; return False on an `OSError`, after which the caller tries again."""
        try:
            action()
        except OSError as error:
            reason = error.strerror or str(error)
            if subject not in self._failed:
                self._log(
                    f"cannot write {subject} ({reason}): training continues, and the write is retried; "
                    "free some space on the disk"
                )
            self._failed[subject] = reason
            return False
        if self._failed.pop(subject, None):
            self._log(f"{subject} can be written again")
        return True

    def retry_until_written(self, write: Callable[[], bool], run_context: RunContext) -> bool:
        """Retry every `RETRY_PAUSE_S` seconds; return False if a shutdown signal came before `write` succeeded."""
        while not (written := write()) and not run_context.stopping():
            run_context.pause(RETRY_PAUSE_S)
        return written

    @property
    def failures(self) -> str:
        """Subjects that are not written yet, each with its error; empty if there are none."""
        return "; ".join(f"{subject}: {reason}" for subject, reason in self._failed.items())
