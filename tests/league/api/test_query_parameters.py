"""Calls of the API refuse query parameters that they do not have; pages and probes ignore them."""

import json
import re
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.testclient import TestClient
from league_scene import Scene
from pydantic import BaseModel, Field
from refused import assert_names

from league.api import errors as api_errors
from league.api.routes import ApiRoute
from league.wire import PREFIX


@pytest.fixture
def backend() -> str:
    """No database decides about them."""
    return "sqlite"


def described(http: TestClient) -> list[tuple[str, str]]:
    """Return method and path of every call below the API's prefix, with made-up parts in its path."""
    paths: dict[str, Any] = http.get("/openapi.json").json()["paths"]
    made_up = {"sha256": "0" * 64}
    calls = []
    for path, operations in paths.items():
        if not path.startswith(PREFIX):
            continue
        parts = {part: made_up.get(part, "1") for part in re.findall(r"{(\w+)}", path)}
        calls += [(method.upper(), path.format(**parts)) for method in operations]
    return calls


def refusal(http: TestClient, method: str, address: str, **sent: Any) -> dict[str, str]:
    answer = http.request(method, address, **sent)
    assert answer.status_code == 422, address
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, str] = answer.json()
    assert problem["type"] == "invalid-request"
    return problem


def test_every_call_of_the_interface_refuses_an_unknown_query_parameter(http: TestClient) -> None:
    calls = described(http)
    assert ("GET", "/api/v1/standings") in calls
    for method, path in calls:
        problem = refusal(http, method, f"{path}?verbose=secret")
        assert (problem["type"], problem["value"]) == ("invalid-request", "query.verbose")
        assert "secret" not in json.dumps(problem)


STANDINGS = "environment, q, kind, role, standing, learner_id, sort, order, limit, cursor, as_of"


@pytest.mark.parametrize(
    ("query", "value", "names"),
    [
        ("limt=5", "query.limt", "limit"),
        ("limit=5&enviroment=rps", "query.enviroment", "environment"),
        ("zz=7", "query.zz", STANDINGS),
        ("verbose", "query.verbose", STANDINGS),
        ("=5", "query.", STANDINGS),
    ],
)
def test_the_refusal_names_the_parameter_and_the_nearest_name(
    http: TestClient, query: str, value: str, names: str
) -> None:
    problem = refusal(http, "GET", f"/api/v1/standings?{query}")
    assert problem["value"] == value
    assert_names(problem["remedy"], names)


def test_query_on_a_call_without_parameters_is_rejected(http: TestClient) -> None:
    problem = refusal(http, "GET", "/api/v1/players/1?limit=5")
    assert (problem["type"], problem["value"]) == ("invalid-request", "query.limit")


@pytest.mark.parametrize("call", ["results", "leases", "workers", "workers/1/heartbeat"])
def test_frequent_calls_with_a_query_are_refused_as_all_others(http: TestClient, call: str) -> None:
    problem = refusal(http, "POST", f"/api/v1/{call}?environment=rps", json={})
    assert problem["value"] == "query.environment"


def test_a_parameter_that_may_be_repeated_is_known_each_time(http: TestClient, scene: Scene) -> None:
    address = f"/api/v1/learners/{scene.learner.id}/metrics?name=loss&name=entropy&most=5"
    assert http.get(address).status_code == 200


def test_an_endless_name_is_cut_in_the_answer(http: TestClient) -> None:
    assert len(refusal(http, "GET", f"/api/v1/standings?{'x' * 5000}=1")["value"]) < 200


@pytest.mark.parametrize("path", ["/", "/static/style.css", "/docs", "/healthz", "/readyz", "/metrics"])
def test_pages_and_probes_ignore_unknown_query_parameters(http: TestClient, path: str) -> None:
    assert (http.get(path).status_code, http.get(f"{path}?utm_source=mail").status_code) == (200, 200)


class Filters(BaseModel):
    least: int = Field(0, alias="min")
    most: int = 9


def _page(cursor: Annotated[int, Query()] = 0) -> int:
    return cursor


def test_parameters_of_models_aliases_and_dependencies_are_known() -> None:
    router = APIRouter(route_class=ApiRoute)

    @router.get("/models")
    def models(filters: Annotated[Filters, Query()]) -> int:
        return filters.least

    @router.get("/names")
    def names(page: Annotated[int, Depends(_page)], goal: Annotated[str, Query(alias="next")] = "/") -> str:
        return f"{goal} {page}"

    app = FastAPI()
    app.include_router(router, prefix="/v1")
    api_errors.install(app)
    with TestClient(app) as http:
        assert http.get("/v1/models?min=3&most=4").json() == 3
        assert refusal(http, "GET", "/v1/models?least=3")["value"] == "query.least"
        assert http.get("/v1/names?next=home&cursor=7").json() == "home 7"
        assert refusal(http, "GET", "/v1/names?goal=home")["value"] == "query.goal"
