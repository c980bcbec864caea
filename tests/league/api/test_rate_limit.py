"""Calls are counted for each caller and request class, and too many are refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from refused import refused

from league.api.rate_limit import REFUSED_COST, RateLimiter
from league.api.token_cache import TokenCache
from league.client import LeagueClient, make_retry_gate
from league.db.engine import Database
from league.errors import (
    RateLimitedError,
)
from league.services.audit.log import Cause
from league.services.auth import tokens

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_caller_may_call_at_its_rate_after_a_burst_and_others_are_not_slowed() -> None:
    callers = RateLimiter(per_s=2.0, burst=10)
    for _ in range(10):
        callers.admit("ann", "reads", NOW)
    with refused("rate-limited", "ann", 2, 10) as refusal:
        callers.admit("ann", "reads", NOW)
    assert refusal.value.retry_after_s == 1
    callers.admit("bob", "reads", NOW)
    later = NOW + timedelta(seconds=1)
    for _ in range(2):
        callers.admit("ann", "reads", later)
    with pytest.raises(RateLimitedError):
        callers.admit("ann", "reads", later)


@ON_SQLITE
def test_rate_limited_reader_can_still_send_heartbeats_and_results(
    serve: Callable[..., TestClient], database: Database
) -> None:
    http = serve(rate_per_s=1.0, rate_burst=30)
    with database.write() as session:
        secret = tokens.create(session, "ann", "worker", Cause("test", "", NOW))
    client = LeagueClient(http=http, token=secret, patience=make_retry_gate(0.0))
    scene = Scene(client)
    (lease,) = scene.opponent_leases(1)
    answers = [http.get("/api/v1/players", headers=client._headers).status_code for _ in range(31)]
    assert answers[0] == 200
    assert answers[-1] == 429
    with refused("rate-limited"):
        client.players()
    assert client.heartbeat(scene.trainer.id).command == "continue"
    assert [answer.status for answer in scene.report(result(lease))] == ["accepted"]


def test_waiting_for_retry_after_is_sufficient() -> None:
    callers = RateLimiter(per_s=0.3, burst=1)
    now = NOW
    callers.admit("ann", "reads", now)
    for _ in range(20):
        with pytest.raises(RateLimitedError) as refusal:
            callers.admit("ann", "reads", now)
        now += timedelta(seconds=refusal.value.retry_after_s or 0)
        callers.admit("ann", "reads", now)


def test_a_call_dearer_than_the_burst_needs_the_whole_of_it() -> None:
    callers = RateLimiter(per_s=1.0, burst=3)
    callers.admit("ann", "reads", NOW, cost=100)
    with pytest.raises(RateLimitedError) as refusal:
        callers.admit("ann", "reads", NOW, cost=100)
    assert refusal.value.retry_after_s == 100
    callers.admit("ann", "reads", NOW + timedelta(seconds=100), cost=100)


def test_idle_callers_are_forgotten() -> None:
    callers = RateLimiter(per_s=1.0, burst=3)
    for number in range(10_000):
        callers.admit(f"address {number}", "reads", NOW)
    callers.admit("address again", "reads", NOW + timedelta(hours=1))
    assert len(callers._buckets) == 1


@ON_SQLITE
def test_rate_limit_error_has_retry_after(serve: Callable[..., TestClient], database: Database, time: Any) -> None:
    http = serve(rate_per_s=1.0, rate_burst=3)
    with database.write() as session:
        secrets = [tokens.create(session, name, "read", Cause("test", "", NOW)) for name in ("ann", "bob")]
    ann, bob = ({"Authorization": f"Bearer {secret}"} for secret in secrets)
    answers = [http.get("/api/v1/players", headers=ann) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].headers["retry-after"] == "1"
    assert answers[-1].headers["content-type"] == "application/problem+json"
    assert answers[-1].json()["type"] == RateLimitedError.type
    assert "token 'ann'" in answers[-1].json()["detail"]
    assert http.get("/api/v1/players", headers=bob).status_code == 200
    time.advance(1)
    assert http.get("/api/v1/players", headers=ann).status_code == 200
    assert http.get("/healthz").status_code == 200


@ON_SQLITE
def test_guessing_tokens_is_rate_limited_but_valid_tokens_are_not(
    serve: Callable[..., TestClient], database: Database
) -> None:
    http = serve(rate_per_s=100.0, rate_burst=5 * REFUSED_COST)
    with database.write() as session:
        secret = tokens.create(session, "ann", "read", Cause("test", "", NOW))
    tried = [http.get("/api/v1/players", headers={"Authorization": f"Bearer guess{n}"}) for n in range(6)]
    assert [answer.status_code for answer in tried] == [401] * 5 + [429]
    assert http.get("/api/v1/players", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_uses_of_a_token_are_noted_every_ten_minutes_also_where_the_clock_was_set_back() -> None:
    cache = TokenCache(memory_s=0.0)
    moments = [NOW + timedelta(minutes=minutes) for minutes in (0, 9, 10, -1430, -1429)]
    assert [cache.should_record_use("ann", moment) for moment in moments] == [True, False, True, True, False]
