"""Loading settings: presets, then one TOML file, then `--set section.key=value`.

`runtime.py` has the sections about the run and its league, `algorithm.py` those about the network and PPO. Every key
has a default, a range and a description, which `trainer settings` lists.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from arena.environments import split_rounds
from trainer.config.messages import Schema, describe_bounds, explain, to_toml_value
from trainer.config.schema import EnvironmentSettings, LeagueSettings, StrictModel, TrainerConfig
from trainer.errors import ConfigError

Settings = dict[str, dict[str, Any]]
"""Raw settings: {section: {key: value}}."""


class Setting(NamedTuple):
    """A setting of a run.

    Attributes:
        name: `section.key`.
        value: Its value.
        default: Its default without presets; None if it depends on other settings.
        bounds: Bounds of a number, such as `>= 0, < 1`.
        about: Its description.
    """

    name: str
    value: Any
    default: Any
    bounds: str
    about: str


EXPLOITERS = ("main_exploiter", "league_exploiter")
"""Roles that do not play themselves."""

OVERLAYS = ("gpu",)
"""Presets for hardware, applied over the environment's: folders of `presets`."""

RENAMED: dict[str, str] = tomllib.loads(
    (resources.files("trainer.config") / "renamed.toml").read_text(encoding="utf-8")
)
"""Settings by their former names and by those of other libraries, for error messages."""


def resolve(
    environment: str | None,
    file: Path | None,
    assignments: Iterable[str],
    saved: Mapping[str, Any] = MappingProxyType({}),
    overlay: str | None = None,
) -> TrainerConfig:
    """Build the configuration.

    Later layers win: defaults, the environment's preset, the role's, saved settings, the overlay, the file,
    `assignments`.

    Args:
        environment: Environment to train on; overrides the file's.
        file: TOML file, or None.
        assignments: `section.key=value`, value in TOML; any other text is a string.
        saved: Settings of the run that is resumed.
        overlay: One of `OVERLAYS`, or None.

    Raises:
        ConfigError: A key is unknown or a value out of range.
    """
    own = merge(
        read_toml(file) if file else {},
        parse_assignments(assignments),
        {} if environment is None else {"environment": {"name": environment}},
    )
    given = merge(saved, own)
    name = str(given.get("environment", {}).get("name", EnvironmentSettings().name))
    role = given.get("league", {}).get("role", LeagueSettings().role)
    base = preset(name)
    if role != "main":
        base.pop("role", None)  # a preset's role settings are a main's
    if role in EXPLOITERS:
        base = merge(base, {"environment": {"self_play": 0.0}})
    # A hardware preset comes after the saved settings, because a resumed run may move to another machine.
    return validate(merge(base, saved, overlay_preset(overlay, name) if overlay else {}, own))


def preset(environment: str) -> Settings:
    """Return an environment's preset over that of its family; empty without a preset.

    A match of several rounds is as long as that many matches of the game, so a lease has fewer of them.
    """
    named, rounds = split_rounds(environment)
    family, colon, game = named.partition(":")
    settings = _read_preset(family)
    if not settings:
        return {}
    if colon:
        settings = merge(settings, _read_preset(f"{family}-{game.partition('(')[0]}"))
    leases = {"lease_budget": max(1, settings["league"]["lease_budget"] // (rounds or 1))}
    return merge(settings, {"environment": {"name": environment}, "league": leases})


def overlay_preset(overlay: str, environment: str) -> Settings:
    """Return the settings of a hardware preset: those for every environment, then the environment's own.

    Raises:
        ConfigError: There is no such overlay.
    """
    if overlay not in OVERLAYS:
        raise ConfigError(f"--preset is {overlay!r}: give one of {', '.join(OVERLAYS)}, or leave it out")
    named, _ = split_rounds(environment)
    return merge(_read_preset(f"{overlay}/default"), _read_preset(f"{overlay}/{named}"))


def _read_preset(name: str) -> Settings:
    """Read a preset that comes with the package, over the one that it `extends`; empty if it does not exist."""
    entry = resources.files("trainer.config") / "presets" / f"{name}.toml"
    settings: dict[str, Any] = tomllib.loads(entry.read_text(encoding="utf-8")) if entry.is_file() else {}
    return merge(_read_preset(settings.pop("extends")), settings) if "extends" in settings else settings


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


def merge(*layers: Mapping[str, Any]) -> Settings:
    """Merge raw settings; later layers win.

    Raises:
        ConfigError: A key is unknown.
    """
    merged: Settings = {}
    for layer in layers:
        _check_keys(layer)
        for section, values in layer.items():
            merged[section] = {**merged.get(section, {}), **values}
    return merged


def validate(settings: Mapping[str, Any]) -> TrainerConfig:
    """Build the configuration from raw settings.

    Raises:
        ConfigError: A key is unknown or a value out of range.
    """
    _check_keys(settings)
    try:
        return TrainerConfig.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, setting_schemas())) from error


def sections() -> dict[str, type[StrictModel]]:
    """Every section by name."""
    return {name: type(section) for name, section in TrainerConfig()}


def setting_schemas() -> dict[str, dict[str, Schema]]:
    """JSON schema of every setting by section and key; references, which only enumerations have, are resolved."""
    schemas = {}
    for name, model in sections().items():
        section = model.model_json_schema()
        types = {f"#/$defs/{kind}": schema for kind, schema in section.get("$defs", {}).items()}
        schemas[name] = {key: types.get(each.get("$ref"), {}) | each for key, each in section["properties"].items()}
    return schemas


def list_settings(config: TrainerConfig, section: str | None = None) -> list[Setting]:
    """Describe the settings of one section, or of all.

    Raises:
        ConfigError: The section does not exist.
    """
    schemas = setting_schemas()
    if section is not None and section not in schemas:
        raise ConfigError(_unknown("section", section, schemas))
    values = config.model_dump(mode="json")
    return [
        Setting(
            f"{name}.{key}", values[name][key], schema["default"], describe_bounds(schema), str(schema["description"])
        )
        for name in ([section] if section else schemas)
        for key, schema in schemas[name].items()
    ]


def to_toml(config: TrainerConfig) -> str:
    """Return the configuration as a file for `--config`."""
    lines = []
    for section, values in config.model_dump(mode="json", exclude_none=True).items():
        lines += [f"[{section}]", *(f"{key} = {to_toml_value(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def _check_keys(settings: Mapping[str, Any]) -> None:
    """Reject unknown sections and keys, with a suggestion."""
    known = sections()
    names = [f"{section}.{key}" for section, model in known.items() for key in model.model_fields]
    for section, values in settings.items():
        keys = [f"{section}.{key}" for key in values] if isinstance(values, Mapping) else []
        for name in keys:
            if name in RENAMED:
                raise ConfigError(_unknown("setting", name, [RENAMED[name]]))
        if section not in known:
            raise ConfigError(_unknown("section", section, known))
        if not isinstance(values, Mapping):
            raise ConfigError(f"{section} is {values!r}: it is a section; write [{section}] and its keys below")
        for name in keys:
            if name not in names:
                same_key = [each for each in names if each.partition(".")[2] == name.partition(".")[2]]
                raise ConfigError(_unknown("setting", name, same_key or names))


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"unknown {kind} {name!r}: the nearest is {nearest[0]!r}; `trainer settings` lists all"


def _parse_value(text: str) -> Any:  # noqa: ANN401  any TOML value
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
