"""Addresses of a static copy: which pages belong to it, and the names of their files."""

import re
from collections.abc import Mapping
from posixpath import dirname, relpath
from urllib.parse import parse_qsl, urlencode, urlsplit

_NUMBER = r"\d+"
_PAGES: Mapping[str, Mapping[str, str]] = {
    r"/": {},
    r"/standings": {"show": "all", "offset": _NUMBER},
    r"/payoff": {},
    r"/training": {"learner": _NUMBER},
    r"/matches": {"before": _NUMBER},
    r"/events": {},
    r"/runs": {"before": _NUMBER},
    r"/runs/\d+": {},
    r"/players/\d+": {},
    r"/players/\d+/against/\d+": {},
    r"/matches/\d+": {},
}
"""Patterns of the pages of a copy, with the query parameters that they may have."""

_KINDS: Mapping[str, str] = {
    r"/players/\d+/against/\d+": "head-to-head pages of weaker players",
    r"/matches(\?.*)?": "filtered lists of matches",
    r"/matches/\d+": "older matches",
    r"/players/\d+": "players",
    r"/checkpoints/\w+": "checkpoints",
    r"/workers.*": "workers",
    r"/standings.*|/\?.*": "sorted and filtered standings",
    r"/events.*": "older events",
    r"/training.*": "comparisons of learners",
}


def canonical(address: str, environment: str) -> str | None:
    """Return the address of a page of the copy, without the environment; None if the page does not belong to it."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    query = dict(parse_qsl(parts.query))
    if query.pop("environment", environment) != environment:
        return None
    for pattern, allowed in _PAGES.items():
        if re.fullmatch(pattern, parts.path):
            fits = all(re.fullmatch(allowed.get(name, r"(?!)"), value) for name, value in query.items())
            return _joined(parts.path, query) if fits else None
    return None


def head_to_head(player: int, opponent: int) -> str:
    """Return the address of the head-to-head page of a player against an opponent."""
    return f"/players/{player}/against/{opponent}"


def file_of(page: str) -> str:
    """Return the name of a page's file: `/` is `index.html`, and `/training?learner=3` is `training-learner-3.html`."""
    parts = urlsplit(page)
    name = parts.path.strip("/") or "index"
    return "-".join([name, *(f"{key}-{value}" for key, value in parse_qsl(parts.query))]) + ".html"


def relative(page: str, file: str) -> str:
    """Return the link from a page to a file of the copy."""
    return relpath(file, dirname(file_of(page)) or ".")


def kind_of(address: str) -> str:
    """Return the kind of an address that is left out, in words."""
    parts = urlsplit(address)
    path = _joined(parts.path, {name: value for name, value in parse_qsl(parts.query) if name != "environment"})
    return next((kind for pattern, kind in _KINDS.items() if re.fullmatch(pattern, path)), "other pages")


def _joined(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(sorted(query.items()))}" if query else path
