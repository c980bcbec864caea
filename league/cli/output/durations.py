"""Time spans of command-line options: 12h, 30d, 8w."""

import math
from datetime import timedelta

import typer

from league.settings import LONGEST_DAYS

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONGEST = timedelta(days=LONGEST_DAYS)

UNITS = {"h": HOUR, "d": DAY, "w": timedelta(weeks=1)}


def parse_span(text: str, option: str, minimum: timedelta) -> timedelta:
    """Parse a time span given to a command-line option.

    The unit is required, because a plain number would be ambiguous.

    Args:
        text: A number with its unit: `h`, `d` or `w`.
        option: The option's name.
        minimum: Shortest span that the option accepts.

    Raises:
        typer.BadParameter: The text is not a number with a unit, or the span is out of range.
    """
    count, unit = text[:-1], text[-1:]
    try:
        hours = float(count) * (UNITS[unit] / HOUR)
    except (KeyError, ValueError) as error:
        raise typer.BadParameter(_malformed(text, option), param_hint=option) from error
    if not minimum / HOUR <= hours <= LONGEST / HOUR:
        raise typer.BadParameter(
            f"{text!r} is not between {format_span(minimum)} and {format_span(LONGEST)}", param_hint=option
        )
    return timedelta(hours=hours)


def _malformed(text: str, option: str) -> str:
    try:
        float(text)
    except ValueError:
        return f"{text!r} is not a time span: a number and its unit, h, d or w; write {option} 12h, 30d or 8w"
    return f"{text!r} has no unit: h, d or w; write {option} {text}d or {text}h"


def format_span(span: timedelta) -> str:
    """Format a span in hours or days, rounded up to hundredths, such that `parse_span` can read it."""
    unit = "h" if span < 2 * DAY else "d"
    return f"{math.ceil(round(100 * (span / UNITS[unit]), 6)) / 100:.12g}{unit}"
