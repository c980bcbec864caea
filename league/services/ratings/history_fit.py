"""Bradley-Terry fit of the frozen players' whole history at the end of a period; see `arena.ratings.bradley_terry`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arena.ratings import bradley_terry as arithmetic
from arena.ratings.bradley_terry import NO_PARENT, Fit
from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import Results
from league.services.matches.pair_records import PairRecords
from league.services.ratings.period import PlayerRating, RatingConfig

Parents = Mapping[int, int | None]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Fit of P frozen players, in ascending order of ids, and their (P,) standard errors in points."""

    ids: tuple[int, ...]
    fit: Fit
    standard_error: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class History:
    """Rating matches of P frozen players with games, in ascending order of ids.

    Attributes:
        ids: (P,) of the players.
        results: Rows of pairs over the P players.
        start: (P,) ratings in points.
        deviation: (P,) rating deviations.
        anchor: (P,) true for baselines, whose rating is fixed.
        parent: (P,) index of each player's nearest ancestor among the P; -1 for none.
    """

    ids: tuple[int, ...]
    results: Results
    start: NDArray[np.float64]
    deviation: NDArray[np.float64]
    anchor: NDArray[np.bool_]
    parent: NDArray[np.int64]


def is_due(entries: Mapping[int, PlayerRating], fitted: Mapping[int, int], config: RefitConfig) -> bool:
    """Return whether any frozen player's number of games has grown enough since the last fit.

    Args:
        entries: All rated players by id.
        fitted: Games of each frozen player at the last fit; players without one are missing.
        config: Required growth.
    """
    return config.enabled and any(
        entry.games > (1.0 + config.growth) * fitted.get(player, 0) for player, entry in entries.items() if entry.fitted
    )


def fit(
    entries: Mapping[int, PlayerRating],
    parents: Parents,
    records: PairRecords,
    config: RefitConfig,
) -> Fitted:
    """Fit all frozen players with rated games.

    Args:
        entries: All rated players by id.
        parents: Parent snapshot by id.
        records: Pair records; those between frozen players are not discounted.
        config: Prior of the fit.
    """
    known = history(entries, parents, records)
    found = arithmetic.fit(known.results, known.start, anchor=known.anchor, parent=known.parent, config=config)
    return Fitted(known.ids, found, arithmetic.standard_errors(known.results, found.rating))


def history(entries: Mapping[int, PlayerRating], parents: Parents, records: PairRecords) -> History:
    """Return the rating matches of all frozen players with rated games; arguments as of `fit`."""
    ids = np.array([player for player, entry in sorted(entries.items()) if entry.frozen and entry.games], np.int64)
    known = frozenset(ids.tolist())
    chosen = np.isin(records.low, ids) & np.isin(records.high, ids)
    results = Results(
        home=np.searchsorted(ids, records.low[chosen]),
        away=np.searchsorted(ids, records.high[chosen]),
        # Rounding may leave a mean score slightly outside of [0, 1], which the fit rejects.
        score=np.clip(records.points[chosen] / records.games[chosen], 0.0, 1.0),
        games=records.matches[chosen],
    )
    ancestors = [_ancestor(player, parents, known) for player in ids.tolist()]
    chosen_entries = [entries[player] for player in ids.tolist()]
    parent = [NO_PARENT if other is None else int(np.searchsorted(ids, other)) for other in ancestors]
    return History(
        ids=tuple(ids.tolist()),
        results=results,
        start=np.array([entry.rating for entry in chosen_entries], dtype=np.float64),
        deviation=np.array([entry.deviation for entry in chosen_entries], dtype=np.float64),
        anchor=np.array([entry.kind == "baseline" for entry in chosen_entries], dtype=np.bool_),
        parent=np.array(parent, dtype=np.int64),
    )


def reseeded(entries: Mapping[int, PlayerRating], fitted: Fitted, rule: RatingConfig) -> dict[int, PlayerRating]:
    """Return the frozen players except baselines with rating, deviation and standard error of the fit, by id."""
    rating = fitted.fit.rating.tolist()
    deviation = np.minimum(fitted.fit.deviation, rule.deviation_cap).tolist()
    # A cap, because a player without informative games has an infinite error, which databases cannot store.
    error = np.minimum(fitted.standard_error, rule.deviation_cap).tolist()
    return {
        player: replace(entries[player], rating=rating[index], deviation=deviation[index], standard_error=error[index])
        for index, player in enumerate(fitted.ids)
        if entries[player].fitted
    }


def _ancestor(player: int, parents: Parents, known: frozenset[int]) -> int | None:
    """Return the nearest ancestor in the fit."""
    found = parents.get(player)
    while found is not None and found not in known:
        found = parents.get(found)
    return found
