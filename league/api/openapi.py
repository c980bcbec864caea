"""OpenAPI description: tags, shared error responses and shared parameters."""

import json
from collections import Counter
from typing import Any

from fastapi import FastAPI

from league.api.errors import MEDIA_TYPE, Problem

TAGS = [
    {"name": name, "description": text}
    for name, text in (
        ("results", "Report finished matches."),
        ("matchmaking", "Lease opponents and see how they are drawn."),
        ("workers", "Register workers."),
        ("learners", "Register learners and read their curves."),
        ("checkpoints", "Upload and download weights."),
        ("players", "Publish, find, promote and retire players."),
        ("champion", "Choose the best player of each environment."),
        ("gates", "Sequential tests of two frozen players."),
        ("standings", "Standings, now and after past rating periods."),
        ("analysis", "Payoffs, superiority, regressions and redundancy."),
        ("rating periods", "Close and list rating periods."),
        ("matches", "The match log and recordings."),
        ("events", "Events of the league."),
        ("environments", "Environments of the league."),
        ("health", "Liveness, readiness, metrics and the caller's token."),
    )
]

_REF = "#/components"
_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": f"{_REF}/schemas/Problem"}}}}
_LATER = {"headers": {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}}}
_ERRORS = {
    "default": ("Problem", {"description": "Rejected (4XX) or failed (5XX), with the reason", **_PROBLEM}),
    "429": ("Limited", {"description": "Too many calls of this token or address", **_PROBLEM, **_LATER}),
    "503": ("Busy", {"description": "The server is busy or has no database", **_PROBLEM, **_LATER}),
}
_LOCATION = {"description": "Path of the created object", "schema": {"type": "string"}}

_LARGE = 6
"""Fewest properties of a schema that others may refer to."""

_UNUSED = "HTTPValidationError", "ValidationError", "UnreadableResult"

Node = dict[str, Any]


def install(app: FastAPI) -> None:
    """Build the OpenAPI description on the first request for it."""
    build = app.openapi

    def openapi() -> Node:
        return app.openapi_schema or _completed(build())

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(description: Node) -> Node:
    components = description["components"]
    for name in _UNUSED:
        components["schemas"].pop(name, None)
    components["schemas"]["Problem"] = Problem.model_json_schema()
    components["responses"] = dict(_ERRORS.values())
    components["headers"] = {"Location": _LOCATION}
    _shorten([description["paths"], components])
    operations = [(method, operation) for calls in description["paths"].values() for method, operation in calls.items()]
    for method, operation in operations:
        answers = operation["responses"]
        del operation["summary"]  # repeats the operation's id
        if method == "post" and "201" in answers:
            answers["200"] = {**answers["201"], "description": "It existed before"}
            answers["201"] = {**answers["201"], "headers": {"Location": {"$ref": f"{_REF}/headers/Location"}}}
        for status, (name, _) in _ERRORS.items():
            answers.setdefault(status, {"$ref": f"{_REF}/responses/{name}"})
        answers.pop("422", None)  # part of `default`
        for answer in answers.values():
            if answer.get("description") == "Successful Response":
                answer["description"] = "OK"
    _share_properties(components["schemas"])
    components["parameters"] = _share_parameters([operation for _, operation in operations])
    return description


def _share_properties(schemas: Node) -> None:
    """Write each schema that has all properties of another large one as `allOf` that one and its own properties."""
    objects = {name: schema for name, schema in schemas.items() if len(schema.get("properties", ())) >= _LARGE}
    for name, schema in objects.items():
        for base, shared in objects.items():
            properties = schema["properties"]
            if base == name or any(properties.get(key) != value for key, value in shared["properties"].items()):
                continue
            own = {key: value for key, value in schema.items() if key not in ("type", "required", "properties")}
            own["allOf"] = [
                {"$ref": f"{_REF}/schemas/{base}"},
                {
                    "type": "object",
                    "properties": {key: each for key, each in properties.items() if key not in shared["properties"]},
                    "required": [key for key in schema.get("required", ()) if key not in shared.get("required", ())],
                },
            ]
            schemas[name] = own
            break


def _share_parameters(operations: list[Node]) -> Node:
    """Replace parameters that several operations share by references; return the shared ones."""
    every = [parameter for operation in operations for parameter in operation.get("parameters", ())]
    for parameter in every:
        parameter["schema"].pop("description", None)  # the parameter itself has it too
        if not parameter["required"]:
            del parameter["required"]
    counts = Counter(json.dumps(parameter) for parameter in every)
    keys: dict[str, str] = {}
    for text in (text for text, count in counts.items() if count > 1):
        name = json.loads(text)["name"]
        keys[text] = f"{name}{sum(key.rstrip('0123456789') == name for key in keys.values()) or ''}"
    for operation in operations:
        if "parameters" in operation:
            operation["parameters"] = [
                {"$ref": f"{_REF}/parameters/{keys[text]}"} if (text := json.dumps(parameter)) in keys else parameter
                for parameter in operation["parameters"]
            ]
    return {key: json.loads(text) for text, key in keys.items()}


def _shorten(node: object) -> None:
    """Remove generated titles, and write nullable types as a list."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        match node.get("anyOf"):
            case [{"type": str(kind), **rest}, {"type": "null"}] if "enum" not in rest:
                del node["anyOf"]
                node |= {"type": [kind, "null"], **rest}
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            _shorten(each)
