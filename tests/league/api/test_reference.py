"""The page about the interface tells of every call and every body, and needs nothing but itself."""

import re
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from league.api.reference import page


@pytest.fixture
def backend() -> str:
    return "sqlite"


class Reading(HTMLParser):
    """What a browser would fetch and follow, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.followed: list[str] = []
        self.names: set[str | None] = set()
        self.text = ""
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attributes:
            if name == "src" or (tag == "link" and name == "href"):
                self.fetched.append(str(value))
            elif name == "href":
                self.followed.append(str(value))
            elif name == "id":
                self.names.add(value)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def read(http: TestClient) -> Reading:
    reading = Reading()
    reading.feed(http.get("/docs").text)
    return reading


def test_the_page_fetches_nothing_and_runs_nothing(http: TestClient, read: Reading) -> None:
    answer = http.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert read.fetched == []
    assert "script" not in read.tags
    assert "url(" not in answer.text
    assert http.get("/redoc").status_code == 404


def test_the_page_tells_of_every_call_with_its_scope_and_of_every_field(http: TestClient, read: Reading) -> None:
    description = http.get("/openapi.json").json()
    for path, operations in description["paths"].items():
        for method in operations:
            assert re.search(
                rf"{method.upper()} {re.escape(path)} (scope (read|worker|admin)|for everybody)", read.text
            )
    for name, schema in description["components"]["schemas"].items():
        assert name in read.names
        for field in schema.get("properties", {}):
            assert field in read.text
    assert all(link == "/openapi.json" or link.removeprefix("#") in read.names for link in read.followed)


def test_bounds_and_choices_are_said(read: Reading) -> None:
    for words in ("at least 1, at most 4096", "trainer | evaluator", "list of Result", "100 if left out", "or null"):
        assert words in read.text


def test_what_a_description_says_is_text_and_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    operation = {"tags": [evil], "description": evil, "responses": {}, "parameters": []}
    schema = {"description": evil, "properties": {evil: {"type": evil, "description": evil, "pattern": evil}}}
    document = {
        "info": {"title": evil, "version": evil},
        "paths": {f"/{evil}": {"get": operation}},
        "components": {"schemas": {"Evil": schema}},
    }
    reading = Reading()
    reading.feed(page(document))
    assert "script" not in reading.tags
    assert reading.text.count(evil) >= 8
