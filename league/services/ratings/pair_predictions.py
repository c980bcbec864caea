"""Predicted scores of pairs by the pair model (Bradley-Terry with cyclic components), fitted between rating periods.

The newest fit of each environment is stored as a row of `pair_models`. It predicts scores and does not change ratings,
which are those of `league.services.ratings.period`. A process that loads a population loads the fit with it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import SCALE, Ratings, expected_score
from league import wire
from league.db.models import PairModelFit, Period
from league.db.upsert import insert_into
from league.services.matches import pair_records
from league.services.ratings import history_fit, rated_players
from league.services.ratings.history_fit import History

if TYPE_CHECKING:
    from arena.ratings.pair_model import PairModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GAMES_MIN = 40
"""Games of a pair from which its observed score is compared with the prediction."""

_BINS = 10
_FLOOR = 1e-3  # variance of a game's score; a pair that always wins must not suggest an infinite z
_FLOAT, _INT = np.dtype("<f8"), np.dtype("<i8")


class Ancestry(NamedTuple):
    """A player's learner and step, from which new snapshots inherit predictions; no learner for those that restart."""

    player_id: int
    learner_id: int | None
    step: int

    @classmethod
    def of(cls, player_id: int, role: str | None, learner_id: int | None, step: int | None) -> "Ancestry":
        """Return a player's ancestry. Exploiters restart, so their older snapshots predict nothing about newer ones."""
        return cls(player_id, learner_id if role == "main" else None, step or 0)


@dataclass(frozen=True, eq=False)
class PairPredictor:
    """Predictions for P players of a population.

    Attributes:
        parameters: (P, 1 + 2k) strength in units of 173.7178 points, then u and v of each cyclic component. NaN for
            players that the fit cannot predict.
    """

    parameters: FloatArray


def expected(predictor: PairPredictor | None, ratings: Ratings, one: IntArray, other: IntArray) -> FloatArray:
    """Return the expected scores of K pairs, (K,) in [0, 1].

    Glicko-2 predicts before the first fit (None), and pairs of which the fit lacks a player.
    """
    if predictor is None:
        return expected_score(ratings, one, other)
    from arena.ratings.pair_posterior import log_odds  # loads scipy

    with np.errstate(over="ignore"):
        predicted = 1.0 / (1.0 + np.exp(-log_odds(predictor.parameters, one, other)))
    unknown = np.isnan(predicted)
    predicted[unknown] = expected_score(ratings, one[unknown], other[unknown])
    return predicted


def describe(session: Session, environment: str) -> wire.PairModel:
    """Return the newest fit of an environment with the quality of its predictions."""
    fitted = session.get(PairModelFit, environment)
    if fitted is None:
        return wire.PairModel(
            environment=environment, period_id=None, fitted_at=None, components=0, held_out=[],
            rms_z=None, rms_z_of_ratings=None, pairs=0, calibration=[],
        )  # fmt: skip
    return wire.PairModel(
        environment=environment,
        period_id=fitted.period_id,
        fitted_at=fitted.fitted_at,
        components=fitted.components,
        **fitted.report,
    )


def all_rms_z(session: Session) -> dict[str, float]:
    """Return the root mean square of z by environment, of those with a pair of `GAMES_MIN` games."""
    rows = session.execute(select(PairModelFit.environment, PairModelFit.report)).all()
    return {environment: report["rms_z"] for environment, report in rows if report["rms_z"] is not None}


@dataclass(frozen=True, eq=False)
class FitInput:
    """Input of a fit: the rating matches of frozen players up to the last period.

    Attributes:
        environment: Name of the environment.
        period_id: The last period; None before the first.
        matches: Number of matches of all periods.
        history: The rating matches.
    """

    environment: str
    period_id: int | None
    matches: int
    history: History


def read_input(session: Session, environment: str, growth: float) -> FitInput | None:
    """Return the input of a fit if matches have grown by more than the share `growth` since the last one."""
    own = Period.environment == environment, Period.current_version()
    period_id, matches = session.execute(
        select(func.max(Period.id), func.coalesce(func.sum(Period.matches), 0)).where(*own)
    ).one()
    last = session.scalar(select(PairModelFit.matches).where(PairModelFit.environment == environment))
    if matches <= (1.0 + growth) * (last or 0):
        return None
    rows = rated_players.list_frozen(session, environment)
    entries = {player.id: rated_players.entry_of(player, rating) for player, rating in rows}
    parents = {player.id: player.parent_id for player, _ in rows}
    history = history_fit.history(entries, parents, pair_records.read(session, environment))
    return FitInput(environment, period_id, int(matches), history)


def fit(given: FitInput, config: RefitConfig, now: datetime) -> PairModelFit:
    """Fit the pair model; takes seconds with thousands of players."""
    from arena.ratings import pair_model  # loads scipy

    history = given.history
    priors = pair_model.Priors(history.start, history.anchor, history.parent, config)
    model = pair_model.fit(history.results, priors)
    strength = model.rating[:, None] / SCALE
    positions = model.components.transpose(1, 0, 2).reshape(model.rating.size, -1)
    return PairModelFit(
        environment=given.environment,
        period_id=given.period_id,
        matches=given.matches,
        components=len(model.components),
        players=np.array(history.ids).astype(_INT).tobytes(),
        parameters=np.hstack((strength, positions)).astype(_FLOAT).tobytes(),
        report=_report(model, history),
        fitted_at=now,
    )


def store(session: Session, fitted: PairModelFit) -> None:
    """Store a fit in the place of its environment's last one."""
    row = {column.key: getattr(fitted, column.key) for column in PairModelFit.__table__.columns}
    changed = {name: value for name, value in row.items() if name != "environment"}
    statement = insert_into(session, PairModelFit).values(row)
    session.execute(statement.on_conflict_do_update(index_elements=["environment"], set_=changed))


def load(session: Session, environment: str, players: Sequence[Ancestry], rating: FloatArray) -> PairPredictor | None:
    """Return the predictor of a population, or None before the first fit.

    A learner, and a snapshot of it since the fit, has the position of the learner's newest fitted snapshot. Its
    strength differs from that snapshot's as their ratings do.

    Args:
        session: A transaction.
        environment: Name of the environment.
        players: The P players.
        rating: (P,) their ratings in points.
    """
    columns = PairModelFit.components, PairModelFit.players, PairModelFit.parameters
    row = session.execute(select(*columns).where(PairModelFit.environment == environment)).one_or_none()
    if row is None:
        return None
    components, ids, content = row
    fitted = np.frombuffer(content, _FLOAT).reshape(-1, 1 + 2 * components)
    rows = {player_id: index for index, player_id in enumerate(np.frombuffer(ids, _INT).tolist())}
    parameters = np.full((len(players), fitted.shape[1]), np.nan)
    newest: dict[int, tuple[int, int]] = {}  # step and index of each learner's newest fitted snapshot
    for index, player in enumerate(players):
        if player.player_id in rows:
            parameters[index] = fitted[rows[player.player_id]]
            if player.learner_id is not None:
                newest[player.learner_id] = max(newest.get(player.learner_id, (-1, -1)), (player.step, index))
    for index, player in enumerate(players):
        if player.player_id not in rows and player.learner_id in newest:
            _, ancestor = newest[player.learner_id]
            parameters[index] = parameters[ancestor]
            parameters[index, 0] += (rating[index] - rating[ancestor]) / SCALE
    return PairPredictor(parameters)


def _report(model: "PairModel", history: History) -> dict[str, Any]:
    """Return how well the model predicts: held-out log-loss, root mean square of z, and calibration bins."""
    from arena.ratings.bradley_terry import pair_counts  # loads scipy

    played = pair_counts(history.results, np.zeros(history.start.size, dtype=np.bool_))
    observed = played.points / played.games
    predicted = model.predicted(played.low, played.high)
    by_ratings = expected_score(
        Ratings(history.start, history.deviation, np.zeros_like(history.start)), played.low, played.high
    )
    return {
        "held_out": [asdict(each) for each in model.held_out],
        "rms_z": rms_z(predicted, observed, played.games),
        "rms_z_of_ratings": rms_z(by_ratings, observed, played.games),
        "pairs": int((played.games >= GAMES_MIN).sum()),
        "calibration": calibration(predicted, observed, played.games),
    }


def rms_z(predicted: FloatArray, observed: FloatArray, games: FloatArray) -> float | None:
    """Return the root mean square of z over pairs with at least `GAMES_MIN` games; 1 if only chance is left.

    z is the difference of observed and predicted score in standard errors. None without such pairs.
    """
    enough = games >= GAMES_MIN
    if not enough.any():
        return None
    variance = np.maximum(predicted * (1.0 - predicted), _FLOOR)[enough] / games[enough]
    return float(np.sqrt(np.mean(np.square((observed - predicted)[enough]) / variance)))


def calibration(predicted: FloatArray, observed: FloatArray, games: FloatArray) -> list[dict[str, float]]:
    """Return the reliability diagram: mean predicted and observed score and games, of ten bins of predictions."""
    bins = np.minimum((predicted * _BINS).astype(np.int64), _BINS - 1)
    weight = np.bincount(bins, games, _BINS)
    shown = np.flatnonzero(weight)
    mean = [np.bincount(bins, games * column, _BINS)[shown] / weight[shown] for column in (predicted, observed)]
    rows = zip(mean[0].tolist(), mean[1].tolist(), weight[shown].astype(int).tolist(), strict=True)
    return [{"predicted": one, "observed": other, "games": count} for one, other, count in rows]
