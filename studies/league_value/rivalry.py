"""What mains of several conditions are worth among strangers, told: a table with intervals over seeds, and curves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studies.league_value.report import interval
from studies.league_value.rivals import Standing


@dataclass(frozen=True)
class Mark:
    """A main at some time of its run, in seconds, and what it was worth then."""

    seconds: float
    standing: Standing


@dataclass(frozen=True)
class Race:
    """A run that has ended.

    Attributes:
        marks: What its main was worth, in order; the last one at the end.
        steps: Environment steps of each learner at the end, by name.
        resets: How often learners began anew.
    """

    marks: Sequence[Mark]
    steps: Mapping[str, int]
    resets: int

    @property
    def last(self) -> Standing:
        """What its main came to."""
        return self.marks[-1].standing


Measure = Callable[[Standing], float]

MEASURES: dict[str, tuple[Measure, str]] = {
    "rating": (lambda standing: standing.rating, ".0f"),
    "worst win rate": (lambda standing: standing.worst, ".3f"),
    "mean win rate": (lambda standing: standing.mean, ".3f"),
}
"""What is reported, and how it is written."""

DRAWN = ("rating", "worst win rate")
WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 760, 230, 56, 150, 34, 44
COLOURS = ("#1f6fb2", "#c0392b", "#2e8b57", "#8e6bb0")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.8}"
    ".seed{fill:none;stroke-width:1;opacity:.3}"
)
LEVELS, LEAST_RANGE = 5, 1e-3


def table(races: Mapping[str, Sequence[Race]]) -> str:
    """Write a row per condition, then one per pair of them with the difference, seed by seed."""
    heads = ["condition", "seeds", *MEASURES, "steps of the main", "of all", "began anew"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, runs in races.items():
        cells = [_cell([measure(run.last) for run in runs], form) for measure, form in MEASURES.values()]
        own = np.mean([run.steps["main"] for run in runs])
        every = np.mean([sum(run.steps.values()) for run in runs])
        anew = np.mean([run.resets for run in runs])
        lines.append(f"| {name} | {len(runs)} | {' | '.join(cells)} | {own:,.0f} | {every:,.0f} | {anew:.1f} |")
    first, *others = races
    for other in others:
        cells = [_cell(_leads(races[first], races[other], measure), f"+{form}") for measure, form in MEASURES.values()]
        lines.append(f"| {first} above {other} | {len(races[other])} | {' | '.join(cells)} | | | |")
    return "\n".join(lines)


def summary(races: Mapping[str, Sequence[Race]]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return the same means and intervals for JSON: null where one seed leaves an end unknown."""
    first, *others = races
    values = {
        name: {key: [measure(run.last) for run in runs] for key, (measure, _) in MEASURES.items()}
        for name, runs in races.items()
    }
    for other in others:
        leads = {key: _leads(races[first], races[other], measure) for key, (measure, _) in MEASURES.items()}
        values[f"{first} above {other}"] = leads
    return {name: {key: _ends(each) for key, each in columns.items()} for name, columns in values.items()}


def curves(title: str, time: str, races: Mapping[str, Sequence[Race]]) -> str:
    """Draw rating and worst win rate over time as SVG: means of seeds, each seed behind them.

    Args:
        title: Of the picture.
        time: What the seconds are of.
        races: Runs of each condition.
    """
    end = max(race.marks[-1].seconds for runs in races.values() for race in runs)
    panels = [_Panel.of(measure, races, end, TOP + number * PANEL) for number, measure in enumerate(DRAWN)]
    height = TOP + len(DRAWN) * PANEL
    drawn = "".join(panel.grid() + panel.lines(races) for panel in panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="{LEFT}" y="18">{title}</text>{_legend(races)}{drawn}'
        f'<text x="{WIDTH - RIGHT}" y="{height - BOTTOM + 18}" text-anchor="end">{end:,.0f} {time}'
        "</text></svg>\n"
    )


@dataclass(frozen=True)
class _Panel:
    """One measure over time: values from `low` to `high`, seconds from 0 to `end`, the upper edge at `top`."""

    measure: str
    low: float
    high: float
    end: float
    top: int

    @classmethod
    def of(cls, measure: str, races: Mapping[str, Sequence[Race]], end: float, top: int) -> "_Panel":
        value, _ = MEASURES[measure]
        values = [value(mark.standing) for runs in races.values() for race in runs for mark in race.marks]
        return cls(measure, min(values), max(max(values), min(values) + LEAST_RANGE), end, top)

    @property
    def bottom(self) -> int:
        return self.top + PANEL - BOTTOM

    def grid(self) -> str:
        """Draw the levels and the name."""
        _, form = MEASURES[self.measure]
        levels = "".join(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self._y(level):.1f}" y2="{self._y(level):.1f}"/>'
            f'<text x="{LEFT - 6}" y="{self._y(level) + 4:.1f}" text-anchor="end">{level:{form}}</text>'
            for level in np.linspace(self.low, self.high, LEVELS).tolist()
        )
        return f'{levels}<text x="{LEFT}" y="{self.bottom + 18}">{self.measure}</text>'

    def lines(self, races: Mapping[str, Sequence[Race]]) -> str:
        """Draw every run, and the mean of each condition."""
        value, _ = MEASURES[self.measure]
        parts = []
        for runs, colour in zip(races.values(), COLOURS, strict=False):
            seconds = [[mark.seconds for mark in race.marks] for race in runs]
            values = [[value(mark.standing) for mark in race.marks] for race in runs]
            parts += [self._line("seed", colour, *run) for run in zip(seconds, values, strict=True)]
            parts.append(
                self._line("line", colour, np.mean(seconds, axis=0).tolist(), np.mean(values, axis=0).tolist())
            )
        return "".join(parts)

    def _line(self, style: str, colour: str, seconds: Sequence[float], values: Sequence[float]) -> str:
        places = zip(map(self._x, seconds), map(self._y, values), strict=True)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        return f'<polyline class="{style}" stroke="{colour}" points="{points}"/>'

    def _x(self, seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.end

    def _y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * (value - self.low) / (self.high - self.low)


def _legend(races: Mapping[str, Sequence[Race]]) -> str:
    x, rows = WIDTH - RIGHT + 14, range(TOP + 6, TOP + PANEL, 18)
    return "".join(
        f'<line class="line" stroke="{colour}" x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}"/>'
        f'<text x="{x + 30}" y="{y + 4}">{name}</text>'
        for name, colour, y in zip(races, COLOURS, rows, strict=False)
    )


def _leads(ones: Sequence[Race], others: Sequence[Race], measure: Measure) -> list[float]:
    """Return by how much each run is above the one of the same seed."""
    return [measure(one.last) - measure(other.last) for one, other in zip(ones, others, strict=True)]


def _cell(values: Sequence[float], form: str) -> str:
    mean, low, high = interval(values)
    return f"{mean:{form}} ({low:{form}} to {high:{form}})" if np.isfinite(low) else f"{mean:{form}}"


def _ends(values: Sequence[float]) -> dict[str, float | None]:
    ends = zip(("mean", "low", "high"), interval(values), strict=True)
    return {name: each if np.isfinite(each) else None for name, each in ends}
