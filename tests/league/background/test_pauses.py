"""How a process of the books ends at once, and how long the server waits before it starts another."""

import pytest

from league.background import process as background_process
from league.background.process import next_pause_s
from league.db.engine import Database


def test_the_pause_between_processes_that_end_soon_doubles_up_to_a_minute() -> None:
    pauses = [2.0]
    while len(pauses) < 8:
        pauses.append(next_pause_s(2.0, pauses[-1], lasted_s=59.0))
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert next_pause_s(2.0, pauses[-1], lasted_s=60.0) == 2.0


def test_background_tasks_pause_while_the_database_is_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/league")
    with pytest.raises(SystemExit) as ended:
        background_process._require_schema(away)
    away.close()
    assert ended.value.code == 1
    (record,) = (each for each in caplog.records if each.name == background_process.__name__)
    assert record.getMessage().startswith("background tasks cannot run: connection failed: ")
    assert record.exc_info is None
