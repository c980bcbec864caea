"""Processes that share every minibatch: what they come to is what one process comes to, and none is needed."""

import functools
import gc
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fake_games import FakeGame
from partner_threads import PartnerThread

from arena.environments import ActionHead, HeadKind
from arena.policies.distributions import ActionLayout
from trainer import board, channel, partners
from trainer import learner as learners
from trainer.errors import ConfigError
from trainer.partner import Word
from trainer.partners import NOBODY, Partners
from trainer.weighing import Weigher

PATIENCE_S = 60.0
LOOSE = {"max_gradient_norm": 1e9}
FAR = {"target_kl": 1e9}
STILL = {"learning_rate": 0.0, "learning_rate_final": 0.0}


@pytest.fixture(autouse=True)
def _in_threads(monkeypatch):
    monkeypatch.setattr(learners, "Partners", functools.partial(Partners, launch=PartnerThread))
    monkeypatch.setattr(channel, "GLANCES", 10)  # threads that look on keep others of their process waiting
    monkeypatch.setattr(partners, "LEAVING_S", PATIENCE_S)  # a thread cannot be killed


@pytest.fixture
def _no_chance(monkeypatch):
    """Partners have chance of their own: without any, gradients can be compared."""
    monkeypatch.setattr(
        ActionLayout, "draw_entropy_noise", lambda layout, shape, rng: torch.zeros(*shape, layout.log_std_size)
    )


def gradients(played):
    return {name: each.grad.clone() for name, each in played.learner.network.named_parameters()}


def different(one, other):
    mine, theirs = one.learner.tensors(), other.learner.tensors()
    assert mine.keys() == theirs.keys()
    return [name for name, tensor in mine.items() if not torch.equal(tensor, theirs[name])]


def some_case(seed):
    """Sizes and options, drawn at random."""
    draw = random.Random(seed)
    ppo = {
        "epochs": 1,
        "minibatches": 1,
        "burn_in": draw.choice([0, 0, 2]),
        "auxiliary_weight": draw.choice([0.0, 0.5]),
        "microbatch": draw.choice([0, 5, 20]),
        "recomputed_parts": draw.choice([0, 0, 2]),
        "value_clip": draw.choice([0.0, 0.3]),
        "precision": draw.choice(["float32", "float32", "bfloat16"]),
        **FAR,
    }
    return {
        "processes": draw.choice([2, 3, 5]),
        "agents": draw.choice([(1, 1), (2, 2)]),
        "environment": {"num_envs": draw.randint(1, 5), "self_play": draw.choice([0.0, 0.5])},
        "rollout": {"steps": draw.choice([8, 16]), "chunk": draw.choice([2, 4, 8])},
        "network": {"encoder_sizes": [8], "recurrent_size": draw.choice([6, 64])},
        "normalization": {"advantage_role_samples": draw.choice([0, 1])},
        "ppo": ppo,
    }


@pytest.mark.usefixtures("_no_chance")
@pytest.mark.parametrize("seed", range(12))
def test_shares_add_up_to_the_gradient_and_the_figures_of_one_process(play, never, seed):
    case = some_case(seed)
    processes, agents = case.pop("processes"), case.pop("agents")
    found = []
    for run in ({}, {"update_processes": processes}):
        played = play(agents, run=run, optimizer=LOOSE, schedules=STILL, **case)
        for _ in range(2):  # the second rollout begins inside episodes, and was scaled by the first
            metrics = played.learner.learn(played.collect(), never)
        found.append((metrics, gradients(played)))
    (metrics, expected), (figures, summed) = found
    assert metrics.keys() == figures.keys()
    half = case["ppo"]["precision"] == "bfloat16"
    close = {"rtol": 5e-2, "atol": 1e-2} if half else {"rtol": 1e-4, "atol": 2e-5}
    for name, figure in metrics.items():
        torch.testing.assert_close(
            figures[name], figure, equal_nan=True, **close, msg=lambda text, n=name: f"{n} {text}"
        )
    assert expected.keys() == summed.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(summed[name], gradient, **close)


def test_the_same_again_with_as_many_processes(play, never):
    one, other = (play(run={"update_processes": 3}, ppo={"epochs": 3, **FAR}) for _ in range(2))
    for _ in range(3):
        for each in (one, other):
            each.learner.learn(each.collect(), never)
    assert different(one, other) == []
    alone = play(ppo={"epochs": 3, **FAR})
    alone.learner.learn(alone.collect(), never)
    assert "network.critic.weight" in different(one, alone)


def test_all_stop_at_the_kl_of_all_and_go_on_in_the_next_update(play, never):
    played = play(run={"update_processes": 2}, ppo={"epochs": 8, "target_kl": 1e-5}, schedules={"learning_rate": 1e-2})
    for _ in range(3):
        before = {name: tensor.clone() for name, tensor in played.learner.network.named_parameters()}
        metrics = played.learner.learn(played.collect(), never)
        assert metrics["losses/kl_stop"] == 1.0
        assert any(not torch.equal(before[name], now) for name, now in played.learner.network.named_parameters())
    assert played.learner.ppo.partners is not NOBODY


def test_what_is_not_finite_in_a_partner_never_reaches_the_weights(play, never, monkeypatch):
    played = play(run={"update_processes": 2}, ppo={"nonfinite_limit": 100})
    hear = Partners._hear

    def poisoned(partners, word):
        hear(partners, word)
        if word is Word.DONE:
            partners._board.desks[0].gradient[0] = torch.nan

    monkeypatch.setattr(Partners, "_hear", poisoned)
    before = {name: tensor.clone() for name, tensor in played.learner.network.named_parameters()}
    metrics = played.learner.learn(played.collect(), never)
    assert metrics["losses/rejected_steps"] == 4.0
    assert all(torch.equal(before[name], now) for name, now in played.learner.network.named_parameters())


@pytest.mark.usefixtures("_no_chance")
@pytest.mark.parametrize("where", ["weigh", "gather"])
def test_a_partner_that_fails_is_done_without_and_nothing_is_lost(play, never, monkeypatch, caplog, where):
    """The minibatch that it failed in is learned from whole."""
    alone = play(ppo={"epochs": 1, **FAR})
    played = play(run={"update_processes": 2}, ppo={"epochs": 1, **FAR})
    plain, mine = getattr(Weigher, where), played.learner.ppo._weigher

    def failing(weigher, *arguments):
        if weigher not in (mine, alone.learner.ppo._weigher):
            raise RuntimeError("out of memory")
        return plain(weigher, *arguments)

    monkeypatch.setattr(Weigher, where, failing)
    metrics = [each.learner.learn(each.collect(), never) for each in (alone, played)]
    assert metrics[0].keys() == metrics[1].keys()
    for name, tensor in alone.learner.network.named_parameters():
        torch.testing.assert_close(played.learner.network.get_parameter(name), tensor, rtol=1e-5, atol=1e-6)
    assert "cannot go on: RuntimeError: out of memory: nothing is lost" in caplog.text
    assert played.learner.ppo.partners is NOBODY
    caplog.clear()
    played.learner.learn(played.collect(), never)
    assert not caplog.text


class Silent(PartnerThread):
    """As a process that was stopped: it is there, and does nothing."""

    killed = False

    def _serve(self) -> None:
        """It hears nothing, and never leaves by itself."""

    def wait(self, timeout: float | None = None) -> int:
        if not self.killed:
            raise subprocess.TimeoutExpired("partner", timeout)
        return -signal.SIGKILL

    def kill(self) -> None:
        self.killed = True
        self._socket.close()


def test_a_partner_that_does_not_answer_is_ended_and_done_without(play, never, monkeypatch, caplog):
    monkeypatch.setattr(partners, "SILENT_S", 0.05)
    monkeypatch.setattr(learners, "Partners", functools.partial(Partners, launch=Silent))
    played = play(run={"update_processes": 2}, ppo=FAR)
    (silent,) = played.learner.ppo.partners._processes
    metrics = played.learner.learn(played.collect(), never)
    assert metrics["losses/rejected_steps"] == 0.0
    assert played.learner.ppo.partners is NOBODY
    assert silent.killed
    assert "update process 1 (pid 0) has not answered for 0.05 s, and is ended: nothing is lost" in caplog.text


class ManyHeads(FakeGame):
    """An action of 400 choices: their weights alone are more than a message holds."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        heads = tuple(ActionHead(f"choice_{number}", HeadKind.CATEGORICAL, 2, masked=False) for number in range(400))
        self.spec = replace(self.spec, heads=heads)

    def _masks(self) -> dict[str, torch.Tensor]:
        return {}


def test_partners_take_part_in_updates_of_any_number_of_heads(play, never, caplog):
    played = play(game=ManyHeads(3), environment={"self_play": 1.0}, run={"update_processes": 2}, ppo=FAR)
    played.learner.learn(played.collect(), never)
    assert played.learner.ppo.partners is not NOBODY
    assert not caplog.text


def test_an_update_that_breaks_off_leaves_nobody_waiting_in_the_middle_of_it(play, never, monkeypatch):
    played = play(run={"update_processes": 2}, ppo=FAR)
    mine, weigh = played.learner.ppo._weigher, Weigher.weigh

    def failing(weigher, *arguments):
        if weigher is mine:
            raise RuntimeError("out of memory")
        return weigh(weigher, *arguments)

    with monkeypatch.context() as broken:
        broken.setattr(Weigher, "weigh", failing)
        with pytest.raises(RuntimeError, match="out of memory"):
            played.learner.learn(played.collect(), never)
    metrics = played.learner.learn(played.collect(), never)
    assert metrics["losses/rejected_steps"] == 0.0
    assert played.learner.ppo.partners is NOBODY


def test_a_stop_between_minibatches_leaves_partners_ready_for_the_next_update(play, never):
    played = play(run={"update_processes": 2}, ppo=FAR)
    asked = iter([False, True])
    played.learner.learn(played.collect(), lambda: next(asked))
    metrics = played.learner.learn(played.collect(), never)
    assert metrics["losses/kl_stop"] == 0.0
    assert played.learner.ppo.partners is not NOBODY


def test_a_rollout_in_other_memory_is_learned_from_alone(play, never):
    """Partners see their own memory only."""
    played, plain = play(run={"update_processes": 2}, ppo=FAR), play(ppo=FAR)
    copy = type(played.rollout)(**{name: tensor.clone() for name, tensor in vars(played.collect()).items()})
    played.learner.learn(copy, never)
    plain.learner.learn(plain.collect(), never)
    assert different(played, plain) == []


def test_partners_leave_when_their_learner_is_forgotten(play, never):
    played = play(run={"update_processes": 3})
    processes = list(played.learner.ppo.partners._processes)
    played.learner.learn(played.collect(), never)
    del played
    gc.collect()
    assert not any(each._thread.is_alive() for each in processes)


def test_where_there_is_no_memory_to_share_one_process_learns(play, never, monkeypatch, caplog):
    def refuse(name):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "memfd_create", refuse)
    played = play(run={"update_processes": 2})
    played.learner.learn(played.collect(), never)
    assert "updates are made in one process: no other can be started" in caplog.text


@pytest.mark.parametrize(
    ("run", "steps", "expected"),
    [
        ({}, 12, 1),
        ({"threads": 4}, 12, 1),
        ({"threads": 4}, 1024, 4),
        ({"threads": 4}, 512, 3),
        ({"threads": 4, "update_processes": 1}, 4096, 1),
        ({"update_processes": 2}, 12, 2),
    ],
)
def test_small_minibatches_stay_in_one_process_unless_the_user_says_otherwise(config, run, steps, expected):
    settings = config(run=run, rollout={"steps": steps, "chunk": 4})
    assert learners.update_processes(settings, rows=3) == expected


def test_several_processes_are_refused_by_name_where_there_cannot_be_any(config, monkeypatch):
    with pytest.raises(ConfigError, match=r"run.update_processes is 2, but run.device is cuda"):
        config(run={"update_processes": 2, "device": "cuda"})
    monkeypatch.setattr(board, "SUPPORTED", False)
    with pytest.raises(ConfigError, match=r"run.update_processes is 2, but processes share memory on Linux alone"):
        learners.update_processes(config(run={"update_processes": 2}), rows=3)
    assert learners.update_processes(config(run={"threads": 4}, rollout={"steps": 1024}), rows=3) == 1


# --- processes -------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from trainer.bench import Bench
from trainer.config import resolve
from trainer.synthetic import WorkItem

sizes = ["environment.num_envs=4", "rollout.steps=16", "network.encoder_sizes=[8]", "network.recurrent_size=6"]
bench = Bench(resolve("synthetic", None, [*sizes, "ppo.target_kl=1e9", "run.update_processes=3"]), WorkItem())
bench.collect()
bench.learn()
print(*(each.pid for each in bench.learner.ppo.partners._processes), flush=True)
for line in sys.stdin:
    bench.collect()
    bench.learn()
    print(type(bench.learner.ppo.partners).__name__, flush=True)
"""


@pytest.fixture
def trainer():
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def learn(trainer):
    """Let it make an update, and say who its partners are then."""
    trainer.stdin.write("learn\n")
    trainer.stdin.flush()
    return trainer.stdout.readline().strip()


def gone(pid):
    """Whether a process has ended; one whose parent was killed is reaped by whoever adopts it, in its own time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_killed_partner_is_done_without(trainer):
    """Partners hear nothing of signals to their group. One of two is killed, and the other is sent away."""
    first, second = (int(each) for each in trainer.stdout.readline().split())
    for name in (signal.SIGINT, signal.SIGTERM):
        os.kill(second, name)
    assert learn(trainer) == "Partners"
    os.kill(first, signal.SIGKILL)
    assert learn(trainer) == "Nobody"
    assert gone(first)
    assert gone(second)


def test_partners_end_when_their_trainer_is_killed(trainer):
    pids = [int(each) for each in trainer.stdout.readline().split()]
    trainer.kill()
    deadline = time.monotonic() + PATIENCE_S
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
