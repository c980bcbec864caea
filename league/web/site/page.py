"""One page of a static copy: with the parts that it would load later, without those that need a server."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from urllib.parse import urlsplit

from league.web.site import html, links, scripts
from league.web.site.html import Element

PARTS_MAX = 10
"""Parts that are appended to one table, such as 100 rows each of the standings."""

_DATA = frozenset({"data-cells", "data-curve", "data-learner", "data-ratings", "data-recording"})
"""Attributes with an address from which a script fetches its data."""

_ADDRESSES = frozenset({"action", "method"})
"""Attributes with addresses that have no file."""

_CONTROLS = frozenset({"button", "datalist", "input", "label", "select", "textarea"})
_LINKED = frozenset({"div", "header", "nav"})
"""Elements whose links are dropped if their page is left out. Elsewhere a link becomes text."""

_LINK = "\0"

Fetch = Callable[[str], str]
"""Returns the text at an address."""

Pair = tuple[int, int]
"""Ids of a player and its opponent."""


@dataclass
class CopiedPage:
    """A page without the addresses of its links, which depend on the pages that exist in the end.

    Attributes:
        text: Its HTML.
        addresses: Addresses of the dashboard that it links to, as on the server.
        assets: Files below `static/` that it needs, and whether each is a module.
    """

    text: str = ""
    addresses: list[str] = field(default_factory=list)
    assets: dict[str, bool] = field(default_factory=dict)


def copy_page(page: str, fetch: Fetch, environment: str, note: str, pairs: Sequence[Pair] = ()) -> CopiedPage:
    """Fetch a page and make it independent of the server.

    Args:
        page: Address of the page.
        fetch: Fetches a page, a part of one, or the data of a script.
        environment: Environment of the copy.
        note: Line in the footer, as HTML.
        pairs: Players and opponents whose head-to-head pages the heat map of the payoff page opens.
    """
    copied = CopiedPage()
    tree = html.parse(fetch(page))
    tree.replace(lambda element: _load_parts(element, fetch))
    data = _fetch_data(tree, fetch)
    tree.replace(lambda element: _offline(element, environment))
    main = tree.find(lambda each: each.tag == "main")
    if main is not None:
        main.children.append(Element("footer", {"class": "soft"}, html.parse(note).children))
        if page == "/payoff":
            main.children.append(_pair_links(pairs))
    _link(tree, page, copied)
    for element in tree.walk():
        if element.tag == "html":
            element.attributes["data-copied"] = None
        if element.tag == "body":
            element.children += data
    copied.text = tree.write()
    return copied


def resolve(text: str, page: str, files: Mapping[str, str], environment: str) -> str:
    """Return a page's HTML with its links: relative ones to `files` by page, and none to pages that do not exist."""

    def link(found: re.Match[str]) -> str:
        file = files.get(links.canonical(found[1], environment) or "")
        return "" if file is None else f' href="{escape(links.relative(page, file))}"'

    return re.sub(f" href={_LINK}([^{_LINK}]*){_LINK}", link, text)


def _pair_links(pairs: Sequence[Pair]) -> Element:
    """Return hidden links: payoff.js draws the heat map, and finds here which pairs have a page."""
    return Element(
        "div",
        {"hidden": None},
        [Element("a", {"data-pair": f"{one},{other}", "href": links.head_to_head(one, other)}) for one, other in pairs],
    )


def _load_parts(element: Element, fetch: Fetch) -> list[Element | str]:
    """Load the parts that a page requests as its reader scrolls."""
    if element.tag == "tr" and element.has_class("more"):
        return _rows(element, fetch)
    place = element.find(lambda each: each.has_class("later"))
    if element.get("hx-trigger") in ("load", "revealed") and place is not None:
        place.children = html.parse(fetch(element.get("hx-get"))).children
        place.attributes.pop("class")
    return [element]


def _rows(last: Element, fetch: Fetch) -> list[Element | str]:
    """Return the rows that the last row of a table stands for, part after part."""
    rows: list[Element | str] = []
    for _ in range(PARTS_MAX):
        loader = last if last.get("hx-get") else last.find(lambda each: bool(each.get("hx-get")))
        if loader is None:
            break
        part = html.parse(fetch(loader.get("hx-get"))).children
        following = next((each for each in part if isinstance(each, Element) and each.has_class("more")), None)
        rows += [each for each in part if each is not following]
        if following is None:
            return rows
        last = following
    return [*rows, last] if last.find(lambda each: each.tag == "a") else rows


def _fetch_data(tree: Element, fetch: Fetch) -> list[Element | str]:
    """Return the data of the page's scripts as elements."""
    values = (each.attributes[name] for each in tree.walk() for name in each.attributes.keys() & _DATA)
    addresses = [value for value in values if value is not None and value.startswith("/")]
    data: list[Element | str] = []
    for address in dict.fromkeys(addresses):
        text = fetch(f"{address}?more=true" if address.endswith("/curves") else address)
        attributes: dict[str, str | None] = {"type": "application/json", "data-address": urlsplit(address).path}
        data.append(Element("script", attributes, [text.replace("<", "\\u003c")]))
    return data


def _offline(element: Element, environment: str) -> list[Element | str]:
    """Drop everything that needs a server; a form around a table leaves the table."""
    if element.tag in _LINKED:
        element.children = [child for child in element.children if not _leads_nowhere(child, environment)]
    if element.tag == "form" and not element.has_class("view"):
        if element.find(lambda each: each.tag == "table") is None:
            return []
        for each in element.walk():
            each.children = [child for child in each.children if isinstance(child, str) or child.tag not in _CONTROLS]
        return [each for each in element.children if isinstance(each, str) or each.tag not in _CONTROLS]
    if element.tag == "noscript" or element.get("id") == "notice" or _needs_server(element):
        return []
    for name in [name for name in element.attributes if name.startswith("hx-") or name in _ADDRESSES]:
        del element.attributes[name]
    return [element]


def _leads_nowhere(child: Element | str, environment: str) -> bool:
    """Return whether a child is a link to a page that does not belong to the copy."""
    if isinstance(child, str) or child.tag != "a" or not child.get("href").startswith("/"):
        return False
    return links.canonical(child.get("href"), environment) is None


def _needs_server(element: Element) -> bool:
    attributes = element.attributes
    marked = not attributes.keys().isdisjoint(
        {"data-online", "data-live-state", "data-opens", "data-news", "data-reorder"}
    )
    if element.tag == "button":
        return marked or "hx-get" in attributes
    if element.tag in ("select", "input"):
        return marked or "data-submit-on-change" in attributes or element.get("form") != ""
    return marked or (element.tag == "dialog" and element.get("id") != "downloads") or "download" in attributes


def _link(tree: Element, page: str, copied: CopiedPage) -> None:
    """Make references to files relative, and mark links to pages."""
    tree.replace(lambda element: _script(element, page, copied) if element.tag == "script" else [element])
    for element in tree.walk():
        for name in ("href", "src"):
            address = element.get(name)
            if address.startswith("/static/"):
                element.attributes[name] = _asset(address, page, copied, is_module=False)
            elif name == "href" and address.startswith("/"):
                copied.addresses.append(address)
                del element.attributes[name]
                element.attributes[f"href={_LINK}{address}{_LINK}"] = None


def _script(element: Element, page: str, copied: CopiedPage) -> list[Element | str]:
    """Return a module as plain scripts, after those that it imports."""
    name = _static_name(element.get("src"))
    if name is None:
        return [element]
    if name in scripts.ONLINE:
        return []
    if element.get("type") != "module":
        return [element]
    needed = [each for each in scripts.with_imports(name) if each not in copied.assets]
    return [
        Element("script", {"src": _asset(f"/static/{each}", page, copied, is_module=True), "defer": None})
        for each in needed
    ]


def _asset(address: str, page: str, copied: CopiedPage, *, is_module: bool) -> str:
    name = _static_name(address)
    if name is None:
        return address
    copied.assets.setdefault(name, is_module)
    return links.relative(page, f"static/{name}")


def _static_name(address: str) -> str | None:
    """Return the path below `static/` of an address, or None."""
    path = urlsplit(address).path
    return path.removeprefix("/static/") if path.startswith("/static/") else None
