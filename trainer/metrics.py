"""What a run says of itself, in numbers."""

import json
import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from trainer.collector import Episode
from trainer.lines import LineFile
from trainer.tracking import Tracker

Metrics = Mapping[str, float | None]
"""Values by tag, as CleanRL names them; None where there is nothing to say."""

WINDOW = 200
"""Episodes that a running mean covers."""

MAX_OPPONENTS = 50
"""Opponents whose win rate is kept; who was met longest ago is forgotten first."""

WIN_RATE = "win_rate/"
REWARD_SHARE = "reward_share/"
"""Followed by a component's name."""

WIN_RATE_BY_BRANCH = "win_rate_by_branch/"
"""Followed by the branch of matchmaking that the opponents were drawn by."""

MATCHES = "matches/"
"""Followed by a name: recent matches that the opponent's win rate is the mean of."""


class Scoreboard:
    """Recent matches: the learner's mean score against all, each opponent and each branch, and what its agents earned.

    Unrated matches count against all only: a league that is away names nobody. Matches in which the learner plays both
    sides say nothing of its strength: they are counted, and shown where there are no others.
    """

    def __init__(self) -> None:
        self._against_others: deque[Episode] = deque(maxlen=WINDOW)
        self._against_itself: deque[Episode] = deque(maxlen=WINDOW)
        self._by_opponent: dict[str, deque[float]] = {}
        self._by_branch: dict[str, deque[float]] = {}
        self.episodes = self.self_play_episodes = 0

    def add(self, episode: Episode) -> None:
        """Take in a finished match."""
        self.episodes += 1
        if episode.assignment.both_sides:
            self.self_play_episodes += 1
            self._against_itself.append(episode)
            return
        self._against_others.append(episode)
        if (lease := episode.assignment.lease) is not None:
            self._count(episode.assignment.opponent.name, episode.learner_score)
            self._by_branch.setdefault(lease.branch, deque(maxlen=WINDOW)).append(episode.learner_score)

    def _count(self, name: str, score: float) -> None:
        scores = self._by_opponent.pop(name, None) or deque(maxlen=WINDOW)
        scores.append(score)
        self._by_opponent[name] = scores  # met last, so forgotten last
        while len(self._by_opponent) > MAX_OPPONENTS:
            del self._by_opponent[next(iter(self._by_opponent))]

    def win_rates(self) -> dict[str, float]:
        """Mean score against every opponent met lately."""
        return {name: _mean(scores) for name, scores in self._by_opponent.items()}

    def metrics(self) -> dict[str, float | None]:
        """Everything, by tag."""
        metrics: dict[str, float | None] = {
            "charts/episodes": float(self.episodes),
            "charts/self_play_episodes": float(self.self_play_episodes),
        }
        if others := self._against_others:
            metrics["charts/score"] = sum(each.learner_score for each in others) / len(others)
        if recent := others or self._against_itself:
            metrics |= {
                "charts/episodic_return": sum(each.earned for each in recent) / len(recent),
                "charts/episodic_length": sum(each.decisions for each in recent) / len(recent),
            }
            metrics |= _components(recent)
        metrics |= {f"{WIN_RATE_BY_BRANCH}{name}": _mean(scores) for name, scores in self._by_branch.items()}
        metrics |= {f"{MATCHES}{name}": float(len(scores)) for name, scores in self._by_opponent.items()}
        return metrics | {f"{WIN_RATE}{name}": rate for name, rate in self.win_rates().items()}


class Journal:
    """Writes every update's metrics into the run folder, `metrics.jsonl`, and to trackers.

    Args:
        folder: The run folder.
        trackers: Who else takes them in.
    """

    def __init__(self, folder: Path, trackers: Sequence[Tracker]) -> None:
        self._lines = LineFile(folder / "metrics.jsonl")
        self._trackers = trackers

    def write(self, step: int, metrics: Metrics) -> None:
        """Add the metrics of one update.

        Raises:
            OSError: The disk refuses; nothing is lost, and the next call tries again.
        """
        finite = {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}
        self._lines.add(json.dumps({"step": step, **{name: finite.get(name) for name in metrics}}).encode())
        with ExitStack() as telling:
            for tracker in self._trackers:
                telling.callback(tracker.log, step, finite)
            self._lines.write(durably=False)

    def note(self, step: int, tag: str, text: str) -> None:
        """Add words, where there is a tracker that takes them."""
        for tracker in self._trackers:
            tracker.note(step, tag, text)

    def flush(self) -> None:
        """Write what is left.

        Raises:
            OSError: The disk refuses; nothing is lost, and the next call tries again.
        """
        self._lines.write(durably=True)

    def close(self) -> None:
        """Flush and close.

        Raises:
            OSError: The disk refuses, and what was not written is lost.
        """
        with ExitStack() as closing:
            closing.callback(self._lines.close)
            for tracker in self._trackers:
                closing.callback(tracker.close)
            self.flush()


def _mean(scores: Collection[float]) -> float:
    return sum(scores) / len(scores)


def _components(episodes: Sequence[Episode]) -> dict[str, float | None]:
    """What each component of the reward pays, and its share of all that is earned and lost, signs left out."""
    names, count = episodes[0].components, len(episodes)
    metrics: dict[str, float | None] = {
        f"reward/{name}": sum(each.components[name] for each in episodes) / count for name in names
    }
    sizes = {name: sum(abs(each.components[name]) for each in episodes) for name in names}
    whole = sum(sizes.values())
    return metrics | {f"{REWARD_SHARE}{name}": size / whole if whole else None for name, size in sizes.items()}
