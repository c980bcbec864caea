"""What runs came to, told: a table with intervals over seeds, and curves."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.stats import t

from studies.league_value.measures import Outcome

LEVEL = 0.95

MEASURES: dict[str, Callable[[Outcome], float]] = {
    "newest main": lambda outcome: outcome.curve[-1].newest,
    "main in the last quarter": lambda outcome: last_quarter(outcome),
    "Nash mixture": lambda outcome: outcome.curve[-1].mixture,
    "safest mixture": lambda outcome: outcome.safest,
    "worst score against own past": lambda outcome: outcome.worst_score,
}
"""What is reported of every run."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 320, 56, 210, 30, 40
COLOURS = ("#1f6fb2", "#c0392b", "#d98a1f", "#2e8b57", "#7d3c98")
STYLE = "text{font:12px system-ui,sans-serif;fill:#333}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.8}"
DASHES = {"newest": "", "mixture": ' stroke-dasharray="5 4"'}


def last_quarter(outcome: Outcome) -> float:
    """Return the mean exploitability of the mains of the last quarter of all steps: a cycling one is never the same."""
    end = outcome.curve[-1].steps
    return float(np.mean([point.newest for point in outcome.curve if point.steps >= 0.75 * end]))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean, and lower and upper end of its 95 % interval after Student; of one value the ends are infinite."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -np.inf, np.inf
    half = float(t.ppf(0.5 + LEVEL / 2.0, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half


def table(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Write a row per condition: mean and interval of every measure, and what exploiters did."""
    heads = ["condition", "seeds", *MEASURES, "found by exploiters", "began anew", "met"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, runs in outcomes.items():
        cells = [name, str(len(runs)), *(_cell([measure(run) for run in runs]) for measure in MEASURES.values())]
        cells += [f"{np.mean([run.found for run in runs]):.0%}", f"{np.mean([run.resets for run in runs]):.1f}"]
        lines.append(f"| {' | '.join([*cells, _met(runs)])} |")
    return "\n".join(lines)


def summary(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return the same figures for JSON: null where one seed leaves an end unknown."""
    told: dict[str, dict[str, dict[str, float | None]]] = {}
    for name, runs in outcomes.items():
        ends = {key: interval([measure(run) for run in runs]) for key, measure in MEASURES.items()}
        told[name] = {
            key: dict(
                zip(("mean", "low", "high"), (each if np.isfinite(each) else None for each in three), strict=True)
            )
            for key, three in ends.items()
        }
    return told


def curves(title: str, outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Draw exploitability over steps as SVG, on a logarithmic scale: a line per condition and measure, means of seeds.

    Seeds publish at slightly different steps: values between are taken linearly.
    """
    lines = {(name, kind): _mean_curve(runs, kind) for name, runs in outcomes.items() for kind in DASHES}
    end = max(float(places[-1]) for places, _ in lines.values())
    low = 10.0 ** np.floor(np.log10(min(values.min() for _, values in lines.values())))
    high = 10.0 ** np.ceil(np.log10(max(values.max() for _, values in lines.values())))

    def x(steps: float) -> float:
        return float(LEFT + (WIDTH - LEFT - RIGHT) * steps / end)

    def y(value: float) -> float:
        return float(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * np.log(value / low) / np.log(high / low))

    parts = [_level(level, y(level)) for level in low * 10.0 ** np.arange(round(np.log10(high / low)) + 1)]
    for number, ((name, kind), (places, values)) in enumerate(lines.items()):
        style = f'stroke="{COLOURS[list(outcomes).index(name)]}"{DASHES[kind]}'
        points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in zip(places, values, strict=True))
        parts.append(f'<polyline class="line" {style} points="{points}"/>')
        parts.append(_legend(f"{name}, {kind}", style, TOP + 18 * number))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<text x="{LEFT}" y="18">{title}</text>{"".join(parts)}'
        f'<text x="{LEFT}" y="{HEIGHT - 14}">0</text>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 14}" text-anchor="end">{end:,.0f} environment steps of all learners'
        "</text></svg>\n"
    )


def _mean_curve(runs: Sequence[Outcome], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps, those of the run with the fewest points, and mean values at them."""
    places = np.array([point.steps for point in min((run.curve for run in runs), key=len)], dtype=np.float64)
    values = [
        np.interp(places, [point.steps for point in run.curve], [getattr(point, kind) for point in run.curve])
        for run in runs
    ]
    return places, np.maximum(np.mean(values, axis=0), 1e-6)


def _level(value: float, y: float) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
    )


def _legend(text: str, style: str, y: float) -> str:
    x = WIDTH - RIGHT + 14
    return (
        f'<line class="line" {style} x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}"/>'
        f'<text x="{x + 30}" y="{y + 4}">{text}</text>'
    )


def _cell(values: Sequence[float]) -> str:
    mean, low, high = interval(values)
    return f"{mean:.4f} ({low:.4f} to {high:.4f})" if np.isfinite(low) else f"{mean:.4f}"


def _met(runs: Sequence[Outcome]) -> str:
    roles = sorted({role for run in runs for role in run.met})
    return ", ".join(f"{role} {np.mean([run.met.get(role, 0.0) for run in runs]):.0%}" for role in roles)
