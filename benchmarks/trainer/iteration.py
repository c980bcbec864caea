"""Whole iterations, rollout and update: ours right before each other trainer's."""

import os
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.peers.workload import Work
from benchmarks.trainer.flops import iteration_flop, update_flop
from benchmarks.trainer.idle_gate import Gate, look
from benchmarks.trainer.paired import Series, Times, advantage, median, race
from benchmarks.trainer.process import Contestant, ContestantError
from benchmarks.trainer.report import NAN, Row, summary
from benchmarks.trainer.trainers import OURS, Entry

WARM_UP, STILL_ITERATIONS = 2, 2


def measure(work: Work, entries: Sequence[Entry], repeats: int, patience_s: float | None) -> tuple[list[Row], Gate]:
    """Measure everybody at one setting; the first entry is the one that the others run beside."""
    running, absent = start(entries, work)
    if entries[0].name in absent:
        raise ContestantError(f"{entries[0].name}, which everybody runs beside: {absent[entries[0].name]}")
    gate = Gate(patience_s, lambda: look([os.getpid(), *(each.process for each in running.values())]))
    for each in running.values():
        for _ in range(WARM_UP):
            iterate(each)
    measures = {name: partial(gate.measure, partial(iterate, each)) for name, each in running.items()}
    series = race(measures[entries[0].name], measures, repeats)
    rows = [row(entry, work, series, running, absent, gate) for entry in entries]
    for each in running.values():
        each.close()
    return rows, gate


def start(entries: Sequence[Entry], work: Work) -> tuple[dict[str, Contestant], dict[str, str]]:
    """Everybody who can run, and why the others cannot."""
    running, absent = {}, {}
    for entry in entries:
        try:
            running[entry.name] = entry.start(work)
        except ContestantError as error:
            absent[entry.name] = str(error)
    return running, absent


def iterate(contestant: Contestant) -> Times:
    """One rollout and its update."""
    answer = contestant.ask("iterate")
    return Times(answer["rollout_s"], answer["update_s"])


def row(
    entry: Entry,
    work: Work,
    series: Mapping[str, Series],
    running: Mapping[str, Contestant],
    absent: Mapping[str, str],
    gate: Gate,
) -> Row:
    """What is to be said of one contestant."""
    if entry.name in absent:
        return Row.of_nothing(entry.name, entry.remark, absent[entry.name])
    contestant, own = running[entry.name], series[entry.name]
    flop = contestant.introduction["forward_flop"]
    bound, share = against_bound(contestant, work, len(own.own), gate) if entry.ours else (NAN, NAN)
    return Row(
        name=entry.name,
        version=contestant.introduction["version"],
        remark=entry.remark,
        **summary(own, work),
        advantages={name: advantage(own, series[name]) for name in series if name.startswith(OURS)},
        **ratio_errors(entry, work),
        forward_flop=flop,
        update_share=share,
        bound_steps_per_s=bound * work.samples / iteration_flop(work, flop),
    )


def against_bound(contestant: Contestant, work: Work, repeats: int, gate: Gate) -> tuple[float, float]:
    """Operations a second of one large product, and the share of it that an update right before reaches; medians."""
    flop = update_flop(work, contestant.introduction["forward_flop"])

    def pair() -> tuple[float, float]:
        update_s, bound = iterate(contestant).update_s, contestant.ask("bound")["flop_per_s"]
        return bound, flop / update_s / bound

    counted = [each for each in (gate.measure(pair) for _ in range(repeats)) if each is not None]
    return median([bound for bound, _ in counted]), median([share for _, share in counted])


def ratio_errors(entry: Entry, work: Work) -> dict[str, float]:
    """Largest |ratio - 1| at learning rate 0, with fresh weights and with shaken ones."""
    contestant = entry.still(work)
    fresh = carried_over(contestant)
    contestant.ask("shake")
    errors = {"fresh_error": fresh, "shaken_error": carried_over(contestant)}
    contestant.close()
    return errors


def carried_over(contestant: Contestant) -> float:
    """Largest |ratio - 1| once memories carry over from one rollout to the next."""
    errors = [contestant.ask("iterate")["ratio_error"] for _ in range(1 + STILL_ITERATIONS)]
    return max(errors[1:])
