"""Stored fits of the pair model that tests make up."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from league_scene import ENVIRONMENT

from league.db.engine import Database
from league.db.models import PairModelFit
from league.services.ratings import pair_predictions

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def store_fit(
    database: Database,
    rows: Mapping[int, Sequence[float]],
    environment: str = ENVIRONMENT,
    variance: float = 0.0,
    effects: Sequence[tuple[int, int, float, float]] = (),
) -> None:
    """Store a fit with one cyclic component: strength, u and v by player id, and effects of pairs of rows."""
    fitted = PairModelFit(
        environment=environment, period_id=None, matches=1, components=1,
        players=np.array(list(rows), dtype="<i8").tobytes(),
        parameters=np.array(list(rows.values()), dtype="<f8").tobytes(),
        effect_variance=variance, effects=np.array(list(effects), dtype=pair_predictions.EFFECT).tobytes(),
        report={}, fitted_at=NOW,
    )  # fmt: skip
    with database.write() as session:
        pair_predictions.store(session, fitted)
