"""What the league tells a worker at its heartbeats: heeded, and said to a person once."""

from league.wire import HeartbeatAnswer, Quarantine
from trainer.terminal import Terminal


class Orders:
    """What the league has said of one worker.

    Args:
        terminal: Tells a person.

    Attributes:
        dismissed: The worker is to leave.
        quarantined: The league does not trust the worker.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.dismissed = self.quarantined = False

    def heed(self, answer: HeartbeatAnswer, worker_id: str) -> None:
        """Take in the answer to a heartbeat."""
        if answer.command != "continue" and not self.dismissed:
            self._terminal.say(f"the league says {answer.command}")
            self.dismissed = True
        if answer.quarantine is not None and not self.quarantined:
            self._terminal.say(_warning(answer.quarantine, worker_id), "red")
        elif answer.quarantine is None and self.quarantined:
            self._terminal.say("the league trusts this worker again", "green")
        self.quarantined = answer.quarantine is not None


def _warning(quarantine: Quarantine, worker_id: str) -> str:
    reason = quarantine.reason or "no reason given"
    return (
        f"the league has quarantined this worker ({reason}): what it reports since {quarantine.since:%Y-%m-%d %H:%M:%S}"
        " UTC does not count, and it gets no leases. Mend what is wrong, or stop it; `league workers reinstate "
        f"{worker_id}` has it trusted again"
    )
