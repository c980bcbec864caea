"""Replays of promotions: who is played against, what confirms a promotion, and what is counted."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from arena.play.series import MatchSeries, PairedMatch
from benchmarks import promotions
from benchmarks.promotions import Change, Replay, hours, read_changes, summary
from league.db import schema
from league.db.engine import Database
from league.db.models import Environment, Event, Gate, Period, Player, Rating

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Four players of one environment: 1 to 3 have played 10 to 30 rated games an hour after the start."""
    database = Database(f"sqlite:///{tmp_path / 'league.db'}")
    schema.upgrade(database)
    with database.write() as session:
        session.add(Environment(name="rps", created_at=START))
        session.flush()
        session.add_all(player(number) for number in range(1, 5))
        session.add_all(period(number) for number in (1, 2))
        session.flush()
        session.add_all(
            Rating(
                player_id=number,
                period_id=1,
                rating=1500.0,
                deviation=30.0,
                volatility=0.06,
                games=10 * number,
                score=5.0,
            )
            for number in range(1, 4)
        )
        yield session
    database.close()


def player(number: int) -> Player:
    return Player(
        id=number, kind="baseline", environment="rps", signature="rps-1", name=f"player-{number}", card={},
        start_rating=1500.0, start_deviation=30.0, start_volatility=0.06, created_at=START,
    )  # fmt: skip


def period(number: int) -> Period:
    return Period(
        id=number, environment="rps", number=number, last_match_id=number, matches=1, players=1, rule={}, reason="",
        closed_at=START + timedelta(hours=number),
    )  # fmt: skip


def change(kind: str, player_id: int, reason: str = "", actor: str = "rule", **details: int | None) -> Event:
    return Event(
        kind=kind, environment="rps", player_id=player_id, actor=actor, reason=reason, details=details,
        created_at=START + timedelta(hours=1),
    )  # fmt: skip


def gate(number: int, candidate_id: int, champion_id: int) -> Gate:
    return Gate(
        id=number, environment="rps", candidate_id=candidate_id, champion_id=champion_id, elo0=0.0, elo1=50.0,
        alpha=0.05, beta=0.05, least_games=20, state="accepted", actor="rule", reason="", opened_at=START, verdict={},
    )  # fmt: skip


def test_rivals_are_the_opponent_of_the_gate_the_former_champion_or_all_frozen_players(session: Session) -> None:
    session.add_all([gate(7, 3, 2), gate(8, 3, 1)])
    session.add_all(
        [
            change("promote", 1, "better than the median"),
            change("promote", 3, "better; gate 8: accepted after 44 games"),
            change("promote", 4, "by hand", actor="me"),
            change("champion", 3, **{"from": None, "to": 3}),
            change("champion", 1, **{"from": 3, "to": 1}),
            change("champion", 1, **{"from": 1, "to": None}),
        ]
    )
    session.flush()
    found = [
        (each.title, each.player.id, [rival.id for rival in each.rivals], each.games)
        for each in read_changes(session, "rps")
    ]
    assert found == [
        ("promotion", 1, [2, 3], 10),
        ("promotion", 3, [1], 30),
        ("champion", 3, [], 30),
        ("champion", 1, [3], 10),
    ]
    assert hours(session, "rps") == 1.0


@pytest.mark.parametrize(
    ("score", "error", "verdict"),
    [(0.53, 0.018, "confirmed"), (0.53, 0.019, "undecided"), (0.47, 0.019, "undecided"), (0.47, 0.018, "refuted")],
)
def test_replay_confirms_if_a_one_sided_test_finds_a_score_above_a_half(
    score: float, error: float, verdict: str
) -> None:
    assert Replay(score, error).verdict == verdict


def test_summary_counts_replays_without_the_missing_ones() -> None:
    changes = [Change("promotion", player(1), (), games, START) for games in (100, 300, 400)]
    found = {
        title: measured for title, measured, _ in summary(changes, [Replay(0.9, 0.01), None, Replay(0.5, 0.01)], 2.0)
    }
    assert found["promotions per hour"] == "1.5 (3 in 2.00 h)"
    assert found["median games at promotion"] == "300"
    assert found["promotions that a replay confirms"].startswith("50% (1 of 2; 1 undecided, 0 refuted; 1 not replayed)")
    assert found["champions per hour"] == "0.0 (0 in 2.00 h)"


def test_matches_are_divided_evenly_among_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Won, drawn and lost pairs with one rival, only drawn ones with the others."""
    asked = []

    def series(environment: str, a: str, b: str, matches: int, seed: int) -> MatchSeries:
        asked.append((environment, a, b, matches))
        scores = [1.0, 1.0, 0.0, 0.0] if b == "uneven" else [1.0, 0.0, 1.0, 0.0]
        return MatchSeries(tuple(PairedMatch(score, True, "", 1, seed) for score in scores))

    monkeypatch.setattr(promotions, "resolve_policy", lambda _, name: name)
    monkeypatch.setattr(promotions, "play_series", series)
    found = promotions.replay("rps", "one", ["uneven", "even", "even"], matches=10, seed=0)
    assert asked == [("rps", "one", rival, 4) for rival in ("uneven", "even", "even")]
    assert (found.score, found.error) == (0.5, pytest.approx(0.5 / 3.0))
