"""Spans of time as people write them: 12h, 30d, 8w."""

import math
from datetime import timedelta
from typing import Literal

import typer

from league.config import LONGEST_DAYS

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONGEST = timedelta(days=LONGEST_DAYS)

UNITS = {"h": HOUR, "d": DAY, "w": timedelta(weeks=1)}
_WORDS = {"h": "hours", "d": "days"}


def read(text: str, option: str, bare: Literal["h", "d"], least: timedelta) -> timedelta:
    """Read a span of time that an option says.

    Args:
        text: What it says: a number, with a unit behind it or without.
        option: Its name.
        bare: The unit of a number without one.
        least: The shortest that is taken.

    Raises:
        typer.BadParameter: It is none, or out of range.
    """
    count, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, bare)
    try:
        hours = float(count) * (UNITS[unit] / HOUR)
    except ValueError as error:
        rule = f"{text!r} is no span of time; say 12h, 30d or 8w; a plain number is in {_WORDS[bare]}"
        raise typer.BadParameter(rule, param_hint=option) from error
    if not least / HOUR <= hours <= LONGEST / HOUR:
        raise typer.BadParameter(f"{text!r} is not between {written(least)} and {written(LONGEST)}", param_hint=option)
    return timedelta(hours=hours)


def written(span: timedelta) -> str:
    """Write a span in hours or days, rounded up to hundredths, as `read` takes it."""
    unit = "h" if span < 2 * DAY else "d"
    return f"{math.ceil(round(100 * (span / UNITS[unit]), 6)) / 100:.12g}{unit}"
