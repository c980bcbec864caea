import io
import re
import resource
import signal
import time

import pytest
from refused import refused
from rich.console import Console

from trainer.monitoring import console as module
from trainer.monitoring.console import Goal, RunConsole, progress_parts
from trainer.shutdown import ShutdownSignals

METRICS = {
    "charts/SPS": 1000.0,
    "charts/rollout_s": 3.0,
    "charts/update_s": 6.0,
    "charts/league_s": 1.0,
    "losses/approx_kl": 0.0123,
    "losses/explained_variance": None,
    "losses/normalized_entropy": 1.234,
    "charts/score": 0.5,
    "win_rate/random": 0.9,
    "win_rate/main": 0.5,
}


def line_of(goal, **console):
    stream = io.StringIO()
    RunConsole(Console(file=stream, **console)).progress(3, 2000, goal, METRICS)
    return stream.getvalue()


def test_a_progress_line_has_the_most_important_metrics():
    assert line_of(Goal(12_000, ends=True)) == (
        "update 3 · steps 2,000 (16%) · ETA 0:00:10 · score 0.50 · steps/s 1,000"
        " · KL 0.0123 · EV - · entropy 1.23 · time 30/60/10% · main 0.50 · random 0.90\n"
    )


def test_without_an_end_the_line_has_the_time_to_the_horizon():
    assert "steps 2,000 · horizon 0:00:18 · score" in line_of(Goal(20_000, ends=False))
    assert "steps 2,000 · horizon passed · score" in line_of(Goal(1_500, ends=False))


def test_100_percent_is_shown_at_the_end_only():
    assert dict(progress_parts(1, 9_999, Goal(10_000, ends=True), 0.0, {}))["steps"] == "9,999 (99%)"
    assert dict(progress_parts(1, 10_001, Goal(10_000, ends=True), 0.0, {}))["steps"] == "10,001 (100%)"


@pytest.mark.parametrize("ends", [True, False])
def test_80_columns_have_the_score_and_the_speed_of_a_long_run(ends):
    stream = io.StringIO()
    terminal = RunConsole(Console(file=stream, width=80, force_terminal=True, color_system=None))
    terminal.progress(1_507, 12_345_678, Goal(20_000_000, ends=ends), METRICS | {"charts/SPS": 16_543.2})
    assert stream.getvalue().endswith("score 0.50 · steps/s 16,543\n")


def test_the_time_left_uses_the_median_of_the_latest_speeds():
    stream = io.StringIO()
    terminal = RunConsole(Console(file=stream))
    for speed in (1000.0, 1.0, 1000.0):
        terminal.progress(1, 2000, Goal(12_000, ends=True), {"charts/SPS": speed})
    assert stream.getvalue().splitlines()[-1].startswith("update 1 · steps 2,000 (16%) · ETA 0:00:10 ·")


def test_unknown_values_are_dashes():
    parts = dict(progress_parts(1, 0, Goal(10, ends=True), 0.0, {}))
    assert (parts["ETA"], parts["score"], parts["KL"]) == ("-", "-", "-")
    assert "time" not in parts


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_line_fits_the_window_and_is_whole_in_a_file(width):
    shown = line_of(Goal(12_000, ends=True), width=width, force_terminal=True, color_system=None)
    assert len(shown.rstrip("\n")) <= width
    assert shown.startswith("update 3 · steps 2,000 (16%) · ETA 0:00:10")
    assert shown.rstrip("\n").split(" · ")[-1] in line_of(Goal(12_000, ends=True)).rstrip("\n").split(" · ")
    assert "random 0.90" in line_of(Goal(12_000, ends=True), width=20)
    assert ("KL 0.0123" in shown) == (width >= 100)


def test_colours_are_for_terminals_alone():
    assert "\x1b[" in line_of(Goal(9, ends=True), force_terminal=True, color_system="standard", _environ={})
    assert "\x1b[" not in line_of(Goal(9, ends=True))


def test_lines_are_printed_later_if_the_disk_is_full(tmp_path):
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    lines = [f"line {number} {40 * 'x'}" for number in range(300)]
    with (tmp_path / "log").open("w") as log:
        terminal = RunConsole(Console(file=log, soft_wrap=True))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
        try:
            for line in lines:
                terminal.print(line)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        terminal.print("there is room")
    assert {*lines, "there is room"} == {*(tmp_path / "log").read_text().splitlines()}


class Interrupted(io.RawIOBase):
    """Where a signal comes in the middle of the first write."""

    def __init__(self):
        self.written = b""

    def writable(self):
        return True

    def write(self, data):
        first, self.written = not self.written, self.written + bytes(data)
        if first:
            signal.raise_signal(signal.SIGINT)
        return len(data)


def test_a_line_printed_by_a_signal_handler_follows_the_current_line():
    raw = Interrupted()
    terminal = RunConsole(Console(file=io.TextIOWrapper(io.BufferedWriter(raw))))
    with ShutdownSignals(terminal.print).entered() as outside:
        terminal.print("update 1")
    assert outside.stopping()
    assert raw.written == b"update 1\nSIGINT: saving before exit; send it again to exit at once\n"
    terminal.print("saved")
    assert raw.written.endswith(b"\nsaved\n")


def test_a_terminal_prints_names_as_they_are():
    stream = io.StringIO()
    RunConsole(Console(file=stream, width=40)).print("[bold]main[/bold] " + "x" * 60)
    assert stream.getvalue() == "[bold]main[/bold] " + "x" * 60 + "\n"


@pytest.mark.parametrize("console", [{}, {"force_terminal": True, "_environ": {}}])
def test_long_steps_print_elapsed_time_and_short_ones_do_not(monkeypatch, console):
    monkeypatch.setattr(module, "REPEAT_S", 0.05)
    stream = io.StringIO()
    terminal = RunConsole(Console(file=stream, width=80, **console))
    with terminal.waiting("first rollout", "kernels are compiled"):
        while not re.search(r"first rollout: \d+ s", stream.getvalue()):
            time.sleep(0.01)
    quick = io.StringIO()
    with RunConsole(Console(file=quick)).waiting("opening", "kernels"):
        pass
    assert quick.getvalue() == "opening; kernels\n"


def test_a_failure_ends_the_elapsed_time():
    with (
        refused(ValueError, "broken"),
        RunConsole(Console(file=io.StringIO())).waiting("opening", "kernels"),
    ):
        raise ValueError("broken")
