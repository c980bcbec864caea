"""Many rows of numbers, read as columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import Select, select

from benchmarks.server import match_history
from league.db.arrays import fetch_arrays, read_columns
from league.db.engine import Database
from league.db.models import LearnerProgress, Match
from league.services.matches import log as match_log

MATCHES = 120


@pytest.fixture
def played(database: Database) -> Database:
    match_history.create_players(database, 12)
    match_history.append_matches(database, MATCHES)
    return database


@pytest.mark.parametrize("read", [read_columns, fetch_arrays])
def test_columns_are_the_numbers_of_the_rows_in_their_order(
    played: Database, read: Callable[..., NDArray[np.float64]]
) -> None:
    columns = Match.id, Match.home_id, Match.score / 3, Match.kind == "training"
    of_environment = Match.environment == match_history.ENVIRONMENT
    query: Select[Any] = select(*columns).where(of_environment).order_by(Match.id.desc())
    with played.read() as session:
        rows = session.execute(query).all()
        assert read(session, query, 4).T.tolist() == [[float(value) for value in row] for row in rows]
        assert read(session, query.where(Match.id < 0), 4).shape == (4, 0)
    assert len(rows) == MATCHES


@pytest.mark.parametrize("read", [read_columns, fetch_arrays])
def test_null_is_not_a_number(played: Database, read: Callable[..., NDArray[np.float64]]) -> None:
    with played.read() as session:
        assert np.isnan(read(session, select(LearnerProgress.step), 1)).tolist() == [[True]]


@pytest.mark.parametrize("at_once", [7, MATCHES, 1000])
def test_the_log_is_the_same_however_much_of_it_is_read_at_once(
    played: Database, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    with played.read() as session:
        ids = list(session.scalars(select(Match.id).order_by(Match.id)))
        scores = list(session.scalars(select(Match.score).order_by(Match.id)))
        monkeypatch.setattr(match_log, "_AT_ONCE", at_once)
        assert match_log.ids(session, match_history.ENVIRONMENT, 0, None).tolist() == ids
        assert match_log.ids(session, match_history.ENVIRONMENT, ids[9], ids[99]).tolist() == ids[10:100]
        assert match_log.read(session, match_history.ENVIRONMENT, ids[9], None).score.tolist() == scores[10:]
        assert len(match_log.read(session, match_history.ENVIRONMENT, ids[-1], None)) == 0
        assert len(match_log.read(session, "another", 0, None)) == 0
