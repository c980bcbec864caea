"""What a long computation rests on."""

from datetime import UTC, datetime

from league_scene import ON_SQLITE
from sqlalchemy import insert
from sqlalchemy.orm import Session
from sqlite_steps import steps

from league.db.engine import Database
from league.db.models import Event
from league.services.ratings import input_version
from league.services.ratings.input_version import InputVersion


def write(database: Database, *kinds: str) -> None:
    about = {"environment": "rps", "player_id": None, "actor": "rule", "reason": "", "details": {}}
    about["created_at"] = datetime(2030, 1, 1, tzinfo=UTC)
    with database.write() as session:
        session.execute(insert(Event), [about | {"kind": kind} for kind in kinds])


@ON_SQLITE
def test_the_last_disturbance_is_found_below_any_number_of_closed_periods(database: Database) -> None:
    def read(session: Session) -> InputVersion:
        return input_version.read(session, "rps")

    write(database, "quarantine-worker", *100 * ["period"])
    few = steps(database, read)
    write(database, *900 * ["period"])
    assert 0 < steps(database, read) == few
    with database.read() as session:
        assert read(session) == InputVersion(period_id=0, event_id=1)
