"""Paired comparison: each iteration is compared with a reference iteration right before it, and medians are taken."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

ATTEMPTS = 4
"""Attempts per pair, if other processes were active in one half."""


@dataclass(frozen=True)
class Times:
    """One iteration."""

    rollout_s: float
    update_s: float

    @property
    def seconds(self) -> float:
        return self.rollout_s + self.update_s


@dataclass
class Series:
    """Iterations of one trainer, and of the reference right before each; `None` if all attempts failed."""

    own: list[Times | None] = field(default_factory=list)
    reference: list[Times | None] = field(default_factory=list)

    def counted(self) -> list[Times]:
        """Return the iterations on an idle machine."""
        return [times for times in self.own if times is not None]

    def relative(self) -> list[float | None]:
        """Return the speed relative to the reference, per pair."""
        pairs = zip(self.own, self.reference, strict=True)
        return [None if own is None or before is None else before.seconds / own.seconds for own, before in pairs]


Measure = Callable[[], "Times | None"]


def measure_pairs(reference: Measure, others: Mapping[str, Measure], repeats: int) -> dict[str, Series]:
    """Run the reference before each other trainer: A B A C, A B A C, and so on."""
    series = {name: Series() for name in others}
    for _ in range(repeats):
        for name, other in others.items():
            before, own = measure_pair(reference, other)
            series[name].reference.append(before)
            series[name].own.append(own)
    return series


def measure_pair(reference: Measure, other: Measure) -> tuple[Times, Times] | tuple[None, None]:
    """Measure one pair; return None twice if every attempt was disturbed."""
    for _ in range(ATTEMPTS):
        before, own = reference(), other()
        if before is not None and own is not None:
            return before, own
    return None, None


def speedup(some: Series, other: Series) -> float:
    """Return the median speed of one trainer relative to another, by their pairs with the same reference."""
    pairs = zip(some.relative(), other.relative(), strict=True)
    return median([mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None])


def median(values: Sequence[float]) -> float:
    """Return the median, or NaN without values."""
    return statistics.median(values) if values else float("nan")
