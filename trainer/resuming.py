"""Going on with a run: the settings that it was made with, and which of them may change."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arena.environments import EnvironmentSpec
from trainer.config import Settings, merge, sections
from trainer.errors import ConfigError, StateError
from trainer.folder import RunFolder
from trainer.settings import TrainerConfig
from trainer.state import SavedState

SETTLED = ("network", "environment.name", "run.seed", "league.learner", "league.role")
"""Sections and settings that what was learned depends on: another value is another run."""


@dataclass(frozen=True)
class Change:
    """A setting that is not what it was."""

    key: str
    before: Any
    now: Any

    @property
    def settled(self) -> bool:
        """Whether the run cannot go on with it."""
        return self.key in SETTLED or self.key.partition(".")[0] in SETTLED

    def __str__(self) -> str:
        return f"{self.key} {self.before!r} -> {self.now!r}"


def settings_of(folder: RunFolder) -> Settings:
    """The settings of a run that `--resume` goes on with.

    Raises:
        ConfigError: The folder holds no saved state, or no settings that this version knows.
    """
    if not folder.state.exists():
        raise ConfigError(f"{folder.path} holds no saved state to resume: leave --resume out to begin a run there")
    try:
        return merge(tomllib.loads(folder.settings.read_text(encoding="utf-8")), {})
    except ConfigError as error:
        reason = f"{folder.settings} cannot be used ({error})"
    except OSError as error:
        reason = f"{folder.settings} cannot be read ({error.strerror})"
    except ValueError as error:
        reason = f"{folder.settings} is not TOML ({error})"
    raise ConfigError(f"{reason}: give the settings of this run again and leave --resume out")


def changes(before: Mapping[str, Any], now: TrainerConfig) -> list[Change]:
    """Which settings are not what they were; a setting that was not written down had its default."""
    found = []
    for section, values in now.model_dump(mode="json").items():
        defaults = sections()[section]().model_dump(mode="json")
        written = before.get(section)
        was = {**defaults, **(written if isinstance(written, Mapping) else {})}
        found += [Change(f"{section}.{key}", was[key], value) for key, value in values.items() if was[key] != value]
    return found


def check_changes(folder: RunFolder, now: TrainerConfig) -> list[Change]:
    """Compare a saved run's settings with those that it is to go on with; none where they are not to be read.

    Raises:
        StateError: A settled one has changed.
    """
    try:
        before = tomllib.loads(folder.settings.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = changes(before, now)
    if settled := [str(change) for change in found if change.settled]:
        raise StateError(
            f"run folder {folder.path} was made with other settings ({', '.join(settled)}), on which what it "
            "learned depends: choose another --run or --learner, or give what was before"
        )
    return found


def check_origin(spec: EnvironmentSpec, learner: str, saved: SavedState, folder: RunFolder) -> None:
    """Refuse a state of another game or another learner.

    Raises:
        StateError: It is.
    """
    signature, name = saved.counters["signature"], saved.counters.get("learner", learner)
    if signature != spec.signature:
        raise StateError(
            f"run folder {folder.path} has the signature {signature}, but {spec.name} has {spec.signature}: "
            "choose another --run, or another --learner"
        )
    if name != learner:
        raise StateError(
            f"run folder {folder.path} is of learner {name!r}, not {learner!r}: "
            f"choose another --run, or --learner {name!r}"
        )
