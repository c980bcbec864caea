"""Commands and quarantine of a worker, from the answers to its heartbeats."""

from league.wire import HeartbeatAnswer, Quarantine
from trainer.monitoring.console import RunConsole


class WorkerCommands:
    """Current command of the league to one worker; each change is printed once.

    Args:
        console: Prints changes.

    Attributes:
        stop_requested: Whether the league sent the command to drain or stop.
        quarantined: Whether the league excludes the worker's results.
    """

    def __init__(self, console: RunConsole) -> None:
        self._console = console
        self.stop_requested = self.quarantined = False

    def handle(self, answer: HeartbeatAnswer, worker_id: str) -> None:
        """Handle the answer to a heartbeat."""
        if answer.command != "continue" and not self.stop_requested:
            self._console.print(f"the league sent the command {answer.command!r}")
            self.stop_requested = True
        if answer.quarantine is not None and not self.quarantined:
            self._console.print(_warning(answer.quarantine, worker_id), "red")
        elif answer.quarantine is None and self.quarantined:
            self._console.print("the quarantine of this worker has ended", "green")
        self.quarantined = answer.quarantine is not None


def _warning(quarantine: Quarantine, worker_id: str) -> str:
    reason = quarantine.reason or "no reason given"
    return (
        f"the league has quarantined this worker ({reason}): results since {quarantine.since:%Y-%m-%d %H:%M:%S} UTC do "
        "not count, and it gets no leases. Fix the cause or stop the worker; an administrator ends the quarantine with "
        f"`league worker reinstate {worker_id}`"
    )
