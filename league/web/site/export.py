"""Export of a static copy: crawl the dashboard from its first page, and write each page, file and link."""

import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from importlib.metadata import version
from itertools import permutations
from pathlib import Path
from urllib.parse import urlencode

from league.web.site import links, scripts
from league.web.site.page import CopiedPage, Fetch, Pair, copy_page, resolve

Progress = Callable[[str, int, int], None]
"""Callback with the name of a stage, the number done and the total."""


@dataclass(frozen=True)
class Site:
    """Which league a copy shows, and how much of it.

    Attributes:
        title: Name of the league, for the footer; None for that of its environment.
        environment: Environment of the pages.
        several: Whether the league has further environments.
        made_at: Time of the copy.
        matches: Maximum number of pages of matches, the newest ones.
        pages: Maximum number of pages.
        compared: Ids of the players of which every two have head-to-head pages, one for each.
    """

    title: str | None
    environment: str
    several: bool
    made_at: datetime
    matches: int
    pages: int
    compared: Sequence[int] = ()

    @property
    def pairs(self) -> list[Pair]:
        """Players and opponents that have a head-to-head page."""
        return list(permutations(self.compared, 2))

    @property
    def note(self) -> str:
        """Line that says when the copy was made, and from which league."""
        at = f'<time datetime="{self.made_at:%Y-%m-%dT%H:%M:%SZ}">{self.made_at:%Y-%m-%d %H:%M} UTC</time>'
        made = f"by Echelon League {escape(version('echelon-league'))}"
        league = f"the league of {self.environment}" if self.title is None else f"{self.title}, {self.environment}"
        players = '<a href="/standings?show=all">All players</a>'
        return f"<p>Static copy of {escape(league)}, made {at} {made}. {players}</p>"


@dataclass
class Report:
    """Result of an export.

    Attributes:
        pages: Number of pages.
        files: Number of files, pages included.
        size_bytes: Total size.
        left_out: Number of linked addresses that have no page, by their kind.
    """

    pages: int = 0
    files: int = 0
    size_bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path, content: bytes) -> None:
        """Write a file and count it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.files += 1
        self.size_bytes += len(content)


def export(site: Site, fetch: Fetch, folder: Path, progress: Progress) -> Report:
    """Write a static copy of a league's pages into a folder."""
    crawl = _Crawl(site, fetch)
    report = Report()
    unlinked: dict[str, str] = {}
    while (page := crawl.next()) is not None:
        copied = crawl.copy(page)
        # Links are written once it is known which pages exist, so that thousands of pages need not stay in memory.
        unlinked[page] = links.file_of(page)
        path = folder / unlinked[page]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(copied.text, encoding="utf-8")
        progress("pages", len(unlinked), len(unlinked) + crawl.waiting)
    for number, (page, name) in enumerate(unlinked.items(), start=1):
        text = (folder / name).read_text(encoding="utf-8")
        report.add(folder / name, resolve(text, page, unlinked, site.environment).encode())
        progress("links", number, len(unlinked))
    for name, content in scripts.contents(crawl.assets):
        report.add(folder / "static" / name, content)
    report.pages = len(unlinked)
    report.left_out = Counter(
        links.kind_of(address)
        for address in crawl.addresses
        if links.canonical(address, site.environment) not in unlinked
    )
    return report


class _Crawl:
    """Pages in the order of their links from the first page, as many as the site may have; players come last."""

    def __init__(self, site: Site, fetch: Fetch) -> None:
        self._site, self._fetch = site, fetch
        self._queue = deque(["/"])
        self._players: deque[str] = deque()
        self._compared = {links.head_to_head(*pair) for pair in site.pairs}
        self._known = {*self._queue}
        self._copied = self._matches = 0
        self.assets: dict[str, bool] = {}
        self.addresses: dict[str, None] = {}

    @property
    def waiting(self) -> int:
        """Number of pages that are still to be copied."""
        return min(len(self._queue) + len(self._players), self._site.pages - self._copied)

    def next(self) -> str | None:
        """Return the next page, or None after the last."""
        queue = self._queue or self._players
        if not queue or self._copied >= self._site.pages:
            return None
        self._copied += 1
        return queue.popleft()

    def copy(self, page: str) -> CopiedPage:
        """Copy a page and follow its links."""
        site = self._site
        copied = copy_page(page, self._fetch_in_environment, site.environment, site.note, site.pairs)
        self.assets |= copied.assets
        for address in copied.addresses:
            self.addresses[address] = None
            target = links.canonical(address, self._site.environment)
            if target is not None and target not in self._known and self._may_follow(page, target):
                self._known.add(target)
                (self._players if re.fullmatch(r"/players/\d+", target) else self._queue).append(target)
        return copied

    def _may_follow(self, page: str, target: str) -> bool:
        """Return whether a link leads to a page of the copy; matches are those of the list, newest first."""
        if "/against/" in target:
            return target in self._compared
        if target.startswith("/matches?"):
            return self._matches < self._site.matches
        if not target.startswith("/matches/"):
            return True
        if not page.startswith("/matches") or page.startswith("/matches/") or self._matches >= self._site.matches:
            return False
        self._matches += 1
        return True

    def _fetch_in_environment(self, address: str) -> str:
        if self._site.several and "environment=" not in address:
            address += f"{'&' if '?' in address else '?'}{urlencode({'environment': self._site.environment})}"
        return self._fetch(address)
