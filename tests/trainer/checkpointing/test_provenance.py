import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch

from league.client.origin import machine
from trainer.checkpointing.provenance import FILE, Provenance
from trainer.disk_retry import DiskRetry

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def read(folder):
    return json.loads((folder / FILE).read_text())


def test_every_session_is_recorded_with_times_and_progress(tmp_path):
    for number in range(3):
        provenance = Provenance(tmp_path, DiskRetry(print))
        begun = NOW + timedelta(hours=number)
        provenance.begin_session({"environment": "rps", "seed": 5}, begun, 100 * number)
        assert read(tmp_path)["sessions"][-1]["ended_at"] is None
        if number != 1:  # killed
            provenance.end_session(begun + timedelta(minutes=5), 100 * number + 90)
    whole = read(tmp_path)
    assert (whole["environment"], whole["seed"]) == ("rps", 5)
    assert [(each["from_step"], each["to_step"]) for each in whole["sessions"]] == [(0, 90), (100, None), (200, 290)]
    assert whole["sessions"][2]["started_at"] == "2030-01-01T02:00:00+00:00"
    assert whole["sessions"][2]["ended_at"] == "2030-01-01T02:05:00+00:00"


def test_session_records_command_packages_and_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["trainer", "run", "--token", "secret", "--environment", "rps"])
    provenance = Provenance(tmp_path, DiskRetry(print))
    provenance.begin_session({}, NOW, 0)
    (session,) = read(tmp_path)["sessions"]
    assert torch.__version__.startswith(session["packages"]["torch"])  # a CUDA build adds its own label
    assert session["command"][-2:] == ["--environment", "rps"]
    assert session["machine"]["cores"] >= 1
    assert session["machine"]["cpu"]
    assert session["machine"]["gpus"] == [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
    assert "secret" not in (tmp_path / FILE).read_text()
    assert machine() == session["machine"]


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"sessions": 3}'])
def test_damaged_file_is_logged_and_replaced(tmp_path, caplog, content):
    Path(tmp_path / FILE).write_text(content)
    Provenance(tmp_path, DiskRetry(print)).begin_session({}, NOW, 0)
    assert "is damaged" in caplog.text
    assert len(read(tmp_path)["sessions"]) == 1
