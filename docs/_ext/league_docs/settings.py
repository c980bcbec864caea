"""Reference of the settings of the server and of the trainer, from their models."""

import re
from dataclasses import is_dataclass
from inspect import getdoc
from typing import Any

from league_docs.markdown import code, document, escape, table

HEADER = ("setting", "type", "default", "range", "description")

SERVER_SECTIONS = {
    "host": "Addresses, logs and stores",
    "database_connections": "Limits",
    "heartbeat_s": "Workers and leases",
    "retention_days": "Retention",
    "aggregation_interval_s": "Rating periods and events",
    "review_matches": "Review of workers",
    "tau": "Ratings",
    "automatic_promotion": "Promotion and retirement",
}
"""Sections of the server's settings by their first setting, in the order of the fields."""


def server() -> str:
    """Describe the settings of the server: their variables, types, defaults and ranges."""
    from league.settings import Settings

    described = {each.variable: each for each in Settings.model_construct().listing()}
    schema = Settings.model_json_schema()
    sections: dict[str, list[tuple[str, ...]]] = {}
    groups: list[str] = []
    title = "Other"
    for name, field in Settings.model_fields.items():
        title = SERVER_SECTIONS.get(name, title)
        variable = f"LEAGUE_{name.upper()}"
        if is_dataclass(field.default):
            prefix = f"{variable}__"
            members = _resolve(schema["properties"][name], schema)["properties"]
            rows = [
                _server_row(each, _resolve(members[variable.removeprefix(prefix).lower()], schema))
                for variable, each in described.items()
                if variable.startswith(prefix)
            ]
            about = (getdoc(type(field.default)) or "").partition("\n\n")[0]
            groups.append(document(f"## {name.replace('_', ' ').capitalize()}", escape(about), table(HEADER, rows)))
        else:
            sections.setdefault(title, []).append(_server_row(described[variable], schema["properties"][name]))
    return document(*(document(f"## {name}", table(HEADER, rows)) for name, rows in sections.items()), *groups)


def trainer() -> str:
    """Describe the settings of the trainer, section by section."""
    from trainer.config.loading import sections, setting_schemas, to_toml_value

    pages = []
    for section, schemas in setting_schemas().items():
        title, _, rest = (getdoc(sections()[section]) or "").partition("\n\n")
        rows = [
            (
                code(f"{section}.{name}"),
                _type(schema),
                "" if schema.get("default") is None else code(to_toml_value(schema["default"])),
                _range(schema),
                escape(schema.get("description", "")),
            )
            for name, schema in schemas.items()
        ]
        pages.append(document(f"## {section}", escape(title), escape(rest), table(HEADER, rows)))
    return document(*pages)


def _server_row(setting: Any, schema: dict[str, Any]) -> tuple[str, ...]:
    return (
        code(setting.variable),
        _type(schema),
        code(setting.default),
        _range(schema),
        escape(setting.about),
    )


def _resolve(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Follow the reference of a schema, if it has one."""
    reference = schema.get("$ref")
    return root["$defs"][reference.rpartition("/")[2]] | schema if reference else schema


def _type(schema: dict[str, Any]) -> str:
    """Name the type of a value: its options, or a word."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return " or ".join(dict.fromkeys(_kind(each) for each in kinds))


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(code(str(each)) for each in schema["enum"])
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    words = {"object": "table", "string": "text", "number": "number", "integer": "integer", "boolean": "true or false"}
    return words.get(kind, kind)


def _range(schema: dict[str, Any]) -> str:
    """Describe the bounds of a number, such as `0 to 1` or `>= 1`."""
    from trainer.config.messages import describe_bounds

    bounds = describe_bounds(schema)
    return escape(re.sub(r"^>= (\S+), <= (\S+)$", r"\1 to \2", bounds))
