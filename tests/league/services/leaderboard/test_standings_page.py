"""The league table as people look at it: ranked, filtered, searched, sorted; and one player's record."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any, get_args

import pytest
from league_scene import ENVIRONMENT, Scene, result
from refused import refused

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.services.leaderboard import player_profile, standings
from league.services.leaderboard.standings import Extent, Sort, Standings, StandingsFilter, StandingsRow
from league.services.population.cache import PopulationCache
from league.settings import Settings

EVERYBODY = StandingsFilter(standing="in_play")


def whole(database: Database, environment: str = ENVIRONMENT) -> Standings:
    with database.read() as session:
        return standings.get_standings(session, Settings(), PopulationCache(), environment)


def table(database: Database, choice: StandingsFilter) -> list[StandingsRow]:
    return whole(database).select(choice)


@pytest.fixture
def played(scene: Scene, league: LeagueClient) -> Scene:
    """A league with an exploiter beside the main, some matches, unlike sides, a commander and a retired snapshot."""
    named = {"environment": ENVIRONMENT, "signature": scene.signature, "sides": ("wolf", "sheep")}
    exploiter = league.register_learner(wire.LearnerCreate(name="Exploiter", role="main_exploiter", **named))
    snapshots = [scene.publish(step) for step in (1, 2, 3)]
    scene.publish(4, learner=exploiter)
    scene.evaluate(20, winner=snapshots[0].id)
    scene.train(4)
    league.close_period()
    league.promote(snapshots[1].id)
    league.retire(snapshots[2].id)
    return scene


def test_ranks_are_those_of_players_in_play_by_conservative_rating(
    played: Scene, database: Database, league: LeagueClient
) -> None:
    found = table(database, replace(EVERYBODY, standing=None))
    playing = [one for one in found if one.standing != "retired"]
    assert [one.rank for one in found] == [*range(1, len(playing) + 1), None]
    lower = [one.rating - 2 * one.deviation for one in playing]
    assert lower == sorted(lower, reverse=True)
    order = [item.id for item in league.standings(ENVIRONMENT).items if item.standing != "retired"]
    assert [one.id for one in playing] == order
    for item in league.standings(ENVIRONMENT, standing="commander").items:
        shown = next(each for each in playing if each.id == item.id)
        told = (shown.rating, shown.deviation, shown.games, shown.win_rate)
        assert told == (item.rating, item.deviation, item.games, item.win_rate)


def test_filters_select_the_requested_players(played: Scene, database: Database, league: LeagueClient) -> None:
    def names(**choice: Any) -> set[str]:
        return {one.name for one in table(database, replace(EVERYBODY, **choice))}

    assert names(kind="baseline") == {"random"}
    assert names(kind="learner") == {"main", "Exploiter"}
    assert names(standing="retired") == {"main@3"}
    commanders = {item.name for item in league.standings(ENVIRONMENT, standing="commander").items}
    assert names(standing="commander") == commanders >= {"main@2"}
    assert "main@3" not in names()
    assert "main@3" in names(standing=None)
    assert names(role="main_exploiter") == {"Exploiter", "Exploiter@4"}
    assert names(learner_id=played.learner.id, kind="snapshot") == {"main@1", "main@2"}
    assert names(kind="baseline", standing="retired") == set()


def test_search_finds_names_call_signs_and_hashes_and_takes_no_wildcards(
    played: Scene, database: Database, league: LeagueClient
) -> None:
    def found(search: str) -> set[str]:
        return {one.name for one in table(database, replace(EVERYBODY, search=search, standing=None))}

    commander = next(one for one in table(database, EVERYBODY) if one.standing == "commander")
    sha256 = league.player(commander.id).checkpoint
    assert commander.call_sign is not None
    assert sha256 is not None
    assert found("EXPLOITER") == {"Exploiter", "Exploiter@4"}
    assert found(f" {commander.call_sign.upper()} ") == {commander.name}
    assert found(sha256[:8]) == {commander.name}
    assert found("%") == found("_") == found("'") == set()


SORTS: dict[Sort, Callable[[StandingsRow], Any]] = {
    "conservative": lambda one: (one.rating - 2 * one.deviation, -one.id),
    "rank": lambda one: one.rank,
    "name": lambda one: (one.call_sign or one.name).lower(),
    "kind": lambda one: one.kind,
    "role": lambda one: one.role,
    "standing": lambda one: one.standing,
    "rating": lambda one: one.rating,
    "home": lambda one: one.home and one.home.rating,
    "away": lambda one: one.away and one.away.rating,
    "deviation": lambda one: one.deviation,
    "games": lambda one: one.games,
    "win_rate": lambda one: one.win_rate,
    "lineage": lambda one: None if one.lineage is None else one.lineage.lower(),
    "age": lambda one: -one.created_at.timestamp(),
}


def test_every_column_sorts_both_ways_with_missing_values_last(played: Scene, database: Database) -> None:
    assert SORTS.keys() == {*get_args(Sort)}
    for (sort, key), descending in product(SORTS.items(), (False, True)):
        choice = replace(EVERYBODY, standing=None, sort=sort, descending=descending)
        found = [key(one) for one in table(database, choice)]
        known = [value for value in found if value is not None]
        assert known == sorted(known, reverse=descending), sort
        assert known, sort
        assert found == known + [None] * (len(found) - len(known)), sort


def test_the_newest_was_published_last(scene: Scene, database: Database, time: Any) -> None:
    for step in (1, 2):
        time.advance(60)
        scene.publish(step)
    newest = whole(database).newest()
    assert newest is not None
    assert newest.step == 2


def test_rating_extent_covers_all_players(played: Scene, database: Database) -> None:
    everybody = table(database, EVERYBODY)
    extent = standings.measure_extent(everybody)
    assert extent.players == len(everybody)
    assert extent.low == min(one.rating - 2 * one.deviation for one in everybody)
    assert extent.high == max(one.rating + 2 * one.deviation for one in everybody)
    nobody = table(database, replace(EVERYBODY, search="nobody"))
    assert standings.measure_extent(nobody) == Extent(0, 0.0, 0.0)


def test_the_strongest_is_the_first_snapshot(played: Scene, database: Database) -> None:
    assert whole(database, "chess").strongest() is None
    assert whole(database).strongest() == next(one for one in table(database, EVERYBODY) if one.kind == "snapshot")


def test_standings_are_read_once_between_changes(played: Scene, database: Database, league: LeagueClient) -> None:
    cache = PopulationCache()

    def look() -> Standings:
        with database.read() as session:
            return standings.get_standings(session, Settings(), cache, ENVIRONMENT)

    before = look()
    assert look() is before
    promoted = next(one for one in before.rows if one.standing == "candidate")
    league.promote(promoted.id)
    assert look().find(promoted.id).standing == "commander"
    newcomer = played.publish(9)
    assert look().find(newcomer.id).games == 0
    before = look()
    league.close_period()
    assert look() is not before


def test_unknown_learner_or_period_is_named(scene: Scene, database: Database) -> None:
    with database.read() as session:
        for look in (
            lambda _, player_id: whole(database).find(player_id),
            lambda *given: player_profile.get_rating_curve(*given, 10),
            lambda session, player_id: player_profile.list_opponents(
                session, Settings(), PopulationCache(), player_id, 1
            ),
        ):
            with refused("unknown-player", 999):
                look(session, 999)


def test_opponents_add_up_to_the_matches_that_were_rated(played: Scene, database: Database) -> None:
    cache = PopulationCache()
    for player in table(database, EVERYBODY):
        with database.read() as session:
            met, in_all = player_profile.list_opponents(session, Settings(), cache, player.id, 100)
            first, still_in_all = player_profile.list_opponents(session, Settings(), cache, player.id, 1)
        assert len(met) == in_all == still_in_all
        assert first == met[:1]
        assert [one.matches for one in met] == sorted((one.matches for one in met), reverse=True)
        for one in met:
            assert 0.0 <= one.low <= one.win_rate <= one.high <= 1.0
            assert 0.0 <= one.expected <= 1.0
            with database.read() as session:
                back = next(
                    each
                    for each in player_profile.list_opponents(session, Settings(), cache, one.id, 100)[0]
                    if each.id == player.id
                )
            assert back.matches == one.matches
            assert back.win_rate == pytest.approx(1.0 - one.win_rate)
            assert back.expected == pytest.approx(1.0 - one.expected)


def test_a_long_curve_is_thinned_and_keeps_its_end(
    scene: Scene, database: Database, league: LeagueClient, time: Any
) -> None:
    scene.publish(1)
    for _ in range(4):
        (lease,) = scene.opponent_leases(1)
        scene.report(result(lease))
        time.now += timedelta(minutes=1)
        league.close_period()
    whole = league.ratings(scene.learner.player_id).items
    with database.read() as session:
        complete = player_profile.get_rating_curve(session, scene.learner.player_id, 100)
        thinned = player_profile.get_rating_curve(session, scene.learner.player_id, 2)
    told = [(point.number, point.rating, point.deviation, point.games) for point in complete]
    assert told == [(point.number, point.rating, point.deviation, point.games) for point in whole]
    assert [point.number for point in thinned] == [2, 4]
    assert set(thinned) <= set(complete)
