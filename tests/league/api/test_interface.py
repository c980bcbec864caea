"""The server does what its interface description says, whatever is sent to it: no 5xx, no answer of another shape."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import schemathesis
from fastapi.testclient import TestClient
from league_scene import Scene
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from starlette.types import ASGIApp, Receive, Scope, Send

from league.client import LeagueClient
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens

pytestmark = pytest.mark.integration

EXAMPLES = 10
UNLIMITED = {"rate_per_s": 1e6, "rate_burst": 10**9}


def found(schema: schemathesis.BaseSchema) -> tuple[set[str], list[str]]:
    """Send made-up calls; return the operations that were called, and a line for all that was wrong."""
    called, wrong = set(), []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            wrong.append(str(event))
        if not isinstance(event, events.ScenarioFinished):
            continue
        for case_id, checks in event.recorder.checks.items():
            case = event.recorder.cases[case_id].value
            called.add(case.operation.label)
            failed = [check.failure_info.failure for check in checks if check.failure_info is not None]
            wrong += [f"{failure.title}: {failure.message}\n{case.as_curl_command()}" for failure in failed]
    return called, wrong


@pytest.mark.timeout(900)  # thousands of calls, on a machine that may do other things too
def test_made_up_calls_find_no_breach_of_the_interface(
    serve: Callable[..., TestClient], database: Database, backend: str
) -> None:
    with database.write() as session:
        secret = tokens.create(session, "boss", "admin", Cause("test", "", datetime(2030, 1, 1, tzinfo=UTC)))
    http = serve(**UNLIMITED)
    http.app.state.league.ending.set()  # the stream of events ends at once
    populate(LeagueClient(http=http, token=secret))
    config = SchemathesisConfig.from_dict(
        {
            "headers": {"Authorization": f"Bearer {secret}"},
            "generation": {"max-examples": EXAMPLES, "deterministic": True},
            # values at the bounds once, on the database that minds them more, and values at random on the other
            "phases": {
                "coverage": {"enabled": backend == "postgresql"},
                "fuzzing": {"enabled": backend == "sqlite"},
                "stateful": {"enabled": False},
            },
            # a call that fits the description may still name what does not exist
            "checks": {"positive_data_acceptance": {"enabled": False}},
            "operations": [
                # a bad result is answered on its own, inside of a 200
                without("/api/v1/results", "negative_data_rejection"),
                # a name that is no list is written like a list of one
                without("/api/v1/learners/{learner_id}/metrics", "negative_data_rejection"),
                # GET of a lease of this id is a call as well
                without("/api/v1/leases/release", "allow_header_conformance"),
            ],
        }
    )
    schema = schemathesis.openapi.from_asgi("/openapi.json", started(http.app), config=config)
    called, wrong = found(schema)
    assert wrong == []
    described = http.get("/openapi.json").json()["paths"]
    assert called >= {f"{method.upper()} {path}" for path, calls in described.items() for method in calls}


def started(app: ASGIApp) -> ASGIApp:
    """Let schemathesis call a server that runs already, which it would start once more and never stop."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] != "lifespan"
        await app(scope, receive, send)

    return answer


def without(path: str, check: str) -> dict[str, object]:
    return {"include-path": path, "checks": {check: {"enabled": False}}}


def populate(client: LeagueClient) -> None:
    """Play a little, so that there is something to ask about."""
    scene = Scene(client)
    for step in (1, 2):
        scene.publish(step)
    scene.train(3)
    client.close_period()
