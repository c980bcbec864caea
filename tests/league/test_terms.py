"""What a process remembers of what results are judged by."""

from datetime import UTC, datetime, timedelta

import pytest
from league_scene import ON_SQLITE, Scene
from sqlalchemy import event

from league.db.engine import Database
from league.services.terms import UNDECLARED, TermsCache

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@ON_SQLITE
@pytest.mark.parametrize(
    ("at", "asked"),
    [
        pytest.param((0.0, 0.0, 0.9), 1, id="a moment"),
        pytest.param((0.0, 1.0, 1.5), 2, id="later again"),
        pytest.param((0.0, -1.0, -0.5), 2, id="the clock was set back"),
    ],
)
def test_a_game_without_a_limit_is_asked_about_once_a_moment(
    scene: Scene, database: Database, at: tuple[float, ...], asked: int
) -> None:
    cache, statements = TermsCache(), []
    event.listen(database.engine, "before_cursor_execute", lambda *_: statements.append(1))
    with database.read() as session:
        session.connection()  # which begins the transaction
        statements.clear()
        for moments in at:
            now = NOW + timedelta(seconds=moments * UNDECLARED.total_seconds())
            assert cache.limits(session, {(scene.environment, scene.signature)}, now) == {}
    assert len(statements) == asked
