"""SVG picture of a learner's snapshots: ratings, parents, resets and standings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from league import wire

WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 88, 44
"""Margins for labels, in pixels."""

RADIUS = 5
CHARACTER = 6.6
"""Approximate width of a character, in pixels."""

INK, PALE, LINE = "#333", "#ddd", "#1f6fb2"

COLOURS: Mapping[str, str] = {
    "candidate": "#fff",
    "commander": LINE,
    "retired": "#bbb",
    "quarantined": "#c01c28",
}
"""Fill colour by standing."""

STYLE = (
    f"text{{font:11px system-ui,sans-serif;fill:{INK}}}.title{{font-weight:600;font-size:12px}}"
    f".grid{{stroke:{PALE};stroke-width:1}}"
    ".parent{stroke:#9bb8d3;stroke-width:1.5}.band{stroke:#9bb8d3;stroke-width:1}"
    f".mark{{stroke:{LINE};stroke-width:1.5}}.out{{stroke:#999}}.ring{{fill:none;stroke:#e5a50a;stroke-width:2}}"
    f".reset{{stroke:{INK};stroke-dasharray:3 4}}"
)


@dataclass(frozen=True)
class Descent:
    """Data of a learner's picture.

    Attributes:
        learner: The learner.
        snapshots: All its snapshots, oldest first.
        resets: Steps at which it was reset.
        champion: Id of the environment's champion, or None.
        changes: Lifecycle events by snapshot id, oldest first.
    """

    learner: wire.Learner
    snapshots: Sequence[wire.Player]
    resets: Sequence[int]
    champion: int | None
    changes: Mapping[int, Sequence[wire.Event]]


@dataclass(frozen=True)
class _Scale:
    """Linear scale from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def picture(descent: Descent) -> str:
    """Return the picture as an SVG file.

    Args:
        descent: Data with at least one snapshot.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>{drawing(descent)}</svg>'
    )


def drawing(descent: Descent, address: Callable[[int], str] | None = None, current: int | None = None) -> str:
    """Return the elements of an SVG of WIDTH by HEIGHT.

    The x axis is steps, the y axis ratings, and bars are ± two deviations. A line connects each snapshot with its
    parent, unless the learner was reset between them, which a dashed line marks.

    Args:
        descent: Data with at least one snapshot.
        address: Returns the link of a snapshot by its id; None for no links.
        current: Id of the snapshot whose page shows the drawing, or None.
    """
    steps = _Scale(0.0, max(1.0, *(_step(one) for one in descent.snapshots)), LEFT, WIDTH - RIGHT)
    ends = [one.rating + sign * 2.0 * one.deviation for one in descent.snapshots for sign in (-1, 1)]
    ratings = _Scale(min(ends), max(max(ends), min(ends) + 1.0), HEIGHT - BOTTOM, TOP)

    def link(one: wire.Player, mark: str) -> str:
        if address is None:
            return mark
        here = ' aria-current="page"' if one.id == current else ""
        return f'<a href="{escape(address(one.id))}" aria-label="{escape(_name(one))}"{here}>{mark}</a>'

    layers = (
        _heading(descent),
        _grid(steps, ratings),
        _resets(descent.resets, steps),
        _parents(descent, steps, ratings),
        *(_snapshot(one, descent, steps, ratings, link) for one in descent.snapshots),
        _names(descent.snapshots, steps, ratings),
    )
    return "".join(layers)


def _heading(descent: Descent) -> str:
    learner = descent.learner
    title = f"{learner.name} ({learner.role}) of {learner.environment}: {_count(len(descent.snapshots), 'snapshot')}"
    resets = f", {_count(len(descent.resets), 'reset')}" if descent.resets else ""
    entries, x = [], float(LEFT)
    for label, mark in _legend():
        entries.append(f'<g transform="translate({x:.0f},42)">{mark}<text x="12" y="4">{label}</text></g>')
        x += 34 + CHARACTER * len(label)
    return f'<text class="title" x="{LEFT}" y="20">{escape(title + resets)}</text>{"".join(entries)}'


def _legend() -> Iterator[tuple[str, str]]:
    for standing in COLOURS:
        yield standing, _mark(standing, 0.0, 0.0, "")
    yield "champion", f'<circle class="ring" r="{RADIUS + 3}"/>'
    yield "reset", '<line class="reset" x1="0" x2="0" y1="-8" y2="8"/>'
    yield "± 2 RD", '<line class="band" x1="0" x2="0" y1="-8" y2="8"/>'


def _grid(steps: _Scale, ratings: _Scale) -> str:
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{ratings(level)}" y2="{ratings(level)}"/>'
        f'<text x="{LEFT - 8}" y="{ratings(level) + 4}" text-anchor="end">{level:.0f}</text>'
        for level in _levels(ratings)
    ]
    bottom = HEIGHT - BOTTOM + 18
    ends = (
        f'<text x="{LEFT}" y="{bottom}">0</text>'
        f'<text x="{WIDTH - RIGHT}" y="{bottom}" text-anchor="end">{steps.high:,.0f} steps</text>'
        f'<text x="{LEFT}" y="{TOP - 14}">rating</text>'
    )
    return "".join(lines) + ends


def _levels(ratings: _Scale) -> list[float]:
    """Return four to eight round ratings for grid lines."""
    span = ratings.high - ratings.low
    spacing = next((each for each in (10, 20, 50, 100, 200, 500, 1000) if span / each <= 8), 5000)
    first = int(-(-ratings.low // spacing))
    return [float(each * spacing) for each in range(first, int(ratings.high // spacing) + 1)]


def _resets(resets: Iterable[int], steps: _Scale) -> str:
    return "".join(
        f'<line class="reset" x1="{steps(step)}" x2="{steps(step)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
        f"<title>reset at step {step:,}</title></line>"
        for step in resets
    )


def _parents(descent: Descent, steps: _Scale, ratings: _Scale) -> str:
    known = {one.id: one for one in descent.snapshots}
    pairs = [(known[one.parent_id], one) for one in descent.snapshots if one.parent_id in known]
    return "".join(
        f'<line class="parent" x1="{steps(_step(parent))}" y1="{ratings(parent.rating)}" '
        f'x2="{steps(_step(one))}" y2="{ratings(one.rating)}"/>'
        for parent, one in pairs
        if not any(_step(parent) <= step < _step(one) for step in descent.resets)
    )


def _snapshot(
    one: wire.Player,
    descent: Descent,
    steps: _Scale,
    ratings: _Scale,
    link: Callable[[wire.Player, str], str],
) -> str:
    x, y = steps(_step(one)), ratings(one.rating)
    low, high = (ratings(one.rating + sign * 2.0 * one.deviation) for sign in (-1, 1))
    band = f'<line class="band" x1="{x}" x2="{x}" y1="{low}" y2="{high}"/>'
    ring = f'<circle class="ring" cx="{x}" cy="{y}" r="{RADIUS + 3}"/>' if one.id == descent.champion else ""
    text = f"{one.rating:.0f} ± {2 * one.deviation:.0f}, {one.games} games, step {_step(one):,}"
    lines = [f"{_name(one)}: {text}"]
    lines += [
        f"{each.created_at:%Y-%m-%d %H:%M} {each.kind}: {each.reason}" for each in descent.changes.get(one.id, ())
    ]
    mark = _mark(one.standing or "candidate", x, y, escape("\n".join(lines)))
    return f"{band}{ring}{link(one, mark)}"


def _name(one: wire.Player) -> str:
    return one.name if one.call_sign is None else f"{one.call_sign} ({one.name})"


def _mark(standing: str, x: float, y: float, title: str) -> str:
    tip = f"<title>{title}</title>" if title else ""
    kind = "mark" if standing in ("candidate", "commander") else "mark out"
    return f'<circle class="{kind} {standing}" cx="{x}" cy="{y}" r="{RADIUS}" fill="{COLOURS[standing]}">{tip}</circle>'


def _names(snapshots: Sequence[wire.Player], steps: _Scale, ratings: _Scale) -> str:
    """Label snapshots with their call signs, strongest first, if labels do not overlap."""
    taken: list[tuple[float, float, float]] = []
    names = []
    for one in sorted(snapshots, key=lambda each: -each.rating):
        if one.call_sign is None:
            continue
        half = 0.5 * CHARACTER * len(one.call_sign)
        x = min(max(steps(_step(one)), LEFT + half), WIDTH - RIGHT - half)
        y = ratings(one.rating) - RADIUS - 7
        if all(abs(x - other) > half + other_half or abs(y - height) > 13 for other, height, other_half in taken):
            taken.append((x, y, half))
            names.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(one.call_sign)}</text>')
    return "".join(names)


def _step(one: wire.Player) -> int:
    return one.step or 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
