"""The database itself refuses values that no row may have."""

from typing import Any

import pytest
from league_scene import Scene
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from league.db.engine import Database
from league.db.models import Learner, Lease, Match, Player, Worker


@pytest.mark.parametrize(
    ("table", "values", "constraint"),
    [
        (Match, {"score": 1.01}, "score"),
        (Match, {"score": -0.01}, "score"),
        (Match, {"sequence": -1}, "sequence"),
        (Match, {"decisions": 0}, "decisions"),
        (Match, {"kind": "friendly"}, "kind"),
        (Match, {"kind": "rating", "home_id": Match.away_id}, "two_players"),
        (Lease, {"budget": 0}, "budget"),
        (Lease, {"state": "lost"}, "state"),
        (Lease, {"learner_side": "left"}, "side"),
        (Player, {"kind": "human"}, "kind"),
        (Player, {"role": "coach"}, "role"),
        (Player, {"standing": "star"}, "standing"),
        (Player, {"kind": "snapshot", "checkpoint": None}, "checkpoint"),
        (Player, {"kind": "baseline", "standing": "candidate"}, "standing_of_kind"),
        (Learner, {"role": "coach"}, "role"),
        (Worker, {"kind": "spectator"}, "kind"),
        (Worker, {"command": "run"}, "command"),
    ],
)
def test_a_value_that_no_row_may_have_is_refused(
    scene: Scene, database: Database, table: Any, values: dict[str, Any], constraint: str
) -> None:
    scene.publish(1)
    scene.train(1)
    with database.read() as session:
        assert session.scalars(select(table).limit(1)).first() is not None
    with pytest.raises(IntegrityError, match=constraint), database.write() as session:
        session.execute(update(table).values(values).execution_options(synchronize_session=False))
