"""Games whose sides are unlike: every player is rated on each of them, and overall by what it scores on both."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_history import play_periods, recomputed
from league_scene import ON_SQLITE, Scene, result
from rich.console import Console
from sqlalchemy import ColumnElement, func, select, update

from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import START_DEVIATION
from league import wire
from league.cli.output import tables
from league.cli.players import description
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Base, Rating, SidePayoff
from league.services.audit.log import Cause
from league.services.matches.log import MatchArrays
from league.services.operations import fork, integrity
from league.services.operations.fork import League
from league.services.rating_periods import rebuild, what_if
from league.services.ratings import state as rating_state
from league.services.ratings.period import PlayerRating, RatingConfig, Roster
from league.services.ratings.sides import NO_SIDE_STATE, Seats, owner, seat_of
from league.services.ratings.state import EMPTY
from league.settings import Settings
from league.storage.local import DirectoryStore
from league.web.filters import points

NAMES = ("wolf", "sheep")
EVERY_PERIOD = RefitConfig(growth=0.0)
UNLIKE = RatingConfig.of(Settings(), unlike_sides=True)
GLICKO_ALONE = replace(UNLIKE, refit=replace(UNLIKE.refit, enabled=False))


def declare(scene: Scene) -> Scene:
    """Say that the sides of the scene's game are unlike, as a trainer does."""
    scene.client.register_learner(
        wire.LearnerCreate(
            name="main", role="main", environment=scene.environment, signature=scene.signature, sides=NAMES
        )
    )
    return scene


@pytest.fixture
def server(serve: Callable[..., TestClient]) -> TestClient:
    """A server that fits the whole history after every period, and makes nobody a commander by a rule."""
    return serve(refit=EVERY_PERIOD, automatic_promotion=False)


@pytest.fixture
def hunt(server: TestClient) -> Scene:
    """A league of a game whose sides are unlike."""
    return declare(Scene(LeagueClient(http=server)))


def evaluate(scene: Scene, count: int, home: float) -> None:
    """Play rating matches that all end with this score of home."""
    leases = scene.rating_leases(count)
    scene.report(*(result(lease, score=home) for lease in leases), worker=scene.evaluator)


def on(player: wire.Player) -> dict[str, wire.SideRating]:
    return {each.side: each for each in player.sides}


def frozen(scene: Scene) -> list[wire.Player]:
    return [one for one in scene.client.players(scene.environment).items if one.kind != "learner"]


ON_SIDES = Rating.side.is_not(None)


def rows(database: Database, table: type[Base], *which: ColumnElement[bool]) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table).where(*which)) or 0


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_pure_home_advantage_changes_side_ratings_only(hunt: Scene) -> None:
    for step in range(3):
        hunt.publish(step)
    for _ in range(3):
        evaluate(hunt, 16, home=1.0)
        hunt.client.close_period()
    snapshots = [one for one in frozen(hunt) if one.kind == "snapshot"]
    assert all(on(one)["home"].rating > on(one)["away"].rating + 200.0 for one in snapshots)
    assert all(on(one)["home"].win_rate == 1.0 and on(one)["away"].win_rate == 0.0 for one in snapshots)
    assert max(one.rating for one in snapshots) - min(one.rating for one in snapshots) < 40.0
    for one in snapshots:
        assert [(each.side, each.name) for each in one.sides] == [("home", "wolf"), ("away", "sheep")]
        assert sum(each.games for each in one.sides) == one.games
    table = {row.id: row.sides for row in hunt.client.standings(hunt.environment).items}
    assert table == {one.id: hunt.client.player(one.id).sides for one in hunt.client.players(hunt.environment).items}


@ON_SQLITE
def test_a_match_rates_one_s_home_and_the_other_s_away(hunt: Scene) -> None:
    hunt.publish(1)
    (lease, _) = hunt.rating_leases(2)
    hunt.report(result(lease, score=1.0), worker=hunt.evaluator)
    hunt.client.close_period()
    assert set(on(hunt.client.player(lease.home.player_id))) >= {"home"}
    shown = {one.id: on(one) for one in frozen(hunt)}
    assert shown[lease.home.player_id]["home"].games == 1
    assert shown[lease.away.player_id]["away"].games == 1
    assert sum(each.games for sides in shown.values() for each in sides.values()) == 2


@ON_SQLITE
def test_a_training_match_rates_the_learner_s_side_alone(hunt: Scene) -> None:
    snapshot = hunt.publish(1)
    hunt.train(12, learner_score=1.0)
    hunt.client.close_period()
    learner = hunt.client.player(hunt.learner.player_id)
    assert sum(each.games for each in learner.sides) == learner.games == 12
    assert hunt.client.player(snapshot.id).sides == []


@ON_SQLITE
def test_baseline_is_anchored_at_the_mean_of_its_sides(hunt: Scene) -> None:
    hunt.publish(1)
    for _ in range(3):
        evaluate(hunt, 8, home=1.0)
        hunt.client.close_period()
    baseline = hunt.baseline()
    home, away = (each.rating for each in baseline.sides)
    assert home > away + 100.0
    assert 0.5 * (home + away) == pytest.approx(baseline.rating, abs=1e-9)


def test_past_standings_show_the_sides_of_then(hunt: Scene, time: Any) -> None:
    play_periods(hunt, time, number=2)
    first = hunt.client.periods().items[-1]
    then = {row.id: row.sides for row in hunt.client.standings(hunt.environment, as_of=first.id).items}
    now = {row.id: row.sides for row in hunt.client.standings(hunt.environment).items}
    played = [player for player, sides in then.items() if sides]
    assert played
    assert all(then[player] != now[player] for player in played if player != hunt.baseline().id)


@ON_SQLITE
def test_no_side_ratings_are_stored_for_symmetric_games(scene: Scene, database: Database, time: Any) -> None:
    play_periods(scene, time, number=2)
    assert rows(database, Rating, ON_SIDES) == rows(database, SidePayoff) == 0
    assert all(one.sides == [] for one in scene.client.players(scene.environment).items)
    assert not any(period.config["unlike_sides"] for period in scene.client.periods().items)


@ON_SQLITE
def test_a_player_s_page_and_its_table_name_its_sides(server: TestClient, hunt: Scene) -> None:
    snapshot = hunt.publish(1)
    evaluate(hunt, 4, home=1.0)
    hunt.client.close_period()
    page = re.sub(r' data-[a-z]+="[^"]*"', "", " ".join(server.get(f"/players/{snapshot.id}").text.split()))
    described = printed(description(hunt.client.player(snapshot.id)))
    for side in hunt.client.player(snapshot.id).sides:
        told = f'{points(side.rating)} <span class="error">± {points(2 * side.deviation)}</span>'
        assert f'>{side.side.capitalize()}, {side.name}</dt> <dd><span class="rating">{told}' in page
        assert f"{side.side}, as {side.name}" in described
        assert f"{side.rating:.0f} ± {2 * side.deviation:.0f}, {side.games} games" in described


@ON_SQLITE
@pytest.mark.parametrize("width", [40, 80, 140])
def test_the_league_table_shows_sides_in_any_width(hunt: Scene, width: int) -> None:
    hunt.publish(1)
    evaluate(hunt, 4, home=1.0)
    hunt.client.close_period()
    items = hunt.client.standings(hunt.environment).items
    text = printed(tables.standings(items), width)
    assert "home: wolf" in text
    assert "away: sheep" in text
    for row in items:
        for side in row.sides:
            assert f"{side.rating:.0f} ± {2 * side.deviation:.0f}" in text


def printed(part: Any, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(part)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    return text


@ON_SQLITE
def test_latest_declaration_of_sides_applies(hunt: Scene) -> None:
    hunt.publish(1)
    evaluate(hunt, 4, home=1.0)
    hunt.client.close_period()
    other = wire.LearnerCreate(name="other", role="main", environment=hunt.environment, signature=hunt.signature)
    hunt.client.register_learner(other)
    assert on(hunt.baseline())["home"].name == "wolf"
    hunt.client.register_learner(other.model_copy(update={"name": "third", "sides": ("fox", "hen")}))
    assert on(hunt.baseline())["home"].name == "fox"


@ON_SQLITE
def test_superiority_uses_the_stored_side_ratings(hunt: Scene, time: Any) -> None:
    play_periods(hunt, time, number=3)
    sure = hunt.client.superiority(hunt.environment)
    stored = {one.id: one.rating for one in frozen(hunt)}
    shown = {one.player_id: rating for one, rating in zip(sure.players, sure.ratings, strict=True)}
    assert {player: stored[player] for player in shown} == pytest.approx(shown, abs=1.0)


# --- what can be computed again --------------------------------------------------------------------------------------


def test_sides_are_reproduced_bit_for_bit(hunt: Scene, database: Database, time: Any) -> None:
    play_periods(hunt, time)
    assert rows(database, Rating, ON_SIDES) > 20
    assert [told.differing for told in recomputed(database)] == [0]


@ON_SQLITE
@pytest.mark.parametrize(
    ("statement", "kinds"),
    [
        (update(Rating).where(Rating.side == "home").values(rating=Rating.rating + 1e-9), "rating at home"),
        (update(Rating).where(Rating.side == "away").values(games=Rating.games + 1), "rating away"),
        (update(SidePayoff).values(points=SidePayoff.points + 1.0), "side payoff"),
    ],
)
def test_rebuild_restores_manually_changed_side_ratings(
    hunt: Scene, database: Database, tmp_path: Path, time: Any, statement: Any, kinds: str
) -> None:
    play_periods(hunt, time, number=2)
    before = hunt.client.players(hunt.environment)
    with database.write() as session:
        session.execute(statement)
    store = DirectoryStore(tmp_path / "checkpoints", 2**20)
    found = integrity.check(database, store, unpublished_before=datetime.now(UTC) - timedelta(days=1))
    assert [violation.invariant for violation in found] == ["ratings"]
    assert kinds in found[0].finding
    rebuild.rebuild(database, time.now)
    assert [told.differing for told in recomputed(database)] == [0]
    assert hunt.client.players(hunt.environment) == before


@ON_SQLITE
def test_sides_that_are_declared_later_are_rated_from_then_on_or_for_the_whole_log(
    scene: Scene, database: Database, configure: Callable[..., Settings], time: Any
) -> None:
    play_periods(scene, time, number=2)
    before = scene.client.players(scene.environment)
    declare(scene)
    assert scene.client.players(scene.environment) == before
    evaluate(scene, 8, home=1.0)
    scene.train(4)
    scene.client.close_period()
    assert any(one.sides for one in scene.client.players(scene.environment).items)
    assert len({period.config_id for period in scene.client.periods().items}) == 2
    assert [told.differing for told in recomputed(database)] == [0]
    rated_on_sides = sum(side.games for one in frozen(scene) for side in one.sides)
    proposal = what_if.propose(database, configure(), scene.environment, {})
    what_if.apply(database, scene.environment, proposal, actor="somebody", reason="sides", now=time.now)
    assert all(sum(side.games for side in one.sides) == one.games for one in frozen(scene))
    assert sum(one.games for one in frozen(scene)) > rated_on_sides
    assert [told.differing for told in recomputed(database)] == [0]


@ON_SQLITE
def test_another_rule_rates_sides_again_too(
    hunt: Scene, database: Database, configure: Callable[..., Settings], time: Any
) -> None:
    play_periods(hunt, time, number=3)
    before = {one.id: one.sides for one in hunt.client.players(hunt.environment).items}
    proposal = what_if.propose(database, configure(), hunt.environment, {"deviation_cap": 60.0})
    what_if.apply(database, hunt.environment, proposal, actor="somebody", reason="to see", now=time.now)
    after = {one.id: one.sides for one in hunt.client.players(hunt.environment).items}
    assert after != before
    assert max(each.deviation for sides in after.values() for each in sides) <= 60.0
    assert [told.differing for told in recomputed(database)] == [0]
    evaluate(hunt, 4, home=1.0)
    hunt.client.close_period()
    assert [told.differing for told in recomputed(database)] == [0]


@ON_SQLITE
def test_side_ratings_exclude_results_of_quarantined_workers(hunt: Scene, database: Database, time: Any) -> None:
    play_periods(hunt, time, number=2)
    before = {one.id: one.sides for one in hunt.client.players(hunt.environment).items}
    since = time.now
    time.advance(60)
    evaluate(hunt, 8, home=1.0)
    hunt.client.close_period()
    assert {one.id: one.sides for one in hunt.client.players(hunt.environment).items} != before
    hunt.client.quarantine_worker(hunt.evaluator.id, since=since, reason="broken")
    ratings = {one.id: one.sides for one in frozen(hunt)}
    assert ratings == {player: before[player] for player in ratings}
    assert [told.differing for told in recomputed(database)] == [0]


def test_a_fork_has_the_sides_of_then(
    hunt: Scene, database: Database, twin_database_url: str, tmp_path: Path, time: Any
) -> None:
    play_periods(hunt, time, number=3)
    cut = hunt.client.periods().items[1]
    then = {row.id: row.sides for row in hunt.client.standings(hunt.environment, as_of=cut.id).items}
    here = League(database, DirectoryStore(tmp_path / "checkpoints", 2**20))
    twin = Database(twin_database_url)
    there = League(twin, DirectoryStore(tmp_path / "twin-checkpoints", 2**20))
    fork.fork(here, there, cut.id, tmp_path, Cause("test", "", time.now), lambda _what, _done, _of: None)
    assert 0 < rows(twin, Rating, ON_SIDES) < rows(database, Rating, ON_SIDES)
    assert [told.differing for told in recomputed(twin)] == [0]
    assert any(then.values())
    twin.close()


# --- the arithmetic --------------------------------------------------------------------------------------------------


def player(kind: str = "snapshot", rating: float = 1500.0, deviation: float = 80.0) -> PlayerRating:
    return PlayerRating(kind, rating, deviation, 0.06, 0, 0.0)


def games(*pairs: tuple[int, int, float], training: bool = False) -> MatchArrays:
    home, away, score = zip(*pairs, strict=True)
    return MatchArrays(np.array(home), np.array(away), np.array(score), np.full(len(pairs), training))


ROSTER = Roster({1: player("learner", 1700.0, 50.0), 2: player(), 3: player()}, {2: None, 3: 2}, {2: 1, 3: 1})


def test_every_seat_has_one_owner() -> None:
    assert {owner(seat_of(one, side)) for one in (1, 2) for side in ("home", "away")} == {
        (1, "home"),
        (1, "away"),
        (2, "home"),
        (2, "away"),
    }


def test_seats_of_unknown_players_start_as_uncertain_as_strangers() -> None:
    seats = Seats(NO_SIDE_STATE, ROSTER.newcomers, ROSTER)
    assert seats.entry(seat_of(2, "away")).deviation == START_DEVIATION


def test_a_snapshot_s_sides_start_as_far_from_its_rating_as_its_learner_s_are() -> None:
    entries = {
        seat_of(1, "home"): player("learner", 1900.0, 120.0),
        seat_of(1, "away"): player("learner", 1450.0, 90.0),
    }
    seats = Seats(replace(NO_SIDE_STATE, entries=entries), ROSTER.newcomers, ROSTER)
    home, away = (seats.entry(seat_of(3, side)) for side in ("home", "away"))
    assert (home.rating, home.deviation) == (1700.0, 120.0)
    assert (away.rating, away.deviation) == (1250.0, 90.0)
    assert (home.kind, home.games, home.volatility) == ("snapshot", 0, 0.06)


def test_overall_ratings_do_not_depend_on_whether_sides_are_rated_apart() -> None:
    roster = Roster({one: player() for one in (2, 3, 4)}, dict.fromkeys((2, 3, 4)), {})
    played = games(*[(2, 3, 1.0), (3, 2, 1.0), (3, 4, 0.5), (4, 3, 1.0), (2, 4, 1.0)] * 10)
    apart, together = (
        EMPTY.after(
            rating_state.apply_period(EMPTY, roster, played, replace(UNLIKE, refit=EVERY_PERIOD, unlike_sides=unlike))
        )
        for unlike in (True, False)
    )
    assert apart.entries == together.entries
    assert apart.sides.entries
    assert not together.sides.entries


ANCHORED = Roster({2: player(), 4: player("baseline", deviation=30.0)}, {2: None, 4: None}, {})


def on_sides(state: rating_state.RatingState, one: int) -> list[float]:
    return [state.sides.entries[seat_of(one, side)].rating for side in ("home", "away")]


def test_side_offsets_of_a_baseline_are_opposite() -> None:
    state = EMPTY.after(rating_state.apply_period(EMPTY, ANCHORED, games(*[(4, 2, 1.0)] * 5), GLICKO_ALONE))
    home, away = on_sides(state, 4)
    assert home > 1550.0
    assert home + away == pytest.approx(3000.0, abs=1e-9)


def test_a_fit_of_sides_lies_where_the_baseline_is() -> None:
    """Scoring 0.75 either way round is being 191 points better on either side."""
    played = games(*[(2, 4, 1.0), (2, 4, 0.5), (4, 2, 0.0), (4, 2, 0.5)] * 20)
    state = EMPTY.after(rating_state.apply_period(EMPTY, ANCHORED, played, replace(UNLIKE, refit=EVERY_PERIOD)))
    assert on_sides(state, 4) == pytest.approx([1500.0, 1500.0], abs=1e-6)
    assert on_sides(state, 2) == pytest.approx([1690.8, 1690.8], abs=3.0)


def test_self_play_does_not_change_side_ratings() -> None:
    own = Roster({1: player("learner", deviation=350.0)}, {1: None}, {})
    closing = rating_state.apply_period(EMPTY, own, games((1, 1, 1.0), training=True), UNLIKE)
    assert closing.sides.entries == {}


def test_rating_config_can_declare_asymmetric_sides() -> None:
    alike = RatingConfig.of(Settings())
    assert RatingConfig.restored(alike.stored()) == alike
    assert RatingConfig.restored(UNLIKE.stored()) == UNLIKE
    assert UNLIKE.id != alike.id
