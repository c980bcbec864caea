"""The league's alarms about a learner that loses to snapshots which it used to beat, said to a person once each."""

from collections.abc import Sequence

from league.wire import Regression
from trainer.terminal import Terminal


class Alarms:
    """Those that are on.

    Args:
        terminal: Tells a person.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._on: dict[int, str] = {}

    def heed(self, regressions: Sequence[Regression]) -> None:
        """Take in all that are on: say which of them are new, and which others are over."""
        now = {each.opponent.player_id: each for each in regressions}
        for opponent, each in now.items():
            if opponent not in self._on:
                self._terminal.say(_warning(each), "yellow")
        for opponent, name in self._on.items():
            if opponent not in now:
                self._terminal.say(f"over: the alarm about {name}", "green")
        self._on = {opponent: each.opponent.name for opponent, each in now.items()}


def _warning(regression: Regression) -> str:
    before, now = (f"{each.score:.2f} of {each.matches} matches" for each in (regression.earlier, regression.recent))
    return (
        f"alarm: {regression.learner.name} loses to {regression.opponent.name}, which it used to beat: score {before}, "
        f"then {now}; `league regressions` says more"
    )
