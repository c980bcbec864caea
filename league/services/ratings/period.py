"""Glicko-2 update of one rating period, from matches to ratings; no database.

Training matches rate only the learner, rating matches rate the frozen players, and baselines anchor the scale. A player
takes part from its first match on, so that a period is a function of the matches before its end only.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import Kind, Ratings, Results, rate_period
from league.errors import InvariantError
from league.services.matches.indexing import indices
from league.services.matches.log import MatchArrays
from league.settings import Settings

_OWN_KIND = {
    "learner": Kind.LEARNER,
    "snapshot": Kind.FROZEN,
    "external": Kind.FROZEN,
    "baseline": Kind.ANCHOR,
}
_ID_LENGTH = 12


@dataclass(frozen=True)
class RatingConfig:
    """Rating configuration of a period, stored with it for rebuilds.

    `deviation_floor` keeps a learner's rating responsive. It also applies to frozen players unless the whole history is
    fitted, because the fit estimates their deviations. `unlike_sides` rates each side separately as well. Learners with
    more than `burst_games` games in the period are rated by the mode of their posterior, and so are frozen players
    unless the whole history is fitted; 0 disables it.
    """

    tau: float
    deviation_floor: float
    deviation_cap: float
    volatility_cap: float
    refit: RefitConfig
    unlike_sides: bool
    burst_games: int

    @classmethod
    def of(cls, settings: Settings, *, unlike_sides: bool = False) -> Self:
        """Return the current configuration, for a game with or without asymmetric sides."""
        return cls(
            settings.tau,
            settings.deviation_floor,
            settings.deviation_cap,
            settings.volatility_cap,
            settings.refit,
            unlike_sides,
            settings.burst_games,
        )

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> Self:
        """Return the stored configuration of a period.

        Raises:
            InvariantError: The stored value is invalid.
        """
        try:
            return cls(**{**stored, "refit": RefitConfig(**stored["refit"])})
        except (KeyError, TypeError, ValueError) as error:
            raise InvariantError(
                f"rule {dict(stored)} of a period", str(error), "restore the database from a backup"
            ) from error

    def stored(self) -> dict[str, Any]:
        """Return the configuration as JSON."""
        return asdict(self)

    @property
    def id(self) -> str:
        """Id of the configuration: the first digits of a hash of its content, equal in every league."""
        # Sorted keys: the id must not depend on the order of fields.
        content = json.dumps(self.stored(), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:_ID_LENGTH]


@dataclass(frozen=True)
class PlayerRating:
    """Rating of a player at the start or end of a period; `games` and `score` are totals of its rated games.

    `standard_error` is that of the last fit of the whole history, None before it; see
    `arena.ratings.bradley_terry.standard_errors`.
    """

    kind: str
    rating: float
    deviation: float
    volatility: float
    games: int
    score: float
    standard_error: float | None = None

    @property
    def uncertainty(self) -> float:
        """Standard error, or the deviation before the first fit."""
        return self.deviation if self.standard_error is None else self.standard_error

    @property
    def frozen(self) -> bool:
        """Whether its strength is constant."""
        return self.kind != "learner"

    @property
    def fitted(self) -> bool:
        """Whether the fit of the whole history determines its rating: it neither learns nor anchors the scale."""
        return _OWN_KIND[self.kind] == Kind.FROZEN


@dataclass(frozen=True)
class Roster:
    """All players of an environment, by id.

    Attributes:
        newcomers: Initial ratings.
        parents: Parent snapshots.
        learners: The learner's own player of each snapshot.
    """

    newcomers: Mapping[int, PlayerRating]
    parents: Mapping[int, int | None]
    learners: Mapping[int, int]

    def starting(self, starts: Mapping[int, PlayerRating]) -> Self:
        """Return the roster with other initial ratings of some players."""
        return replace(self, newcomers={**self.newcomers, **starts}) if starts else self


def rate_matches(
    entries: Mapping[int, PlayerRating],
    games: MatchArrays,
    rule: RatingConfig,
) -> dict[int, PlayerRating]:
    """Rate one period.

    Args:
        entries: All players in `games` and all learners with earlier matches, by id.
        games: Matches of the period.
        rule: Rating configuration.

    Returns:
        Changed entries by id.
    """
    ids = np.array(sorted(entries), dtype=np.int64)
    before = [entries[int(player)] for player in ids]
    own = np.array([_OWN_KIND[entry.kind] for entry in before], dtype=np.int64)
    learner = own == Kind.LEARNER
    start = as_ratings(before)
    # the fit of the whole history has its own deviations and posterior mode of frozen players
    frozen_floor, frozen_burst = (0.0, 0) if rule.refit.enabled else (rule.deviation_floor, rule.burst_games)
    by_training, learner_games, learner_points = _rate(
        start,
        _rows(games, ids, training=True),
        np.where(learner, own, Kind.OBSERVED),
        rule,
    )
    by_rating, frozen_games, frozen_points = _rate(
        start,
        _rows(games, ids, training=False),
        np.where(learner, Kind.OBSERVED, own),
        replace(rule, deviation_floor=frozen_floor, burst_games=frozen_burst),
    )
    rating = np.where(learner, by_training.rating, by_rating.rating).tolist()
    deviation = np.where(learner, by_training.deviation, by_rating.deviation).tolist()
    volatility = np.where(learner, by_training.volatility, by_rating.volatility).tolist()
    played = np.where(learner, learner_games, frozen_games).tolist()
    scored = np.where(learner, learner_points, frozen_points).tolist()
    changed: dict[int, PlayerRating] = {}
    for index, (player, old) in enumerate(zip(ids.tolist(), before, strict=True)):
        new = PlayerRating(
            kind=old.kind,
            rating=rating[index],
            deviation=deviation[index],
            volatility=volatility[index],
            games=old.games + played[index],
            score=old.score + scored[index],
            standard_error=old.standard_error,
        )
        # Unchanged players get no row, so that a period stores only the players that it affects.
        if new != old:
            changed[player] = new
    return changed


def as_ratings(entries: Sequence[PlayerRating]) -> Ratings:
    """Return entries as arrays."""
    return Ratings(
        rating=np.array([entry.rating for entry in entries]),
        deviation=np.array([entry.deviation for entry in entries]),
        volatility=np.array([entry.volatility for entry in entries]),
    )


def _rate(
    start: Ratings, rows: Results, kinds: NDArray[np.int64], rule: RatingConfig
) -> tuple[Ratings, NDArray[np.int64], NDArray[np.float64]]:
    """Rate the players that are not `OBSERVED` in `kinds`; also return the games and total scores of all players."""
    player = np.concatenate((rows.home, rows.away))
    counts = np.bincount(player, minlength=len(start))
    points = np.bincount(player, weights=np.concatenate((rows.score, 1.0 - rows.score)), minlength=len(start))
    rated = rate_period(
        start,
        rows,
        tau=rule.tau,
        kinds=kinds,
        deviation_floor=rule.deviation_floor,
        deviation_cap=rule.deviation_cap,
        volatility_cap=rule.volatility_cap,
        burst_games=rule.burst_games,
    )
    return rated, counts, points.astype(np.float64)


def _rows(games: MatchArrays, ids: NDArray[np.int64], *, training: bool) -> Results:
    """Return the games of one kind between different players, as indices into `ids`."""
    chosen = (games.training == training) & (games.home != games.away)
    home, away = indices(ids, games.home[chosen]), indices(ids, games.away[chosen])
    return Results(
        home=home,
        away=away,
        score=games.score[chosen],
        games=np.ones(home.size, dtype=np.int64),
    )
