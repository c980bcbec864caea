"""Which runs are compared with which: neighbours, and medians of what neighbours say."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

ATTEMPTS = 4
"""How often a pair is tried in which somebody disturbed a half."""


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
    """The iterations of one contestant, and the reference's right before each; `None` where all attempts failed."""

    own: list[Times | None] = field(default_factory=list)
    reference: list[Times | None] = field(default_factory=list)

    def counted(self) -> list[Times]:
        """What nobody disturbed."""
        return [times for times in self.own if times is not None]

    def relative(self) -> list[float | None]:
        """How many times faster than the reference, pair by pair."""
        pairs = zip(self.own, self.reference, strict=True)
        return [None if own is None else before.seconds / own.seconds for own, before in pairs]


Measure = Callable[[], "Times | None"]


def race(reference: Measure, others: Mapping[str, Measure], repeats: int) -> dict[str, Series]:
    """Run reference and each other next to each other: A B A C, A B A C, and so on."""
    series = {name: Series() for name in others}
    for _ in range(repeats):
        for name, other in others.items():
            before, own = attempt(reference, other)
            series[name].reference.append(before)
            series[name].own.append(own)
    return series


def attempt(reference: Measure, other: Measure) -> tuple[Times, Times] | tuple[None, None]:
    """One pair, or nothing if each attempt was disturbed."""
    for _ in range(ATTEMPTS):
        before, own = reference(), other()
        if before is not None and own is not None:
            return before, own
    return None, None


def advantage(some: Series, other: Series) -> float:
    """How many times faster one is than the other, by their pairs with the same reference; median over the rounds."""
    pairs = zip(some.relative(), other.relative(), strict=True)
    return median([mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None])


def median(values: Sequence[float]) -> float:
    """Middle value; not a number where there is none."""
    return statistics.median(values) if values else float("nan")
