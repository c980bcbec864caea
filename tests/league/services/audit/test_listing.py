"""The audit log can be read backwards, of a player, of an environment, of a kind."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from league_scene import ON_SQLITE, Scene
from refused import refused
from sqlalchemy import insert
from sqlalchemy.orm import Session
from sqlite_steps import steps

from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Event
from league.services.audit import log as audit_log
from league.services.audit.log import AuditFilter


def write(database: Database, lines: list[tuple[str, str]]) -> None:
    """Write lines of a kind, by an actor."""
    about = {"environment": "rps", "player_id": None, "reason": "", "details": {}}
    about["created_at"] = datetime(2030, 1, 1, tzinfo=UTC)
    with database.write() as session:
        session.execute(insert(Event), [about | {"kind": kind, "actor": actor} for kind, actor in lines])


def test_audit_log_lists_actor_action_and_reason_newest_first(scene: Scene) -> None:
    first, second = scene.publish(1), scene.publish(2)
    scene.client.promote(first.id, "beats everybody")
    scene.client.set_champion(second.id, "beats the first", expected=None)
    scene.client.retire(first.id, "superseded")
    log = scene.client.events().items
    assert [(event.kind, event.player_id, event.actor, event.reason) for event in log] == [
        ("retire", first.id, "open", "superseded"),
        ("champion", second.id, "open", "beats the first"),
        ("promote", second.id, "open", "beats the first"),
        ("promote", first.id, "open", "beats everybody"),
    ]
    assert [event.id for event in log] == sorted((event.id for event in log), reverse=True)
    assert log[0].details["from"] == "commander"
    assert scene.client.events(player=first.id).items == [log[0], log[3]]
    assert scene.client.events(kind="promote").items == log[2:]
    assert scene.client.events(player=second.id, kind="promote").items == [log[2]]


def test_closed_periods_are_left_out_unless_asked_for(scene: Scene) -> None:
    scene.train(1)
    scene.client.close_period(reason="by hand")
    scene.client.promote(scene.publish(1).id)
    assert [event.kind for event in scene.client.events().items] == ["promote"]
    assert [event.kind for event in scene.client.events(periods=True).items] == ["promote", "period"]
    assert [event.kind for event in scene.client.events(kind="period").items] == ["period"]


def test_the_log_has_pages(scene: Scene) -> None:
    for step in range(5):
        scene.client.promote(scene.publish(step).id)
    whole = scene.client.events().items
    first = scene.client.events(limit=2)
    second = scene.client.events(limit=2, cursor=first.next_cursor)
    rest = scene.client.events(limit=2, cursor=second.next_cursor)
    assert first.items + second.items + rest.items == whole
    assert (len(whole), rest.next_cursor) == (5, None)


def test_each_environment_has_its_own_lines(league: LeagueClient) -> None:
    for place, name in enumerate(("rps", "recall")):
        league.promote(Scene(league, name, f"{name}-1").publish(1, content=place).id)
    assert [event.environment for event in league.events("recall").items] == ["recall"]
    assert len(league.events().items) == 2


def test_unknown_player_or_environment_is_named(scene: Scene) -> None:
    with refused("unknown-player", 999):
        scene.client.events(player=999)
    with refused("unknown-environment", "rps"):
        scene.client.events("chess")
    with refused("invalid-request", "query.limit"):
        scene.client.events(limit=0)


def test_audit_filters_list_each_value_once_in_order(database: Database) -> None:
    with database.read() as session:
        assert (audit_log.list_kinds(session), audit_log.list_actors(session)) == ([], [])
    write(
        database, [("retire", "open"), ("period", "rule"), ("champion", "ada"), ("period", "rule"), ("retire", "ada")]
    )
    with database.read() as session:
        assert audit_log.list_kinds(session) == ["champion", "period", "retire"]
        assert audit_log.list_actors(session) == ["ada", "open", "rule"]


@ON_SQLITE
@pytest.mark.parametrize("read", [audit_log.list_kinds, audit_log.list_actors])
def test_filter_values_cost_no_more_queries_for_a_longer_log(
    database: Database, read: Callable[[Session], Any]
) -> None:
    lines = [("period", "rule"), ("retire", "open")]
    write(database, lines * 100)
    short = steps(database, read)
    write(database, lines * 900)
    assert 0 < steps(database, read) == short


@ON_SQLITE
def test_lines_are_found_below_any_number_of_closed_periods(database: Database) -> None:
    def newest(session: Session) -> list[str]:
        return [line.kind for line in audit_log.list_events(session, AuditFilter("rps", league_wide=True), 10).items]

    write(database, [("retire", "open"), *[("period", "rule")] * 100])
    few = steps(database, newest)
    write(database, [("period", "rule")] * 900)
    assert 0 < steps(database, newest) == few
    with database.read() as session:
        assert newest(session) == ["retire"]
