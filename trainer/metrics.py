"""What a run says of itself: JSON lines, TensorBoard, and a line in the terminal."""

import json
import math
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from trainer.collector import Episode

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Metrics = Mapping[str, float | None]
"""Values by tag, as CleanRL names them; None where there is nothing to say."""

WINDOW = 200
"""Episodes that a running mean covers."""

MAX_OPPONENTS = 50
"""Opponents whose win rate is kept; who was met longest ago is forgotten first."""

WIN_RATE = "win_rate/"
MATCHES = "matches/"
"""Followed by a name: recent matches that the opponent's win rate is the mean of."""


class Scoreboard:
    """Recent matches: the learner's mean score, against all and against each opponent, and what its agents earned.

    Unrated matches count against all only: a league that is away names nobody.
    """

    def __init__(self) -> None:
        self._recent: deque[Episode] = deque(maxlen=WINDOW)
        self._by_opponent: dict[str, deque[float]] = {}
        self.episodes = 0

    def add(self, episode: Episode) -> None:
        """Take in a finished match."""
        self.episodes += 1
        self._recent.append(episode)
        if episode.assignment.lease is not None:
            self._count(episode.assignment.opponent.name, episode.learner_score)

    def _count(self, name: str, score: float) -> None:
        scores = self._by_opponent.pop(name, None) or deque(maxlen=WINDOW)
        scores.append(score)
        self._by_opponent[name] = scores  # met last, so forgotten last
        while len(self._by_opponent) > MAX_OPPONENTS:
            del self._by_opponent[next(iter(self._by_opponent))]

    def win_rates(self) -> dict[str, float]:
        """Mean score against every opponent met lately."""
        return {name: sum(scores) / len(scores) for name, scores in self._by_opponent.items()}

    def metrics(self) -> dict[str, float | None]:
        """Everything, by tag."""
        metrics: dict[str, float | None] = {"charts/episodes": float(self.episodes)}
        if self._recent:
            count = len(self._recent)
            metrics |= {
                "charts/score": sum(each.learner_score for each in self._recent) / count,
                "charts/episodic_return": sum(each.earned for each in self._recent) / count,
                "charts/episodic_length": sum(each.decisions for each in self._recent) / count,
            }
            metrics |= {
                f"reward/{name}": sum(each.components[name] for each in self._recent) / count
                for name in self._recent[0].components
            }
        metrics |= {f"{MATCHES}{name}": float(len(scores)) for name, scores in self._by_opponent.items()}
        return metrics | {f"{WIN_RATE}{name}": rate for name, rate in self.win_rates().items()}


class Journal:
    """Writes every update's metrics into the run folder: `metrics.jsonl` and TensorBoard's event files."""

    def __init__(self, folder: Path) -> None:
        self._lines = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self._events = _summary_writer(folder / "tensorboard")

    def write(self, step: int, metrics: Metrics) -> None:
        """Add the metrics of one update."""
        finite = {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}
        self._lines.write(json.dumps({"step": step, **{name: finite.get(name) for name in metrics}}) + "\n")
        self._lines.flush()
        for name, value in finite.items():
            self._events.add_scalar(name, value, step)

    def note(self, step: int, tag: str, text: str) -> None:
        """Add words to TensorBoard."""
        self._events.add_text(tag, text, step)

    def close(self) -> None:
        """Write what is left."""
        self._lines.close()
        self._events.close()


class Terminal:
    """Tells a person how the run goes: one line per update, coloured where there is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def progress(self, update: int, step: int, total_steps: int, metrics: Metrics) -> None:
        """Print an update's line; `total_steps` is 0 where the run has no end."""
        self._console.print(progress_line(update, step, total_steps, metrics), markup=False, soft_wrap=True)


def progress_line(update: int, step: int, total_steps: int, metrics: Metrics) -> str:
    """Describe an update in one line."""
    speed = metrics.get("charts/SPS")
    parts = [f"update {update}", f"steps {step:,}"]
    parts += _shown("steps/s", speed, ",.0f")
    if total_steps and speed:
        parts.append(f"ETA {timedelta(seconds=round(max(0, total_steps - step) / speed))}")
    parts += _shown("KL", metrics.get("losses/approx_kl"), ".4f")
    parts += _shown("EV", metrics.get("losses/explained_variance"), ".2f")
    parts += _shown("entropy", metrics.get("losses/entropy"), ".2f")
    parts += _shown("score", metrics.get("charts/score"), ".2f")
    rates = [(name.removeprefix(WIN_RATE), rate) for name, rate in metrics.items() if name.startswith(WIN_RATE)]
    parts += [f"{name} {rate:.2f}" for name, rate in reversed(rates[-3:]) if rate is not None]
    return " · ".join(parts)


def _shown(name: str, value: float | None, pattern: str) -> list[str]:
    return [f"{name} {'-' if value is None else format(value, pattern)}"]


def _summary_writer(folder: Path) -> "SummaryWriter":
    from torch.utils.tensorboard import SummaryWriter  # takes a second to import

    return SummaryWriter(str(folder))
