"""The interface description is complete, short, and enough to generate a client from."""

import compileall
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from live_server import listening
from typer.testing import CliRunner

SIZE_MAX = 128_000
CREATED = ("/workers", "/learners", "/players", "/externals", "/gates", "/rating-periods")


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def description(http: TestClient) -> Any:
    return http.get("/openapi.json").json()


def operations(description: Any) -> Iterator[tuple[str, str, Any]]:
    for path, calls in description["paths"].items():
        for method, operation in calls.items():
            yield method, path, operation


def test_the_description_is_short(http: TestClient) -> None:
    assert len(http.get("/openapi.json").content) <= SIZE_MAX


def test_operations_have_readable_ids_and_described_tags(description: Any) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(description)]
    assert len(set(ids)) == len(ids)
    assert {"create_lease", "list_players", "get_standings", "report_results", "register_worker"} <= set(ids)
    described = {tag["name"] for tag in description["tags"] if tag["description"]}
    assert {tag for _, _, operation in operations(description) for tag in operation["tags"]} == described


def test_every_call_parameter_and_field_is_described(description: Any) -> None:
    shared = description["components"]["parameters"]
    for method, path, operation in operations(description):
        assert operation["description"], (method, path)
        for parameter in operation.get("parameters", ()):
            whole = shared[parameter["$ref"].rpartition("/")[2]] if "$ref" in parameter else parameter
            assert whole["description"], (method, path, whole["name"])
    for name, schema in description["components"]["schemas"].items():
        for field, content in schema.get("properties", {}).items():
            assert content["description"], (name, field)


def test_calls_of_workers_have_examples(description: Any) -> None:
    schemas = description["components"]["schemas"]
    for name in ("WorkerCreate", "Heartbeat", "TrainingLeases", "RatingLeases", "ResultReport", "PlayerCreate"):
        assert schemas[name]["example"], name


def test_created_resources_have_a_location_header(description: Any, http: TestClient) -> None:
    for path in CREATED:
        answers = description["paths"][f"/api/v1{path}"]["post"]["responses"]
        assert answers["201"]["headers"]["Location"]["$ref"] == "#/components/headers/Location"
    body = {"name": "gpu-0", "kind": "trainer", "version": "1", "signatures": ["rps-1"]}
    answer = http.post("/api/v1/workers", json=body)
    assert (answer.status_code, answer.headers["location"]) == (201, f"/api/v1/workers/{answer.json()['id']}")
    assert http.get(answer.headers["location"]).json()["name"] == "gpu-0"


def test_lists_have_a_limit_and_a_cursor(description: Any) -> None:
    shared = description["components"]["parameters"]
    for method, path, operation in operations(description):
        schema = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
        if method == "get" and "/Page_" in schema.get("$ref", ""):
            references = [each["$ref"].rpartition("/")[2] for each in operation["parameters"] if "$ref" in each]
            names = {shared[each]["name"] for each in references}
            names |= {each["name"] for each in operation["parameters"] if "name" in each}
            assert {"limit", "cursor"} <= names, path


# --- a generated client ----------------------------------------------------------------------------------------------


@pytest.fixture
def generated(http: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A client that openapi-python-client generated."""
    from openapi_python_client.cli import app

    document, config, folder = tmp_path / "openapi.json", tmp_path / "config.yml", tmp_path / "generated_league"
    document.write_bytes(http.get("/openapi.json").content)
    config.write_text("post_hooks: []\nliteral_enums: true\n")
    options = ["--config", str(config), "--output-path", str(folder), "--meta", "none", "--fail-on-warning"]
    outcome = CliRunner().invoke(app, ["generate", "--path", str(document), *options])
    assert outcome.exit_code == 0, outcome.output
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]


@pytest.mark.timeout(300)
def test_a_generated_client_plays_a_match(generated: Path, http: TestClient) -> None:
    assert compileall.compile_dir(generated, quiet=1)
    models = importlib.import_module("generated_league.models")
    client_class = importlib.import_module("generated_league").Client

    def call(module: str, **arguments: Any) -> Any:
        answer = importlib.import_module(f"generated_league.api.{module}").sync_detailed(**arguments)
        assert answer.status_code in (200, 201), answer.content
        return answer.parsed

    with listening(http.app) as url, client_class(base_url=url) as client:
        worker_body = models.WorkerCreate(name="gpu-0", kind="trainer", version="1", signatures=["rps-1"])
        worker = call("workers.register_worker", client=client, body=worker_body)
        learner_body = models.LearnerCreate(name="main", role="main", environment="rps", signature="rps-1")
        learner = call("learners.create_learner", client=client, body=learner_body)
        lease_body = models.TrainingLeases(
            kind="training", worker_id=worker.id, player_id=learner.player_id, count=1, budget=1
        )
        (lease,) = call("matchmaking.create_lease", client=client, body=lease_body).items
        result = models.Result(
            lease_id=lease.lease_id, sequence=0, score=1.0, decisions=5, reason="decided", seed=lease.seed
        )
        batch = models.ResultReport(worker_id=worker.id, results=[result])
        (answer,) = call("results.report_results", client=client, body=batch).items
        assert answer.status == "accepted"
        found = call("standings.get_standings", client=client, environment="rps")
        assert "main" in {item.name for item in found.items}
