import json
import math
import shutil

import pytest
from refused import assert_names
from runs import line, recorded_lines, run_folder

from trainer import cli
from trainer.monitoring.report.doctor import diagnose
from trainer.monitoring.report.reader import read_recent, read_records

KL = "losses/approx_kl"


def doctor(*arguments, expect=0):
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor", *map(str, arguments)])
    assert left.value.code == expect


@pytest.fixture
def broken_run(tmp_path):
    """Thirty updates: the gradient vanishes from the 11th to the 20th."""
    vanished = {"losses/gradient_norm": 1e-6}
    lines = [line(update, **(vanished if 10 < update <= 20 else {})) for update in range(1, 31)]
    return run_folder(tmp_path / "broken", lines)


@pytest.fixture(autouse=True)
def _width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def test_a_healthy_recorded_run_is_healthy(tmp_path, capsys):
    doctor(run_folder(tmp_path / "run", recorded_lines()))
    printed = capsys.readouterr().out
    assert printed == "main-mech-duel on mech-duel: 200 updates, 1,638,400 steps\nno problems found\n"


def test_the_report_has_findings_times_and_advice(broken_run, capsys):
    doctor(broken_run, expect=1)
    printed = [" ".join(row.split()) for row in capsys.readouterr().out.splitlines()]
    assert printed[:3] == [
        "main-mech-duel on mech-duel: 30 updates, 30,000 steps",
        "finding severity updates since step evidence",
        "gradient_vanishing alarm 11-25 11,000 gradient norm 1e-06",
    ]
    assert printed[4].startswith("gradient_vanishing: gradients are close to 0. Try: look for missing rewards")


def test_json_has_the_same_findings(broken_run, capsys):
    doctor(broken_run, "--json", expect=1)
    report = json.loads(capsys.readouterr().out)
    (finding,) = report.pop("findings")
    assert report == {
        "run": "main-mech-duel on mech-duel",
        "updates": 30,
        "steps": 30_000,
        "unreadable_lines": 0,
        "healthy": False,
    }
    assert finding.pop("advice")
    assert finding == {
        "name": "gradient_vanishing",
        "severity": "alarm",
        "since_update": 11,
        "since_step": 11_000,
        "ended_update": 25,
        "ended_step": 25_000,
        "meaning": "gradients are close to 0",
        "evidence": {"gradient norm": 1e-6},
    }


def test_a_run_with_hints_only_is_healthy(tmp_path, capsys):
    lines = [line(update, **{"losses/gradient_clipped": 0.0}) for update in range(1, 121)]
    doctor(run_folder(tmp_path / "run", lines), "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["healthy"]
    assert [finding["severity"] for finding in report["findings"]] == ["hint"]


def test_a_folder_without_a_run_is_bad_usage(tmp_path, capsys):
    def refusal(folder):
        doctor(folder, expect=2)
        error = capsys.readouterr().err
        assert_names(error, folder)
        assert error.count("\n") == 1
        return error

    assert_names(refusal(tmp_path / "missing"), "config.toml")
    folder = run_folder(tmp_path / "run", [])
    assert "has no update yet" in refusal(folder)
    (folder / "metrics.jsonl").unlink()
    assert_names(refusal(folder), "metrics.jsonl")
    shutil.copy(__file__, folder / "metrics.jsonl")
    assert "has no update yet" in refusal(folder)
    (folder / "metrics.jsonl").write_text(line(1))
    (folder / "config.toml").write_text("[league]\nlearner = 'main'\n")
    assert_names(refusal(folder), "config.toml", "ppo")
    (folder / "config.toml").write_text("environment = 3\n")
    assert "config.toml has environment = 3, but environment is a section" in refusal(folder)
    (folder / "config.toml").write_bytes(b"\xff\x00")
    assert_names(refusal(folder), "config.toml", "TOML")


def test_unreadable_lines_are_counted_and_skipped(tmp_path, capsys):
    word = '{"losses/normalized_entropy": "high"}\n'
    broken = ['{"step": 2000, "losses/app', "\n", "[]\n", '{"step": 3}{"step": 4}\n', word]
    folder = run_folder(tmp_path / "run", [line(1), *broken, line(2)])
    assert [record.update for record in read_records(folder).updates] == [1, 2]
    doctor(folder)
    assert_names(capsys.readouterr().out, 4, "metrics.jsonl")


def test_nan_and_infinity_are_read_as_missing(tmp_path, capsys):
    strange = [line(update, **{KL: value}) for update, value in ((2, math.nan), (3, math.inf), (4, -math.inf))]
    folder = run_folder(tmp_path / "run", [line(1), *strange, line(5)])
    doctor(folder)
    assert "5 updates" in capsys.readouterr().out
    assert [record.metrics[KL] is None for record in read_records(folder).updates] == [False, True, True, True, False]


def test_updates_undone_by_a_crash_are_replaced_by_later_lines(tmp_path):
    lines = [line(update) for update in (1, 2, 3, 4)] + [line(update, **{KL: 0.5}) for update in (3, 4, 5)]
    records = read_records(run_folder(tmp_path / "run", lines)).updates
    assert [record.update for record in records] == [1, 2, 3, 4, 5]
    assert [record.metrics[KL] for record in records] == [0.005, 0.005, 0.5, 0.5, 0.5]


def test_lines_without_the_number_of_their_update_are_counted(tmp_path):
    lines = [json.dumps({"step": step, KL: 0.01}) + "\n" for step in (64, 128)]
    records = read_records(run_folder(tmp_path / "run", lines)).updates
    assert [(record.update, record.step) for record in records] == [(1, 64), (2, 128)]


def test_a_resumed_run_reads_its_first_and_latest_updates(tmp_path):
    folder = run_folder(tmp_path / "run", [line(update) for update in range(1, 1001)])
    updates = [record.update for record in read_recent(folder)]
    assert updates == [*range(1, 11), *range(601, 1001)]
    assert read_recent(tmp_path / "missing") == []


def test_an_alert_that_lasts_has_no_end(tmp_path):
    folder = run_folder(tmp_path / "run", [line(update, **{"losses/gradient_norm": 0.0}) for update in range(1, 9)])
    (alert,) = diagnose(folder).alerts
    assert (alert.since, alert.ended) == (1, None)
