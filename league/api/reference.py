"""The interface description as a page for people: plain HTML of our own, so that it is there without the internet."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SCHEMA = "#/components/schemas/"
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "like {}",
    "default": "{} if left out",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem 1.5rem 6rem; }
h2 { border-bottom: 1px solid #8886; margin-top: 3rem; }
h3 { font-size: 1rem; margin: 2rem 0 0; }
code { font-size: 0.9em; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; }
.scope { float: right; font-weight: normal; opacity: 0.7; }
p { margin: 0.3rem 0; white-space: pre-line; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } a { color: #8bf; } }
"""

Node = dict[str, Any]


@router.get("/docs")
def show(request: Request) -> HTMLResponse:
    """Show every call and every body."""
    return HTMLResponse(page(request.app.openapi()), headers={"Content-Security-Policy": _POLICY})


def page(description: Node) -> str:
    """Return an interface description as one page of HTML.

    Args:
        description: An OpenAPI 3.1 document.
    """
    title = escape(f"{description['info']['title']} {description['info']['version']}")
    return "".join(
        [
            f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title>",
            "<meta name=viewport content='width=device-width, initial-scale=1'>",
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
            "<p>A closed league wants <code>Authorization: Bearer TOKEN</code>; <code>league token create</code> ",
            "makes tokens. Errors are <code>application/problem+json</code>; fields and query parameters that a call ",
            "does not have are refused. Programs read ",
            "<a href=/openapi.json>/openapi.json</a>.</p>",
            *_calls(description["paths"]),
            "<h2 id=bodies>Bodies</h2>",
            *_bodies(description["components"]["schemas"]),
            "</body></html>",
        ]
    )


def _calls(paths: Node) -> Iterator[str]:
    part = None
    for path, operations in paths.items():
        for method, operation in operations.items():
            if operation["tags"][0] != part:
                part = operation["tags"][0]
                yield f"<h2>{escape(part)}</h2>"
            yield f"<h3><code>{method.upper()} {escape(path)}</code> <span class=scope>{_scope(operation)}</span></h3>"
            yield f"<p>{escape(operation.get('description', ''))}</p>"
            yield _table(_parameters(operation))
            yield from _contents(operation)


def _scope(operation: Node) -> str:
    words = [word for way in operation.get("security", ()) for scopes in way.values() for word in scopes]
    return f"scope {escape(words[0])}" if words else "for everybody"


def _parameters(operation: Node) -> Iterator[tuple[str, str, str]]:
    for parameter in operation.get("parameters", ()):
        schema, needed = parameter["schema"], parameter.get("required", False)
        remarks = _remarks(schema, parameter.get("description"), needed=needed)
        yield f"{parameter['name']} ({parameter['in']})", _type(schema), remarks


def _contents(operation: Node) -> Iterator[str]:
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>takes {_type(content['schema'])} as {escape(media)}</p>"
    for status, answer in operation["responses"].items():
        if status.isdigit():
            for media, content in answer.get("content", {}).items():
                yield f"<p>{status}: {_type(content.get('schema', {}))} as {escape(media)}</p>"


def _bodies(schemas: Node) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield f"<h3 id='{escape(name)}'>{escape(name)}</h3><p>{escape(schema.get('description', ''))}</p>"
        needed = schema.get("required", ())
        yield _table(
            (field, _type(value), _remarks(value, value.get("description"), needed=field in needed))
            for field, value in schema.get("properties", {}).items()
        )


def _table(rows: Iterable[tuple[str, str, str]]) -> str:
    cells = [f"<tr><td><code>{escape(name)}</code><td>{kind}<td>{rest}" for name, kind, rest in rows]
    return f"<table>{''.join(cells)}</table>" if cells else ""


def _type(schema: Node) -> str:
    """Say in HTML what a value is."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_SCHEMA))
        return f"<a href='#{name}'>{name}</a>"
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(_type(choice) for choice in choices)
    if "enum" in schema or "const" in schema:
        return " | ".join(f"<code>{escape(str(word))}</code>" for word in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return escape(schema.get("format") or schema.get("type") or "any value")


def _remarks(schema: Node, description: str | None, *, needed: bool) -> str:
    parts = ["needed"] if needed else []
    parts += _rules(schema)
    parts += [escape(description)] if description else []
    return ", ".join(parts)


def _rules(schema: Node) -> Iterator[str]:
    """Say in HTML what bounds a value has, those of its alternatives too."""
    for key, wording in _BOUNDS.items():
        if schema.get(key) is not None:
            bound = schema[key]
            whole = isinstance(bound, float) and bound.is_integer()
            yield wording.format(f"<code>{escape(str(int(bound) if whole else bound))}</code>")
    for choice in schema.get("anyOf", ()):
        yield from _rules(choice)
