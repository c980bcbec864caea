"""Reference of the HTTP API, from the OpenAPI description of the server."""

from pathlib import Path
from tempfile import gettempdir
from typing import Any

from league_docs.markdown import code, document, escape, table

Node = dict[str, Any]

_COMMON_RESPONSES = ("default", "429", "503")


def openapi() -> Node:
    """Return the OpenAPI description; the application is never started, so it opens nothing."""
    from league.app import create_app
    from league.settings import Settings

    return create_app(Settings.model_construct(home=Path(gettempdir()))).openapi()


def render() -> str:
    """List the scopes of all operations, then describe each by tag, the responses that all share, and every schema."""
    description = openapi()
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in description.get("tags", ())}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            tag = operation.get("tags", ["other"])[0]
            by_tag.setdefault(tag, []).append(_operation(method, path, operation, description))
    about = {tag["name"]: tag.get("description", "") for tag in description.get("tags", ())}
    tags = [
        document(f"## {name[:1].upper()}{name[1:]}", escape(about.get(name, "")), *operations)
        for name, operations in by_tag.items()
        if operations
    ]
    return document(_scope_table(description), *tags, _shared_responses(description), _schemas(description))


def _operation(method: str, path: str, operation: Node, description: Node) -> str:
    parameters = [_resolved(each, description) for each in operation.get("parameters", ())]
    rows = [
        (code(each["name"]), each["in"], _type(each.get("schema", {})), _default(each), escape(_text(each)))
        for each in parameters
    ]
    body = _resolved(operation.get("requestBody", {}), description)
    responses = [
        (code(status), escape(answer.get("description", "")), _content(answer))
        for status, answer in operation["responses"].items()
        if status not in _COMMON_RESPONSES
    ]
    return document(
        f"### {method.upper()} {path}",
        "\n\n".join(escape(each) for each in operation.get("description", "").split("\n\n")),
        _scopes(operation),
        table(("parameter", "in", "type", "default", "description"), rows) * bool(rows),
        f"Body: {_content(body)}" if body else "",
        table(("status", "response", "body"), responses),
    )


def _scope_table(description: Node) -> str:
    rows = [
        (method.upper(), code(path), ", ".join(_scope_names(operation)) or "none")
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    ]
    return document("## Scopes", table(("call", "path", "scope"), sorted(rows, key=lambda row: (row[1], row[0]))))


def _scopes(operation: Node) -> str:
    names = _scope_names(operation)
    return f"Scope: {', '.join(map(code, names))}" if names else ""


def _scope_names(operation: Node) -> list[str]:
    return sorted({scope for each in operation.get("security", ()) for found in each.values() for scope in found})


def _shared_responses(description: Node) -> str:
    rows = [
        (code(status), escape(answer["description"]), _content(answer))
        for status in _COMMON_RESPONSES
        for answer in [_first_response(status, description)]
        if answer
    ]
    return document("## Errors", "Every operation can also respond with:", table(("status", "response", "body"), rows))


def _first_response(status: str, description: Node) -> Node:
    for operations in description["paths"].values():
        for operation in operations.values():
            if status in operation["responses"]:
                return _resolved(operation["responses"][status], description)
    return {}


def _schemas(description: Node) -> str:
    return document("## Schemas", *(_schema(*each) for each in sorted(description["components"]["schemas"].items())))


def _schema(name: str, schema: Node) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (
            code(field),
            _type(each),
            "yes" if field in required else "",
            code(str(each["default"])) if each.get("default") is not None else "",
            escape(each.get("description", "")),
        )
        for field, each in schema.get("properties", {}).items()
    ]
    alternatives = "" if rows else _type(schema)
    return document(
        f"({_target(name)})=\n### {name}",
        escape(schema.get("description", "")),
        table(("field", "type", "required", "default", "description"), rows) if rows else alternatives,
    )


def _content(node: Node) -> str:
    """Name the schema of a body, or else its media types."""
    named = []
    for media_type, content in node.get("content", {}).items():
        schema = content.get("schema", {})
        shown = _type(schema)
        named.append(shown if "$ref" in str(schema) else code(media_type))
    return " or ".join(dict.fromkeys(named))


def _type(schema: Node) -> str:
    """Name a type; schemas are links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{_target(name)})"
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[several]))
    if "enum" in schema:
        return ", ".join(code(str(each)) for each in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return " or ".join(kind) if isinstance(kind, list) else kind


def _default(parameter: Node) -> str:
    default = parameter.get("schema", {}).get("default")
    return (
        "required" if parameter.get("required") and default is None else code("" if default is None else str(default))
    )


def _text(parameter: Node) -> str:
    return parameter.get("description") or parameter.get("schema", {}).get("description", "")


def _target(name: str) -> str:
    return f"schema-{name.lower()}"


def _resolved(node: Node, description: Node) -> Node:
    """Follow a reference into the components of the description."""
    while "$ref" in node:
        found: Any = description
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node
