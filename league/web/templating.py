"""Templates, with the filters and globals available to all of them."""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from league import run_text
from league.player_names import display_name
from league.web import filters

NAVIGATION = (
    ("overview", "/", "Overview"),
    ("standings", "/standings", "Standings"),
    ("payoff", "/payoff", "Payoff"),
    ("training", "/training", "Training"),
    ("matches", "/matches", "Matches"),
    ("workers", "/workers", "Workers"),
    ("events", "/events", "Events"),
)
"""Name, path and title of each page."""

_FILTERS = (
    filters.age,
    filters.breakable,
    filters.breakable_key,
    filters.count,
    display_name,
    filters.iso,
    filters.percent,
    filters.points,
    filters.short,
    filters.size,
    filters.utc,
    filters.words,
    run_text.host,
    run_text.json_text,
    run_text.revision,
)


@cache
def asset(path: str) -> str:
    """Return the URL of a file below `static/` with a hash of its content, so that browsers can cache it forever."""
    content = files("league.web").joinpath("static", path).read_bytes()
    return f"/static/{path}?v={sha256(content).hexdigest()[:12]}"


def query(path: str, **parameters: str | int | float | Sequence[int] | None) -> str:
    """Return a URL with the parameters that are neither None nor empty; a list is one parameter for each value."""
    given = {name: value for name, value in parameters.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _environment() -> Environment:
    templates = Environment(
        loader=PackageLoader("league.web"),
        autoescape=True,
        # A mistyped variable must fail in the tests instead of rendering as empty.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {each.__name__: each for each in _FILTERS}
    templates.globals |= {
        "asset": asset,
        "query": query,
        "navigation": NAVIGATION,
        "version": version("echelon-league"),
    }
    return templates


_TEMPLATES = _environment()


def render(template: str, **values: object) -> str:
    """Render a template; undefined names are errors, and every value is escaped."""
    return _TEMPLATES.get_template(template).render(values)
