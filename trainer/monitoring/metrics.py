"""Metrics of a run: statistics of recent matches, and the log that every update's metrics go to."""

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

from arena.durable_log import LineFile
from trainer.disk_retry import DiskRetry
from trainer.monitoring.loggers import Tracker
from trainer.rollout.collector import CollectedMatch

Metrics = Mapping[str, float | None]
"""Values by tag, with CleanRL's names where it has one; None if a value is undefined."""

WINDOW = 200
"""Matches that a running mean covers."""

MAX_OPPONENTS = 50
"""Opponents with a win rate; the one played least recently is dropped first."""

WIN_RATE = "win_rate/"
REWARD_SHARE = "reward_share/"
"""Followed by a component's name."""

WIN_RATE_BY_BRANCH = "win_rate_by_branch/"
"""Followed by the matchmaking branch that chose the opponents."""

MATCHES = "matches/"
"""Followed by the opponent's name: number of recent matches behind its win rate."""


class MatchStatistics:
    """Running statistics of recent matches: the learner's scores, returns and match lengths.

    Scores are averaged over all opponents, per opponent and per matchmaking branch. Unrated matches enter the first of
    these only. Self-play matches do not measure strength: they are counted apart, and their returns are reported only
    if there are no other matches.
    """

    def __init__(self) -> None:
        self._against_others: deque[CollectedMatch] = deque(maxlen=WINDOW)
        self._against_itself: deque[CollectedMatch] = deque(maxlen=WINDOW)
        self._by_opponent: dict[str, deque[float]] = {}
        self._by_branch: dict[str, deque[float]] = {}
        self.episodes = self.self_play_episodes = 0

    def add(self, episode: CollectedMatch) -> None:
        """Add a finished match."""
        self.episodes += 1
        if episode.assignment.self_play_match:
            self.self_play_episodes += 1
            self._against_itself.append(episode)
            return
        self._against_others.append(episode)
        if (lease := episode.assignment.lease) is not None:
            self._add_score(episode.assignment.opponent.name, episode.learner_score)
            self._by_branch.setdefault(lease.branch, deque(maxlen=WINDOW)).append(episode.learner_score)

    def _add_score(self, name: str, score: float) -> None:
        scores = self._by_opponent.pop(name, None) or deque(maxlen=WINDOW)
        scores.append(score)
        self._by_opponent[name] = scores  # re-inserted at the end: dict order is recency
        while len(self._by_opponent) > MAX_OPPONENTS:
            del self._by_opponent[next(iter(self._by_opponent))]

    def win_rates(self) -> dict[str, float]:
        """Mean score against each recent opponent."""
        return {name: fmean(scores) for name, scores in self._by_opponent.items()}

    def metrics(self) -> dict[str, float | None]:
        """All statistics by tag."""
        metrics: dict[str, float | None] = {
            "charts/episodes": float(self.episodes),
            "charts/self_play_episodes": float(self.self_play_episodes),
        }
        if others := self._against_others:
            metrics["charts/score"] = fmean(each.learner_score for each in others)
        if recent := others or self._against_itself:
            metrics |= {
                "charts/episodic_return": fmean(each.mean_return for each in recent),
                "charts/episodic_length": fmean(each.decisions for each in recent),
            }
            metrics |= _components(recent)
        metrics |= {f"{WIN_RATE_BY_BRANCH}{name}": fmean(scores) for name, scores in self._by_branch.items()}
        metrics |= {f"{MATCHES}{name}": float(len(scores)) for name, scores in self._by_opponent.items()}
        return metrics | {f"{WIN_RATE}{name}": rate for name, rate in self.win_rates().items()}


class MetricsLogger:
    """Writes the metrics of each update to `metrics.jsonl` in the run directory, and to trackers.

    While the disk is full, metrics wait in memory and the next call retries.

    Args:
        folder: The run directory.
        trackers: Other metric writers, such as TensorBoard.
        disk: Retries writes while the disk is full.
    """

    def __init__(self, folder: Path, trackers: Sequence[Tracker], disk: DiskRetry) -> None:
        self._lines = LineFile(folder / "metrics.jsonl")
        self._trackers, self._disk = trackers, disk

    def write(self, step: int, metrics: Metrics) -> bool:
        """Write the metrics of one update, NaN and infinity as null; return False if the disk is full."""
        finite = {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}
        self._lines.add(json.dumps({"step": step, **{name: finite.get(name) for name in metrics}}).encode())
        return self._disk.write("metrics", lambda: self._write(step, finite))

    def log_text(self, step: int, tag: str, text: str) -> None:
        """Send text to the trackers; `metrics.jsonl` has numbers only."""
        for tracker in self._trackers:
            tracker.log_text(step, tag, text)

    def flush(self) -> bool:
        """Write and fsync all metrics; return False if the disk is full."""
        return self._disk.write("metrics", lambda: self._lines.write(durably=True))

    def close(self) -> None:
        """Flush and close; metrics that the disk still rejects are lost."""
        self._disk.write("metrics", self._close)

    def _write(self, step: int, finite: Mapping[str, float]) -> None:
        with ExitStack() as writes:  # a tracker that fails does not keep the others from writing
            for tracker in self._trackers:
                writes.callback(tracker.log, step, finite)
            self._lines.write(durably=False)

    def _close(self) -> None:
        with ExitStack() as closes:
            closes.callback(self._lines.close)
            for tracker in self._trackers:
                closes.callback(tracker.close)
            self._lines.write(durably=True)


def _components(episodes: Sequence[CollectedMatch]) -> dict[str, float | None]:
    """Mean of each reward component, and its share of the summed absolute components."""
    names = episodes[0].components
    metrics: dict[str, float | None] = {
        f"reward/{name}": fmean(each.components[name] for each in episodes) for name in names
    }
    sizes = {name: sum(abs(each.components[name]) for each in episodes) for name in names}
    whole = sum(sizes.values())
    return metrics | {f"{REWARD_SHARE}{name}": size / whole if whole else None for name, size in sizes.items()}
