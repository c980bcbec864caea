"""SVG picture of the cyclic components of a report: each player as a point in each plane."""

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from arena.arrays import FloatArray
from arena.evaluation.report import Report

SIDE, MARGIN, CAPTION_LINE = 460, 30, 16
"""Size of a panel, its margin, and the height of a line of the caption, in pixels."""

LABELS_MAX = 25
"""Labels of a panel, of the players that are farthest from the middle."""

_CHARACTER, _LINE = 6.2, 12.0  # approximate size of a label, in pixels
_INK, _PALE, _POINT, _CYCLE = "#333", "#ddd", "#1f6fb2", "#a84d00"
_STYLE = (
    f"text{{font:11px system-ui,sans-serif;fill:{_INK}}}.title{{font-weight:600;font-size:12px}}"
    ".label{paint-order:stroke;stroke:#fff;stroke-width:3px}"
    f".axis{{stroke:{_PALE}}}.player{{fill:{_POINT};fill-opacity:.75}}"
    f".cycle{{fill:none;stroke:{_CYCLE};stroke-width:1.5}}.arrow{{fill:{_CYCLE}}}"
)
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="11" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path class="arrow" d="M0 0 8 4 0 8z"/></marker>'
)


def draw_components(report: Report) -> str:
    """Return the picture as an SVG file, one panel for each cyclic component of a report with at least one.

    The log-odds of a pair grow by the area u_i v_j - v_i u_j: a player gains against those that lie counter-clockwise
    from it, seen from the middle. Arrows show the strongest cycle.
    """
    panels = [
        f'<g transform="translate({number * SIDE} 0)">{"".join(_panel(report, number))}</g>'
        for number in range(len(report.components))
    ]
    width, height = SIDE * len(panels), SIDE + 3 * CAPTION_LINE
    caption = ["A player gains against players that lie counter-clockwise from it."]
    if report.cycle is not None:
        caption.append("Arrows: each player of the strongest cycle beats the next one.")
    lines = "".join(
        f'<text x="{MARGIN}" y="{SIDE + (line + 0.5) * CAPTION_LINE:g}">{text}</text>'
        for line, text in enumerate(caption)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<defs>{_ARROW}</defs><style>{_STYLE}</style><rect width="{width}" height="{height}" fill="#fff"/>'
        f"{''.join(panels)}{lines}</svg>\n"
    )


def _panel(report: Report, number: int) -> Iterator[str]:
    positions = report.components[number]
    radius = float(np.abs(positions).max()) or 1.0
    half = SIDE / 2
    scale = (half - MARGIN) / radius
    place = np.column_stack((half + scale * positions[:, 0], half - scale * positions[:, 1]))
    title = f"Cyclic component {number + 1}, up to {radius:.2f} from the middle"
    yield f'<text class="title" x="{MARGIN}" y="16">{title}</text>'
    yield f'<path class="axis" d="M{MARGIN} {half:g}H{SIDE - MARGIN}M{half:g} {MARGIN}V{SIDE - MARGIN}"/>'
    yield from _labels(report.names, positions, place)
    for name, (x, y) in zip(report.names, place.tolist(), strict=True):
        yield f'<circle class="player" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(name)}</title></circle>'
    if report.cycle is not None:
        corners = [place[index] for index in report.cycle.players]
        for (x, y), (to_x, to_y) in zip(corners, [*corners[1:], corners[0]], strict=True):
            yield (f'<path class="cycle" marker-end="url(#arrow)" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"/>')


def _labels(names: Sequence[str], positions: FloatArray, place: FloatArray) -> Iterator[str]:
    """Yield the labels that do not overlap earlier ones, players far from the middle first."""
    taken: list[tuple[float, float, float, float]] = []
    for index in np.argsort(-np.hypot(*positions.T), kind="stable")[:LABELS_MAX].tolist():
        x, y = place[index].tolist()
        width = _CHARACTER * len(names[index])
        left = x - 7 - width if x + 7 + width > SIDE else x + 7
        box = left, y - _LINE / 2, left + width, y + _LINE / 2
        if not any(_overlap(box, other) for other in taken):
            taken.append(box)
            yield f'<text class="label" x="{left:.1f}" y="{y + 4:.1f}">{escape(names[index])}</text>'


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
