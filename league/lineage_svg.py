"""A learner's snapshots as a picture: how strong each is, whom it descends from, and what became of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from league import wire

WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 88, 44
"""What lettering takes of it, in pixels."""

RADIUS = 5
CHARACTER = 6.6
"""About how wide a character is, in pixels."""

INK, PALE, LINE = "#333", "#ddd", "#1f6fb2"

COLOURS: Mapping[str, str] = {
    "candidate": "#fff",
    "commander": LINE,
    "retired": "#bbb",
    "quarantined": "#c01c28",
}
"""What snapshots of a standing are filled with."""

STYLE = (
    f"text{{font:11px system-ui,sans-serif;fill:{INK}}}.title{{font-weight:600;font-size:12px}}"
    f".grid{{stroke:{PALE};stroke-width:1}}"
    ".parent{stroke:#9bb8d3;stroke-width:1.5}.band{stroke:#9bb8d3;stroke-width:1}"
    f".mark{{stroke:{LINE};stroke-width:1.5}}.out{{stroke:#999}}.ring{{fill:none;stroke:#e5a50a;stroke-width:2}}"
    f".anew{{stroke:{INK};stroke-dasharray:3 4}}"
)


@dataclass(frozen=True)
class Descent:
    """What there is to draw of a learner.

    Attributes:
        learner: Whose snapshots.
        snapshots: All of them, oldest first.
        resets: The steps at which it began anew.
        champion: Id of the environment's champion, if there is one.
        changes: What was done to each snapshot, oldest first, by id.
    """

    learner: wire.Learner
    snapshots: Sequence[wire.Player]
    resets: Sequence[int]
    champion: int | None
    changes: Mapping[int, Sequence[wire.Event]]


@dataclass(frozen=True)
class _Scale:
    """Where values lie: the ends of an axis, and of the pixels along it."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def picture(descent: Descent) -> str:
    """Draw a learner's descent as an SVG file.

    Args:
        descent: With a snapshot at least.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>{drawing(descent)}</svg>'
    )


def drawing(descent: Descent, address: Callable[[int], str] | None = None, current: int | None = None) -> str:
    """Draw a learner's descent as elements of an SVG that is WIDTH by HEIGHT.

    Steps run to the right, ratings upwards; a bar is two deviations to either side. A line leads to each snapshot from
    its parent, unless the learner began anew between them, which a dashed line marks.

    Args:
        descent: With a snapshot at least.
        address: Where a snapshot's mark leads to, by its id; None for nowhere.
        current: Id of the snapshot whose page shows the drawing, if it is one.
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
    anew = f", began anew {_count(len(descent.resets), 'time')}" if descent.resets else ""
    entries, x = [], float(LEFT)
    for label, mark in _legend():
        entries.append(f'<g transform="translate({x:.0f},42)">{mark}<text x="12" y="4">{label}</text></g>')
        x += 34 + CHARACTER * len(label)
    return f'<text class="title" x="{LEFT}" y="20">{escape(title + anew)}</text>{"".join(entries)}'


def _legend() -> Iterator[tuple[str, str]]:
    for standing in COLOURS:
        yield standing, _mark(standing, 0.0, 0.0, "")
    yield "champion", f'<circle class="ring" r="{RADIUS + 3}"/>'
    yield "began anew", '<line class="anew" x1="0" x2="0" y1="-8" y2="8"/>'
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
    """Return round ratings, four to eight of them where there is room."""
    span = ratings.high - ratings.low
    apart = next((each for each in (10, 20, 50, 100, 200, 500, 1000) if span / each <= 8), 5000)
    first = int(-(-ratings.low // apart))
    return [float(each * apart) for each in range(first, int(ratings.high // apart) + 1)]


def _resets(resets: Iterable[int], steps: _Scale) -> str:
    return "".join(
        f'<line class="anew" x1="{steps(step)}" x2="{steps(step)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
        f"<title>began anew at step {step:,}</title></line>"
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
    told = f"{one.rating:.0f} ± {2 * one.deviation:.0f}, {one.games} games, step {_step(one):,}"
    story = [f"{_name(one)}: {told}"]
    story += [
        f"{each.created_at:%Y-%m-%d %H:%M} {each.kind}: {each.reason}" for each in descent.changes.get(one.id, ())
    ]
    mark = _mark(one.standing or "candidate", x, y, escape("\n".join(story)))
    return f"{band}{ring}{link(one, mark)}"


def _name(one: wire.Player) -> str:
    return one.name if one.call_sign is None else f"{one.call_sign} ({one.name})"


def _mark(standing: str, x: float, y: float, title: str) -> str:
    told = f"<title>{title}</title>" if title else ""
    kind = "mark" if standing in ("candidate", "commander") else "mark out"
    return (
        f'<circle class="{kind} {standing}" cx="{x}" cy="{y}" r="{RADIUS}" fill="{COLOURS[standing]}">{told}</circle>'
    )


def _names(snapshots: Sequence[wire.Player], steps: _Scale, ratings: _Scale) -> str:
    """Write the call-signs of those that have one, the strongest first, where there is room."""
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
