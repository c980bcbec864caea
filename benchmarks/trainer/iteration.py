"""Whole iterations (rollout and update), with ours right before each iteration of another trainer."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.peers.workload import Workload
from benchmarks.trainer.flops import iteration_flop, update_flop
from benchmarks.trainer.idle_gate import IdleGate, read_load
from benchmarks.trainer.paired import Series, Times, measure_pairs, median, speedup
from benchmarks.trainer.process import TrainerProcess, TrainerProcessError
from benchmarks.trainer.report import NAN, Row, summary
from benchmarks.trainer.trainers import OURS, Entry

WARM_UP, RATIO_ITERATIONS = 2, 2


def measure(
    work: Workload, entries: Sequence[Entry], repeats: int, max_wait_s: float | None
) -> tuple[list[Row], IdleGate]:
    """Measure all trainers at one setting; the first entry is the reference of each pair."""
    running, absent = start(entries, work)
    if entries[0].name in absent:
        raise TrainerProcessError(f"{entries[0].name}, the reference, did not start: {absent[entries[0].name]}")
    gate = IdleGate(max_wait_s, lambda: read_load([os.getpid(), *(each.process for each in running.values())]))
    for each in running.values():
        for _ in range(WARM_UP):
            iterate(each)
    measures = {name: partial(gate.measure, partial(iterate, each)) for name, each in running.items()}
    series = measure_pairs(measures[entries[0].name], measures, repeats)
    rows = [row(entry, work, series, running, absent, gate) for entry in entries]
    for each in running.values():
        each.close()
    return rows, gate


def start(entries: Sequence[Entry], work: Workload) -> tuple[dict[str, TrainerProcess], dict[str, str]]:
    """Start all trainers; return the running ones, and the error of each other one."""
    running, absent = {}, {}
    for entry in entries:
        try:
            running[entry.name] = entry.start(work)
        except TrainerProcessError as error:
            absent[entry.name] = str(error)
    return running, absent


def iterate(process: TrainerProcess) -> Times:
    """One rollout and its update."""
    answer = process.ask("iterate")
    return Times(answer["rollout_s"], answer["update_s"])


def row(
    entry: Entry,
    work: Workload,
    series: Mapping[str, Series],
    running: Mapping[str, TrainerProcess],
    absent: Mapping[str, str],
    gate: IdleGate,
) -> Row:
    """Return the row of one trainer."""
    if entry.name in absent:
        return Row.not_measured(entry.name, entry.remark, absent[entry.name])
    process, own = running[entry.name], series[entry.name]
    flop = process.info["forward_flop"]
    bound, share = against_bound(process, work, len(own.own), gate) if entry.ours else (NAN, NAN)
    return Row(
        name=entry.name,
        version=process.info["version"],
        remark=entry.remark,
        **summary(own, work),
        speedups={name: speedup(own, series[name]) for name in series if name.startswith(OURS)},
        **ratio_errors(entry, work),
        forward_flop=flop,
        update_share=share,
        bound_steps_per_s=bound * work.samples / iteration_flop(work, flop),
    )


def against_bound(process: TrainerProcess, work: Workload, repeats: int, gate: IdleGate) -> tuple[float, float]:
    """Return the median FLOP/s of one large matrix product, and the share of it that an update reaches."""
    flop = update_flop(work, process.info["forward_flop"])

    def pair() -> tuple[float, float]:
        update_s, bound = iterate(process).update_s, process.ask("bound")["flop_per_s"]
        return bound, flop / update_s / bound

    counted = [each for each in (gate.measure(pair) for _ in range(repeats)) if each is not None]
    return median([bound for bound, _ in counted]), median([share for _, share in counted])


def ratio_errors(entry: Entry, work: Workload) -> dict[str, Any]:
    """Largest |ratio - 1| at learning rate 0, with fresh weights and with perturbed ones."""
    process = entry.start_frozen(work)
    fresh = recurrent_ratio_error(process)
    process.ask("perturb")
    errors = {"fresh_error": fresh, "perturbed_error": recurrent_ratio_error(process)}
    process.close()
    return errors


def recurrent_ratio_error(process: TrainerProcess) -> float:
    """Return the largest |ratio - 1| after recurrent states were carried over from an earlier rollout."""
    errors = [process.ask("iterate")["ratio_error"] for _ in range(1 + RATIO_ITERATIONS)]
    return max(errors[1:])
