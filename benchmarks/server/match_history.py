"""A league with a long history, written directly into its tables: players, one lease and any number of matches.

Each player meets the next twenty in a ring, on both sides, and every tenth match is a training match of the learner.
Scores come from a fixed hash, so that the same numbers give the same league on every database.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, select, text

from arena.ratings.glicko2 import START_DEVIATION, START_RATING, START_VOLATILITY
from league.db.engine import Database
from league.db.models import Draw, Environment, Learner, LearnerProgress, Lease, Match, Period, Player, Worker
from league.services.ratings.period import RatingConfig

ENVIRONMENT = "benchmark"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
NEIGHBOURS = 20

_MATCHES = f"""
INSERT INTO matches (lease_id, sequence, kind, environment, home_id, away_id, score, decisions, reason, seed,
                     learner_step, late, payload_hash, worker_id, reported_at)
WITH RECURSIVE
    place(i) AS (SELECT CAST(:first AS BIGINT) UNION ALL SELECT i + 1 FROM place WHERE i + 1 < :end),
    pairing(i, home, step) AS (
        SELECT i, (i * 7919) % :players, 1 + (i / :players + i) % :reach FROM place
    )
SELECT 'lease', i, CASE WHEN i % 10 = 9 THEN 'training' ELSE 'rating' END, '{ENVIRONMENT}',
       CASE WHEN i % 10 = 9 THEN :learner ELSE :first_player + home END,
       :first_player + (home + step) % :players,
       ((i * 2654435761) / 65536) % 2, 100, 'elimination', i, 0, :late, :payload, 'worker', :now
FROM pairing
"""


def create_players(database: Database, players: int) -> None:
    """Write a learner and its snapshots."""
    made = {"environment": ENVIRONMENT, "signature": "benchmark", "created_at": NOW}
    start = {"start_rating": START_RATING, "start_deviation": START_DEVIATION, "start_volatility": START_VOLATILITY}
    with database.write() as session:
        session.add(Environment(name=ENVIRONMENT, signature="benchmark", created_at=NOW))
        learner = Learner(**made, name="main", role="main")
        session.add_all((learner, Draw(id="draw", distribution={}, created_at=NOW), _worker()))
        session.flush()
        session.add(LearnerProgress(learner_id=learner.id))
        session.add(Player(**made, **start, kind="learner", name="main", card={}, learner_id=learner.id))
        session.flush()
        snapshot = {**made, **start, "kind": "snapshot", "standing": "candidate", "card": {}, "learner_id": learner.id}
        rows = [
            {**snapshot, "name": f"main@{step}", "checkpoint": f"{step:064x}", "step": step} for step in range(players)
        ]
        session.execute(insert(Player), rows)
        first = session.scalars(select(func.min(Player.id))).one()
        session.add(
            Lease(id="lease", worker_id="worker", kind="training", environment=ENVIRONMENT, home_id=first,
                  away_id=first, seed=0, budget=2**31, branch="benchmark", draw_id="draw", granted_at=NOW,
                  expires_at=NOW)
        )  # fmt: skip


def append_matches(database: Database, count: int) -> None:
    """Append matches to the log."""
    with database.write() as session:
        learner = session.scalars(select(func.min(Player.id))).one()
        players = session.scalars(select(func.count()).select_from(Player)).one() - 1
        first = session.scalars(select(func.count()).select_from(Match)).one()
        values: dict[str, Any] = {
            "first": first,
            "end": first + count,
            "players": players,
            "learner": learner,
            "late": False,
        }
        values |= {
            "first_player": learner + 1,
            "reach": min(NEIGHBOURS, players - 1),
            "payload": b"\0" * 16,
            "now": NOW,
        }
        session.execute(text(_MATCHES).bindparams(bindparam("now", type_=Match.reported_at.type)), values)
    with database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("ANALYZE"))


def write_periods(database: Database, rule: RatingConfig, period_matches: int) -> int:
    """Write rating periods of `period_matches` matches without ratings; return their number."""
    with database.write() as session:
        last = session.scalar(select(func.max(Match.id))) or 0
        ends = [*range(period_matches, last, period_matches), last]
        common = {
            "environment": ENVIRONMENT,
            "matches": 0,
            "players": 0,
            "rule": rule.stored(),
            "reason": "",
            "closed_at": NOW,
        }
        rows = [{**common, "number": number, "last_match_id": end} for number, end in enumerate(ends, start=1)]
        session.execute(insert(Period), rows)
    return len(ends)


def _worker() -> Worker:
    return Worker(
        id="worker", name="worker", kind="evaluator", version="1", signatures=["benchmark"], command="continue",
        registered_at=NOW, seen_at=NOW,
    )  # fmt: skip
