"""What one worker token may create: environments, learners and players, each up to a number."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, safetensors, sha256
from refused import assert_names, refused

from league import wire
from league.client import LeagueClient
from league.errors import ForbiddenError, InvalidRequestError, LeagueError, TokenLimitError, UnknownEnvironmentError
from league.services.environments import lookup as environments
from league.settings import Settings

CLOSED = {"workers_create_environments": False}
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def limits() -> dict[str, int | bool]:
    return {}


@pytest.fixture
def http(serve: Callable[..., TestClient], limits: dict[str, int | bool]) -> TestClient:
    return serve(**limits)


def register(client: LeagueClient, environment: str, name: str = "main") -> wire.Learner:
    request = wire.LearnerCreate(name=name, role="main", environment=environment, signature=f"{environment}-1")
    return client.register_learner(request)


def attempt(client: LeagueClient, environment: str, name: str) -> type[LeagueError] | None:
    try:
        register(client, environment, name)
    except LeagueError as error:
        return type(error)
    return None


def together(client: LeagueClient, asked: list[tuple[str, str]]) -> list[type[LeagueError] | None]:
    """Register learners at the same time."""
    with ThreadPoolExecutor(len(asked)) as threads:
        return list(threads.map(lambda each: attempt(client, *each), asked))


# --- environments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [CLOSED])
def test_in_a_closed_league_a_worker_joins_environments_and_creates_none(connect: Callable[..., LeagueClient]) -> None:
    worker, admin = connect("worker", "ann"), connect("admin", "boss")
    with pytest.raises(ForbiddenError) as refusal:
        register(worker, "mech-duel")
    assert refusal.value.status == 403
    assert "'mech-duel'" in refusal.value.rule
    assert_names(refusal.value.remedy, "league environment create mech-duel")
    assert_names(refusal.value.remedy, "LEAGUE_WORKERS_CREATE_ENVIRONMENTS=true")
    assert "meant" not in refusal.value.remedy
    register(admin, "mech-duel", "first")
    register(worker, "mech-duel")
    with refused("forbidden", "mech-duel"):
        register(worker, "mech-dual")
    assert [each.environment for each in worker.learners().items] == ["mech-duel"] * 2


@ON_SQLITE
@pytest.mark.parametrize("limits", [CLOSED])
def test_an_open_league_on_loopback_is_unaffected(league: LeagueClient) -> None:
    register(league, "rps")
    register(league, "recall")


def test_workers_create_no_environments_by_default() -> None:
    assert Settings.load().workers_create_environments is False


@pytest.mark.parametrize("limits", [{"token_environments_max": 3}])
def test_a_token_creates_so_many_environments_and_joins_those_of_others(connect: Callable[..., LeagueClient]) -> None:
    ann, bob, boss = connect("worker", "ann"), connect("worker", "bob"), connect("admin", "boss")
    outcome = together(ann, [(f"game-{number}", "main") for number in range(8)])
    assert sorted(outcome, key=str).count(None) == 3
    assert outcome.count(TokenLimitError) == 5
    with refused("token-limit", 3, "LEAGUE_TOKEN_ENVIRONMENTS_MAX"):
        register(ann, "one-more")
    register(bob, "one-more")
    register(ann, "one-more", "of-ann")
    for number in range(10, 15):
        register(boss, f"game-{number}")


# --- learners and players --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"token_learners_max": 3}])
def test_learners_of_a_token_that_register_together_do_not_pass_its_limit(connect: Callable[..., LeagueClient]) -> None:
    ann, bob, boss = connect("worker", "ann"), connect("worker", "bob"), connect("admin", "boss")
    outcome = together(ann, [("rps", f"learner-{number}") for number in range(8)])
    assert outcome.count(None) == 3
    assert outcome.count(TokenLimitError) == 5
    names = [each.name for each in ann.learners().items]
    assert [attempt(ann, "rps", name) for name in names] == [None] * 3, "those that are there are found"
    with refused("token-limit", 3, "LEAGUE_TOKEN_LEARNERS_MAX") as refusal:
        register(ann, "rps", "one-more")
    assert refusal.value.status == 403
    register(bob, "rps", "of-bob")
    for number in range(5):
        register(boss, "rps", f"of-boss-{number}")


@pytest.mark.parametrize("limits", [{"token_players_max": 3}])
def test_one_checkpoint_is_not_published_more_often_than_a_token_may_have_players(
    connect: Callable[..., LeagueClient],
) -> None:
    ann, bob = connect("worker", "ann"), connect("worker", "bob")
    learners = [register(ann, "rps"), register(ann, "rps", "other")]
    data = safetensors(1)
    ann.upload(data, sha256(data))

    def publish(step: int) -> type[LeagueError] | None:
        learner = learners[step % 2]
        try:
            ann.publish(wire.PlayerCreate(learner_id=learner.id, checkpoint=sha256(data), step=step))
        except LeagueError as error:
            return type(error)
        return None

    with ThreadPoolExecutor(8) as threads:
        outcome = list(threads.map(publish, range(8)))
    assert outcome.count(None) == 3
    assert outcome.count(TokenLimitError) == 5
    assert publish(outcome.index(None)) is None, "what is published is found"
    entry = wire.ExternalCreate(environment="rps", signature="rps-1", name="bot")
    with refused("token-limit", 3, "LEAGUE_TOKEN_PLAYERS_MAX"):
        ann.register_external(entry)
    bob.register_external(entry)


# --- names in errors -------------------------------------------------------------------------------------------------


@ON_SQLITE
def test_errors_name_at_most_the_five_nearest_environments(league: LeagueClient) -> None:
    for number in range(300):
        register(league, f"environment-{number}")
    calls: dict[str, Callable[[], object]] = {
        "unknown": lambda: league.standings("enviroment-7"),
        "close": lambda: league.close_period("enviroment-7"),
        "external": lambda: league.register_external(
            wire.ExternalCreate(environment="enviroment-7", signature="rps-1", name="bot")
        ),
        "missing": lambda: league.payoff(None),
    }
    for what, call in calls.items():
        with pytest.raises((UnknownEnvironmentError, InvalidRequestError)) as refusal:
            call()
        named = str(refusal.value)
        assert named.count("environment-") == 5, what
        assert "300 environments" in named
        assert ("environment-7" in named) == (what != "missing")
        assert len(str(refusal.value.problem())) < 1500


def test_the_nearest_of_thousands_of_long_names_is_found() -> None:
    known = sorted(["mech-duel", *(f"{'x' * 100}-{number}" for number in range(5000))])
    assert environments.nearest(known, "y" * 5000) == []
    assert environments.nearest(known, "mech-dual") == ["mech-duel"]
    assert environments.described(["a", "b"], "c") == "a, b"
    assert environments.described([*"abcdefg"], "zzz") == "7 environments, a, b, c, d, e among them"
