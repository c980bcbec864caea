"""Predicted scores of pairs by the pair model, fitted between rating periods.

The model is Bradley-Terry with cyclic components and an effect of each pair; see `arena.ratings.pair_model`.

The newest fit of each environment is stored as a row of `pair_models`. It predicts scores and does not change ratings,
which are those of `league.services.ratings.period`. A process that loads a population loads the fit with it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

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
    from arena.ratings.pair_model import PairModel, Priors

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GAMES_MIN = 40
"""Games of a pair from which its observed score is compared with the prediction."""

ROUND_ROBIN_MAX = 500
"""Most players that are rated by a round robin, which takes 10 s for them."""

_BINS = 10
_CHANCE_MIN = 1e-4  # of a held-out game: one upset must not outweigh all others
_LOADED = ("components", "players", "parameters", "effect_variance", "effects")
_FLOAT, _INT = np.dtype("<f8"), np.dtype("<i8")
EFFECT = np.dtype([("low", "<i4"), ("high", "<i4"), ("mean", "<f8"), ("variance", "<f8")])
"""Row of a stored effect: indices of the players among those of the fit, mean and variance."""


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
class PairEffects:
    """Effects of the K pairs that had played at the fit on the log-odds of the player with the lower index.

    Attributes:
        code: (K,) low * P + high of indices in the population, ascending.
        mean: (K,) means.
        variance: (K,) variances.
        prior: Variance of the effect of any other pair.
    """

    code: IntArray
    mean: FloatArray
    variance: FloatArray
    prior: float

    @classmethod
    def of(cls, stored: NDArray[np.void], indices: IntArray, players: int, prior: float) -> Self:
        """Return the effects among P players, given the index of each fitted one; -1 for those that are not shown."""
        low, high = indices[stored["low"]], indices[stored["high"]]
        # Ids of the fit and indices of the population may order a pair differently, which turns its effect around.
        mean = np.where(low < high, stored["mean"], -stored["mean"])
        code = np.minimum(low, high) * players + np.maximum(low, high)
        order = np.argsort(code, kind="stable")
        order = order[(np.minimum(low, high) >= 0)[order]]
        return cls(code[order], mean[order], stored["variance"][order], prior)

    def between(self, one: IntArray, other: IntArray, players: int) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of the effects on the log-odds of `one`, (K,) each."""
        mean, variance = np.zeros(one.size), np.full(one.size, self.prior)
        if self.code.size:
            wanted = np.minimum(one, other) * players + np.maximum(one, other)
            # A code above all others is found one past the end, so the index is clamped and the codes are compared.
            found = np.minimum(np.searchsorted(self.code, wanted), self.code.size - 1)
            known = np.flatnonzero(self.code[found] == wanted)
            mean[known] = np.where(one < other, 1.0, -1.0)[known] * self.mean[found[known]]
            variance[known] = self.variance[found[known]]
        return mean, variance


@dataclass(frozen=True, eq=False)
class PairPredictor:
    """Predictions for P players of a population.

    Attributes:
        parameters: (P, 1 + 2k) strength in units of 173.7178 points, then u and v of each cyclic component. NaN for
            players that the fit cannot predict.
        effects: Effects of single pairs.
    """

    parameters: FloatArray
    effects: PairEffects


def expected(
    predictor: PairPredictor | None, ratings: Ratings, one: IntArray, other: IntArray, *, with_records: bool = True
) -> FloatArray:
    """Return the expected scores of K pairs, (K,) in [0, 1].

    Glicko-2 predicts before the first fit (None), and pairs of which the fit lacks a player.

    Args:
        predictor: The newest fit.
        ratings: Of all P players.
        one: (K,) indices of players.
        other: (K,) indices of their opponents.
        with_records: Use the games that a pair has played against each other. False for callers that add them.
    """
    if predictor is None:
        return expected_score(ratings, one, other)
    from arena.ratings.pair_effects import mean_score  # loads scipy
    from arena.ratings.pair_posterior import log_odds

    predicted = log_odds(predictor.parameters, one, other)
    if with_records:
        mean, variance = predictor.effects.between(one, other, len(predictor.parameters))
        predicted = mean_score(predicted + mean, variance)
    else:
        predicted = mean_score(predicted, predictor.effects.prior)
    unknown = np.isnan(predicted)
    predicted[unknown] = expected_score(ratings, one[unknown], other[unknown])
    return predicted


def describe(session: Session, environment: str) -> wire.PairModel:
    """Return the newest fit of an environment with the quality of its predictions."""
    fitted = session.get(PairModelFit, environment)
    if fitted is None:
        return wire.PairModel(
            environment=environment, period_id=None, fitted_at=None, components=0, held_out=[], effect_deviation=0.0,
            log_loss=None, log_loss_of_ratings=None, rms_z=None, rms_z_of_ratings=None, pairs=0, calibration=[],
        )  # fmt: skip
    return wire.PairModel(
        environment=environment,
        period_id=fitted.period_id,
        fitted_at=fitted.fitted_at,
        components=fitted.components,
        effect_deviation=SCALE * fitted.effect_variance**0.5,
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
    effects = np.empty(model.played.low.size, EFFECT)
    effects["low"], effects["high"] = model.played.low, model.played.high
    effects["mean"], effects["variance"] = model.effects.mean, model.effects.variance
    return PairModelFit(
        environment=given.environment,
        period_id=given.period_id,
        matches=given.matches,
        components=len(model.components),
        players=np.array(history.ids).astype(_INT).tobytes(),
        parameters=np.hstack((strength, positions)).astype(_FLOAT).tobytes(),
        effect_variance=model.effect_variance,
        effects=effects.tobytes(),
        report=_report(model, priors, history),
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
    strength differs from that snapshot's as their ratings do. It has no record against anyone yet.

    Args:
        session: A transaction.
        environment: Name of the environment.
        players: The P players.
        rating: (P,) their ratings in points.
    """
    columns = (getattr(PairModelFit, name) for name in _LOADED)
    row = session.execute(select(*columns).where(PairModelFit.environment == environment)).one_or_none()
    if row is None:
        return None
    components, ids, content, prior, effects = row
    fitted = np.frombuffer(content, _FLOAT).reshape(-1, 1 + 2 * components)
    rows = {player_id: index for index, player_id in enumerate(np.frombuffer(ids, _INT).tolist())}
    parameters = np.full((len(players), fitted.shape[1]), np.nan)
    newest: dict[int, tuple[int, int]] = {}  # step and index of each learner's newest fitted snapshot
    indices = np.full(len(fitted), -1)
    for index, player in enumerate(players):
        if player.player_id in rows:
            parameters[index] = fitted[rows[player.player_id]]
            indices[rows[player.player_id]] = index
            if player.learner_id is not None:
                newest[player.learner_id] = max(newest.get(player.learner_id, (-1, -1)), (player.step, index))
    for index, player in enumerate(players):
        if player.player_id not in rows and player.learner_id in newest:
            _, ancestor = newest[player.learner_id]
            parameters[index] = parameters[ancestor]
            parameters[index, 0] += (rating[index] - rating[ancestor]) / SCALE
    return PairPredictor(parameters, PairEffects.of(np.frombuffer(effects, EFFECT), indices, len(players), prior))


def _report(model: "PairModel", priors: "Priors", history: History) -> dict[str, Any]:
    """Return how well the model predicts held-out games: log-loss, root mean square of z, and calibration bins."""
    from arena.ratings import pair_holdout  # loads scipy
    from arena.ratings.pair_effects import score_moments

    held_out = pair_holdout.predict_held_out(model, priors, GAMES_MIN)
    played, expected = held_out.pairs, held_out.expected
    rating, variance = history.start / SCALE, np.square(history.deviation / SCALE)
    by_ratings, uncertainty = score_moments(
        rating[played.low] - rating[played.high], variance[played.low] + variance[played.high]
    )
    z_of_ratings = pair_holdout.z_scores(played, by_ratings, uncertainty)[held_out.enough]
    return {
        "held_out": [asdict(each) for each in model.held_out],
        "log_loss": log_loss(expected, played.points, played.games),
        "log_loss_of_ratings": log_loss(by_ratings, played.points, played.games),
        "rms_z": root_mean_square(held_out.z),
        "rms_z_of_ratings": root_mean_square(z_of_ratings),
        "pairs": held_out.enough.size,
        "calibration": calibration(expected, played.points / played.games, played.games),
        "ratings": _round_robin(model, history),
    }


def _round_robin(model: "PairModel", history: History) -> list[dict[str, float]]:
    """Return the players' ratings by predicted scores in a round robin, strongest first; none without a component."""
    from arena.ratings.pair_round_robin import round_robin  # loads scipy

    if not len(model.components) or len(history.ids) > ROUND_ROBIN_MAX:
        return []
    found = round_robin(model, history.anchor)
    columns = history.ids, found.rating.tolist(), found.deviation.tolist()
    rows = [dict(zip(("player_id", "rating", "deviation"), row, strict=True)) for row in zip(*columns, strict=True)]
    return sorted(rows, key=itemgetter("rating"), reverse=True)


def root_mean_square(values: FloatArray) -> float | None:
    """Return the root mean square of (K,) values; None without one."""
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else None


def log_loss(predicted: FloatArray, points: FloatArray, games: FloatArray) -> float | None:
    """Return the mean negative log-likelihood of the games of K pairs in nats, with predictions clipped to 0.0001."""
    if not games.size:
        return None
    chance = np.clip(predicted, _CHANCE_MIN, 1.0 - _CHANCE_MIN)
    losses = points * np.log(chance) + (games - points) * np.log1p(-chance)
    return float(-losses.sum() / games.sum())


def calibration(predicted: FloatArray, observed: FloatArray, games: FloatArray) -> list[dict[str, float]]:
    """Return the reliability diagram: mean predicted and observed score and games, of ten bins of predictions."""
    bins = np.minimum((predicted * _BINS).astype(np.int64), _BINS - 1)
    weight = np.bincount(bins, games, _BINS)
    shown = np.flatnonzero(weight)
    mean = [np.bincount(bins, games * column, _BINS)[shown] / weight[shown] for column in (predicted, observed)]
    rows = zip(mean[0].tolist(), mean[1].tolist(), weight[shown].astype(int).tolist(), strict=True)
    return [{"predicted": one, "observed": other, "games": count} for one, other, count in rows]
