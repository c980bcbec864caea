"""Progress of lineages: the current ratings of a learner's snapshots, in the order of their publication.

All snapshots are rated on one scale, so a curve that rises means that a learner gets stronger. A rating over periods
would also move because the opponents change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from league.services.leaderboard.standings import Standings, StandingsRow


@dataclass(frozen=True)
class LineageProgress:
    """Rated snapshots of a learner, oldest first; at least one."""

    learner_id: int
    name: str
    snapshots: Sequence[StandingsRow]

    @property
    def newest(self) -> StandingsRow:
        """The snapshot that was published last."""
        return self.snapshots[-1]

    @property
    def best(self) -> float:
        """The highest rating - 2 RD of a snapshot."""
        return max(each.rating - 2.0 * each.deviation for each in self.snapshots)

    def gain(self, since: datetime) -> float | None:
        """Return by how much the newest snapshot is rated above the newest one at a time; None without one."""
        earlier = [each for each in self.snapshots if each.created_at <= since]
        return self.newest.rating - earlier[-1].rating if earlier else None


def by_lineage(table: Standings) -> list[LineageProgress]:
    """Return the progress of all learners with rated snapshots, the strongest first; quarantined ones do not count."""
    snapshots: dict[int, list[StandingsRow]] = {}
    for row in table.rows:
        if row.kind == "snapshot" and row.learner_id is not None and row.games and row.standing != "quarantined":
            snapshots.setdefault(row.learner_id, []).append(row)
    found = [
        LineageProgress(learner_id, rows[0].lineage or "", sorted(rows, key=lambda row: (row.created_at, row.id)))
        for learner_id, rows in snapshots.items()
    ]
    return sorted(found, key=lambda each: -each.best)
