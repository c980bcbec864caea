"""Spans of time on the command line."""

from datetime import timedelta
from typing import Literal

import pytest
import typer
from league_command import Run

from league.cli import spans

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "bare", "span"),
    [
        ("12h", "d", 12 * HOUR),
        ("30d", "h", 720 * HOUR),
        ("8w", "h", 1344 * HOUR),
        ("0.5d", "h", 12 * HOUR),
        ("24", "h", 24 * HOUR),
        ("90", "d", 2160 * HOUR),
        ("1.5", "h", 1.5 * HOUR),
        ("36500d", "h", 876_000 * HOUR),
    ],
)
def test_a_span_is_a_number_with_its_unit_or_in_the_option_s_own(
    text: str, bare: Literal["h", "d"], span: timedelta
) -> None:
    assert spans.read(text, "--older-than", bare, HOUR) == span


@pytest.mark.parametrize("text", ["", "h", "d12", "1 month", "12m", "1h30", "30 D"])
def test_what_is_no_span_is_told_how_to_say_one(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"no span of time; say 12h, 30d or 8w; a plain number is in days"):
        spans.read(text, "--older-than", "d", HOUR)


@pytest.mark.parametrize("text", ["0.5", "-3d", "nan", "inf", "infd", "1e300w", "36501d", "59e-2h"])
def test_a_span_out_of_range_is_told_the_range(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not between 1h and 36500d"):
        spans.read(text, "--older-than", "h", HOUR)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(3600, "1h"), (3601, "1.01h"), (86_400, "24h"), (86_400 * 90, "90d"), (86_400 * 3 + 1, "3.01d")],
)
def test_a_span_is_written_as_it_is_read_and_never_shorter(seconds: int, shown: str) -> None:
    span = timedelta(seconds=seconds)
    assert spans.written(span) == shown
    assert spans.read(shown, "--older-than", "h", timedelta(0)) >= span


@pytest.mark.parametrize(("command_name", "unit", "default"), [("gc", "hours", "24h"), ("prune", "days", "90d")])
def test_both_commands_that_delete_say_their_unit(command: Run, command_name: str, unit: str, default: str) -> None:
    told = " ".join(command(command_name, "--help").out.replace("│", "").split())
    assert f"12h, 30d; a plain number is {unit}." in told
    assert f"[default: {default}]" in told
