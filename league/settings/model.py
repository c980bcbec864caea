"""Settings of the server, each from `LEAGUE_<NAME>` in the environment or from the command line.

A variable of the environment that begins with `LEAGUE_` and is none of them is refused: it is a setting that somebody
believes in and that has no effect. `league settings` shows them all.

A number of the matchmaking or of the promotion rule is `LEAGUE_MATCHMAKING__POWER=3`, `LEAGUE_PROMOTION__CAPACITY=50`.
What holds a password may come from a file: `LEAGUE_DATABASE_PASSWORD_FILE=/run/secrets/password`.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from inspect import getdoc
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from arena.matchmaking import MatchmakingConfig
from arena.promotion import PromotionConfig
from arena.refit_config import RefitConfig
from league.errors import ConfigurationError, reason
from league.log_config import Format, Level
from league.private_files import SUFFIX, TOKEN, read_secret
from league.settings.concurrency import ConcurrencyLimits

MOST = 2**53
"""Largest count: every database and every reader of JSON holds it exactly."""

YEAR_S = 365 * 86400.0
LONGEST_DAYS = 36500.0
Seconds = Annotated[float, Field(gt=0, le=YEAR_S)]
Points = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MOST)]

PREFIX = "LEAGUE_"
CLIENT_SIDE = {"LEAGUE_URL", TOKEN, TOKEN + SUFFIX}
"""Variables that commands and workers read: where the server is, and what opens it."""

FROM_FILES = ("database_url", "database_password")
"""Settings that `LEAGUE_<NAME>_FILE` may name a file of; where `LEAGUE_<NAME>` is set as well, that wins."""

_OF_TESTS = "LEAGUE_TEST_"
_PASSWORD = re.compile(r"(://[^/@:]*:)[^@]*(?=@)|([?&]password=)[^&]*")


@dataclass(frozen=True)
class ReplayConfig:
    """How many recordings of matches are kept. Those of gates and of champions stay longest, up to half of all.

    Attributes:
        upload_max_bytes: Largest recording, >= 1.
        keep_max: Most recordings, >= 1.
        keep_max_bytes: Most bytes of all recordings together, >= `upload_max_bytes`.
        keep_days: Age at which a recording goes, within a day, > 0.

    Raises:
        ValueError: A value is out of its range.
    """

    upload_max_bytes: int = 2**20
    keep_max: int = 20_000
    keep_max_bytes: int = 2**30
    keep_days: float = 365.0

    def __post_init__(self) -> None:
        for name in ("upload_max_bytes", "keep_max", "keep_max_bytes"):
            if not 1 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be 1 or more, and {MOST} or less")
        if self.keep_max_bytes < self.upload_max_bytes:
            sizes = f"keep_max_bytes is {self.keep_max_bytes}, upload_max_bytes {self.upload_max_bytes}"
            raise ValueError(f"{sizes}: the largest recording must find room")
        if not 0.0 < self.keep_days <= LONGEST_DAYS:
            raise ValueError(f"keep_days is {self.keep_days}: it must be above 0 and at most {LONGEST_DAYS:g}")


@dataclass(frozen=True)
class Setting:
    """A setting as it stands, fit to be shown: without passwords."""

    variable: str
    value: str
    default: str
    about: str


class Settings(BaseSettings):
    """What a server is started with. Seconds end in `_s`; ratings are on the Glicko scale."""

    model_config = SettingsConfigDict(
        env_prefix="LEAGUE_", env_nested_delimiter="__", frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    host: str = "127.0.0.1"
    """Interface to listen on; any but loopback needs a token."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """TCP port; 0 for any free one."""
    home: Path = Path("var")
    """Folder of everything that the league keeps."""
    log_level: Level = "info"
    """Least level that is logged."""
    log_format: Format = "text"
    """Lines for people, or JSON for programs."""
    database_url: str | None = None
    """`sqlite:///FILE` or `postgresql://...`; a file in the home folder unless set."""
    database_password: Annotated[str | None, Field(repr=False)] = None
    """Password for a `postgresql://` address that has none; any characters will do."""
    store_url: str | None = None
    """Where checkpoints are: `file:///FOLDER` or `s3://BUCKET/PREFIX`; a folder in the home folder unless set."""
    store_endpoint_url: str | None = None
    """Service of an `s3://` store; that of AWS unless set."""
    store_public_url: str | None = None
    """The same service as workers reach it, where that differs."""
    store_hashing: Literal["service", "server"] = "service"
    """Who hashes uploads to an `s3://` store: its service, or the server, which then reads each of them once."""

    core: Annotated[int, Field(ge=0, lt=2**16)] | None = None
    """Core that the calls of this API process keep to, counted from 0; any unless set. Each process needs its own."""
    database_connections: Count = 20
    """Most connections to the database, in each API process."""
    lanes: ConcurrencyLimits = ConcurrencyLimits()
    """How many calls run and wait."""
    body_max_bytes: Count = 16 * 2**20
    """Largest body of a call, checkpoints aside."""
    checkpoint_max_bytes: Count = 512 * 2**20
    """Largest checkpoint."""
    token_unfinished_max_bytes: Count = 4 * 2**30
    """Bytes of checkpoints that one worker token may have on their way at once."""
    token_stored_max_bytes: Count = 2**40
    """Bytes of checkpoints that one worker token may have in the store."""
    token_learners_max: Count = 500
    """Learners that one worker token may have."""
    token_environments_max: Count = 50
    """Environments that one worker token may create."""
    token_players_max: Count = 200_000
    """Snapshots and external players that one worker token may have."""
    workers_create_environments: bool = False
    """Whether worker tokens may create environments. In a closed league only admins do unless set."""
    rate_per_s: Annotated[float, Field(gt=0, le=1e6)] = 2000.0
    """Calls a second that one token, or one address without a token, may make for long."""
    rate_burst: Count = 10_000
    """Calls that it may make at once after a pause."""
    token_memory_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    """How long a server remembers whose a token is: revoking it, and closing an open league, take so long at most."""
    metrics_open: bool = False
    """Whether `GET /metrics` needs no token. In a closed league it needs the scope `read` unless set."""
    metrics_environments_max: Count = 50
    """Environments that have series of their own in `GET /metrics`: those that were played last."""
    metrics_cache_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """How long a server sends the same metrics again instead of computing them."""

    heartbeat_s: Seconds = 120.0
    """How often a worker is to show that it lives."""
    heartbeats_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 100.0
    """Most heartbeats of all workers a second: where there would be more, each is told to beat less often."""
    next_poll_s: Seconds = 5.0
    """After what time workers are to call again."""
    poll_jitter: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share by which that varies from answer to answer, so that workers spread."""
    lease_expiry_s: Seconds = 360.0
    """How long a lease may be played."""
    lease_grace_s: Annotated[float, Field(ge=0, le=YEAR_S)] = 3600.0
    """How long after that its results still count, as late ones."""
    lease_budget_max: Count = 1000
    """Most matches of one lease."""
    lease_sweep_s: Seconds = 30.0
    """How often leases that have ended are settled."""
    unplayable_tokens: Annotated[int, Field(ge=2, le=MOST)] = 2
    """Worker tokens that must report a sound candidate as unplayable before it is quarantined."""
    unplayable_memory_s: Seconds = 3600.0
    """How long a worker is not leased a player that it reported, and how long the report adds up with others."""

    retention_days: Annotated[float, Field(gt=0, le=LONGEST_DAYS)] | None = None
    """Age at which leases without matches, refused results and the opponents of draws go; they stay unless set."""

    replays: ReplayConfig = ReplayConfig()
    """How many recordings of matches are kept."""

    aggregation_interval_s: Seconds = 2.0
    """How often the server looks whether a rating period is due."""
    aggregation_term_s: Seconds = 30.0
    """How long the process that closes periods stays the elected one without renewing it."""
    period_games: Count = 15
    """Rated games per active player after which a period is due."""
    period_age_s: Seconds = 60.0
    """Age of the oldest unrated match at which a period is due, whatever their number."""
    period_spacing_s: Annotated[float, Field(ge=0, le=YEAR_S)] = 10.0
    """Least time between two periods that are due for their games."""
    events_poll_s: Seconds = 1.0
    """How often followers of the event stream hear news."""
    events_streams_max: Count = 100
    """Most followers of the event stream, in each API process."""

    review_matches: Count = 20_000
    """How many of each environment's last matches workers are judged by."""
    suspicion_level: Annotated[float, Field(gt=0, lt=1)] = 1e-6
    """Probability that chance alone explains a worker's results below which it is called suspect."""

    tau: Annotated[float, Field(gt=0, le=2)] = 0.5
    """Glicko-2's constraint on changes of volatility."""
    deviation_floor: Points = 30.0
    """Least deviation that evidence leads to."""
    deviation_cap: Points = 350.0
    """Most deviation that idling leads to."""
    volatility_cap: Annotated[float, Field(gt=0)] = 0.1
    """Most volatility."""
    burst_games: Annotated[int, Field(ge=0)] = 50
    """Most games of a player in a period that are one step of Glicko-2; with more, the rating is iterated to the mode
    of the posterior. 0: one step whatever their number."""
    baseline_deviation: Points = 30.0
    """Deviation of baselines, whose rating never moves."""
    snapshot_deviation: Points = 80.0
    """Least deviation that a snapshot starts with."""
    reset_deviation: Points = 150.0
    """The same of the first snapshot after a learner began anew."""
    provisional_deviation: Points = 110.0
    """Deviation from which on a rating is called provisional."""
    refit: RefitConfig = RefitConfig()
    """When and how the whole history is fitted."""

    automatic_promotion: bool = True
    """Whether promotion, retirement and succession happen by rule."""
    promotion: PromotionConfig = PromotionConfig()
    """The rules of promotion, retirement and succession."""
    retire_redundant: bool = False
    """Whether the rules retire snapshots, too, that another one scores like."""
    redundancy_distance: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Largest root mean square difference of win rates between two players that score alike."""
    redundancy_behaviour: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.25
    """Largest root mean square difference of fingerprints between two that play alike, in standard deviations."""
    redundancy_opponents: Count = 5
    """How many opponents two players must both have met before they are compared."""
    matchmaking: MatchmakingConfig = MatchmakingConfig()
    """How a learner's opponents are chosen."""

    @classmethod
    def load(cls, **overrides: Any) -> Self:  # noqa: ANN401 - whatever the fields take; validated right here
        """Read the environment; `overrides` that are not None win.

        Raises:
            ConfigurationError: A setting has an unusable value, or a variable named like one is none.
        """
        _refuse_unknown(os.environ)
        given = {name: value for name, value in overrides.items() if value is not None}
        for name in FROM_FILES:
            read = read_secret(_variable(name), os.environ)
            if read is not None:
                given.setdefault(name, read)
        try:
            settings = cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            given_as = _as_given(first["loc"], first["input"])
            said = ", ".join(f"{name}={_shown(value)}" for name, value in given_as.items())
            raise ConfigurationError(said, reason(first), f"correct or unset {' or '.join(given_as)}") from error
        except SettingsError as error:
            way_out = "name one number each, such as LEAGUE_MATCHMAKING__POWER=3"
            raise ConfigurationError("in LEAGUE_MATCHMAKING or LEAGUE_PROMOTION", str(error), way_out) from error
        settings._require_consistent()
        return settings

    @model_validator(mode="before")
    @classmethod
    def _read_lists(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Read a list of numbers in a group, which pydantic-settings leaves as text."""
        return {
            name: {key: _list_or_text(text) for key, text in group.items()} if isinstance(group, dict) else group
            for name, group in given.items()
        }

    @model_validator(mode="after")
    def _limits_in_order(self) -> Self:
        self._require_below("deviation_floor", "deviation_cap", "the floor must not be above the cap", or_equal=True)
        if self.retention_days is not None and 86400 * self.retention_days < self.lease_grace_s:
            raise ConfigurationError(
                f"LEAGUE_RETENTION_DAYS={self.retention_days:g}",
                f"results of a lease count until LEAGUE_LEASE_GRACE_S={self.lease_grace_s:g} after its end",
                "keep it for longer",
            )
        return self

    def _require_consistent(self) -> None:
        """Refuse settings of which each is fine and that contradict each other.

        Raises:
            ConfigurationError: Two of them do.
        """
        for name, what in (("heartbeat_s", "beats"), ("next_poll_s", "calls")):
            self._require_below(name, "lease_expiry_s", f"a worker that {what} as told must find its leases open")
        whole = "a worker must be able to send the largest checkpoint"
        self._require_below("checkpoint_max_bytes", "token_unfinished_max_bytes", whole, or_equal=True)
        self._require_below(
            "token_unfinished_max_bytes", "token_stored_max_bytes", "what comes must fit", or_equal=True
        )
        for name in ("baseline_deviation", "snapshot_deviation", "reset_deviation"):
            self._require_below(name, "deviation_cap", "no player is less sure than the cap", or_equal=True)
        if self.database_password and not self.database_url:
            rule = "it is of a database postgresql://, and LEAGUE_DATABASE_URL is unset"
            way_out = "unset it, or set LEAGUE_DATABASE_URL=postgresql://USER@HOST/NAME"
            raise ConfigurationError("LEAGUE_DATABASE_PASSWORD", rule, way_out)
        for name in ("store_endpoint_url", "store_public_url"):
            if getattr(self, name) is not None and not (self.store_url or "").startswith("s3://"):
                rule = f"it is of a store s3://, and LEAGUE_STORE_URL is {_shown(self.store_url) or 'unset'}"
                way_out = "unset it, or set LEAGUE_STORE_URL=s3://BUCKET/PREFIX"
                raise ConfigurationError(f"{_variable(name)}={_shown(getattr(self, name))}", rule, way_out)

    def _require_below(self, low: str, high: str, rule: str, *, or_equal: bool = False) -> None:
        one, other = getattr(self, low), getattr(self, high)
        if one < other or (or_equal and one == other):
            return
        raise ConfigurationError(
            f"{_variable(low)}={one:.15g}",
            f"{rule}, {_variable(high)}={other:.15g}",
            "lower the one or raise the other",
        )

    def listing(self) -> list[Setting]:
        """List every setting by its variable, those of groups one by one."""
        return [
            Setting(variable, self._told(path), _shown(_default(path)), _about(path))
            for variable, path in _paths().items()
        ]

    def _told(self, path: tuple[str, ...]) -> str:
        value = _shown(_at(self, path))
        return "***" if value and path == ("database_password",) else value

    @property
    def database_address(self) -> str:
        """URL of the database, its password included; a SQLite file in the home folder unless set."""
        address = self.database_url or f"sqlite:///{self.home / 'league.db'}"
        return _with_password(address, self.database_password) if self.database_password else address

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Say whether a name or address means the machine that says it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _with_password(address: str, password: str) -> str:
    """Put a password into the address of a database on a server, unless it has one."""
    from sqlalchemy import make_url  # here: whoever only asks a server does without it
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except ArgumentError:
        return address  # refused, naming the variable, by whoever opens it
    if url.get_backend_name() != "postgresql" or url.password is not None:
        return address
    return url.set(password=password).render_as_string(hide_password=False)


def _variable(*path: int | str) -> str:
    """Return the variable of the environment that sets a value."""
    return PREFIX + "__".join(str(part) for part in path).upper()


def _as_given(path: tuple[int | str, ...], value: object) -> dict[str, object]:
    """Return a value by its variable, and a group of numbers by theirs."""
    if isinstance(value, dict):
        return {_variable(*path, name): each for name, each in value.items()}
    return {_variable(*path): value}


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


def _about(path: tuple[str, ...]) -> str:
    """Say what a setting is: a field's docstring, or the line about a number in the docstring of its group."""
    field = Settings.model_fields[path[0]]
    if len(path) == 1:
        return field.description or ""
    _, _, attributes = (getdoc(type(field.default)) or "").partition("Attributes:\n")
    found = re.search(rf"^    {path[1]}: (.*(?:\n {{8}}.*)*)", attributes, flags=re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _at(value: object, path: Iterable[str]) -> object:
    for name in path:
        value = getattr(value, name)
    return value


def _list_or_text(value: object) -> object:
    if not (isinstance(value, str) and value.startswith("[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value  # refused as it is, naming the variable


def _shown(value: object) -> str:
    """Write a value as a variable takes it, without its password."""
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, tuple) else _PASSWORD.sub(r"\1\2***", str(value))


def _refuse_unknown(names: Iterable[str]) -> None:
    """Refuse variables that are named like settings and are none.

    Raises:
        ConfigurationError: There is one.
    """
    groups = {PREFIX + name.upper() for name in Settings.model_fields}
    files = {_variable(name) + SUFFIX for name in FROM_FILES}
    known = {*_paths(), *groups, *files, *CLIENT_SIDE}
    for name in sorted(names):
        variable = name.upper()
        if variable.startswith(PREFIX) and not variable.startswith(_OF_TESTS) and variable not in known:
            close = get_close_matches(variable.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
            hint = f"say {PREFIX}{close[0]}" if close else "see `league settings`"
            raise ConfigurationError(name, "no setting has this name", f"{hint}, or unset it")
