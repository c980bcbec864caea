import errno
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest
from refused import refused
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trainer.disk_retry import DiskRetry
from trainer.monitoring.loggers import MLflow, TensorBoard, WeightsAndBiases
from trainer.monitoring.metrics import MetricsLogger


def read(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_tensorboard_reads_metrics_and_text(tmp_path):
    board = TensorBoard(tmp_path, 0)
    board.log(8, {"a": 1.5, "b/c": -2.0})
    board.log_text(8, "health/x", "a text")
    board.log(16, {"a": 2.5})
    board.close()
    events = read(tmp_path)
    assert [(each.step, each.value) for each in events.Scalars("a")] == [(8, 1.5), (16, 2.5)]
    assert [(each.step, each.value) for each in events.Scalars("b/c")] == [(8, -2.0)]
    (words,) = events.Tensors("health/x/text_summary")
    assert (words.step, words.tensor_proto.string_val[0].decode()) == (8, "a text")


def test_sessions_of_one_run_are_shown_as_one_curve(tmp_path):
    for step in (1, 2, 3):
        board = TensorBoard(tmp_path, 0)
        board.log(step, {"a": float(step)})
        board.close()
    assert len(list(tmp_path.iterdir())) == 3
    values = set()
    for file in tmp_path.iterdir():
        values |= {each.value for each in read(file).Scalars("a")}
    assert values == {1.0, 2.0, 3.0}


def test_tensorboard_hides_updates_undone_by_a_crash(tmp_path):
    for from_step, steps in ((0, (10, 20, 30, 40)), (20, (30, 40, 50))):
        board = TensorBoard(tmp_path, from_step)
        for step in steps:
            board.log(step, {"charts/score": float(from_step)})
        board.close()
    shown = [(each.step, each.value) for each in read(tmp_path).Scalars("charts/score")]
    assert shown == [(10, 0.0), (20, 0.0), (30, 20.0), (40, 20.0), (50, 20.0)]


def test_a_full_disk_delays_tensorboard_events_and_loses_none(tmp_path, monkeypatch):
    board = TensorBoard(tmp_path, 0)
    metrics_logger = MetricsLogger(tmp_path, [board], DiskRetry(print))
    write = board._file._write_all

    def full(_data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(board._file, "_write_all", full)
    for step in (1, 2):
        assert not metrics_logger.write(step, {"a": float(step)})
    monkeypatch.setattr(board._file, "_write_all", write)
    metrics_logger.write(3, {"a": 3.0})
    metrics_logger.close()
    assert [each.value for each in read(tmp_path).Scalars("a")] == [1.0, 2.0, 3.0]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.fixture
def wandb(monkeypatch):
    """A package that records its calls."""
    package = ModuleType("wandb")
    package.runs = []

    def init(**options):
        run = SimpleNamespace(options=options, id=options["id"] or "new-id", logged=[], alerts=[], finished=0)
        run.log = run.logged.append
        run.alert = lambda **words: run.alerts.append(words)
        run.define_metric = lambda *_, **__: None
        run.finish = lambda: setattr(run, "finished", run.finished + 1)
        package.runs.append(run)
        return run

    package.init, package.Error = init, type("Error", (Exception,), {})
    monkeypatch.setitem(sys.modules, "wandb", package)
    return package


def test_wandb_gets_settings_metrics_and_alerts(tmp_path, wandb):
    metrics_logger = MetricsLogger(
        tmp_path, [WeightsAndBiases(tmp_path, "main", {"ppo": {"clip_coef": 0.2}})], DiskRetry(print)
    )
    metrics_logger.write(8, {"a": 1.5, "b": None, "c": float("nan")})
    metrics_logger.log_text(8, "health/x", "a text")
    metrics_logger.close()
    (run,) = wandb.runs
    assert run.options["config"] == {"ppo": {"clip_coef": 0.2}}
    assert (run.options["name"], run.options["dir"], run.options["resume"]) == ("main", str(tmp_path), "allow")
    assert run.logged == [{"env_step": 8, "a": 1.5}]
    assert run.alerts == [{"title": "health/x", "text": "a text"}]
    assert run.finished == 1


def test_a_resumed_run_continues_its_wandb_run(tmp_path, wandb):
    for _ in range(2):
        WeightsAndBiases(tmp_path, "main", {}).close()
    assert [run.options["id"] for run in wandb.runs] == [None, "new-id"]
    assert json.loads((tmp_path / "wandb.json").read_text()) == {"id": "new-id"}


@pytest.mark.parametrize("content", ["", "[]", "{}"])
def test_a_damaged_wandb_file_starts_a_new_wandb_run(tmp_path, wandb, content):
    (tmp_path / "wandb.json").write_text(content)
    WeightsAndBiases(tmp_path, "main", {}).close()
    assert wandb.runs[0].options["id"] is None
    assert json.loads((tmp_path / "wandb.json").read_text()) == {"id": "new-id"}


def test_wandb_without_a_login_is_refused_with_remedies(tmp_path, wandb, monkeypatch):
    def init(**_options):
        raise wandb.Error("api_key not configured (no-tty).\nCall wandb.login")

    monkeypatch.setattr(wandb, "init", init)
    with refused("invalid-setting", "api_key", "WANDB_MODE") as error:
        WeightsAndBiases(tmp_path, "main", {})
    assert "\n" not in str(error.value)


@pytest.mark.holds("I7")
def test_a_missing_wandb_package_is_refused_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with refused("invalid-setting", "echelon-league[track]"):
        WeightsAndBiases(tmp_path, "main", {})


@pytest.fixture
def mlflow_client(tmp_path, monkeypatch):
    """A client of a file store, from the real package."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    return pytest.importorskip("mlflow").MlflowClient()


def test_mlflow_gets_settings_metrics_and_alerts_of_resumed_runs_too(tmp_path, mlflow_client):
    for step in (8, 16):
        metrics_logger = MetricsLogger(
            tmp_path, [MLflow(tmp_path, "main", {"ppo": {"clip_coef": step, "text": "x" * 9000}})], DiskRetry(print)
        )
        metrics_logger.write(step, {"win_rate/main@64": 0.5, "../a//b": 1.0, "b": None, "c": float("nan")})
        metrics_logger.log_text(step, "health/x", "a text")
        metrics_logger.close()
    experiment = mlflow_client.get_experiment_by_name("echelon-league")
    (run,) = mlflow_client.search_runs([experiment.experiment_id])
    assert json.loads((tmp_path / "mlflow.json").read_text()) == {"id": run.info.run_id}
    assert (run.info.run_name, run.info.status) == ("main", "FINISHED")
    assert run.data.params["ppo.clip_coef"] == "8"
    assert run.data.tags["health/x"] == "step 16: a text"
    assert set(run.data.metrics) == {"win_rate/main_64", "_/a/_/b"}
    history = mlflow_client.get_metric_history(run.info.run_id, "win_rate/main_64")
    assert [(each.step, each.value) for each in history] == [(8, 0.5), (16, 0.5)]


def test_an_mlflow_server_that_cannot_be_used_is_refused_with_remedies(tmp_path, mlflow_client, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://host")
    with refused("invalid-setting", "MLFLOW_TRACKING_URI", "--mlflow") as error:
        MLflow(tmp_path, "main", {})
    assert "\n" not in str(error.value)


def test_a_failing_mlflow_server_does_not_stop_the_training(tmp_path, mlflow_client, monkeypatch):
    tracker = MLflow(tmp_path, "main", {})

    def fail(*_args, **_options):
        raise tracker._package.MlflowException("no answer")

    monkeypatch.setattr(type(tracker._client._tracking_client.store), "log_batch", fail)
    monkeypatch.setattr(type(tracker._client._tracking_client.store), "update_run_info", fail)
    tracker.log(8, {"a": 1.0})
    tracker.close()
