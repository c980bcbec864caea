"""What mains of several conditions are worth among strangers, told: a table with intervals over seeds, and curves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.value.report import interval
from benchmarks.value.rivals import Standing


@dataclass(frozen=True)
class Mark:
    """A main at some time of its run: its processor seconds, and what it was worth then."""

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
COLOURS = ("#1f6fb2", "#c0392b", "#2e8b57")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.8}"
    ".seed{fill:none;stroke-width:1;opacity:.3}"
)
LEVELS = 5


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


def curves(title: str, races: Mapping[str, Sequence[Race]]) -> str:
    """Draw rating and worst win rate over processor seconds as SVG: means of seeds, each seed behind them."""
    end = max(mark.seconds for runs in races.values() for run in runs for mark in run.marks)
    height = TOP + len(DRAWN) * PANEL
    panels = [
        _panel(measure, races, end, top=TOP + number * PANEL, last=number == len(DRAWN) - 1)
        for number, measure in enumerate(DRAWN)
    ]
    legend = [
        f'<line class="line" stroke="{colour}" x1="{WIDTH - RIGHT + 14}" x2="{WIDTH - RIGHT + 38}" y1="{y}" y2="{y}"/>'
        f'<text x="{WIDTH - RIGHT + 44}" y="{y + 4}">{name}</text>'
        for name, colour, y in zip(races, COLOURS, range(TOP + 6, height, 18), strict=False)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="{LEFT}" y="18">{title}</text>{"".join(legend)}{"".join(panels)}</svg>\n'
    )


def _panel(measure: str, races: Mapping[str, Sequence[Race]], end: float, *, top: int, last: bool) -> str:
    value, form = MEASURES[measure]
    lines = {name: [[value(mark.standing) for mark in run.marks] for run in runs] for name, runs in races.items()}
    every = [number for runs in lines.values() for run in runs for number in run]
    low, high = min(every), max(max(every), min(every) + 1e-3)
    bottom = top + PANEL - BOTTOM

    def points(seconds: Sequence[float], values: Sequence[float]) -> str:
        places = [
            (LEFT + (WIDTH - LEFT - RIGHT) * second / end, bottom - (bottom - top) * (number - low) / (high - low))
            for second, number in zip(seconds, values, strict=True)
        ]
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)

    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{level:{form}}</text>'
        for level in np.linspace(low, high, LEVELS)
        for y in [bottom - (bottom - top) * (level - low) / (high - low)]
    ]
    for (name, runs), colour in zip(races.items(), COLOURS, strict=False):
        seconds = [[mark.seconds for mark in run.marks] for run in runs]
        for each, values in zip(seconds, lines[name], strict=True):
            parts.append(f'<polyline class="seed" stroke="{colour}" points="{points(each, values)}"/>')
        means = np.mean(seconds, axis=0).tolist(), np.mean(lines[name], axis=0).tolist()
        parts.append(f'<polyline class="line" stroke="{colour}" points="{points(*means)}"/>')
    below = f"{end:,.0f} processor seconds of a run" if last else ""
    parts.append(f'<text x="{LEFT}" y="{bottom + 18}">{measure}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{bottom + 18}" text-anchor="end">{below}</text>')
    return "".join(parts)


def _leads(ones: Sequence[Race], others: Sequence[Race], measure: Measure) -> list[float]:
    """Return by how much each run is above the one of the same seed."""
    return [measure(one.last) - measure(other.last) for one, other in zip(ones, others, strict=True)]


def _cell(values: Sequence[float], form: str) -> str:
    mean, low, high = interval(values)
    return f"{mean:{form}} ({low:{form}} to {high:{form}})" if np.isfinite(low) else f"{mean:{form}}"


def _ends(values: Sequence[float]) -> dict[str, float | None]:
    ends = zip(("mean", "low", "high"), interval(values), strict=True)
    return {name: each if np.isfinite(each) else None for name, each in ends}
