"""Settings of a trainer, in two levels: sections of keys. One TOML file, then `--set section.key=value`.

`runtime.py` has the sections about what runs and where, `algorithm.py` those about what learns and how. Every key has a
default, a range and a description; `trainer run --help` is written from them.
"""

import difflib
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from arena.environments import split_rounds
from trainer.config.messages import explain, limits, toml
from trainer.config.schema import EnvironmentSettings, LeagueSettings, StrictModel, TrainerConfig
from trainer.errors import ConfigError

HELP_WIDTH = 76
"""Columns of the explanation: what indents it comes before."""

Settings = dict[str, dict[str, Any]]
"""Raw settings: {section: {key: value}}."""

OVERLAYS = ("gpu",)
"""Presets for hardware, on top of the environment's: folders of `presets`."""

EXPLOITERS = ("main_exploiter", "league_exploiter")


def resolve(
    environment: str | None,
    file: Path | None,
    assignments: Iterable[str],
    saved: Mapping[str, Any] = MappingProxyType({}),
    overlay: str | None = None,
) -> TrainerConfig:
    """Build the configuration.

    Defaults, then the environment's preset, then the role's, then what a run was made with, then the overlay, then the
    file, then `assignments`.

    Args:
        environment: Environment to train on; overrides the file's.
        file: TOML file, or None.
        assignments: `section.key=value`, value in TOML; text that is no TOML is taken as a string.
        saved: Settings of the run that is gone on with.
        overlay: One of `OVERLAYS`, or None.

    Raises:
        ConfigError: A key is unknown or a value out of range.
    """
    own = merge(read_toml(file) if file else {}, parse_assignments(assignments))
    if environment is not None:
        own = merge(own, {"environment": {"name": environment}})
    given = merge(saved, own)
    name = str(given.get("environment", {}).get("name", EnvironmentSettings().name))
    role = str(given.get("league", {}).get("role", LeagueSettings().role))
    base = merge(merge(_preset_for(name, role), role_preset(role)), saved)
    return validate(merge(merge(base, overlay_preset(overlay, name) if overlay else {}), own))


def preset(environment: str) -> Settings:
    """Settings that train well on an environment as they are: its own over its family's; none where there is no preset.

    A match of several rounds is as long as so many of the game's: leases are of fewer of them.
    """
    named, rounds = split_rounds(environment)
    family, colon, game = named.partition(":")
    settings = _shipped(family)
    if not settings:
        return {}
    if colon:
        settings = merge(settings, _shipped(f"{family}-{game.partition('(')[0]}"))
    leases = {"lease_budget": max(1, settings["league"]["lease_budget"] // (rounds or 1))}
    return merge(settings, {"environment": {"name": environment}, "league": leases})


def _preset_for(environment: str, role: str) -> Settings:
    """An environment's preset as a role takes it: numbers of roles in it are a main's."""
    settings = preset(environment)
    return settings if role == "main" else {name: keys for name, keys in settings.items() if name != "role"}


def overlay_preset(overlay: str, environment: str) -> Settings:
    """Settings for some hardware: those of every environment, then the environment's own.

    Raises:
        ConfigError: There is no such overlay.
    """
    if overlay not in OVERLAYS:
        raise ConfigError(f"--preset is {overlay!r}: give one of {', '.join(OVERLAYS)}, or leave it out")
    named, _ = split_rounds(environment)
    return merge(_shipped(f"{overlay}/default"), _shipped(f"{overlay}/{named}"))


def _shipped(name: str) -> Settings:
    """A file of presets; empty where there is none."""
    entry = resources.files("trainer.config") / "presets" / f"{name}.toml"
    return tomllib.loads(entry.read_text(encoding="utf-8")) if entry.is_file() else {}


def role_preset(role: str) -> Settings:
    """Settings that a role brings: exploiters do not play themselves."""
    return {"environment": {"self_play": 0.0}} if role in EXPLOITERS else {}


def read_toml(file: Path) -> dict[str, Any]:
    """Read raw settings from a file.

    Raises:
        ConfigError: The file cannot be read, is not TOML, or has an unknown key.
    """
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; give the path of a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}; write sections as [ppo] and keys as gamma = 0.99") from error
    try:
        _check_keys(settings)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    return settings


def parse_assignments(assignments: Iterable[str]) -> Settings:
    """Read `section.key=value` texts.

    Raises:
        ConfigError: A text is not of that form.
    """
    settings: Settings = {}
    for text in assignments:
        path, equals, value = text.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (equals and dot and section and key):
            raise ConfigError(
                f"cannot read the setting {text!r}: write it as section.key=value, such as ppo.gamma=0.99"
            )
        settings.setdefault(section, {})[key] = _parse_value(value.strip())
    return settings


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    """Settings of `base` with those of `over` in their place."""
    _check_keys(base)
    _check_keys(over)
    return {section: {**base.get(section, {}), **over.get(section, {})} for section in [*base, *over]}


def validate(settings: Mapping[str, Any]) -> TrainerConfig:
    """Check raw settings.

    Raises:
        ConfigError: A key is unknown or a value out of range.
    """
    _check_keys(settings)
    try:
        return TrainerConfig.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, sections())) from error


def sections() -> dict[str, type[StrictModel]]:
    """Every section by name."""
    return {
        name: field.annotation
        for name, field in TrainerConfig.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, StrictModel)
    }


def describe() -> str:
    """Explain every setting for `--help`: its default, its range and what it is for."""
    lines = []
    for section, model in sections().items():
        lines += ["", *_folded(f"[{section}] {(model.__doc__ or '').splitlines()[0]}", "")]
        for key, field in model.model_fields.items():
            span = f" ({bounds})" if (bounds := limits(field.metadata)) else ""
            default = f" = {toml(field.default)}" if field.default is not None else ""
            lines += _folded(f"{section}.{key}{default}{span}: {field.description}", "  ")
    return "\n".join(lines).strip()


def to_toml(config: TrainerConfig) -> str:
    """The resolved configuration as a file that `--config` reads."""
    lines = []
    for section, values in config.model_dump(mode="json").items():
        lines += [f"[{section}]", *(f"{key} = {toml(value)}" for key, value in values.items() if value is not None), ""]
    return "\n".join(lines)


def _check_keys(settings: Mapping[str, Any]) -> None:
    known = sections()
    for section, values in settings.items():
        if section not in known:
            raise ConfigError(_unknown("section", section, known))
        if not isinstance(values, Mapping):
            raise ConfigError(f"{section} is {values!r}: it is a section; write [{section}] and its keys below")
        for key in values:
            if key not in known[section].model_fields:
                raise ConfigError(_unknown("setting", f"{section}.{key}", _similar_keys(section, key, known)))


def _similar_keys(section: str, key: str, known: Mapping[str, type[StrictModel]]) -> list[str]:
    """Return keys of that name in other sections, else those of the section that end with or contain it, else all."""
    every = [(name, each) for name, model in known.items() for each in model.model_fields]
    same_name = [pair for pair in every if pair[1] == key]
    ending = [pair for pair in every if pair[0] == section and pair[1].endswith(key)]
    containing = [pair for pair in every if pair[0] == section and key in pair[1]]
    return [f"{name}.{each}" for name, each in same_name or ending or containing or every]


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"unknown {kind} {name!r}: the nearest is {nearest[0]!r}; `trainer run --help` lists all"


def _parse_value(text: str) -> Any:  # noqa: ANN401  any TOML value
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _folded(line: str, indent: str) -> list[str]:
    """A line within HELP_WIDTH, the rest of it below and further in."""
    return textwrap.wrap(line, HELP_WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ")
