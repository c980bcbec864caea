"""The latest metrics of a run, and what they are compared with. Pure and without torch."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

Metrics = Mapping[str, float | None]

HORIZON = 100
"""Updates that a symptom can look back on."""

OPENING_UPDATES = 10
"""Updates in which a fresh network and its scales find themselves."""

MIN_MATCHES = 40
"""Matches before a win rate means something: its standard error is then below 0.08."""


COMPONENT_SHARE = 0.8
"""Share of what is earned that one component of the reward may have, where settings do not say."""


@dataclass(frozen=True)
class Setup:
    """What a reading must know of the run's settings.

    Attributes:
        learner: Its name: matches against itself say nothing about opponents.
        optimizer_steps: Most optimiser steps of an update. With one, KL is 0 whatever is learned.
        max_gradient_norm: Where gradients are clipped.
        component_share: Share of what is earned that one component of the reward may have.
    """

    learner: str
    optimizer_steps: int
    max_gradient_norm: float
    component_share: float

    @classmethod
    def of(cls, settings: Mapping[str, Mapping[str, Any]]) -> "Setup":
        """The setup of resolved settings, {section: {key: value}}.

        Raises:
            KeyError: A setting is missing.
        """
        ppo = settings["ppo"]
        limit = float(settings["optimizer"]["max_gradient_norm"])
        share = float(settings.get("health", {}).get("component_share", COMPONENT_SHARE))
        return cls(str(settings["league"]["learner"]), int(ppo["epochs"]) * int(ppo["minibatches"]), limit, share)


class History:
    """The latest metrics, what a run began with, and the best that it came to.

    Attributes:
        opening: Greatest value in the opening of what is told of heads and of the spread of advantages.
        best: Best win rate against each opponent still met.
        returns: What matches brought at first, and at best; None before any has ended.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.seen = 0
        self.opening: dict[str, float] = {}
        self.best: dict[str, float] = {}
        self.returns: tuple[float, float] | None = None
        self._recent: deque[Metrics] = deque(maxlen=HORIZON)

    def add(self, metrics: Metrics) -> None:
        """Take in an update's metrics."""
        self.seen += 1
        self._recent.append(metrics)
        if self.seen <= OPENING_UPDATES:
            for name, value in metrics.items():
                if name.startswith(("heads/", "scales/advantage_std")) and value is not None:
                    self.opening[name] = max(value, self.opening.get(name, value))
        if (earned := metrics.get("charts/episodic_return")) is not None:
            first, best = self.returns or (earned, earned)
            self.returns = first, max(best, earned)
        rates = self.win_rates()
        self.best = {name: max(rate, self.best.get(name, rate)) for name, rate in rates.items()}

    def last(self, name: str) -> float | None:
        """The latest value."""
        return self._recent[-1].get(name)

    def values(self, name: str, updates: int) -> list[float]:
        """What there is of a metric in the last so many updates, oldest first."""
        start = max(0, len(self._recent) - updates)
        recent = (metrics.get(name) for metrics in islice(self._recent, start, None))
        return [value for value in recent if value is not None]

    def full(self, name: str, updates: int) -> list[float]:
        """The same, or nothing where more than half of them are missing or the run is younger."""
        values = self.values(name, updates)
        return values if len(self._recent) >= updates and 2 * len(values) >= updates else []

    def of_heads(self, figure: str) -> dict[str, float]:
        """The latest value of a figure by head."""
        end = f"/{figure}"
        return {
            name.removeprefix("heads/").removesuffix(end): value
            for name, value in self._latest("heads/")
            if name.endswith(end)
        }

    def shares(self) -> dict[str, float]:
        """Share of every component of the reward in what is earned."""
        return {name.removeprefix("reward_share/"): value for name, value in self._latest("reward_share/")}

    def win_rates(self) -> dict[str, float]:
        """Win rate by opponent, of those met often enough lately; never the learner itself."""
        return {
            name: rate
            for name, rate in ((name.removeprefix("win_rate/"), rate) for name, rate in self._latest("win_rate/"))
            if name != self.setup.learner and (self.last(f"matches/{name}") or 0.0) >= MIN_MATCHES
        }

    def _latest(self, prefix: str) -> Iterator[tuple[str, float]]:
        return (
            (name, value) for name, value in self._recent[-1].items() if name.startswith(prefix) and value is not None
        )
