"""Settings in words: what a key takes, what was given instead, and values as TOML."""

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}

NUMBERS = {int: "a whole number", float: "a number"}

DEPTH_OF_A_KEY = 2

OWN_WORDS = "value_error"
"""Kind of an error that a validator of ours has worded."""


def explain(error: ValidationError, sections: Mapping[str, type[BaseModel]]) -> str:
    """The first thing that is wrong: the key, its value, and what to give instead."""
    first = error.errors()[0]
    path, reason = first["loc"], first["msg"].removeprefix("Value error, ")
    if len(path) < DEPTH_OF_A_KEY:  # a rule between keys, which names them
        return reason
    section, key, *inner = map(str, path)
    place = f"{'.'.join([section, key, *inner])} is {first['input']!r}"
    if first["type"] == OWN_WORDS:
        return f"{place}: {reason}"
    field = sections[section].model_fields[key]
    if inner:
        return f"{place}: give {takes(_member(field.annotation))}"
    example = "" if field.default is None else f", such as the default {toml(field.default)}"
    return f"{place}: give {takes(field.annotation, field.metadata)}{example}"


def takes(kind: Any, constraints: Iterable[Any] = ()) -> str:  # noqa: ANN401  any annotation
    """What a type takes, as the object of "give"; a key that may be left out takes what it takes if it is not."""
    if get_origin(kind) in (Union, UnionType):
        return takes(next(each for each in get_args(kind) if each is not NoneType), constraints)
    if get_origin(kind) is Annotated:
        inner, *more = get_args(kind)
        found = [each.metadata if isinstance(each, FieldInfo) else [each] for each in more]
        return takes(inner, [constraint for each in found for constraint in each])
    if kind is bool:
        return "true or false"
    if kind in NUMBERS:
        return f"{NUMBERS[kind]} {_span(_bounds(constraints))}"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(each.value) for each in kind)}"
    if get_origin(kind) is tuple:
        return f"a list of at least one item, each {takes(_member(kind))}"
    if get_origin(kind) is dict:
        return f"a table {{ NAME = VALUE }}, each value {takes(_member(kind))}"
    return "text that is not empty" if _bounds(constraints) else "text"


def limits(constraints: Iterable[Any]) -> str:
    """Bounds of a number in signs, such as `>= 0, < 1`; empty where there are none."""
    bounds = _bounds(constraints)
    return ", ".join(f"{SIGNS[name]} {_number(bounds[name])}" for name in SIGNS if name in bounds)


def toml(value: Any) -> str:  # noqa: ANN401  any TOML value
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{toml(key)} = {toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml(each) for each in value)}]"
    return repr(value)


def _member(kind: Any) -> Any:  # noqa: ANN401  any annotation
    """What a list's items, or a table's values, are."""
    return get_args(kind)[1 if get_origin(kind) is dict else 0]


def _bounds(constraints: Iterable[Any]) -> dict[str, float]:
    """Bounds by name, those of a length among them."""
    return {
        name: value
        for each in constraints
        for name in (*SIGNS, "min_length")
        if (value := getattr(each, name, None)) is not None
    }


def _span(bounds: Mapping[str, float]) -> str:
    """Bounds of a number in words."""
    if {"ge", "le"} <= bounds.keys():
        return f"from {_number(bounds['ge'])} to {_number(bounds['le'])}"
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    said = (f"{word} {_number(bounds[name])}" for name, word in words.items() if name in bounds)
    return " and ".join(said) or "that is finite"


def _number(value: float) -> str:
    return f"2**{int(value).bit_length() - 1}" if value >= 2**32 else f"{value:g}"
