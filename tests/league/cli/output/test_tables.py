import errno
import io
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from league_command import Run
from rich.console import Console

from league import wire
from league.cli import main
from league.cli.maintenance import audit
from league.cli.maintenance.rating_periods import comparison_grid
from league.cli.output import tables
from league.services.rating_periods.what_if import Backtest, Comparison, Line, Place

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
    console.print(audit.grid(rows, "nothing"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_event_details_are_formatted_for_readers() -> None:
    rule = {"steps": 256, "win_rate": 0.7, "start": "first"}
    told = event(
        "snapshot", chance=0.5784947216061566, rule=rule, reset=False, seen=[1, 2], spent_s=123456.7, left=None
    )
    (row,) = audit.grid([told], "nothing").rows
    assert row[-1] == (
        "suspicious; chance 0.5785, rule (steps 256, win_rate 0.7, start first), reset no, seen (1, 2), spent_s 123457"
    )


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


def test_a_full_disk_is_one_line(command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tables, "show", full)
    outcome = command("settings", "--home", tmp_path)
    assert outcome.code == 1
    assert "No space left on device; free some disk space" in outcome.one_line_error


def test_unencodable_characters_are_printed_as_question_marks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with pytest.raises(SystemExit) as ended:
        main(["settings", "--home", str(tmp_path)])
    assert ended.value.code == 0
    assert b"LEAGUE_STORE_URL" in written.getvalue()
    assert b" ? " in written.getvalue()


@pytest.mark.parametrize(("points", "shown"), [(-0.4, "0"), (0.4, "0"), (0.0, "0"), (-0.6, "-1"), (12.3, "+12")])
def test_a_change_of_less_than_half_a_point_has_no_sign(points: float, shown: str) -> None:
    present = Place(rank=1, rating=1500.0, deviation=60.0, games=20)
    proposed = Place(rank=1, rating=1500.0 + points, deviation=60.0, games=20)
    course = Backtest(config_id="0", config={}, periods=1, log_loss=None)
    line = Line(1, "main", "learner", present, proposed)
    grid = comparison_grid(Comparison("rps", course, course, [line]))
    assert grid.rows[0][-2] == shown
