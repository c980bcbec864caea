"""Settings as text: the values that a key takes, read from pydantic's JSON schema, and values as TOML."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

Schema = Mapping[str, Any]
"""JSON schema of a value, without references."""

SIGNS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}

WORDS = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "of at most", "exclusiveMaximum": "below"}

TYPES = {"boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "text"}


def explain(error: ValidationError, fields: Mapping[str, Mapping[str, Schema]]) -> str:
    """Return the first error as one line: the key, its value, and the values that it takes."""
    first = error.errors()[0]
    path, reason = first["loc"], first["msg"].removeprefix("Value error, ")
    if len(path) == 1 or not path:  # a rule between keys, which names them
        return reason
    location = f"{'.'.join(map(str, path))} is {first['input']!r}"
    if first["type"] == "value_error":  # the message is one of our validators
        return f"{location}: {reason}"
    section, key, *inner = map(str, path)
    schema = fields[section][key]
    if inner:
        return f"{location}: give {describe_type(_member(schema))}"
    example = "" if schema["default"] is None else f", such as the default {to_toml_value(schema['default'])}"
    return f"{location}: give {describe_type(schema)}{example}"


def describe_type(schema: Schema) -> str:
    """Describe the values that a JSON schema accepts, as the object of "give"."""
    if options := schema.get("anyOf"):  # the other one is null
        return describe_type(options[0])
    if values := schema.get("enum"):
        return f"one of {', '.join(values)}"
    kind = schema["type"]
    if kind == "array":
        return f"a list of at least one item, each {describe_type(_member(schema))}"
    if kind == "object":
        return f"a table {{ NAME = VALUE }}, each value {describe_type(_member(schema))}"
    if kind in ("integer", "number"):
        return f"{TYPES[kind]} {_range(schema)}"
    return TYPES[kind] + (" that is not empty" if "minLength" in schema else "")


def describe_bounds(schema: Schema) -> str:
    """Return the bounds of a number, such as `>= 0, < 1`; empty without bounds."""
    schema = schema.get("anyOf", [schema])[0]
    return ", ".join(f"{sign} {_number(schema[bound])}" for bound, sign in SIGNS.items() if bound in schema)


def to_toml_value(value: Any) -> str:  # noqa: ANN401  any TOML value
    """Return a value as TOML, which differs from JSON in tables only."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {to_toml_value(each)}' for key, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _member(schema: Schema) -> Schema:
    """Schema of a list's items or of a table's values."""
    member: Schema = schema.get("items") or schema["additionalProperties"]
    return member


def _range(schema: Schema) -> str:
    """Bounds of a number in words."""
    if {"minimum", "maximum"} <= schema.keys():
        return f"from {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    return " and ".join(f"{word} {_number(schema[each])}" for each, word in WORDS.items() if each in schema) or (
        "that is finite"
    )


def _number(value: float) -> str:
    return f"2**{int(value).bit_length() - 1}" if value >= 2**32 else f"{value:g}"
