import os

import pytest
import torch

from trainer.errors import ConfigError
from trainer.machine import prepare
from trainer.settings import RunSettings


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = torch.backends.cudnn.benchmark = False


def flags():
    cudnn = torch.backends.cudnn
    return torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (False, False, True)),
        ({"cudnn_tuner": False}, (False, False, False)),
        ({"deterministic": True}, (True, True, False)),
        ({"deterministic": True, "cudnn_tuner": False}, (True, True, False)),
    ],
)
def test_the_settings_choose_cudnns_tuner_and_determinism(settings, expected):
    prepare(RunSettings(**settings))
    assert flags() == expected
    assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == settings.get("deterministic", False)


def test_what_one_run_asked_for_is_not_left_to_the_next():
    prepare(RunSettings(deterministic=True, threads=2))
    prepare(RunSettings())
    assert flags() == (False, False, True)
    assert torch.get_num_threads() == 1


def test_training_works_with_deterministic_algorithms(play, never):
    prepare(RunSettings(deterministic=True))
    played = play()
    assert played.learner.learn(played.collect(), never)["losses/rejected_steps"] == 0.0


@pytest.mark.parametrize("device", ["quantum", "meta"])
def test_a_device_that_cannot_be_used_is_refused_before_anything_is_set(device):
    with pytest.raises(ConfigError, match=rf"run\.device is '{device}': it cannot be used here"):
        prepare(RunSettings(device=device, deterministic=True))
    assert not torch.are_deterministic_algorithms_enabled()
