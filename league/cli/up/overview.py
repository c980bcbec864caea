"""What is worth seeing of a running league, and what changed between two looks."""

from collections.abc import Sequence
from dataclasses import dataclass

from league import wire
from league.cli.tables import display_name, period_line, rating
from league.client import LeagueClient
from league.errors import UnknownEnvironmentError


@dataclass(frozen=True)
class SnapshotCount:
    """How many snapshots there are; the next count goes on at the last page, since snapshots are never deleted."""

    total: int
    before_last_page: int
    last_page: str | None


@dataclass(frozen=True)
class Overview:
    """One look at an environment of the league; `learner`, `newest` and `period` are none until there is one."""

    standings: Sequence[wire.StandingsItem]
    learner: wire.Learner | None
    newest: wire.Player | None
    snapshots: SnapshotCount
    period: wire.RatingPeriod | None


NOTHING_YET = Overview(standings=(), learner=None, newest=None, snapshots=SnapshotCount(0, 0, None), period=None)


def look(client: LeagueClient, environment: str, learner_name: str, rows: int, before: Overview) -> Overview:
    """Fetch the top of the league table, the learner with its newest snapshot, and the last rating period."""
    try:
        learners = client.learners(environment, limit=1000).items
    except UnknownEnvironmentError:  # the league plays other games so far
        return NOTHING_YET
    if not learners:
        return NOTHING_YET
    learner = next((one for one in learners if one.name == learner_name), None)
    newest_id = None if learner is None else learner.latest_snapshot
    periods = client.periods(environment, limit=1).items
    return Overview(
        standings=client.standings(environment, limit=rows).items,
        learner=learner,
        newest=None if newest_id is None else client.player(newest_id),
        snapshots=_count_snapshots(client, environment, before.snapshots),
        period=periods[0] if periods else None,
    )


def _count_snapshots(client: LeagueClient, environment: str, before: SnapshotCount) -> SnapshotCount:
    counted, cursor = before.before_last_page, before.last_page
    while True:
        page = client.players(environment, kind="snapshot", cursor=cursor)
        if page.next_cursor is None:
            return SnapshotCount(counted + len(page.items), counted, cursor)
        counted, cursor = counted + len(page.items), page.next_cursor


def news(before: Overview, after: Overview) -> list[str]:
    """Say what happened between two looks, a line each: the first metrics, a new snapshot, the first closed period."""
    lines = []
    if after.learner is not None and after.learner.step and not (before.learner and before.learner.step):
        lines.append(f"learner {after.learner.name} at step {after.learner.step:,}")
    if after.newest is not None and (before.newest is None or before.newest.id != after.newest.id):
        lines.append(f"newest snapshot: {display_name(after.newest)}, rating {rating(after.newest)}")
    if after.period is not None and before.period is None:
        lines.append(f"closed {period_line(after.period)}")
    return lines


def progress(overview: Overview) -> list[tuple[str, str]]:
    """Return the learner's measures with their names, as far as it has reported them."""
    learner = overview.learner
    if learner is None:
        return []
    shown = {
        "steps/s": ("charts/SPS", ",.0f"),
        "KL": ("losses/approx_kl", ".4f"),
        "explained variance": ("losses/explained_variance", ".2f"),
        "entropy": ("losses/entropy", ".2f"),
    }
    values = {name: (learner.metrics.get(key), pattern) for name, (key, pattern) in shown.items()}
    measures = [(name, format(value, pattern)) for name, (value, pattern) in values.items() if value is not None]
    return [("steps", f"{learner.step or 0:,}"), *measures, ("snapshots", f"{overview.snapshots.total:,}")]


def win_rates(learner: wire.Learner) -> list[tuple[str, float]]:
    """Return the learner's win rate by opponent."""
    prefix = "win_rate/"
    pairs = learner.metrics.items()
    return [(key.removeprefix(prefix), rate) for key, rate in pairs if key.startswith(prefix) and rate is not None]
