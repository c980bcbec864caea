"""What a rule's numbers do to one period, without a database; each of them binds somewhere here."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from refused import refused

from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import SCALE, Kind, Ratings, Results, rate_period
from league.services.matches.log import MatchArrays
from league.services.ratings.period import PlayerRating, RatingConfig, rate_matches
from league.settings import Settings

RULE = RatingConfig(
    tau=1.2,
    deviation_floor=45.0,
    deviation_cap=120.0,
    volatility_cap=0.065,
    refit=RefitConfig(enabled=False),
    unlike_sides=False,
    burst_games=0,
)
LEARNER, SNAPSHOT, RIVAL, ANCHOR, IDLE = range(1, 6)
ENTRIES = {
    LEARNER: PlayerRating("learner", 1500.0, 45.5, 0.06, games=7, score=3.5),
    SNAPSHOT: PlayerRating("snapshot", 1500.0, 46.0, 0.06, games=3, score=1.0),
    RIVAL: PlayerRating("snapshot", 1900.0, 80.0, 0.06, games=0, score=0.0),
    ANCHOR: PlayerRating("baseline", 1200.0, 30.0, 0.06, games=9, score=2.0),
    IDLE: PlayerRating("learner", 1600.0, 120.0, 0.06, games=2, score=1.0),
}


def games(*rows: tuple[int, int, float, bool]) -> MatchArrays:
    home, away, score, training = zip(*rows, strict=True)
    return MatchArrays(np.array(home), np.array(away), np.array(score), np.array(training))


TRAINED = [(LEARNER, RIVAL, 1.0, True)] * 20
RATED = [(SNAPSHOT, ANCHOR, 1.0, False), (ANCHOR, SNAPSHOT, 0.5, False), (SNAPSHOT, RIVAL, 1.0, False)] * 8


def glicko(
    player: int, rows: list[tuple[int, int, float, bool]], kind: Kind, rule: RatingConfig, floor: float
) -> Ratings:
    """One player's rating by the arithmetic alone, among the same opponents."""
    places = {each: place for place, each in enumerate(ENTRIES)}
    entries = ENTRIES.values()
    return rate_period(
        Ratings(
            rating=[each.rating for each in entries],
            deviation=[each.deviation for each in entries],
            volatility=[each.volatility for each in entries],
        ),
        Results(
            home=[places[home] for home, *_ in rows],
            away=[places[away] for _, away, *_ in rows],
            score=[score for _, _, score, _ in rows],
            games=[1] * len(rows),
        ),
        tau=rule.tau,
        kinds=[kind if each == player else Kind.OBSERVED for each in ENTRIES],
        deviation_floor=floor,
        deviation_cap=rule.deviation_cap,
        volatility_cap=rule.volatility_cap,
    )


def numbers(entry: PlayerRating) -> tuple[float, float, float]:
    return entry.rating, entry.deviation, entry.volatility


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"tau": 0.3}, {"deviation_floor": 30.0}, {"deviation_cap": 350.0}, {"volatility_cap": 0.1}]
)
def test_every_number_of_the_rule_reaches_the_arithmetic(changes: dict[str, float], fitted: bool) -> None:
    rule = replace(RULE, refit=RefitConfig(enabled=fitted), **changes)
    changed = rate_matches(ENTRIES, games(*TRAINED, *RATED), rule)

    expected = {
        LEARNER: glicko(LEARNER, TRAINED, Kind.LEARNER, rule, rule.deviation_floor),
        IDLE: glicko(IDLE, TRAINED, Kind.LEARNER, rule, rule.deviation_floor),
        SNAPSHOT: glicko(SNAPSHOT, RATED, Kind.FROZEN, rule, 0.0 if fitted else rule.deviation_floor),
    }
    for player, ratings in expected.items():
        place = list(ENTRIES).index(player)
        now = changed.get(player, ENTRIES[player])
        assert numbers(now) == (ratings.rating[place], ratings.deviation[place], ratings.volatility[place])


BURST = [(LEARNER, RIVAL, 1.0, True)] * 190 + [(RIVAL, LEARNER, 1.0, True)] * 10
RATING_BURST = [(SNAPSHOT, ANCHOR, 1.0, False)] * 60


def test_a_learner_s_burst_is_iterated_and_a_frozen_player_s_only_without_a_fit() -> None:
    for fitted in (False, True):
        rule = replace(RULE, burst_games=50, refit=RefitConfig(enabled=fitted))
        changed = rate_matches(ENTRIES, games(*BURST, *RATING_BURST), rule)
        plain = rate_matches(ENTRIES, games(*BURST, *RATING_BURST), replace(rule, burst_games=0))
        assert changed[LEARNER] != plain[LEARNER]
        assert (changed[SNAPSHOT] != plain[SNAPSHOT]) == (not fitted)


def test_a_learner_with_ten_thousand_games_in_a_period_ends_at_its_maximum_likelihood_rating() -> None:
    """One step of Glicko-2 leaves it up to 15 deviations too low."""
    rule = RatingConfig.of(Settings())
    for deviation in (30.0, 80.0, 350.0):
        entries = ENTRIES | {LEARNER: replace(ENTRIES[LEARNER], deviation=deviation)}
        won, lost = [(LEARNER, ANCHOR, 1.0, True)] * 9_900, [(ANCHOR, LEARNER, 1.0, True)] * 100
        after = rate_matches(entries, games(*won, *lost), rule)[LEARNER]
        assert after.rating == pytest.approx(1200.0 + SCALE * math.log(99.0), abs=0.5 * after.deviation)


def test_a_stored_rule_is_restored_as_it_was() -> None:
    rule = RatingConfig.of(Settings())
    assert RatingConfig.restored(rule.stored()) == rule
    assert RatingConfig.restored(rule.stored()).id == rule.id


@pytest.mark.parametrize("stored", [{}, {"tau": 0.5}, {**RatingConfig.of(Settings()).stored(), "surprise": 1}])
def test_a_damaged_rule_is_named(stored: dict[str, Any]) -> None:
    with refused("broken-invariant"):
        RatingConfig.restored(stored)


def test_limits_of_the_rule_bind() -> None:
    by_period = rate_matches(ENTRIES, games(*TRAINED, *RATED), RULE)
    fitted = rate_matches(ENTRIES, games(*TRAINED, *RATED), replace(RULE, refit=RefitConfig(enabled=True)))

    assert by_period[LEARNER].volatility == RULE.volatility_cap
    assert by_period[SNAPSHOT].deviation == RULE.deviation_floor
    assert fitted[SNAPSHOT].deviation < RULE.deviation_floor, "the fit knows how sure a frozen player is"
    assert IDLE not in by_period, "at the cap, idling adds nothing"


def test_games_and_points_count_where_they_rate_and_the_anchor_stays() -> None:
    changed = rate_matches(ENTRIES, games(*TRAINED, *RATED), RULE)

    assert (changed[LEARNER].games, changed[LEARNER].score) == (27, 23.5)
    assert (changed[SNAPSHOT].games, changed[SNAPSHOT].score) == (27, 21.0)
    assert (changed[RIVAL].games, changed[RIVAL].score) == (8, 0.0), "training matches do not rate opponents"
    assert numbers(changed[ANCHOR]) == numbers(ENTRIES[ANCHOR])
