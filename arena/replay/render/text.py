"""Events as text, in parts with a side's colour."""

from dataclasses import dataclass

from arena.replay.header import SIDES, Header
from arena.replay.mech.events import End, Event, Intercept, Kill, Launch, Paint, StatusChange, ZoneChange

UNLISTED_EVENTS = ("paint", "missile", "smoke")
"""Kinds of events that are too frequent to list."""

MISHAPS = {"fall": "falls", "shutdown": "shuts down", "legs": "loses its legs"}


@dataclass(frozen=True)
class Part:
    """A piece of text in the colour of a side (0 home, 1 away) or in none."""

    text: str
    side: int | None


def name_mech(header: Header, agent: int) -> Part:
    """Return a mech's class and its number within its side."""
    side = header.side(agent)
    return Part(f"{header.roles[agent]} {agent - side * header.agents_per_side[0] + 1}", side)


def describe(event: Event, header: Header) -> tuple[Part, ...]:
    """Return an event as a sentence."""
    match event:
        case Kill():
            return _describe_kill(event, header)
        case StatusChange():
            return name_mech(header, event.mech), Part(f" {MISHAPS[event.kind]}", None)
        case Paint():
            return name_mech(header, event.by), Part(" paints ", None), name_mech(header, event.mech)
        case Launch():
            what = "a missile" if event.kind == "missile" else "smoke"
            return name_mech(header, event.mech), Part(f" launches {what}", None)
        case Intercept():
            what = "a missile" if event.missiles == 1 else f"{event.missiles} missiles"
            return name_mech(header, event.mech), Part(f" shoots down {what}", None)
        case ZoneChange():
            return _describe_zone(event)
        case End():
            return describe_outcome(header)


def describe_outcome(header: Header) -> tuple[Part, ...]:
    """Return the winner and the reason."""
    outcome = header.outcome
    if outcome.score == 0.5:
        return (Part(f"draw, by {outcome.reason}", None),)
    winner = int(outcome.score < 0.5)
    return Part(f"{SIDES[winner]} wins", winner), Part(f", by {outcome.reason}", None)


def write_clock(seconds: float) -> str:
    """Format seconds as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def write_plainly(parts: tuple[Part, ...]) -> str:
    """Join parts without colours, naming the side of each mech."""
    return "".join(
        f"{SIDES[part.side]} {part.text}" if part.side is not None and not part.text.startswith(SIDES) else part.text
        for part in parts
    )


def _describe_kill(event: Kill, header: Header) -> tuple[Part, ...]:
    victim = name_mech(header, event.mech)
    if event.by is None:
        return victim, Part(" is destroyed by the ground", None)
    parts = (name_mech(header, event.by), Part(" destroys ", None), victim)
    return parts if not event.assists else (*parts, Part(f", {len(event.assists)} helped", None))


def _describe_zone(event: ZoneChange) -> tuple[Part, ...]:
    if event.after in SIDES:
        return Part(event.after, SIDES.index(event.after)), Part(" takes the zone", None)
    if event.after == "nobody" and event.before in SIDES:
        return Part(event.before, SIDES.index(event.before)), Part(" leaves the zone", None)
    return (Part("the zone is contested" if event.after == "contested" else "the zone is empty", None),)
