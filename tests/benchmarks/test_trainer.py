"""The benchmark's own arithmetic, without the libraries that it measures."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.peers.workload import Workload, forward_flop
from benchmarks.trainer import acting, team_battle
from benchmarks.trainer.flops import update_flop
from benchmarks.trainer.idle_gate import IdleGate, Load, machine_seconds, process_seconds, read_load, with_children
from benchmarks.trainer.paired import Series, Times, measure_pairs, speedup
from benchmarks.trainer.process import TrainerProcess, TrainerProcessError
from benchmarks.trainer.report import Row, iteration_records, summary
from benchmarks.trainer.trainers import PEERS, SCRIPTS, peer_entry

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=-1)
child.stdout.readline()
print(child.pid, flush=True)
input()
child.communicate(b"x")
"""

SMALL = Workload(
    environments=4, steps=8, observation_size=3, action_size=2, encoder=5, memory=6, epochs=2, minibatches=2
)
IDLE, BUSY = 0.01, 0.5


class Machine:
    """Time that passes, and what others do meanwhile."""

    def __init__(self, *shares):
        self.shares, self.now, self.busy, self.looks = list(shares), 0.0, 0.0, 0

    def observe(self):
        self.looks += 1
        return Load(total_s=self.now, busy_s=self.busy, own_s=0.0)

    def pass_time(self, seconds):
        share = self.shares.pop(0) if len(self.shares) > 1 else self.shares[0]
        self.now += seconds
        self.busy += share * seconds

    def gate(self, max_wait_s):
        return IdleGate(max_wait_s, self.observe, clock=lambda: self.now, sleep=self.pass_time)


def measured(machine, gate):
    def work():
        machine.pass_time(1.0)
        return "done"

    return gate.measure(work)


def test_a_measurement_waits_until_the_machine_is_idle():
    machine = Machine(BUSY, BUSY, IDLE)
    gate = machine.gate(max_wait_s=10.0)
    assert measured(machine, gate) == "done"
    assert machine.now == pytest.approx(1.0 + 3 * 0.25)
    assert gate.dropped == 0


def test_a_measurement_that_others_disturbed_is_dropped_and_counted():
    machine = Machine(IDLE, 0.11)
    gate = machine.gate(max_wait_s=10.0)
    assert measured(machine, gate) is None
    assert gate.dropped == 1


def test_a_measurement_that_others_hardly_disturbed_counts():
    machine = Machine(IDLE, 0.09)
    assert measured(machine, machine.gate(max_wait_s=10.0)) == "done"


def test_waiting_ends_after_the_limit():
    machine = Machine(BUSY)
    assert measured(machine, machine.gate(max_wait_s=2.0)) is None
    assert machine.now == pytest.approx(3.0)


def test_patience_is_for_all_measurements_together():
    machine = Machine(BUSY)
    gate = machine.gate(max_wait_s=2.0)
    assert [measured(machine, gate) for _ in range(3)] == [None] * 3
    assert machine.now == pytest.approx(5.0)
    assert gate.dropped == 3


def test_an_idle_machine_needs_no_wait():
    machine = Machine(*[IDLE] * 40, BUSY, IDLE)
    gate = machine.gate(max_wait_s=0.5)
    assert [measured(machine, gate) for _ in range(21)] == ["done"] * 21


def test_without_a_gate_everything_counts_at_once():
    machine = Machine(BUSY)
    gate = machine.gate(max_wait_s=None)
    assert measured(machine, gate) == "done"
    assert machine.now == 1.0
    assert gate.shares == [pytest.approx(BUSY)]


def test_our_own_processes_are_not_others():
    before, after = Load(100.0, 40.0, 10.0), Load(108.0, 45.0, 14.0)
    assert after.others(before) == pytest.approx(1.0 / 8.0)


def test_idle_and_waiting_for_a_disk_is_not_busy_and_guests_are_not_counted_twice():
    total, busy = machine_seconds("cpu  100 0 200 500 50 0 10 40 77 88\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    assert (total, busy) == (9.0, 3.5)


def test_a_process_is_read_behind_its_name_whatever_the_name():
    assert process_seconds("7 (a ) b (c) S 1 1 1 0 -1 4194304 500 0 0 0 300 200 0 0 20 0") == 5.0


def scripted(*seconds):
    left = list(seconds)
    return lambda: None if (value := left.pop(0)) is None else Times(0.0, value)


def test_only_neighbours_are_compared():
    """The machine slows down threefold half way; ours is twice as fast all along."""
    reference = scripted(1.0, 1.0, 3.0, 3.0)
    series = measure_pairs(reference, {"peer": scripted(2.0, 6.0), "rival": scripted(4.0, 12.0)}, repeats=2)
    assert series["peer"].relative() == [0.5, 0.5]
    assert [times.update_s for times in series["rival"].reference] == [1.0, 3.0]
    assert speedup(series["peer"], series["rival"]) == 2.0


def test_disturbed_pair_is_rerun():
    series = measure_pairs(scripted(1.0, 2.0, 3.0), {"peer": scripted(None, None, 6.0)}, repeats=1)
    assert series["peer"].relative() == [0.5]


def test_a_pair_that_never_succeeds_leaves_a_gap_and_no_number():
    series = measure_pairs(scripted(*[1.0] * 4), {"peer": scripted(*[None] * 4)}, repeats=1)
    assert series["peer"].relative() == [None]
    assert math.isnan(summary(series["peer"], SMALL)["steps_per_s"])


def test_a_gap_leaves_the_other_rounds_paired():
    some = Series([Times(0, 1.0), None, Times(0, 1.0)], [Times(0, 1.0), None, Times(0, 1.0)])
    other = Series([Times(0, 2.0), Times(0, 9.0), Times(0, 4.0)], [Times(0, 1.0), Times(0, 1.0), Times(0, 1.0)])
    assert speedup(some, other) == 3.0


def test_steps_a_second_are_of_the_median_iteration():
    series = Series([Times(0.5, 0.5), Times(1.0, 3.0), Times(0.5, 1.5)], [Times(0, 1)] * 3)
    assert summary(series, SMALL)["steps_per_s"] == SMALL.samples / 2.0


class Plain(torch.nn.Module):
    """The architecture of the work, as torch has it."""

    def __init__(self, work):
        super().__init__()
        self.encoder = torch.nn.Linear(work.observation_size, work.encoder)
        self.lstm = torch.nn.LSTM(work.encoder, work.memory)
        self.heads = torch.nn.Linear(work.memory, work.action_size + 1)

    def forward(self, observation, state):
        return self.heads(self.lstm(self.encoder(observation), state)[0])


def counted_flop(work, *, learn):
    """What torch counts for one pass over a rollout; in double precision its LSTM is made of products that it sees."""
    network = Plain(work).double()
    observation = torch.randn(work.steps, work.environments, work.observation_size, dtype=torch.float64)
    state = torch.randn(2, 1, work.environments, work.memory, dtype=torch.float64, requires_grad=True).unbind()
    with FlopCounterMode(display=False) as counter:
        output = network(observation, state)
        if learn:
            output.sum().backward()
    return counter.get_total_flops(), forward_flop(network)


def test_the_operations_of_a_forward_pass_are_those_that_torch_counts():
    counted, forward = counted_flop(SMALL, learn=False)
    assert SMALL.samples * forward == counted


def test_the_operations_of_an_update_are_those_that_torch_counts():
    counted, forward = counted_flop(SMALL, learn=True)
    assert update_flop(SMALL, forward) == SMALL.epochs * counted


def test_a_battle_counts_all_agents_and_shares_its_time_among_all():
    info = {"env_steps": 100, "agents": 20}
    times = {"rollout_s": 3.0, "update_s": 5.0, "arena_s": 0.8, "acting_s": 1.2, "opponents_s": 0.4, "decisions": 900}
    figures = team_battle.summarise(info, times)
    assert figures["agent_steps_per_s"] == 20 * figures["env_steps_per_s"] == 250.0
    assert figures["decisions_per_s"] == 112.5
    assert figures["update"] == 0.625
    assert figures["rest"] == pytest.approx(1.0 - 0.1 - 0.15 - 0.05 - 0.625)


def test_acting_is_set_against_the_product_measured_beside_it():
    row = acting.summarise(("ours, exact", 64), [(100.0, 4000.0), None, (300.0, 4000.0), (200.0, 8000.0)], flop=10)
    assert row["steps_per_s"] == 200.0
    assert row["share"] == pytest.approx(0.25)


def test_an_unknown_peer_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"--peer pufer=python: 'pufer' is not known; choose from pufferlib,"):
        peer_entry("pufer=python")


def test_a_missing_interpreter_is_refused():
    with pytest.raises(ValueError, match="there is no interpreter '/nowhere/python'; make a virtual environment first"):
        peer_entry("sb3=/nowhere/python")


def test_every_peer_has_its_script():
    assert all((SCRIPTS / peer.script).is_file() for peer in PEERS.values())


@pytest.mark.integration
def test_missing_peer_is_reported():
    with pytest.raises(TrainerProcessError, match=r"process ended: .*No module named"):
        TrainerProcess([sys.executable, str(SCRIPTS / "run_pufferlib.py")], SMALL, {})


def test_a_row_without_numbers_is_json_all_the_same():
    row = Row.not_measured("pufferlib", "horizon 64", "not installed").as_json()
    assert row["steps_per_s"] is None
    assert row["absent"] == "not installed"


@pytest.fixture
def recipe():
    work = replace(SMALL, learning_rate=0.0, end_chance=0.2)
    process = TrainerProcess([sys.executable, str(SCRIPTS / "run_cleanrl.py")], work, {})
    yield process
    process.close()


@pytest.mark.integration
def test_a_peer_times_its_parts_and_is_exact_at_learning_rate_0(recipe):
    answers = [recipe.ask("iterate") for _ in range(2)]
    assert all(answer["rollout_s"] > 0.0 and answer["update_s"] > 0.0 for answer in answers)
    assert max(answer["ratio_error"] for answer in answers) < 1e-5
    assert recipe.ask("act 16")["act_s"] > 0.0


@pytest.mark.integration
def test_child_processes_count_toward_their_trainer():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert with_children([parent.pid]) == {parent.pid, child}
    parent.communicate("x")
    assert with_children([parent.pid]) == {parent.pid}
    assert read_load([parent.pid]).own_s == 0.0


def test_records_compare_each_variant_with_the_peers_that_ran():
    def row(name, seconds):
        speedups = {"ours, exact": 0.3 / seconds, "ours, bf16": 0.2 / seconds}
        return replace(Row.not_measured(name, "", ""), rollout_s=0.1, update_s=seconds - 0.1, speedups=speedups)

    rows = [row("ours, exact", 0.3), row("ours, bf16", 0.2), row("pufferlib", 0.36)]
    exact, bf16 = iteration_records(1, [*rows, Row.not_measured("sb3", "", "not installed")])
    assert (exact["measured"], exact["reference"], exact["aim"]) == ("300 ms", "pufferlib: 1.20", "1.3")
    assert (bf16["measured"], bf16["reference"], bf16["aim"]) == ("200 ms", "pufferlib: 1.80", "1.6")
    assert "ours, bf16" in bf16["work"]
