import json
from dataclasses import replace

import pytest
import torch
from refused import refused
from rich.console import Console

from trainer.config.loading import resolve
from trainer.ppo.learner import Learner
from trainer.runtime.dry_run import estimate_run, print_estimate
from trainer.runtime.memory import GPU_SHARE, MAX_NUM_ENVS, PROGRAM, MemoryEstimate
from trainer.runtime.torch_setup import device_bytes

RECALL = [
    "environment.num_envs=10",
    "rollout.num_steps=32",
    "rollout.bptt_horizon=8",
    "ppo.num_minibatches=5",
    "ppo.update_epochs=3",
]
RECALL.append("environment.self_play=0.2")


@pytest.fixture(scope="module")
def planned():
    return estimate_run(resolve("recall", None, [*RECALL, "schedules.horizon_steps=1000"]))


@pytest.mark.holds("C5")
def test_an_estimate_has_the_sizes_of_an_update(planned):
    assert planned.env_steps_per_update == 320
    assert planned.agent_steps_per_update == 384  # both sides of two of the ten environments learn
    assert planned.samples_per_minibatch == 76
    assert planned.optimizer_steps_per_update == 15
    assert planned.updates == 4
    assert planned.compile_backend == "none"
    assert planned.decisions_ahead == pytest.approx(1 / (1 - 0.995 * 0.95))


def test_total_timesteps_come_before_the_horizon():
    config = resolve(
        "mech-pack", None, ["environment.num_envs=2", "environment.self_play=0", "run.total_timesteps=1000"]
    )
    told = estimate_run(config)
    assert (told.env_steps_per_update, told.agent_steps_per_update) == (128, 640)
    assert told.updates == 8


def test_parameters_are_counted_by_part(planned):
    network = Learner(resolve("recall", None, RECALL), _spec()).network
    assert sum(planned.parameters.values()) == sum(each.numel() for each in network.parameters())
    assert planned.parameters["critic"] == 33
    assert planned.as_json()["parameters_in_all"] == sum(planned.parameters.values())


def test_estimated_memory_of_rollout_and_optimiser_is_exact(planned):
    learner = Learner(resolve("recall", None, [*RECALL, "ppo.target_kl=1e9"]), _spec())
    rollout = learner.allocate()
    assert planned.memory_bytes["rollout"] == sum(tensor.nbytes for tensor in vars(rollout).values())
    weights = sum(each.nbytes for each in learner.network.parameters())
    rollout.active.fill_(True)
    rollout.action_mask.fill_(True)
    learner.learn(rollout, lambda: False)
    moments = [each for name, each in learner.ppo.optimizer.tensors().items() if not name.endswith(".step")]
    assert sum(each.nbytes for each in moments) == 2 * weights
    assert planned.memory_bytes["network and optimiser"] == 4 * weights


def test_memory_grows_with_its_settings(planned):
    def memory(*settings):
        return estimate_run(resolve("recall", None, [*RECALL, *settings])).memory_bytes

    fewer, longer = memory("ppo.num_minibatches=10"), memory("rollout.num_steps=64")
    whole = memory("ppo.num_minibatches=384", "rollout.bptt_horizon=1")
    assert whole["update"] == 4 * 32 * 12 * _spec().observation_size  # nothing less than all that was seen
    assert fewer["update"] == pytest.approx(planned.memory_bytes["update"] / 2, rel=0.05)
    assert longer["rollout"] == pytest.approx(2 * planned.memory_bytes["rollout"], rel=0.05)
    averaged, weights = memory("league.ema_horizon_steps=9000"), "network and optimiser"
    assert averaged[weights] == 5 / 4 * planned.memory_bytes[weights]
    more = memory("environment.num_envs=20")
    assert more["environment"] == 2 * planned.memory_bytes["environment"] > 0


@pytest.fixture
def memory():
    """100 B for each of 10 environments, 40 B of them observations, and 500 B besides; a minibatch takes 800 B."""
    parts = {PROGRAM: 10**6, "network and optimiser": 300, "rollout": 600, "update": 800, "environment": 500}
    return MemoryEstimate(
        parts=parts,
        num_envs=10,
        shared_bytes=100,
        observation_bytes=400,
        minibatch_bytes=800,
        micro_batch_bytes=None,
        cache_bytes=100,
    )


def test_a_gpu_holds_environments_until_its_usable_share_is_full(memory):
    assert memory.gpu_bytes(10) == 500 + 1000 + 800
    assert memory.gpu_bytes(30) == 500 + 3000 + 2400
    assert memory.largest_num_envs(5900 / GPU_SHARE) == 30
    assert memory.largest_num_envs(5899 / GPU_SHARE) == 29


def test_micro_batches_bound_the_memory_of_an_update_on_a_gpu_down_to_the_observations(memory):
    split = replace(memory, micro_batch_bytes=500)
    assert split.gpu_bytes(5) == 500 + 500 + 400
    assert split.gpu_bytes(10) == 500 + 1000 + 500
    assert split.gpu_bytes(30) == 500 + 3000 + 1200


def test_a_gpu_that_is_too_small_holds_no_environment(memory):
    assert memory.largest_num_envs(500) == 0
    assert memory.largest_num_envs(2**60) == MAX_NUM_ENVS


def test_an_estimate_says_what_gpus_of_three_sizes_hold(capsys):
    planned = estimate_run(resolve("mech-pack", None, ["environment.num_envs=64"]))
    small, middle, large = (planned.gpu_num_envs[size] for size in (24, 40, 80))
    assert 64 < small < middle < large <= MAX_NUM_ENVS
    print_estimate(planned, Console(width=100))
    assert f"24 GB {small:,}, 40 GB {middle:,}, 80 GB {large:,}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        (["ppo.num_minibatches=49"], ("ppo.num_minibatches", 49, 32, 48, 8)),
        (["curriculum.matches=5"], ("recall",)),
        (["ppo.entropy_floors={move = 1}"], ("move",)),
    ],
)
def test_a_dry_run_refuses_the_same_settings_as_a_run(settings, values):
    with refused("invalid-setting", *values):
        estimate_run(resolve("recall", None, [*RECALL, *settings]))


@pytest.mark.parametrize("width", [80, 100])
def test_an_estimate_fits_the_window(planned, width, capsys):
    print_estimate(planned, Console(width=width))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in ("samples per minibatch", "optimiser steps", "look ahead", "core", "rollout", "MiB", "in all"):
        assert part in text


@pytest.mark.parametrize(("device", "named"), [("cpu", False), ("cuda:1", True)])
def test_an_estimate_names_the_device(planned, capsys, device, named):
    print_estimate(replace(planned, device=device), Console(width=100))
    assert ("cuda:1" in capsys.readouterr().out) == named


@pytest.mark.parametrize(("times", "told"), [(0.5, True), (2.0, False)])
def test_too_little_memory_of_the_machine_is_reported_with_a_remedy(planned, capsys, times, told):
    machine = int(times * sum(planned.memory_bytes.values()))
    print_estimate(replace(planned, machine_bytes=machine), Console(width=100))
    assert ("lower environment.num_envs" in capsys.readouterr().out) == told


@pytest.mark.parametrize(("times", "told"), [(0.5, True), (2.0, False)])
def test_too_little_memory_of_the_gpu_is_reported_with_a_remedy(planned, capsys, times, told):
    """The machine's memory does not matter, nor what the program takes of it."""
    memory = {**planned.memory_bytes, PROGRAM: 2**50}
    needed = sum(size for part, size in memory.items() if part != PROGRAM)
    there = {"device": "cuda:1", "machine_bytes": 1, "device_bytes": int(times * needed)}
    print_estimate(replace(planned, memory_bytes=memory, **there), Console(width=100))
    assert ("cuda:1 has " in capsys.readouterr().out) == told


def test_gpu_memory_is_free_memory_and_the_memory_of_this_process(monkeypatch):
    asked = []

    def of(device, result):
        asked.append(device)
        return result

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: of(device, (1000, 5000)))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: of(device, 30))
    gpu = torch.device("cuda:1")
    assert device_bytes(gpu) == 1030
    assert asked == [gpu, gpu]
    assert device_bytes(torch.device("cpu")) is None


@pytest.mark.parametrize(
    ("settings", "goal"),
    [([], "schedules.horizon_steps"), (["run.total_timesteps=640"], "run.total_timesteps")],
)
def test_an_estimate_names_the_setting_that_ends_the_run(settings, goal, capsys):
    planned = estimate_run(resolve("recall", None, [*RECALL, *settings]))
    print_estimate(planned, Console(width=100))
    assert f"updates until {goal} " in capsys.readouterr().out
    assert planned.updates == -(-(640 if settings else _horizon()) // planned.env_steps_per_update)


def test_an_estimate_is_json(planned):
    told = json.loads(json.dumps(planned.as_json()))
    assert told["bytes_in_all"] == sum(told["memory_bytes"].values())


def _horizon():
    return resolve("recall", None, RECALL).schedules.horizon_steps


def _spec():
    from arena.environments.registry import declare

    return declare("recall")
