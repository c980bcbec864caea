"""Records of pairs as columns: the same whichever way the log is cut, and the same as one game at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from league.services.matches import pair_records
from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import NO_RECORDS, PairCount, PairRecords

PLAYERS = [3, 7, 8, 20]

log_strategy = st.lists(
    st.tuples(st.sampled_from(PLAYERS), st.sampled_from(PLAYERS), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.booleans()),
    max_size=40,
)


def games(log: list[tuple[int, int, float, bool]]) -> MatchArrays:
    home, away, score, training = zip(*log, strict=True) if log else ((), (), (), ())
    return MatchArrays(np.array(home, int), np.array(away, int), np.array(score, float), np.array(training, bool))


def plain(log: list[tuple[int, int, float, bool]]) -> dict[tuple[int, int], dict[str, float]]:
    """One game at a time: fade the pair's record where one side learns, then add, from the lower id's view."""
    records: dict[tuple[int, int], dict[str, float]] = {}
    for home, away, score, training in log:
        if home == away:
            continue
        record = records.setdefault((min(home, away), max(home, away)), dict.fromkeys(vars(PairCount()), 0.0))
        own = score if home < away else 1.0 - score
        for name in ("games", "points", "wins", "draws", "losses"):
            record[name] *= 0.99 if training else 1.0
        for name, value in (("matches", 1), ("games", 1), ("points", own)):
            record[name] += value
        record["wins" if own > 0.5 else "draws" if own == 0.5 else "losses"] += 1
    return records


def as_plain(records: PairRecords) -> dict[tuple[int, int], dict[str, float]]:
    return {pair: vars(count) for pair, count in records.counts().items()}


def turned(count: PairCount) -> PairCount:
    """The record from the other side."""
    points, wins, losses = count.games - count.points, count.losses, count.wins
    return replace(count, points=points, wins=wins, losses=losses)


@given(log_strategy, st.integers(0, 40))
def test_pair_records_equal_a_plain_loop_for_any_cut_of_the_log(log: list[Any], cut: int) -> None:
    records = NO_RECORDS.advance(games(log[:cut])).advance(games(log[cut:]))
    found, wanted = as_plain(records), plain(log)
    assert found.keys() == wanted.keys()
    for pair, record in wanted.items():
        assert found[pair] == pytest.approx(record, abs=1e-12)
    assert list(found) == sorted(found)


@given(log_strategy)
def test_the_matrix_shows_each_record_from_both_sides(log: list[Any]) -> None:
    order = [20, 3, 8]
    tally, matches = pair_records.matrix(NO_RECORDS.advance(games(log)), order)
    wanted = plain(log)
    for row, one in enumerate(order):
        for column, other in enumerate(order):
            record = wanted.get((min(one, other), max(one, other)), dict.fromkeys(vars(PairCount()), 0.0))
            own = PairCount(**record) if one < other else turned(PairCount(**record))  # type: ignore[arg-type]
            assert matches[row, column] == own.matches
            shown = (tally.games, tally.points, tally.wins, tally.draws, tally.losses)
            assert [cells[row, column] for cells in shown] == pytest.approx(
                [own.games, own.points, own.wins, own.draws, own.losses], abs=1e-12
            )


@given(log_strategy, st.sampled_from(PLAYERS), st.lists(st.sampled_from([*PLAYERS, 99]), unique=True))
def test_a_player_s_records_are_shown_from_its_own_view(log: list[Any], player: int, others: list[int]) -> None:
    wanted, records = plain(log), NO_RECORDS.advance(games(log))
    own = (records.low == player) | (records.high == player)
    tally, matches = pair_records.against(
        PairRecords(*(column[own] for column in vars(records).values())), player, others
    )
    for place, other in enumerate(others):
        record = wanted.get((min(player, other), max(player, other)), dict.fromkeys(vars(PairCount()), 0.0))
        count = PairCount(**record) if player < other else turned(PairCount(**record))  # type: ignore[arg-type]
        assert matches[place] == count.matches
        shown = tally.games, tally.points, tally.wins, tally.draws, tally.losses
        assert [cells[place] for cells in shown] == pytest.approx(
            [count.games, count.points, count.wins, count.draws, count.losses], abs=1e-12
        )


@given(log_strategy, log_strategy)
def test_only_records_of_played_pairs_are_reported_as_changed(before: list[Any], new: list[Any]) -> None:
    records = NO_RECORDS.advance(games(before)).advance(games(new))
    assert as_plain(records.among(games(new))).keys() == plain(new).keys()
