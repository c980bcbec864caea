"""Settings of a trainer, in two levels: sections of keys. One TOML file, then `--set section.key=value`.

Every key has a default, a range and a description; `trainer run --help` is written from them.
"""

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from arena.policies import CoreKind
from league.wire import Name, Role
from trainer.errors import ConfigError

Factor = Annotated[float, Field(ge=0.0)]
"""A multiple."""

Settings = dict[str, dict[str, Any]]
"""Raw settings: {section: {key: value}}."""

LEARNER_NAME_MAX = 56
"""Longest name of a learner: its worker's is `trainer-` and this, and the league takes 64 characters."""


class Section(BaseModel):
    """A group of keys. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunSettings(Section):
    """How long and on what.

    One thread is the default because a league's machine runs several processes: two threads that wait for each other
    on two busy cores made a 97 ms step take up to 3.5 s.
    """

    seed: int = Field(0, ge=0, lt=2**63, description="Seed of weights, sampling and shuffling")
    device: str = Field("cpu", description="Torch device that learns and acts")
    threads: int = Field(1, ge=1, le=256, description="Torch threads of this process")
    total_steps: int = Field(0, ge=0, description="Stop after this many environment steps; 0 never stops")
    save_every_updates: int = Field(20, ge=1, description="Save the run's state after this many updates")


class EnvironmentSettings(Section):
    """What is played."""

    name: str = Field("mech-duel", min_length=1, description="Registered environment")
    num_envs: int = Field(64, ge=1, le=65536, description="Matches that run at once; each has its own opponent")


class NetworkSettings(Section):
    """The recurrent actor-critic."""

    encoder_sizes: tuple[int, ...] = Field((128,), min_length=1, description="Width of each encoder layer")
    core: CoreKind = Field(CoreKind.LSTM, description="What carries memory: lstm or feedforward")
    recurrent_size: int = Field(128, ge=1, le=8192, description="Width of the core")
    initial_log_std: float = Field(
        -0.5, ge=-5.0, le=2.0, description="Log standard deviation of continuous actions at the start"
    )


class RolloutSettings(Section):
    """What is collected between two updates."""

    steps: int = Field(128, ge=1, le=65536, description="Decisions of every environment per update")
    chunk: int = Field(16, ge=1, le=1024, description="Decisions that gradients flow back through; divides `steps`")

    @model_validator(mode="after")
    def _chunks_fill_the_rollout(self) -> "RolloutSettings":
        if self.steps % self.chunk:
            raise ValueError(f"steps {self.steps} is not a multiple of chunk {self.chunk}; choose one that is")
        return self


class PPOSettings(Section):
    """The objective.

    Two epochs, since recurrent states stored in the rollout go stale as weights move. The KL stop, 1.5 times the
    target, comes before the optimiser's step: the batch that went too far is not learned from.
    """

    gamma: float = Field(0.995, ge=0.0, le=1.0, description="Discount per decision")
    gae_lambda: float = Field(0.95, ge=0.0, le=1.0, description="Bias against variance of the advantage estimate")
    clip: float = Field(0.2, gt=0.0, lt=1.0, description="Clip range of the probability ratio")
    epochs: int = Field(2, ge=1, le=100, description="Passes over a rollout")
    minibatches: int = Field(4, ge=1, le=4096, description="Optimiser steps per pass")
    burn_in: int = Field(
        0,
        ge=0,
        description="Decisions of a chunk that only refresh its stored memory and are not learned from",
    )
    target_kl: float = Field(0.015, gt=0.0, description="KL divergence that an update aims to stay under")
    kl_stop: float = Field(1.5, ge=1.0, description="Stop the update before a step at this many times target_kl")
    value_coefficient: float = Field(0.5, ge=0.0, description="Weight of the critic's loss")
    value_clip: float = Field(
        0.0, ge=0.0, description="How far the critic may profit from moving, in its own units; 0 for any distance"
    )
    value_huber: float = Field(
        0.0, ge=0.0, description="The critic's errors beyond this count linearly, in its own units; 0 for squares"
    )
    entropy_factors: dict[str, Factor] = Field(
        {}, description="Weight of a head's entropy, such as { comm = 0.25 }; 1 where a head is not named"
    )
    entropy_floors: dict[str, float] = Field(
        {}, description="A head whose mean entropy is less gets the bonus of the start, whatever the schedule says"
    )
    nonfinite_limit: int = Field(10, ge=1, description="Give up after this many non-finite updates in a row")


class OptimizerSettings(Section):
    """Adam."""

    epsilon: float = Field(1e-5, gt=0.0, description="Added to Adam's denominator")
    max_gradient_norm: float = Field(0.5, gt=0.0, description="Gradients are scaled down to this norm")
    critic_learning_rate_factor: float = Field(
        1.0, gt=0.0, description="Learning rate of the critic's layer, in learning rates of the rest"
    )
    critic_weight_decay: float = Field(0.0, ge=0.0, description="Weight decay of the critic's layer; no other decays")


class NormalizationSettings(Section):
    """Scales.

    Rewards are divided by the running standard deviation of the discounted return and keep their mean: shifting them
    would change the task.
    """

    reward_clip: float = Field(10.0, gt=0.0, description="Scaled rewards are clipped to +- this")
    observation_std_floor: float = Field(0.01, gt=0.0, description="Least standard deviation of a feature")
    advantage_std_floor: float = Field(
        1e-4, gt=0.0, description="Advantages that spread less are centred but not scaled up"
    )
    advantage_role_samples: int = Field(
        0,
        ge=0,
        description="Normalise advantages role by role where a role has this many samples; 0 takes all roles together",
    )


class ScheduleSettings(Section):
    """Values that fall linearly over the horizon and stay there."""

    horizon_steps: int = Field(20_000_000, ge=1, description="Environment steps until the final values")
    learning_rate: float = Field(3e-4, ge=0.0, description="Learning rate at the start")
    learning_rate_final: float = Field(3e-5, ge=0.0, description="Learning rate at the horizon")
    entropy: float = Field(0.05, ge=0.0, description="Weight of the entropy bonus at the start")
    entropy_final: float = Field(0.01, ge=0.0, description="Weight of the entropy bonus at the horizon")
    value_warm_up_steps: int = Field(
        0, ge=0, description="Environment steps over which the critic's weight rises from 0; 0 starts with all of it"
    )


class LeagueSettings(Section):
    """The league and this learner's place in it."""

    learner: Name = Field("main", description="Name of the trained lineage")
    role: Role = Field("main", description="Role of the lineage: main, main_exploiter or league_exploiter")
    lease_budget: int = Field(4, ge=1, description="Matches against one leased opponent")
    snapshot_every_steps: int = Field(500_000, ge=1, description="Publish a snapshot after this many steps")
    heartbeat_s: float = Field(10.0, gt=0.0, description="Time between two reports of progress")
    timeout_s: float = Field(5.0, gt=0.0, description="Longest wait for the league before training goes on")
    connect_s: float = Field(60.0, ge=0.0, description="How long a first start waits for the league")
    backoff_max_s: float = Field(60.0, gt=0.0, description="Longest pause between attempts while the league is away")
    disk_cache_bytes: int = Field(2 * 2**30, ge=0, description="Opponents kept in the run folder")
    memory_cache_bytes: int = Field(256 * 2**20, ge=0, description="Opponents kept loaded")
    device_cache_bytes: int = Field(256 * 2**20, ge=0, description="Opponents kept where they act, beyond who plays")

    @field_validator("learner")
    @classmethod
    def _name_has_room_for_a_prefix(cls, learner: str) -> str:
        if len(learner) > LEARNER_NAME_MAX:
            raise ValueError(f"it has {len(learner)} characters; take at most {LEARNER_NAME_MAX}")
        return learner


class TrainerConfig(Section):
    """All settings of one run."""

    run: RunSettings = RunSettings()
    environment: EnvironmentSettings = EnvironmentSettings()
    network: NetworkSettings = NetworkSettings()
    rollout: RolloutSettings = RolloutSettings()
    ppo: PPOSettings = PPOSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    normalization: NormalizationSettings = NormalizationSettings()
    schedules: ScheduleSettings = ScheduleSettings()
    league: LeagueSettings = LeagueSettings()

    @model_validator(mode="after")
    def _burn_in_leaves_something_to_learn_from(self) -> "TrainerConfig":
        if self.ppo.burn_in >= self.rollout.chunk:
            raise ValueError(
                f"ppo.burn_in {self.ppo.burn_in} takes all of rollout.chunk {self.rollout.chunk}; choose a smaller one"
            )
        return self


def resolve(environment: str | None, file: Path | None, assignments: Iterable[str]) -> TrainerConfig:
    """Build the configuration: defaults, then the environment's preset, then the file, then `assignments`.

    Args:
        environment: Environment to train on; overrides the file's.
        file: TOML file, or None.
        assignments: `section.key=value`, value in TOML; text that is no TOML is taken as a string.

    Raises:
        ConfigError: A key is unknown or a value out of range.
    """
    given = merge(read_toml(file) if file else {}, parse_assignments(assignments))
    if environment is not None:
        given = merge(given, {"environment": {"name": environment}})
    name = given.get("environment", {}).get("name", EnvironmentSettings().name)
    return validate(merge(preset(str(name)), given))


def preset(environment: str) -> Settings:
    """Settings that train well on an environment as they are; none for one that has no preset."""
    entry = resources.files("trainer") / "presets" / f"{environment}.toml"
    return tomllib.loads(entry.read_text(encoding="utf-8")) if entry.is_file() else {}


def read_toml(file: Path) -> dict[str, Any]:
    """Read raw settings from a file.

    Raises:
        ConfigError: The file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; give the path of a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}; write sections as [ppo] and keys as gamma = 0.99") from error


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
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        value = f"{where} is {first['input']!r}: " if where else ""
        raise ConfigError(f"{value}{reason}; see `trainer run --help`") from error


def sections() -> dict[str, type[Section]]:
    """Every section by name."""
    return {
        name: field.annotation
        for name, field in TrainerConfig.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }


def describe() -> str:
    """Explain every setting, one line each, for `--help`."""
    lines = []
    for section, model in sections().items():
        lines += ["", f"[{section}] {(model.__doc__ or '').splitlines()[0]}"]
        for key, field in model.model_fields.items():
            default = _toml_value(field.default)
            lines.append(f"  {section}.{key} = {default}{_range(field.metadata)}: {field.description}")
    return "\n".join(lines).strip()


def to_toml(config: TrainerConfig) -> str:
    """The resolved configuration as a file that `--config` reads."""
    lines = []
    for section, values in config.model_dump(mode="json").items():
        lines += [f"[{section}]", *(f"{key} = {_toml_value(value)}" for key, value in values.items()), ""]
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
                raise ConfigError(_unknown("setting", f"{section}.{key}", _all_keys(known)))


def _all_keys(known: Mapping[str, type[Section]]) -> list[str]:
    return [f"{section}.{key}" for section, model in known.items() for key in model.model_fields]


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"unknown {kind} {name!r}: the nearest is {nearest[0]!r}; `trainer run --help` lists all"


def _parse_value(text: str) -> Any:  # noqa: ANN401  any TOML value
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _toml_value(value: Any) -> str:  # noqa: ANN401  any TOML value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml_value(each)}' for key, each in value.items())}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml_value(each) for each in value)}]"
    return repr(value)


def _range(metadata: Iterable[Any]) -> str:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [
        f"{sign} {getattr(bound, name)}"
        for bound in metadata
        for name, sign in signs.items()
        if getattr(bound, name, None) is not None
    ]
    return f" ({', '.join(bounds)})" if bounds else ""
