"""Whole iterations, rollout and update: ours right before each other trainer's."""

import os
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.contest.contestant import Contestant, ContestantError
from benchmarks.contest.entries import OURS, Entry
from benchmarks.contest.flops import update_flop
from benchmarks.contest.gate import Gate, look
from benchmarks.contest.pairs import Series, Times, advantage, median, race
from benchmarks.contest.report import Row, summary
from benchmarks.other.work import Work

WARM_UP, STILL_ITERATIONS = 2, 2


def measure(work: Work, entries: Sequence[Entry], repeats: int, patience_s: float | None) -> tuple[list[Row], Gate]:
    """Measure everybody at one setting; the first entry is the one that the others run beside."""
    running, absent = start(entries, work)
    gate = Gate(patience_s, lambda: look([os.getpid(), *(each.process for each in running.values())]))
    for each in running.values():
        for _ in range(WARM_UP):
            iterate(each)
    measures = {name: partial(gate.measure, partial(iterate, each)) for name, each in running.items()}
    series = race(measures[entries[0].name], measures, repeats)
    return [row(entry, work, series, running, absent, gate) for entry in entries], gate


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
    """What is to be said of one contestant; its process ends."""
    if entry.name in absent:
        return Row.of_nothing(entry.name, entry.remark, absent[entry.name])
    contestant, own = running[entry.name], series[entry.name]
    share = update_share(contestant, work, len(own.own), gate) if entry.ours else float("nan")
    contestant.close()
    return Row(
        name=entry.name,
        version=contestant.introduction["version"],
        remark=entry.remark,
        **summary(own, work),
        advantages={name: advantage(own, series[name]) for name in series if name.startswith(OURS)},
        ratio_error=ratio_error(entry, work),
        forward_flop=contestant.introduction["forward_flop"],
        update_share=share,
    )


def update_share(contestant: Contestant, work: Work, repeats: int, gate: Gate) -> float:
    """The update's arithmetic over what one large product reaches right after it; median of the pairs that count."""
    flop = update_flop(work, contestant.introduction["forward_flop"])

    def pair() -> float:
        return flop / iterate(contestant).update_s / contestant.ask("bound")["flop_per_s"]

    shares = [gate.measure(pair) for _ in range(repeats)]
    return median([share for share in shares if share is not None])


def ratio_error(entry: Entry, work: Work) -> float:
    """Largest |ratio - 1| at learning rate 0, once memories carry over from one rollout to the next."""
    contestant = entry.still(work)
    errors = [contestant.ask("iterate")["ratio_error"] for _ in range(1 + STILL_ITERATIONS)]
    contestant.close()
    return max(errors[1:])
