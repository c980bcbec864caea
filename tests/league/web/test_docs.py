"""The API reference is Swagger UI from the server's own files."""

import re

import pytest
from fastapi.testclient import TestClient


@pytest.fixture
def backend() -> str:
    return "sqlite"


def test_the_reference_loads_its_files_from_this_server_alone(http: TestClient) -> None:
    answer = http.get("/docs")
    assert answer.status_code == 200
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    files = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert {path.partition("?")[0].rpartition("/")[2] for path in files} >= {
        "swagger-ui-bundle.js",
        "swagger-ui.css",
        "start.js",
    }
    for path in files:
        assert path.startswith("/")
        assert http.get(path).status_code == 200
    assert not re.search(r"<script(?![^>]*src=)|<style|style=", answer.text)
    assert http.get("/redoc").status_code == 404


def test_the_reference_offers_authorisation(http: TestClient) -> None:
    schemes = http.get("/openapi.json").json()["components"]["securitySchemes"]
    assert schemes["token"]["scheme"] == "bearer"
