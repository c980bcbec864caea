"""Recent metrics of a run and the reference values that health rules compare them with. Pure and without torch."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from trainer.config.runtime import MAX_REWARD_COMPONENT_SHARE

Metrics = Mapping[str, float | None]

HORIZON = 100
"""Number of recent updates that rules can read."""

OPENING_UPDATES = 10
"""First updates of a run, in which network and scales settle."""

MIN_MATCHES = 40
"""Least number of matches behind a win rate: its standard error is then below 0.08."""


REWARDS = ("scales/reward_mean", "scales/reward_std")
"""Metrics that are both 0 if no agent got a reward in an update."""


@dataclass(frozen=True)
class Setup:
    """Settings of the run that the rules use.

    Attributes:
        learner: Name of the learner; its win rate against itself is ignored.
        environment: Name of the environment.
        optimizer_steps: Most optimiser steps per update. With one, KL is always 0.
        max_grad_norm: Gradient clipping norm.
        component_share: Largest share of the reward that one component may have.
    """

    learner: str
    environment: str
    optimizer_steps: int
    max_grad_norm: float
    component_share: float

    @classmethod
    def of(cls, settings: Mapping[str, Mapping[str, Any]]) -> "Setup":
        """The setup of resolved settings, {section: {key: value}}.

        Raises:
            KeyError: A setting is missing.
        """
        environment = settings.get("environment", {})
        return cls(
            learner=str(settings["league"]["learner"]),
            environment=str(environment.get("name", "an unnamed environment")),
            optimizer_steps=int(settings["ppo"]["update_epochs"]) * int(settings["ppo"]["num_minibatches"]),
            max_grad_norm=float(settings["optimizer"]["max_grad_norm"]),
            component_share=float(environment.get("max_reward_component_share", MAX_REWARD_COMPONENT_SHARE)),
        )


class History:
    """Recent metrics of a run, their values at its start, and its extremes.

    Attributes:
        opening: Largest value of each head metric and of the advantages' deviation in the first updates.
        best: Best win rate against each recent opponent.
        returns: First and best mean return; None before a match has ended.
        rewarded: Whether any agent ever got a reward other than 0; None if unknown.
        largest_kl: Largest KL of an update.
        largest_outlier_share: Largest share of an update's samples with a probability ratio far from 1.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.seen = 0
        self.opening: dict[str, float] = {}
        self.best: dict[str, float] = {}
        self.returns: tuple[float, float] | None = None
        self.rewarded: bool | None = None
        self.largest_kl = self.largest_outlier_share = 0.0
        self._recent: deque[Metrics] = deque(maxlen=HORIZON)

    def add(self, metrics: Metrics) -> None:
        """Add the metrics of an update."""
        self.seen += 1
        self._recent.append(metrics)
        if self.seen <= OPENING_UPDATES:
            for name, value in metrics.items():
                if name.startswith(("heads/", "scales/advantage_std")) and value is not None:
                    self.opening[name] = max(value, self.opening.get(name, value))
        if (mean_return := metrics.get("charts/episodic_return")) is not None:
            first, best = self.returns or (mean_return, mean_return)
            self.returns = first, max(best, mean_return)
        rewards = [value for name in REWARDS if (value := metrics.get(name)) is not None]
        if rewards:
            self.rewarded = bool(self.rewarded) or any(rewards)
        samples = max([1.0, *self.per_head("samples").values()])
        outlier_share = (metrics.get("losses/ratio_alarms") or 0.0) / samples
        self.largest_outlier_share = max(self.largest_outlier_share, outlier_share)
        self.largest_kl = max(self.largest_kl, metrics.get("losses/approx_kl") or 0.0)
        self.best = {name: max(rate, self.best.get(name, rate)) for name, rate in self.win_rates().items()}

    def last(self, name: str) -> float | None:
        """Latest value of a metric."""
        return self._recent[-1].get(name)

    def values(self, name: str, updates: int) -> list[float]:
        """Defined values of a metric in the last `updates` updates, oldest first."""
        start = max(0, len(self._recent) - updates)
        recent = (metrics.get(name) for metrics in islice(self._recent, start, None))
        return [value for value in recent if value is not None]

    def full(self, name: str, updates: int) -> list[float]:
        """Like `values`, but empty if the run is shorter or more than half of the values are missing."""
        values = self.values(name, updates)
        return values if len(self._recent) >= updates and 2 * len(values) >= updates else []

    def per_head(self, metric: str) -> dict[str, float]:
        """Latest value of a metric by action head."""
        suffix = f"/{metric}"
        heads = self._latest("heads/").items()
        return {name.removesuffix(suffix): value for name, value in heads if name.endswith(suffix)}

    def shares(self) -> dict[str, float]:
        """Share of each component in the absolute reward."""
        return self._latest("reward_share/")

    def win_rates(self) -> dict[str, float]:
        """Win rate by opponent with at least `MIN_MATCHES` recent matches; the learner itself is left out."""
        matches, rates = self._latest("matches/"), self._latest("win_rate/").items()
        rated = {name for name, count in matches.items() if count >= MIN_MATCHES} - {self.setup.learner}
        return {name: rate for name, rate in rates if name in rated}

    def _latest(self, prefix: str) -> dict[str, float]:
        """Latest metrics with a prefix, which is removed from their names."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._recent[-1].items()
            if name.startswith(prefix) and value is not None
        }
