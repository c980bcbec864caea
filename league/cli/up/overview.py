"""State of a running league for the live screen, and the changes between two polls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from league import wire
from league.cli.analysis import score
from league.cli.output.tables import display_name, period_line, rating
from league.client import LeagueClient
from league.errors import UnknownEnvironmentError


@dataclass(frozen=True)
class SnapshotCount:
    """Number of snapshots; the next count resumes at the last page, because snapshots are never deleted."""

    total: int
    before_last_page: int
    last_page: str | None


@dataclass(frozen=True)
class Overview:
    """State of one environment of the league.

    Attributes:
        standings: First rows of the standings.
        more: Whether the standings have more rows.
        learners: Registered learners, in the order of `names`.
        newest: Newest snapshot by learner id.
        snapshots: Number of snapshots of all learners.
        period: The last rating period, or None.
        regressions: Active regression alarms.
    """

    standings: Sequence[wire.StandingsItem]
    more: bool
    learners: Sequence[wire.Learner]
    newest: Mapping[int, wire.Player]
    snapshots: SnapshotCount
    period: wire.RatingPeriod | None
    regressions: Sequence[wire.Regression]

    @property
    def learner(self) -> wire.Learner | None:
        """The first of the learners."""
        return self.learners[0] if self.learners else None


EMPTY = Overview(
    standings=(), more=False, learners=(), newest={}, snapshots=SnapshotCount(0, 0, None), period=None, regressions=()
)


def fetch(client: LeagueClient, environment: str, names: Sequence[str], rows: int, before: Overview) -> Overview:
    """Fetch the top of the standings, learners with their newest snapshots, the last rating period and alarms."""
    try:
        known = {learner.name: learner for learner in client.learners(environment, limit=1000).items}
    except UnknownEnvironmentError:  # no learner is registered yet
        return EMPTY
    if not known:
        return EMPTY
    learners = [known[name] for name in names if name in known]
    newest = {learner.id: learner.latest_snapshot for learner in learners if learner.latest_snapshot is not None}
    periods = client.periods(environment, limit=1).items
    table = client.standings(environment, limit=rows)
    return Overview(
        standings=table.items,
        more=table.next_cursor is not None,
        learners=learners,
        newest={learner_id: client.player(player_id) for learner_id, player_id in newest.items()},
        snapshots=_count_snapshots(client, environment, before.snapshots),
        period=periods[0] if periods else None,
        regressions=client.regressions(environment).items,
    )


def _count_snapshots(client: LeagueClient, environment: str, before: SnapshotCount) -> SnapshotCount:
    # Only the last page is read again: a league may have thousands of snapshots, and this runs every two seconds.
    counted, cursor = before.before_last_page, before.last_page
    while True:
        page = client.players(environment, kind="snapshot", cursor=cursor)
        if page.next_cursor is None:
            return SnapshotCount(counted + len(page.items), counted, cursor)
        counted, cursor = counted + len(page.items), page.next_cursor


def changes(before: Overview, after: Overview) -> list[str]:
    """Return one line per change between two polls.

    Changes are first metrics, snapshots, resets, the first period, and alarms that were raised or cleared.
    """
    known = {learner.id: learner for learner in before.learners}
    lines = []
    for learner in after.learners:
        lines += _learner_changes(known.get(learner.id), learner)
        newest, last = after.newest.get(learner.id), before.newest.get(learner.id)
        if newest is not None and (last is None or last.id != newest.id):
            lines.append(f"newest snapshot: {display_name(newest)}, rating {rating(newest)}")
    if after.period is not None and before.period is None:
        lines.append(period_line(after.period))
    return lines + _alarm_changes(_alarms(before), _alarms(after))


def _alarms(overview: Overview) -> dict[tuple[int, int], wire.Regression]:
    """Return the alarms by learner and snapshot."""
    return {(each.learner.player_id, each.opponent.player_id): each for each in overview.regressions}


def _alarm_changes(
    before: Mapping[tuple[int, int], wire.Regression], after: Mapping[tuple[int, int], wire.Regression]
) -> list[str]:
    raised = [
        f"alarm: {each.learner.name} loses to {each.opponent.name}, which it used to defeat: "
        f"score {score(each.earlier)}, then {score(each.recent)}"
        for pair, each in after.items()
        if pair not in before
    ]
    cleared = [
        f"alarm cleared: {each.learner.name} against {each.opponent.name}"
        for pair, each in before.items()
        if pair not in after
    ]
    return raised + cleared


def _learner_changes(before: wire.Learner | None, after: wire.Learner) -> list[str]:
    lines = []
    if after.step and not (before and before.step):
        lines.append(f"learner {after.name} at step {after.step:,}")
    if before is not None and after.resets > before.resets:
        lines.append(f"learner {after.name} ({after.role}) reset at step {after.began_step:,}")
    return lines


def progress(overview: Overview) -> list[tuple[str, str]]:
    """Return the names and values of the learner's reported metrics."""
    learner = overview.learner
    if learner is None:
        return []
    shown = {
        "steps/s": ("charts/SPS", ",.0f"),
        "KL": ("losses/approx_kl", ".4f"),
        "explained variance": ("losses/explained_variance", ".2f"),
        "entropy": ("losses/normalized_entropy", ".2f"),
    }
    values = {name: (learner.metrics.get(key), pattern) for name, (key, pattern) in shown.items()}
    measures = [(name, format(value, pattern)) for name, (value, pattern) in values.items() if value is not None]
    return [("steps", f"{learner.step or 0:,}"), *measures, ("snapshots", f"{overview.snapshots.total:,}")]


def win_rates(learner: wire.Learner) -> list[tuple[str, float]]:
    """Return the learner's win rate by opponent."""
    prefix = "win_rate/"
    pairs = learner.metrics.items()
    return [(key.removeprefix(prefix), rate) for key, rate in pairs if key.startswith(prefix) and rate is not None]
