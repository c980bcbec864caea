"""What `league up` shows: the live table, the plain lines, the changes between two polls."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from league_scene import Scene
from rich.console import Console

from league import wire
from league.cli.output.tables import NONE
from league.cli.up.overview import EMPTY, Overview, SnapshotCount, changes, fetch
from league.cli.up.screen import Part, PlainLog, View, fit, paint, progress_line
from league.client import LeagueClient

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def line_of_table(**changes: Any) -> wire.StandingsItem:
    fields: dict[str, Any] = {
        "id": 7, "kind": "snapshot", "name": "main@500000", "call_sign": "Iron Falcon", "environment": "mech-duel",
        "signature": "s", "role": "main", "standing": "commander", "checkpoint": "0" * 64, "rating": 1623.4,
        "deviation": 42.1, "volatility": 0.06, "conservative": 1539.2, "games": 120, "provisional": False,
        "learner_id": 1, "parent_id": None, "step": 500_000, "metadata": {}, "created_at": NOON, "rank": 1,
        "win_rate": 0.615,
    }  # fmt: skip
    return wire.StandingsItem(**{**fields, **changes})


def learner_with(metrics: dict[str, float | None], step: int | None = 123_456) -> wire.Learner:
    return wire.Learner(
        id=1, player_id=1, name="main", role="main", environment="mech-duel", signature="s", step=step,
        metrics=metrics, metrics_at=NOON, latest_snapshot=7, created_at=NOON,
    )  # fmt: skip


def period(number: int) -> wire.RatingPeriod:
    return wire.RatingPeriod(
        id=number,
        version=1,
        number=number,
        environment="mech-duel",
        matches=240,
        players=6,
        config_id="0123abcd",
        config={},
        refitted=False,
        closed_at=NOON,
        reason="closed: game threshold reached",
    )


def regression(opponent: str, number: int) -> wire.Regression:
    return wire.Regression(
        environment="mech-duel",
        learner=wire.PlayerName(player_id=1, name="main"),
        opponent=wire.PlayerName(player_id=number, name=opponent),
        earlier=wire.Score(matches=60, score=0.8, low=0.68, high=0.88),
        recent=wire.Score(matches=60, score=0.2, low=0.12, high=0.32),
        since=NOON,
    )


METRICS: dict[str, float | None] = {
    "charts/SPS": 5812.3,
    "losses/approx_kl": 0.01134,
    "losses/explained_variance": 0.43,
    "losses/normalized_entropy": None,
    "win_rate/random": 0.981,
}


@pytest.fixture
def full() -> Overview:
    newest = {1: line_of_table()}
    return Overview([line_of_table()], False, [learner_with(METRICS)], newest, SnapshotCount(5, 0, None), period(3), ())


@pytest.fixture
def view(full: Overview) -> View:
    parts = [Part("server", "running", 0), Part("trainer", "restarting", 2)]
    tail = ("compiling [kernels]",)
    return View("http://127.0.0.1:8000", Path("var"), "mech-duel", NOON, 3725.0, parts, full, tail, "")


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=120, height=30, force_terminal=False)


@pytest.fixture
def printed(console: Console) -> Callable[[], str]:
    def read() -> str:
        stream = console.file
        assert isinstance(stream, io.StringIO)
        return stream.getvalue()

    return read


def test_the_table_shows_rating_with_two_deviations_and_games(
    view: View, console: Console, printed: Callable[[], str]
) -> None:
    console.print(paint(view))
    row = next(line for line in printed().splitlines() if "Iron Falcon" in line)
    for shown in ("1", "Iron Falcon (main@500000)", "snapshot", "commander", "1623 ± 84", "42", "120", "61.5 %"):
        assert shown in row


def test_the_learner_is_shown_with_the_metrics_it_reported_and_no_others(
    view: View, console: Console, printed: Callable[[], str]
) -> None:
    console.print(paint(view))
    text = printed()
    for shown in (
        "steps 123,456",
        "steps/s 5,812",
        "KL 0.0113",
        "explained variance 0.43",
        "snapshots 5",
        "random 98.1 %",
    ):
        assert shown in text
    assert "entropy" not in text
    assert "240 matches, 6 players (game threshold reached)" in text
    assert "trainer restarting (restarted 2x)" in text


def test_several_learners_are_shown_with_role_and_new_beginnings(
    view: View, full: Overview, console: Console, printed: Callable[[], str]
) -> None:
    exploiter = learner_with({}).model_copy(
        update={"id": 2, "name": "finder", "role": "main_exploiter", "step": 90_000, "resets": 3, "began_step": 80_000}
    )
    both = replace(full, learners=[*full.learners, exploiter])
    console.print(paint(replace(view, overview=both)))
    (row,) = [line.split() for line in printed().splitlines() if "finder" in line]
    assert row == ["2", "finder", "main_exploiter", "90,000", NONE, "3", "80,000"]
    before = replace(both, learners=[*full.learners, exploiter.model_copy(update={"resets": 2})])
    assert changes(before, both) == ["learner finder (main_exploiter) reset at step 80,000"]
    assert "finder 90,000" in progress_line(replace(view, overview=both))


def test_before_any_metrics_the_log_is_shown_as_it_is(view: View, console: Console, printed: Callable[[], str]) -> None:
    console.print(paint(replace(view, overview=EMPTY, note="the server does not respond")))
    assert "compiling [kernels]" in printed()
    assert "the server does not respond" in printed()


def table_of(count: int) -> list[wire.StandingsItem]:
    return [line_of_table(rank=rank, name=f"main@{rank}", call_sign=None) for rank in range(1, count + 1)]


def lines_of(view: View, console: Console) -> list[str]:
    return ["".join(segment.text for segment in line) for line in console.render_lines(fit(view, console))]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 15), (200, 60)])
@pytest.mark.parametrize("count", [1, 5, 17, 60])
def test_truncated_live_table_shows_the_hidden_row_count(
    view: View, full: Overview, width: int, height: int, count: int
) -> None:
    console = Console(file=io.StringIO(), width=width, height=height)
    text = lines_of(replace(view, overview=replace(full, standings=table_of(count))), console)
    shown = sum(1 for line in text if re.search(r"main@\d+ .*1623 ± 84", line))
    noun = "row" if count - shown == 1 else "rows"
    told = f"{count - shown} more {noun}: enlarge the window or run `league standings`"
    assert shown >= 1
    assert ([told] if shown < count else []) == [line.strip() for line in text if "enlarge the window" in line]
    assert len(text) < height


def test_many_opponents_hide_neither_the_note_nor_the_table_at_80x24(view: View, full: Overview) -> None:
    rates: dict[str, float | None] = {f"win_rate/main@{step * 512}": step / 50 for step in range(50, 0, -1)}
    overview = replace(full, standings=table_of(50), learners=[learner_with({**METRICS, **rates})])
    note = "stopping: waiting for trainer, evaluator; killed in 9 s, or at Ctrl-C"
    text = lines_of(replace(view, overview=overview, note=note), Console(file=io.StringIO(), width=80, height=24))
    assert len(text) < 24
    assert note in [line.strip() for line in text[:4]]
    assert any("win rate, lowest of 51: main@512 2.0 %  main@1024 4.0 %" in line for line in text)
    assert sum(1 for line in text if re.search(r"main@\d+ .*1623 ± 84", line)) >= 6


def test_rows_are_hidden_only_where_there_is_no_room(view: View, full: Overview) -> None:
    """The cut table fills the window to the last line but one."""
    console = Console(file=io.StringIO(), width=120, height=24)
    assert len(lines_of(replace(view, overview=replace(full, standings=table_of(60))), console)) == console.height - 1


def test_table_beyond_the_page_limit_is_marked(view: View, full: Overview) -> None:
    console = Console(file=io.StringIO(), width=80, height=24)
    text = lines_of(replace(view, overview=replace(full, standings=table_of(200), more=True)), console)
    assert [line for line in text if re.match(r"more than 1\d\d more rows: ", line)]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_live_view_fits_the_terminal_and_keeps_the_learner_in_sight(view: View, full: Overview, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=30)
    crowded = replace(view, overview=replace(full, standings=table_of(30)), note="a note")
    lines = lines_of(crowded, console)
    assert len(lines) < console.height
    assert any("learner main" in line for line in lines)
    assert any("a note" in line for line in lines)
    assert [line for line in lines if line.strip().startswith("3 ")]


def test_metrics_of_an_earlier_run_do_not_hide_the_log(
    view: View, console: Console, printed: Callable[[], str]
) -> None:
    console.print(paint(replace(view, began_at=NOON + timedelta(seconds=1))))
    assert "compiling [kernels]" in printed()
    assert "steps/s" not in printed()


def test_plain_lines_follow_the_log_without_repeating_until_there_are_metrics(
    view: View, console: Console, printed: Callable[[], str]
) -> None:
    log = PlainLog(console, interval_s=10.0)
    early = replace(view, overview=EMPTY)
    log.show(replace(early, tail=("compiling", "compiled")))
    log.show(replace(early, tail=("compiling", "compiled")))
    log.show(replace(early, tail=("compiled", "first rollout")))
    assert [line.strip() for line in printed().splitlines()] == ["compiling", "compiled", "first rollout"]


def test_plain_progress_is_printed_once_per_interval(view: View, console: Console, printed: Callable[[], str]) -> None:
    log = PlainLog(console, interval_s=10.0)
    for uptime_s in (100.0, 102.0, 109.9, 110.0, 111.0):
        log.show(replace(view, uptime_s=uptime_s))
    lines = printed().splitlines()
    assert [line.split(" ")[0] for line in lines] == ["0:01:40", "0:01:50"]
    assert "leader Iron Falcon (main@500000) 1623 ± 84 (120 games)" in lines[0]


def test_news_are_the_first_metrics_every_new_snapshot_and_the_first_period(full: Overview) -> None:
    lines = changes(EMPTY, full)
    assert [line.split(":")[0].partition(" at ")[0] for line in lines] == [
        "learner main",
        "newest snapshot",
        "rating period 3 closed",
    ]
    assert changes(full, full) == []
    after = replace(full, newest={1: line_of_table(id=8, name="main@1000000", call_sign=None)}, period=period(4))
    assert changes(full, after) == ["newest snapshot: main@1000000, rating 1623 ± 84"]


def test_raised_and_cleared_alarms_are_reported(full: Overview) -> None:
    first, second = regression("main@100000", 7), regression("main@200000", 8)
    one, both = replace(full, regressions=[first]), replace(full, regressions=[first, second])
    assert changes(one, both) == [
        "alarm: main loses to main@200000, which it used to defeat: score 0.80 [0.68, 0.88] of 60, "
        "then 0.20 [0.12, 0.32] of 60"
    ]
    assert changes(both, both) == []
    assert changes(both, one) == ["alarm cleared: main against main@200000"]


def test_a_look_finds_the_learner_its_newest_snapshot_and_the_last_period(
    league: LeagueClient, snapshot: wire.Player, scene: Scene
) -> None:
    overview = fetch(league, scene.environment, ["main"], rows=2, before=EMPTY)
    assert len(overview.standings) == 2
    assert overview.more
    assert not fetch(league, scene.environment, ["main"], rows=1000, before=EMPTY).more
    (learner,) = league.learners().items
    assert (overview.learner, overview.newest) == (learner, {learner.id: league.player(snapshot.id)})
    assert overview.period == league.periods().items[0]
    assert overview.snapshots.total == 1
    assert fetch(league, "chess", ["main"], rows=2, before=EMPTY) == EMPTY
    assert fetch(league, scene.environment, ["nobody"], rows=2, before=EMPTY).learner is None


def test_snapshots_are_counted_on_from_the_last_page(league: LeagueClient, scene: Scene) -> None:
    overview = EMPTY
    for total in (1, 100, 103):
        for step in range(overview.snapshots.total, total):
            scene.publish(step)
        overview = fetch(league, scene.environment, ["main"], rows=1, before=overview)
        assert overview.snapshots.total == total
    assert overview.snapshots.before_last_page == 100
