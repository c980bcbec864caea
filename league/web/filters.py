"""Template filters: numbers, times and names."""

from datetime import datetime, timedelta

from markupsafe import Markup

_UNITS = ((86400 * 365, "y"), (86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
NONE = "\N{EN DASH}"
"""Placeholder for a missing value."""

_LONG = 1e12
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def breakable(name: str) -> Markup:
    """Return a name with a line break opportunity before its step: `main` and below it `@16000000`."""
    return Markup("<wbr>@").join(name.split("@"))


def breakable_key(name: str) -> Markup:
    """Return the dotted name of a setting with line break opportunities after its dots and underscores."""
    return Markup("_<wbr>").join(Markup(".<wbr>").join(name.split(".")).split("_"))


def age(then: datetime, now: datetime) -> str:
    """Return the time since an event in its largest unit: `3 h`."""
    # Another server with a faster clock may have written the time.
    passed_s = max(0, int((now - then) / timedelta(seconds=1)))
    size, unit = next((each for each in _UNITS if passed_s >= each[0]), _UNITS[-1])
    return f"{passed_s // size} {unit}"


def iso(at: datetime) -> str:
    """Return a UTC time in ISO 8601."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def utc(at: datetime) -> str:
    """Return a UTC time for people, without seconds."""
    return f"{at:%Y-%m-%d %H:%M}"


def count(value: int) -> str:
    """Return an integer with thousands separators: `12,345`."""
    return f"{value:,}"


def percent(share: float | None) -> str:
    """Return a share as `54.3 %`, or a dash for None."""
    return NONE if share is None else f"{short(100 * share, '.1f')} %"


def short(value: float, spec: str) -> str:
    """Return a number in the given format, or with three digits and an exponent from 1e12 on."""
    return f"{value:{spec}}" if abs(value) < _LONG else f"{value:.3g}"


def points(value: float) -> str:
    """Return a rating without decimals."""
    return f"{value:.0f}"


def size(size_bytes: int) -> str:
    """Return a number of bytes in the largest unit of which there is at least one: `1.4 MiB`."""
    value = float(size_bytes)
    for unit in _SIZES[:-1]:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_SIZES[-1]}"


def words(name: str) -> str:
    """Return an identifier as words: `main_exploiter` is `main exploiter`."""
    return name.replace("_", " ")
