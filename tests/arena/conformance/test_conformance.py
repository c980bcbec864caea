"""Games that break one rule each are told by that rule, and those that break none by none."""

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import broken_games
import broken_walks
import pytest
from refused import assert_names

from arena.cli import main
from arena.conformance import Finding, Report, Verdict, verify
from arena.conformance.spec_checks import faults_of, signature
from arena.conformance.trial import Trial
from arena.environments import ActionHead, EnvironmentSpec, HeadKind, MemberMask, ObservationBlock, declare


@contextmanager
def unseen(what: str, total: int) -> Iterator[Callable[[int], None]]:
    yield lambda finished: None


@pytest.fixture(autouse=True)
def _here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the new processes that declare a game: they have tests of their own."""
    monkeypatch.setattr("arena.conformance.spec_checks.HASH_SEEDS", ())


@cache
def look_at(game: str, matches: int = 10) -> Report:
    return verify(game if ":" in game else f"broken_games:{game}", matches=matches, seed=2, progress=unseen)


def said(report: Report, verdict: Verdict) -> dict[str, str]:
    return {row.check: row.detail for row in report.rows if row.verdict is verdict}


@pytest.mark.parametrize("game", ["broken_games:honest", "rps", "openspiel:kuhn_poker:rounds=2"])
def test_a_game_that_keeps_every_rule_passes(game: str):
    report = verify(game, matches=10, seed=2, progress=unseen)
    assert report.passed
    assert not said(report, Verdict.FAILED) | said(report, Verdict.WARNING) | said(report, Verdict.NOT_REACHED)
    assert report.matches == 10
    assert report.signature == declare(game).signature
    assert report.decisions_per_s > 0.0


@pytest.mark.integration
def test_every_check_reports_on_some_game():
    rows = [row for game in ("honest", "broken_walks:Walk", "untold") for row in look_at(game).rows]
    silent = {row.check for row in rows} - {row.check for row in rows if row.verdict is not Verdict.NOT_APPLICABLE}
    assert silent == set()


BROKEN = {
    "blind": ("ranges", "entry 0 of block 'dice' is nan: the spec declares [-1, 1]"),
    "wide": ("ranges", "entry 1 of block 'dice' is 7: the spec declares [-1, 1]"),
    "stuck": ("legal options", "it is active, but no option of head 'option' is legal"),
    "haunted": ("inactive agents", "it is inactive, but entry 0 of block 'clock' is 0.5"),
    "tempting": ("inactive agents", "it is inactive, but head 'option' has 3 legal options"),
    "crashing": ("legal actions", "ZeroDivisionError: integer division or modulo by zero"),
    "leaving": ("legal actions", "SystemExit: enough"),
    "picky": ("legal actions", "legal actions were rejected: nobody may choose 2"),
    "priceless": ("rewards", "its reward is inf"),
    "generous": ("zero-sum", "its rewards sum to "),
    "ambiguous": ("ends", "it is both terminated and truncated"),
    "eternal": ("ends", "it continues after 6 decisions: max_decisions is 6"),
    "exuberant": ("outcomes", "home's score is 2"),
    "groundless": ("outcomes", "its reason is 9: the spec has 2, from 0"),
    "hasty": ("outcomes", "it continues, but has score 1 and reason 0"),
    "miscounted": ("lengths", "decisions, but had "),
    "late": ("final observation, next match", "it is the next match's first, as with every match so far"),
    "deserted": ("final observation", "it was truncated, but no agent is active in its final observation"),
    "headstrong": ("seeds", "the next match started with seed "),
    "clinging": ("returned arrays", "rewards of the previous decision have changed"),
    "placed": ("rows", "rewards of agent 0 (home, scout): "),
    "neighbourly": ("rows, next match", "in one and "),
    "moody": ("rows", "in one and "),
    "unforgetting": ("reset", "in one and "),
    "hesitant": ("reset", "in one and "),
    "prophetic": ("next match", "scores: "),
    "seance": ("actions of inactive agents", "rewards of agent 0 (home, scout): "),
    "fragile": ("illegal actions", "option 3 of head 'option' raises IndexError: index 3 is out of bounds"),
    "rash": ("illegal actions", "a forbidden option of head 'option' was rejected but changed the match: rewards of "),
    "spoilt": ("illegal actions", "option 3 of head 'option' was accepted, and then: its reward is inf"),
    "gullible": ("invalid calls", "a seed below 0 is accepted silently"),
}
"""Games, the checks that fail of each, and a part of what the first one says."""


@pytest.mark.parametrize(("game", "check", "seen"), [(game, *told) for game, told in BROKEN.items()])
def test_a_broken_rule_is_found_and_hardly_another_is_blamed(game: str, check: str, seen: str):
    report = look_at(game)
    failed = said(report, Verdict.FAILED)
    assert ", ".join(failed) == check
    assert seen in next(iter(failed.values()))
    finding = next(row for row in report.rows if row.verdict is Verdict.FAILED)
    assert finding.rule
    assert finding.remedy
    assert not report.passed


def test_findings_have_a_location():
    places = {
        "blind": "match 0 (seed {}), decision 0, agent 2 (home",
        "eternal": "decision 6",
        "crashing": "decision ",
        "placed": "match of row ",
    }
    for game, place in places.items():
        (finding,) = [row for row in look_at(game).rows if row.verdict is Verdict.FAILED]
        assert place.split("{}")[0] in finding.where, game


@pytest.mark.parametrize(
    ("game", "seen"),
    [
        ("precise", "values is torch.float64 of shape (5, 4, 3) on cpu: torch.float32 of (5, 4, 3) on cpu is required"),
        ("maskless", "the masks are for heads [], but the masked heads are ['option']"),
    ],
)
def test_where_shapes_are_wrong_nothing_more_is_looked_at(game: str, seen: str):
    report = look_at(game)
    assert said(report, Verdict.FAILED) == {"layout": seen}
    left = said(report, Verdict.NOT_REACHED)
    assert left["rewards"] == "no fault before 'layout' was broken"
    assert left["repeats"] == "'layout' failed"


def test_chance_of_its_own_breaks_every_way_of_repeating():
    report = look_at("whimsical")
    assert {*said(report, Verdict.FAILED)} >= {"repeats", "rows", "reset", "next match", "actions of inactive agents"}
    assert said(report, Verdict.FAILED)["repeats"].startswith("rewards of agent 0 (home, scout): ")


def test_game_may_declare_that_it_does_not_repeat():
    told = said(look_at("careless"), Verdict.NOT_APPLICABLE)
    assert told["repeats"] == told["rows"] == told["reset"] != ""


def test_deterministic_game_is_recognised():
    assert look_at("certain").passed
    assert "other seeds, same actions: the same matches" in said(look_at("certain"), Verdict.NOT_APPLICABLE)["chance"]
    assert said(look_at("honest"), Verdict.PASSED)["chance"] == "other seeds, same actions: other matches"


def test_declared_randomness_is_checked():
    random = said(look_at("certainly_random"), Verdict.FAILED)
    assert random == {"chance": "it declares no chance; other seeds, same actions: other matches"}
    certain = said(look_at("expected"), Verdict.WARNING)
    assert certain["chance"] == "it declares chance; other seeds, same actions: the same matches"
    told = said(verify("rps", matches=10, seed=2, progress=unseen), Verdict.PASSED)
    assert told["chance"] == "other seeds, same actions: the same matches"


def test_undeclared_zero_sum_rewards_are_reported():
    for game, told in [("unspoken", "but need not: declare zero_sum=True"), ("unequal", "and need not")]:
        report = look_at(game)
        assert report.passed
        assert said(report, Verdict.INFO)["zero-sum"].endswith(told)


def test_the_report_shows_whether_sides_are_rated_apart():
    walk = said(look_at("broken_walks:Walk"), Verdict.PASSED)
    assert "1 v 1 agents, sides alike, " in walk["specification"]
    untold = said(look_at("untold"), Verdict.PASSED)
    assert "sides rated separately (scout + tank and gun + wall), " in untold["specification"]


def test_unlike_sides_that_see_the_same_are_warned_of():
    report = look_at("untold")
    assert report.passed
    told = said(report, Verdict.WARNING)
    assert "own side" in told
    assert said(look_at("honest"), Verdict.NOT_APPLICABLE)["own side"] == "sides are alike"
    kuhn = verify("openspiel:kuhn_poker", matches=10, seed=2, progress=unseen)
    assert "own side" in said(kuhn, Verdict.PASSED)


def test_reactivated_agents_are_a_warning():
    report = look_at("undying")
    assert report.passed
    assert said(report, Verdict.WARNING).keys() == {"returning agents"}


def test_an_advantage_of_a_side_is_warned_of_with_its_interval():
    report = look_at("partial", matches=40)
    assert report.passed
    (told,) = said(report, Verdict.WARNING).items()
    assert told[0] == "sides"
    assert told[1].startswith("home scores 1.000 (0.912 to 1.000) of 40 matches")


def test_game_that_never_terminates_is_a_warning():
    report = look_at("endless")
    assert report.passed
    assert_names(said(report, Verdict.WARNING)["step limit"], 10, 6)
    assert_names(said(look_at("honest"), Verdict.PASSED)["step limit"], 10)


def test_a_limit_that_decides_is_an_end():
    assert "step limit" in said(look_at("timed"), Verdict.NOT_APPLICABLE)


def test_winners_that_earn_less_are_warned_of():
    told = said(look_at("confused", matches=40), Verdict.WARNING)
    assert_names(told["scores and rewards"], "0 of 40")


@pytest.mark.parametrize(
    ("game", "deed"), [("littering", "writes played.log, and "), ("pickled", "unpickles collections.OrderedDict, and ")]
)
def test_side_effects_of_a_game_are_reported(tmp_path: Path, monkeypatch, game: str, deed: str):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing is temporary here"))
    failed = said(look_at(game), Verdict.FAILED)
    assert [*failed] == ["side effects"]
    assert failed["side effects"].startswith(f"during a match it {deed}")


def test_writing_is_reported_before_anything_else_used_the_temporary_folder(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert said(verify("broken_games:littering", matches=10, seed=2, progress=unseen), Verdict.FAILED).keys() == {
        "side effects"
    }


def test_non_daemon_threads_are_reported():
    try:
        failed = said(look_at("lingering"), Verdict.FAILED)
    finally:
        broken_games.RELEASED.set()
    assert [*failed] == ["side effects"]
    assert failed["side effects"].startswith("during a match it leaves thread linger-False")


def test_illegal_actions_may_be_a_matter_of_the_rules():
    told = said(look_at("lenient"), Verdict.PASSED)["illegal actions"]
    assert told == (
        "accepted by the game's rules: a forbidden option of option, option 3 of option, option -1 of option, "
        "3 (beyond [-1, 1]) of push"
    )
    assert said(look_at("honest"), Verdict.PASSED)["illegal actions"].startswith("rejected: a forbidden option of ")


@pytest.mark.integration
def test_matches_that_processes_play_differently_are_found():
    failed = said(look_at("broken_walks:Local"), Verdict.FAILED)
    assert [*failed] == ["processes"]
    assert failed["processes"].startswith("observations: values of agent ")


@pytest.mark.integration
def test_a_game_that_kills_its_process_is_survived():
    report = look_at("broken_walks:Suicidal")
    failed = said(report, Verdict.FAILED)
    assert [*failed] == ["responds"]
    assert "(killed by SIGKILL)" in failed["responds"]
    assert said(report, Verdict.NOT_REACHED)["repeats"] == "'responds' failed"


def test_changing_spec_is_reported_by_field():
    failed = said(look_at("growing"), Verdict.FAILED)
    assert failed.keys() == {"specification"}
    assert_names(failed["specification"], "max_decisions")
    failed = said(look_at("boundless"), Verdict.FAILED)
    assert failed.keys() == {"specification"}
    assert_names(failed["specification"], "max_decisions", 0)


def in_new_processes(spec: EnvironmentSpec, monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setattr("arena.conformance.spec_checks.HASH_SEEDS", ("1", "2"))
    return signature.run(Trial(spec.name, SimpleNamespace(spec=spec), 1, 0, unseen, set()))


@pytest.mark.integration
@pytest.mark.parametrize(("game", "verdict"), [("unordered", Verdict.FAILED), ("Walk", Verdict.PASSED)])
def test_a_signature_is_compared_with_those_of_new_processes(game: str, verdict: Verdict, monkeypatch):
    row = in_new_processes(declare(f"broken_walks:{game}"), monkeypatch)
    assert row.verdict is verdict
    assert ("in a new process" in row.detail) is (verdict is Verdict.FAILED)


@pytest.mark.integration
def test_new_processes_end_whatever_threads_a_game_starts(monkeypatch):
    try:
        assert in_new_processes(declare("broken_walks:Lingering"), monkeypatch).verdict is Verdict.PASSED
    finally:
        broken_walks.RELEASED.set()


@pytest.mark.integration
def test_game_missing_in_a_new_process_is_reported(monkeypatch):
    spec = replace(declare("broken_walks:Walk"), name="broken_walks:nothing")
    row = in_new_processes(spec, monkeypatch)
    assert row.verdict is Verdict.FAILED
    assert_names(row.detail, "arena.errors.UnknownEnvironmentError")


def unchecked(thing, **fields):
    """The same with other fields, whatever their types: tests refuse wrong ones, and readers' games do not."""
    changed = copy.copy(thing)
    for name, value in fields.items():
        object.__setattr__(changed, name, value)
    return changed


MEMBERS = MemberMask("there", (3,), 0.0, 1.0, ("others",), ("option",))


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"name": ""}, "its name is '': it must be a non-empty text"),
        ({"agents_per_side": (2,)}, "agents_per_side is (2,): it must be two integers"),
        ({"agents_per_side": (2, 0)}, "agents_per_side is (2, 0): it must be two integers"),
        ({"roles": ("scout",)}, "it has 4 agents and 1 roles"),
        ({"roles": ("scout", "", "scout", "tank")}, "a role is '': it must be a non-empty text"),
        ({"observation": ()}, "its observation has no block"),
        ({"observation": (ObservationBlock("a", (1,), 0.0, 1.0),) * 2}, "block 'a' is declared 2 times"),
        ({"observation": (ObservationBlock("a", (2, 0), 0.0, 1.0),)}, "block 'a' has shape (2, 0)"),
        ({"observation": (ObservationBlock("a", (1,), 2.0, 1.0),)}, "block 'a' is in [2.0, 1.0]"),
        ({"observation": (ObservationBlock("a", (1,), float("nan"), 1.0),)}, "block 'a' is in [nan, 1.0]"),
        ({"observation": (MEMBERS,)}, "set 'there' describes 'others': a block with as many rows (3)"),
        (
            {"observation": (MEMBERS, ObservationBlock("others", (3, 2), 0.0, 1.0)), "heads": ()},
            "set 'there' is chosen from by 'option': a categorical head of 3 options",
        ),
        ({"heads": ()}, "it has no action head"),
        ({"heads": (ActionHead("a", HeadKind.GAUSSIAN, 1, False),) * 2}, "head 'a' is declared 2 times"),
        ({"heads": (ActionHead("a", HeadKind.GAUSSIAN, 0, False),)}, "head 'a' has size 0"),
        (
            {"heads": (unchecked(ActionHead("a", HeadKind.GAUSSIAN, 1, False), kind="softmax"),)},
            "head 'a' is of kind 'softmax'",
        ),
        ({"max_decisions": 2.5}, "max_decisions is 2.5: it must be an integer"),
        ({"reasons": ()}, "it has no reasons"),
        ({"reasons": ("end", "end")}, "reason 'end' is declared 2 times"),
        ({"rules": {"depth": {1}}}, "its rules cannot be written as JSON"),
        ({"rules": {"depth": float("nan")}}, "its rules cannot be written as JSON"),
    ],
)
def test_invalid_spec_is_reported(fields: dict, fault: str):
    spec: EnvironmentSpec = declare("broken_games:honest")
    assert faults_of(spec) == []
    assert any(told.startswith(fault) for told in faults_of(unchecked(spec, **fields)))


def test_the_page_on_it_lists_every_check_in_order():
    page = (Path(__file__).parents[3] / "docs/guides/games" / "verify.md").read_text(encoding="utf-8")
    listed = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][1:]
    assert listed == [row.check for row in look_at("honest").rows]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["verify", *arguments])
    captured = capsys.readouterr()
    return left.value.code or 0, captured.out, captured.err


def test_the_command_prints_a_row_for_each_check(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "broken_games:honest", "--matches", "10")
    assert code == 0
    assert ["specification", "pass"] in [line.split()[:2] for line in out.splitlines()]
    assert "broken_games:honest: 28 passed, 0 failed, 0 warnings." in out


def test_verify_command_explains_failures_and_exits_with_1(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "broken_games:stuck", "--matches", "10")
    assert code == 1
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert ["seen", "it is active, but no option of head 'option' is legal"] in [
        [*map(str.strip, line)] for line in lines
    ]
    assert "where   match 0 (seed " in out
    assert "rule    every active agent has at least one legal option" in out
    assert "remedy  allow an option without effect" in out


def test_the_command_answers_scripts_in_json(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "broken_games:stuck", "--matches", "10", "--seed", "3", "--json")
    told = json.loads(out)
    assert code == 1
    assert [*told] == ["environment", "signature", "matches", "seed", "passed", "decisions_per_s", "checks"]
    assert told["passed"] is False
    assert told["seed"] == 3
    (failed,) = [check for check in told["checks"] if check["verdict"] == "failed"]
    assert [*failed] == ["check", "verdict", "detail", "where", "rule", "remedy"]
    assert failed["check"] == "legal options"


def test_a_name_that_nothing_has_is_bad_usage(capsys: pytest.CaptureFixture[str]):
    code, _, said_on_stderr = run(capsys, "chess")
    assert code == 2
    assert "unknown environment 'chess': choose one of" in said_on_stderr
