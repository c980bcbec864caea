"""Spans of time on the command line."""

from datetime import timedelta
from pathlib import Path

import pytest
import typer
from league_command import Run
from refused import refused

from league.cli.output import durations

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("12h", 12 * HOUR),
        ("30d", 720 * HOUR),
        ("8w", 1344 * HOUR),
        ("0.5d", 12 * HOUR),
        ("36500d", 876_000 * HOUR),
    ],
)
def test_a_span_is_a_number_with_its_unit(text: str, span: timedelta) -> None:
    assert durations.parse_span(text, "--older-than", HOUR) == span


@pytest.mark.parametrize("text", ["30", "24", "1.5", "-3", "0", "nan", "inf"])
def test_a_plain_number_is_refused_with_both_spans_it_could_mean(text: str) -> None:
    with pytest.raises(typer.BadParameter) as refusal:
        durations.parse_span(text, "--older-than", HOUR)
    assert f"{text!r} has no unit" in str(refusal.value)
    assert f"--older-than {text}d or {text}h" in str(refusal.value)


@pytest.mark.parametrize("text", ["", "h", "d12", "1 month", "12m", "1h30", "30 D"])
def test_text_that_is_not_a_span_is_refused_with_examples(text: str) -> None:
    with refused(typer.BadParameter, f"{text!r}", "--older-than"):
        durations.parse_span(text, "--older-than", HOUR)


@pytest.mark.parametrize("text", ["0.5h", "-3d", "nanh", "infd", "1e300w", "36501d", "59e-2h"])
def test_a_span_out_of_range_is_refused_with_the_range(text: str) -> None:
    with refused(typer.BadParameter, "1h", "36500d"):
        durations.parse_span(text, "--older-than", HOUR)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(3600, "1h"), (3601, "1.01h"), (86_400, "24h"), (86_400 * 90, "90d"), (86_400 * 3 + 1, "3.01d")],
)
def test_a_span_is_written_as_it_is_read_and_never_shorter(seconds: int, shown: str) -> None:
    span = timedelta(seconds=seconds)
    assert durations.format_span(span) == shown
    assert durations.parse_span(shown, "--older-than", timedelta(0)) >= span


@pytest.mark.parametrize("command_name", ["gc", "prune"])
def test_gc_and_prune_refuse_a_number_without_a_unit(command: Run, command_name: str, tmp_path: Path) -> None:
    outcome = command("admin", command_name, "--older-than", "30", "--home", tmp_path)
    assert outcome.code == 2
    assert "'30' has no unit" in outcome.err
    assert "--older-than 30d or 30h" in " ".join(outcome.err.replace("│", "").split())
