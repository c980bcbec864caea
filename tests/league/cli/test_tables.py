import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from rich.console import Console

from league import wire
from league.cli import tables

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def five_hours_west(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XYZ5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def event(kind: str, **details: object) -> wire.Event:
    return wire.Event(
        id=97,
        kind=kind,
        environment="mech-company",
        player_id=1234,
        actor="league rebuild",
        reason="suspicious",
        details=details,
        created_at=NOON,
    )


def printed(width: int, *rows: wire.Event) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(tables.events(rows, "nothing"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_narrow_terminal_cuts_nothing_of_the_audit_log_short(width: int) -> None:
    text = printed(width, event("reinstate-worker", worker_id="3116273f82521fec", since="2030-01-31T12:00:00+00:00"))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for shown in ("97", "mech-company", "1234", "suspicious"):
        assert shown in text


@pytest.mark.usefixtures("five_hours_west")
def test_times_are_this_machine_s_as_options_read_them() -> None:
    assert "2030-01-31 07:00:00" in printed(tables.PIPED_WIDTH, event("promote"))
    assert tables.moment(NOON) == "2030-01-31 07:00:00"
