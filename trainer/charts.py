"""Line charts as SVG: small plots of equal size over one horizontal axis, with spans of it marked in all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from arena.svg import document, short

WIDTH, HEIGHT = 400, 150
"""Size of one chart, in pixels."""

LEFT, RIGHT, TOP, BOTTOM = 58, 12, 26, 20
"""What labels take of it."""

PER_ROW = 2

HEADING = 28
"""Height of the title, and of each line of the legend below it."""

LEGEND_PER_ROW = 4

STYLE = ".span{opacity:0.2}"


@dataclass(frozen=True)
class Curve:
    """What one chart shows: values at places of the horizontal axis; None is a gap."""

    title: str
    places: Sequence[float]
    values: Sequence[float | None]


@dataclass(frozen=True)
class Span:
    """A stretch of the horizontal axis, in a colour."""

    title: str
    start: float
    end: float
    colour: str


def sheet(title: str, curves: Sequence[Curve], spans: Sequence[Span], axis: str) -> str:
    """All curves in one picture.

    Args:
        title: Above all.
        curves: Each with a value at least.
        spans: Marked in every chart.
        axis: What the horizontal axis is, such as "steps".
    """
    end = max((place for curve in curves for place in curve.places), default=0.0)
    colours = {span.title: span.colour for span in spans}
    top = HEADING * (1 + -(-len(colours) // LEGEND_PER_ROW))
    charts = "".join(
        f'<g transform="translate({number % PER_ROW * WIDTH},{top + number // PER_ROW * HEIGHT})">'
        f"{_chart(curve, spans, end, axis)}</g>"
        for number, curve in enumerate(curves)
    )
    width, height = PER_ROW * WIDTH, top + -(-len(curves) // PER_ROW) * HEIGHT
    heading = f'<text class="title" x="{LEFT}" y="18">{escape(title)}</text>'
    return document(width, height, STYLE, f"{heading}{_legend(colours)}{charts}")


def _legend(colours: Mapping[str, str]) -> str:
    entries = []
    for number, (name, colour) in enumerate(colours.items()):
        x = LEFT + number % LEGEND_PER_ROW * (PER_ROW * WIDTH - LEFT) // LEGEND_PER_ROW
        y = HEADING * (1 + number // LEGEND_PER_ROW)
        swatch = f'<rect class="span" x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>'
        entries.append(f'{swatch}<text x="{x + 18}" y="{y + 10}">{escape(name)}</text>')
    return "".join(entries)


def _chart(curve: Curve, spans: Sequence[Span], end: float, axis: str) -> str:
    known = [value for value in curve.values if value is not None]
    low, high = min(known), max(known)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(place: float) -> float:
        return LEFT + (right - LEFT) * (place / end if end else 0.0)

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * ((value - low) / (high - low) if high > low else 0.5)

    marked = "".join(
        f'<rect class="span" x="{x(span.start):.1f}" y="{TOP}" width="{max(1.0, x(span.end) - x(span.start)):.1f}" '
        f'height="{bottom - TOP}" fill="{span.colour}"><title>{escape(span.title)}</title></rect>'
        for span in spans
    )
    levels = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{short(value)}</text>'
        for value in sorted({low, high})
    )
    lines = "".join(
        f'<polyline class="line" points="{" ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in run)}"/>'
        for run in _runs(curve)
    )
    return (
        f'{marked}{levels}{lines}<text class="title" x="{LEFT}" y="16">{escape(curve.title)}</text>'
        f'<text x="{right}" y="16" text-anchor="end">last {short(known[-1])}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 6}">0</text>'
        f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">{end:,.0f} {escape(axis)}</text>'
    )


def _runs(curve: Curve) -> list[list[tuple[float, float]]]:
    """Stretches without a gap; a single point becomes a dot."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(curve.places, curve.values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((place, value))
    return [run * 2 if len(run) == 1 else run for run in runs if run]
