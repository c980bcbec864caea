"""Settings of the server, each from `LEAGUE_<NAME>` in the environment or from the command line.

A variable of the environment that begins with `LEAGUE_` and is none of them is refused: it is a setting that somebody
believes in and that has no effect. `league settings` shows them all.

A number of the matchmaking or of the promotion rule is `LEAGUE_MATCHMAKING__POWER=3`, `LEAGUE_PROMOTION__CAPACITY=50`.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from arena.matchmaking import MatchmakingConfig
from arena.promotion import PromotionConfig
from arena.refit import RefitConfig
from league.errors import ConfigurationError
from league.lanes import LaneConfig
from league.log import Format, Level

YEAR_S = 365 * 86400.0
Seconds = Annotated[float, Field(gt=0, le=YEAR_S)]
Points = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

PREFIX = "LEAGUE_"
CLIENT_SIDE = {"LEAGUE_URL", "LEAGUE_TOKEN"}
"""Variables that commands and workers read: where the server is, and what opens it."""

_OF_TESTS = "LEAGUE_TEST_"
_PASSWORD = re.compile(r"(://[^/@:]*:)[^@]*(?=@)|([?&]password=)[^&]*")


@dataclass(frozen=True)
class Setting:
    """A setting as it stands, fit to be shown: without passwords."""

    variable: str
    value: str
    default: str


class Settings(BaseSettings):
    """What a server is started with. Seconds end in `_s`; ratings are on the Glicko scale."""

    model_config = SettingsConfigDict(env_prefix="LEAGUE_", env_nested_delimiter="__", frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    home: Path = Path("var")
    log_level: Level = "info"
    log_format: Format = "text"
    database_url: str | None = None
    store_url: str | None = None
    store_endpoint_url: str | None = None
    store_public_url: str | None = None

    database_connections: Count = 20
    lanes: LaneConfig = LaneConfig()
    body_max_bytes: Count = 16 * 2**20
    checkpoint_max_bytes: Count = 512 * 2**20
    rate_per_s: Annotated[float, Field(gt=0, le=1e6)] = 2000.0
    rate_burst: Count = 10_000

    heartbeat_s: Seconds = 120.0
    next_poll_s: Seconds = 5.0
    poll_jitter: Annotated[float, Field(ge=0, lt=1)] = 0.2
    lease_expiry_s: Seconds = 360.0
    lease_grace_s: Annotated[float, Field(ge=0, le=YEAR_S)] = 3600.0
    lease_budget_max: Count = 1000
    lease_sweep_s: Seconds = 30.0
    unplayable_workers: Count = 2
    unplayable_memory_s: Seconds = 3600.0

    aggregation_interval_s: Seconds = 2.0
    aggregation_term_s: Seconds = 30.0
    period_games: Count = 15
    period_age_s: Seconds = 60.0
    period_spacing_s: Annotated[float, Field(ge=0)] = 10.0
    events_poll_s: Seconds = 1.0

    tau: Annotated[float, Field(gt=0, le=2)] = 0.5
    deviation_floor: Points = 30.0
    deviation_cap: Points = 350.0
    volatility_cap: Annotated[float, Field(gt=0)] = 0.1
    baseline_deviation: Points = 30.0
    snapshot_deviation: Points = 80.0
    provisional_deviation: Points = 110.0
    refit: RefitConfig = RefitConfig()

    automatic_promotion: bool = True
    promotion: PromotionConfig = PromotionConfig()
    matchmaking: MatchmakingConfig = MatchmakingConfig()

    @classmethod
    def load(cls, **overrides: Any) -> Self:  # noqa: ANN401 - whatever the fields take; validated right here
        """Read the environment; `overrides` that are not None win.

        Raises:
            ConfigurationError: A setting has an unusable value, or a variable named like one is none.
        """
        _refuse_unknown(os.environ)
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = "LEAGUE_" + "__".join(str(part) for part in first["loc"]).upper()
            way_out = f"correct or unset {name}"
            raise ConfigurationError(f"{name}={_shown(first['input'])}", first["msg"], way_out) from error
        except SettingsError as error:
            way_out = "name one number each, such as LEAGUE_MATCHMAKING__POWER=3"
            raise ConfigurationError("in LEAGUE_MATCHMAKING or LEAGUE_PROMOTION", str(error), way_out) from error

    @model_validator(mode="after")
    def _limits_in_order(self) -> Self:
        if self.deviation_floor > self.deviation_cap:
            raise ConfigurationError(
                f"LEAGUE_DEVIATION_FLOOR={self.deviation_floor}",
                f"the floor must not be above LEAGUE_DEVIATION_CAP={self.deviation_cap}",
                "lower the floor or raise the cap",
            )
        return self

    def listing(self) -> list[Setting]:
        """List every setting by its variable, those of groups one by one."""
        return [
            Setting(variable, _shown(_at(self, path)), _shown(_default(path))) for variable, path in _paths().items()
        ]

    @property
    def database_address(self) -> str:
        """URL of the database; a SQLite file in the home folder unless set."""
        return self.database_url or f"sqlite:///{self.home / 'league.db'}"

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Say whether a name or address means the machine that says it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _paths() -> dict[str, tuple[str, ...]]:
    """Return where each variable's value is: the name of a field, or of a group and of a number in it."""
    paths: dict[str, tuple[str, ...]] = {}
    for name, field in Settings.model_fields.items():
        group: list[tuple[str, ...]] = [(name,)]
        if is_dataclass(field.default):
            group = [(name, member.name) for member in fields(field.default)]
        paths |= {PREFIX + "__".join(path).upper(): path for path in group}
    return paths


def _default(path: tuple[str, ...]) -> object:
    field, *rest = path
    return _at(Settings.model_fields[field].default, rest)


def _at(value: object, path: Iterable[str]) -> object:
    for name in path:
        value = getattr(value, name)
    return value


def _shown(value: object) -> str:
    return "" if value is None else _PASSWORD.sub(r"\1\2***", str(value))


def _refuse_unknown(names: Iterable[str]) -> None:
    """Refuse variables that are named like settings and are none.

    Raises:
        ConfigurationError: There is one.
    """
    groups = {PREFIX + name.upper() for name in Settings.model_fields}
    known = {*_paths(), *groups, *CLIENT_SIDE}
    for name in sorted(names):
        variable = name.upper()
        if variable.startswith(PREFIX) and not variable.startswith(_OF_TESTS) and variable not in known:
            close = get_close_matches(variable.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
            hint = f"say {PREFIX}{close[0]}" if close else "see `league settings`"
            raise ConfigurationError(name, "no setting has this name", f"{hint}, or unset it")
