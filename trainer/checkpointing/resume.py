"""Resuming a run: its saved settings, and which of them may change."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arena.environments import EnvironmentSpec
from trainer.checkpointing.format import SavedState
from trainer.checkpointing.run_directory import RunDirectory
from trainer.config.loading import Settings, merge, sections
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError, StateError

IMMUTABLE_SETTINGS = ("network", "algorithm.name", "environment.name", "run.seed", "league.learner", "league.role")
"""Sections and settings that the saved weights depend on; they cannot change within a run."""


@dataclass(frozen=True)
class Change:
    """A setting whose value differs from the saved one."""

    key: str
    before: Any
    now: Any

    @property
    def forbidden(self) -> bool:
        """Whether the run cannot be resumed with this change."""
        return self.key in IMMUTABLE_SETTINGS or self.key.partition(".")[0] in IMMUTABLE_SETTINGS

    def __str__(self) -> str:
        return f"{self.key} {self.before!r} -> {self.now!r}"


def load_settings(folder: RunDirectory) -> Settings:
    """Load the settings that `--resume` uses.

    Raises:
        ConfigError: The folder has no saved state, or its settings cannot be read by this version.
    """
    if not folder.state.exists():
        raise ConfigError(f"{folder.path} holds no saved state to resume: omit --resume to start a new run there")
    try:
        return merge(tomllib.loads(folder.settings.read_text(encoding="utf-8")), {})
    except ConfigError as error:
        reason = f"{folder.settings} cannot be used ({error})"
    except OSError as error:
        reason = f"{folder.settings} cannot be read ({error.strerror})"
    except ValueError as error:
        reason = f"{folder.settings} is not TOML ({error})"
    raise ConfigError(f"{reason}: give the settings of this run again and omit --resume")


def changed_settings(before: Mapping[str, Any], now: TrainerConfig) -> list[Change]:
    """Compare settings with saved ones; a setting that was not saved had its default."""
    found = []
    for section, values in now.model_dump(mode="json").items():
        defaults = sections()[section]().model_dump(mode="json")
        written = before.get(section)
        was = {**defaults, **(written if isinstance(written, Mapping) else {})}
        found += [Change(f"{section}.{key}", was[key], value) for key, value in values.items() if was[key] != value]
    return found


def check_changes(folder: RunDirectory, now: TrainerConfig) -> list[Change]:
    """Compare the saved settings with the current ones; empty if the saved ones cannot be read.

    Raises:
        StateError: A setting of `IMMUTABLE_SETTINGS` has changed.
    """
    try:
        before = tomllib.loads(folder.settings.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = changed_settings(before, now)
    if forbidden := [str(change) for change in found if change.forbidden]:
        raise StateError(
            f"run folder {folder.path} has other settings ({', '.join(forbidden)}), and its weights depend on them: "
            "choose another --run or --learner, or restore the old values"
        )
    return found


def check_origin(spec: EnvironmentSpec, learner: str, saved: SavedState, folder: RunDirectory) -> None:
    """Check that a saved state belongs to this environment and this learner.

    Raises:
        StateError: It belongs to another one.
    """
    signature, name = saved.counters["signature"], saved.counters["learner"]
    if signature != spec.signature:
        raise StateError(
            f"run folder {folder.path} has the signature {signature}, but {spec.name} has {spec.signature}: it belongs "
            "to another game, or the game has changed; choose another --run or --learner, or restore the game"
        )
    if name != learner:
        raise StateError(
            f"run folder {folder.path} belongs to learner {name!r}, not {learner!r}: "
            f"choose another --run, or --learner {name!r}"
        )
