"""What is worth seeing of a running league, and what changed between two looks."""

from collections.abc import Sequence
from dataclasses import dataclass

from league import wire
from league.cli.tables import display_name, period_line, rating
from league.client import LeagueClient
from league.errors import UnknownEnvironmentError


@dataclass(frozen=True)
class Overview:
    """One look at an environment of the league; `learner` and `period` are none until there is one."""

    standings: Sequence[wire.StandingsItem]
    learner: wire.Learner | None
    snapshot: wire.Player | None
    period: wire.RatingPeriod | None


NOTHING_YET = Overview(standings=(), learner=None, snapshot=None, period=None)


def look(client: LeagueClient, environment: str, learner_name: str, rows: int) -> Overview:
    """Fetch the top of the league table, the learner with its newest snapshot, and the last rating period."""
    try:
        learners = client.learners(environment, limit=1000).items
        periods = client.periods(environment, limit=1).items
        table = client.standings(environment, limit=rows).items
    except UnknownEnvironmentError:
        return NOTHING_YET
    learner = next((one for one in learners if one.name == learner_name), None)
    newest = None if learner is None else learner.latest_snapshot
    snapshot = None if newest is None else client.player(newest)
    return Overview(table, learner, snapshot, periods[0] if periods else None)


def news(before: Overview, after: Overview) -> list[str]:
    """Say in one line each what happened between two looks: a first rollout, a new snapshot, a closed period."""
    lines = []
    if after.learner is not None and after.learner.step and not (before.learner and before.learner.step):
        lines.append(f"learner {after.learner.name}: first metrics at step {after.learner.step:,}")
    if after.snapshot is not None and (before.snapshot is None or before.snapshot.id != after.snapshot.id):
        lines.append(f"newest snapshot: {display_name(after.snapshot)}, rating {rating(after.snapshot)}")
    if after.period is not None and (before.period is None or before.period.id != after.period.id):
        lines.append(f"closed {period_line(after.period)}")
    return lines


def progress(learner: wire.Learner) -> list[tuple[str, str]]:
    """Return the learner's measures with their names, as far as it has reported them."""
    shown = {
        "steps/s": ("charts/SPS", ",.0f"),
        "KL": ("losses/approx_kl", ".4f"),
        "explained variance": ("losses/explained_variance", ".2f"),
        "entropy": ("losses/entropy", ".2f"),
    }
    measures = [("steps", f"{learner.step or 0:,}")]
    for name, (key, pattern) in shown.items():
        value = learner.metrics.get(key)
        if value is not None:
            measures.append((name, format(value, pattern)))
    return measures


def win_rates(learner: wire.Learner) -> list[tuple[str, float]]:
    """Return the learner's win rate by opponent."""
    prefix = "win_rate/"
    pairs = learner.metrics.items()
    return [(key.removeprefix(prefix), rate) for key, rate in pairs if key.startswith(prefix) and rate is not None]
