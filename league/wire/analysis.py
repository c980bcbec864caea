"""Bodies of analyses: payoffs, superiority, regressions, behaviour, lineage and redundant snapshots."""

from datetime import datetime
from typing import TYPE_CHECKING

from league.wire import frames
from league.wire.base import Answer
from league.wire.gates import Gate
from league.wire.players import Player, PlayerName, Standing


class PairScore(Answer):
    """Score of a pair of frozen players up to the last rating period."""

    player: PlayerName
    """The player."""
    opponent: PlayerName
    """Its opponent."""
    matches: int
    """Number of matches."""
    observed: float | None
    """The player's mean score; null without matches."""
    by_ratings: float
    """Its score that ratings alone predict."""
    predicted: float
    """Its score that the pair model predicts."""


if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


class Payoff(Answer):
    """Payoff matrix: row i, column j is the result of player i against player j."""

    environment: str
    """Name of the environment."""
    total: int
    """Number of active players."""
    players: list[PlayerName]
    """The strongest of them, strongest first."""
    names: list[str]
    """Their call-signs or names."""
    win_rates: list[list[float]]
    """Estimated mean scores; for pairs without a match, the prediction of the pair model."""
    counts: list[list[int]]
    """Matches of each pair."""
    intransitivity: float
    """Share of the log-odds that ratings do not explain, in [0, 1]."""
    nash_weights: list[float | None] = []
    """Each player's weight in the Nash mixture; null if the solver found none."""

    def to_pandas(self) -> "pd.DataFrame":
        """Return the win rates with the names on both axes; it needs the extra `pandas`."""
        return frames.matrix(self.win_rates, self.names)

    def to_numpy(self) -> "np.ndarray":
        """Return the win rates as an array of (N, N) scores in [0, 1]; it needs NumPy."""
        return frames.array(self.win_rates)

    deviations: list[PairScore] = []
    """Pairs of these players whose score differs from either prediction by at least 5 points, beyond chance."""


class HeldOutLoss(Answer):
    """Prediction of held-out pairs by a pair model with a number of cyclic components."""

    components: int
    """Number of cyclic components; 0 is Bradley-Terry."""
    log_loss: float
    """Mean negative log-likelihood of the held-out games, in nats."""
    gain: float
    """Log-likelihood gained over one component less, in nats."""
    error: float
    """Standard error of the gain."""


class CalibrationBin(Answer):
    """Held-out games of all pairs whose predicted score lies in one tenth of [0, 1]."""

    predicted: float
    """Mean predicted score."""
    observed: float
    """Mean observed score."""
    games: int
    """Number of games."""


class RoundRobinRating(Answer):
    """A player's rating by its expected scores against all other players, which the pair model predicts."""

    player_id: int
    """Id of the player."""
    rating: float
    """Rating at which its score is the predicted one."""
    deviation: float
    """Standard deviation of the rating, 0 for baselines."""


class PairModel(Answer):
    """Model that predicts the score of a pair, and how well it does.

    A second fit to 70 % of each pair's games predicts the other 30 %. z is the difference of their observed and
    predicted score in standard errors, which include the uncertainty of the prediction. The root mean square of z is 1
    if that uncertainty is as large as it should be. The compared ratings know all games.
    """

    environment: str
    """Name of the environment."""
    period_id: int | None
    """Last period whose matches were fitted; null before the first fit, when Glicko-2 predicts."""
    fitted_at: datetime | None
    """Time of the fit."""
    components: int
    """Number of cyclic components that the held-out pairs chose."""
    held_out: list[HeldOutLoss]
    """The compared numbers of components."""
    effect_deviation: float
    """Standard deviation of the effect that a pair has of its own, in rating points."""
    log_loss: float | None
    """Mean negative log-likelihood of the held-out games, in nats; null without one."""
    log_loss_of_ratings: float | None
    """The same if the ratings alone predict."""
    rms_z: float | None
    """Root mean square of z of the model; null without a pair of 40 games."""
    rms_z_of_ratings: float | None
    """The same if the ratings alone predict."""
    pairs: int
    """Number of pairs with at least 40 games."""
    calibration: list[CalibrationBin]
    """Reliability diagram: predicted against observed scores of the held-out games."""
    ratings: list[RoundRobinRating] = []
    """Ratings of the fitted players, strongest first; empty without a cyclic component or with over 500 players."""
    strongest_cycle: list[PairScore] = []
    """The three wins of the cycle whose weakest predicted win is the strongest; empty without a cycle."""


class Superiority(Answer):
    """Order of the active frozen players, fitted to all rating matches at once, strongest first.

    Intervals and probabilities account for correlated errors within a lineage.
    """

    environment: str
    """Name of the environment."""
    period_id: int | None
    """Last period whose matches count; null before the first."""
    players: list[PlayerName]
    """Players with a rating match."""
    ratings: list[float]
    """Their fitted ratings."""
    deviations: list[float]
    """Standard deviation of each rating."""
    low: list[float]
    """Lower ends of the 95 % intervals."""
    high: list[float]
    """Upper ends."""
    superiority: list[list[float]]
    """Row i, column j: probability that player i is stronger than player j."""

    def to_pandas(self) -> "pd.DataFrame":
        """Return the ratings and their intervals by name; it needs the extra `pandas`."""
        values = {"rating": self.ratings, "deviation": self.deviations, "low": self.low, "high": self.high}
        return frames.columns(values, [player.name for player in self.players])


class Score(Answer):
    """A learner's mean score over some matches."""

    matches: int
    """Number of matches."""
    score: float
    """Mean score in [0, 1]."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""


class Regression(Answer):
    """A learner that loses to a snapshot which it beat before."""

    environment: str
    """Name of the environment."""
    learner: PlayerName
    """The learner."""
    opponent: PlayerName
    """The snapshot."""
    earlier: Score
    """Score in the older half of their last matches."""
    recent: Score
    """Score in the newer half."""
    since: datetime
    """When it was found."""


class MeasuredBehaviour(Answer):
    """One behaviour measure of a player."""

    name: str
    """Name with the unit; without one, values are shares."""
    matches: int
    """Matches in which the measure was defined."""
    mean: float | None
    """Mean over these; null without any."""
    error: float | None
    """Standard error of the mean."""
    population_mean: float | None
    """Mean of all players' means."""
    spread: float
    """Standard deviation of these means without sampling noise."""
    z_score: float | None
    """Difference to `population_mean` in units of `spread`; null if the measure does not distinguish players."""


class Likeness(Answer):
    """Distance of another player in behaviour, in standard deviations of the players."""

    player: PlayerName
    """The other player."""
    distance: float
    """Root mean square difference without sampling noise."""
    bound: float
    """Upper 95 % confidence bound of the distance."""
    measures: int
    """Number of compared measures."""


class Fingerprint(Answer):
    """Behaviour profile of a player, up to the last rating period."""

    player: PlayerName
    """The player."""
    environment: str
    """Name of the environment."""
    players: int
    """Number of active frozen players that it was compared with."""
    measures: list[MeasuredBehaviour]
    """Its measures."""
    nearest: list[Likeness]
    """Most similar players, nearest first."""


class Ancestor(Answer):
    """A player of a lineage."""

    generation: int
    """Distance from the requested player, which is 1."""
    player: Player
    """The player."""
    gates: list[Gate]
    """Gates with this player as the candidate, newest first."""


class Redundancy(Answer):
    """A snapshot whose scores resemble those of another one, which is no weaker and stays."""

    environment: str
    """Name of the environment."""
    player: PlayerName
    """The redundant snapshot."""
    standing: Standing
    """Its standing."""
    representative: PlayerName
    """The player that stays."""
    distance: float
    """Root mean square difference of win rates against common opponents, without noise."""
    bound: float
    """Upper 95 % confidence bound of the distance."""
    opponents: int
    """Number of common opponents."""
    behaviour: Likeness | None
    """Their distance in behaviour; null if unknown."""
