"""Settings of the server, each from `LEAGUE_<NAME>` in the environment or from the command line.

An unknown variable that begins with `LEAGUE_` is an error, because it would silently have no effect. `league settings`
lists all settings.

Nested settings are written as `LEAGUE_MATCHMAKING__POWER=3` or `LEAGUE_PROMOTION__CAPACITY=50`. Settings that contain a
password may come from a file: `LEAGUE_DATABASE_PASSWORD_FILE=/run/secrets/password`.
"""

import dataclasses
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
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from arena.matchmaking import MatchmakingConfig
from arena.population.promotion import PromotionConfig
from arena.ratings.bradley_terry_config import RefitConfig
from league.errors import ConfigurationError, reason
from league.log_config import Format, Level
from league.private_files import SUFFIX, TOKEN, read_secret
from league.settings.concurrency import ConcurrencyLimits

MOST = 2**53
"""Maximum count, which every database and JSON parser represents exactly."""

MISSED_HEARTBEATS = 3.0
"""Missed heartbeats after which a worker is away, and lost unless a command sent it away."""

WEBHOOK_EVENTS = ("champion", "regression", "recovery", "lost-worker")
"""Kinds of events that webhooks may report."""

YEAR_S = 365 * 86400.0
LONGEST_DAYS = 36500.0
Seconds = Annotated[float, Field(gt=0, le=YEAR_S)]
Points = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MOST)]

PREFIX = "LEAGUE_"
CLIENT_SIDE = {"LEAGUE_URL", TOKEN, TOKEN + SUFFIX}
"""Variables that commands and workers read: the server's URL and the token."""

FROM_FILES = ("database_url", "database_password")
"""Settings that `LEAGUE_<NAME>_FILE` may read from a file; `LEAGUE_<NAME>` takes precedence."""

_OF_TESTS = "LEAGUE_TEST_"
_SECRET = {"LEAGUE_DATABASE_PASSWORD", "LEAGUE_WEBHOOKS__SECRET", "LEAGUE_WEBHOOKS__URLS"}
"""Variables that are never shown; the URLs of many chat services contain a key."""

_PASSWORD = re.compile(r"(://[^/@:]*:)[^@]*(?=@)|([?&]password=)[^&]*")


@dataclass(frozen=True)
class ReplayConfig:
    """Retention of recordings. Those of gates and of champions stay longest, up to half of all.

    Attributes:
        upload_max_bytes: Maximum size of a recording, >= 1.
        keep_max: Maximum number of recordings, >= 1.
        keep_max_bytes: Maximum total size of all recordings, >= `upload_max_bytes`.
        keep_days: Age in days after which a recording is deleted, within a day, > 0.

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
            raise ValueError(f"{sizes}: the largest recording must fit")
        if not 0.0 < self.keep_days <= LONGEST_DAYS:
            raise ValueError(f"keep_days is {self.keep_days}: it must be above 0 and at most {LONGEST_DAYS:g}")


@dataclass(frozen=True)
class WebhookConfig:
    """Webhooks: HTTP requests that report events of the audit log.

    Attributes:
        urls: Receivers, `http://` or `https://`; each receives all events of these kinds.
        events: Kinds of events.
        secret: Key of the signature, for receivers that verify the sender.

    Raises:
        ValueError: A URL or a kind of event is invalid.
    """

    urls: tuple[str, ...] = ()
    events: tuple[str, ...] = ("champion", "regression", "lost-worker")
    secret: str | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                shown = f"{parts.scheme or 'no scheme'}://{parts.hostname or ''}"
                raise ValueError(f"urls has {shown}: a webhook needs an http:// or https:// URL with a host")
        for kind in self.events:
            if kind not in WEBHOOK_EVENTS:
                raise ValueError(f"events has {kind!r}: it must be one of {', '.join(WEBHOOK_EVENTS)}")


@dataclass(frozen=True)
class Setting:
    """A setting with its current value, without passwords."""

    variable: str
    value: str
    default: str
    about: str


class Settings(BaseSettings):
    """Settings of a server. Names of times in seconds end in `_s`; ratings are on the Glicko scale."""

    model_config = SettingsConfigDict(
        env_prefix="LEAGUE_", env_nested_delimiter="__", frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    host: str = "127.0.0.1"
    """Interface to listen on; any but loopback requires a token."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """TCP port. 0 selects a free one."""
    home: Path = Path("var")
    """Folder of the league's data."""
    log_level: Level = "info"
    """Minimum log level."""
    log_format: Format = "text"
    """Log format: plain text or JSON."""
    database_url: str | None = None
    """`sqlite:///FILE` or `postgresql://...`; default: a SQLite file in the home folder."""
    database_password: Annotated[str | None, Field(repr=False)] = None
    """Password for a `postgresql://` URL without one; may contain any characters."""
    store_url: str | None = None
    """Checkpoint store: `file:///FOLDER` or `s3://BUCKET/PREFIX`; default: a folder in the home folder."""
    store_endpoint_url: str | None = None
    """Service URL of an `s3://` store; default: AWS."""
    store_public_url: str | None = None
    """Service URL for workers, if it differs."""
    store_hashing: Literal["service", "server"] = "service"
    """Whether the service or the server hashes uploads to an `s3://` store; the server must read each upload once."""

    database_connections: Count = 20
    """Maximum database connections per API process."""
    concurrency: ConcurrencyLimits = ConcurrencyLimits()
    """Concurrency limits per request class."""
    body_max_bytes: Count = 16 * 2**20
    """Maximum body size of a request other than a checkpoint."""
    checkpoint_max_bytes: Count = 512 * 2**20
    """Maximum size of a checkpoint."""
    token_unfinished_max_bytes: Count = 4 * 2**30
    """Maximum total size of a worker token's unfinished uploads."""
    token_stored_max_bytes: Count = 2**40
    """Maximum total size of a worker token's stored checkpoints."""
    token_learners_max: Count = 500
    """Maximum number of a worker token's learners."""
    token_environments_max: Count = 50
    """Maximum number of environments that a worker token creates."""
    token_players_max: Count = 200_000
    """Maximum number of a worker token's snapshots and external players."""
    workers_create_environments: bool = False
    """Whether worker tokens may create environments. By default, only admin tokens may."""
    rate_per_s: Annotated[float, Field(gt=0, le=1e6)] = 2000.0
    """Rate limit: sustained calls per second per token, or per client address without a token."""
    rate_burst: Count = 10_000
    """Rate limit: burst size in calls."""
    token_memory_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    """How long a server caches tokens: the maximum delay until a revocation, or the first token, takes effect."""
    metrics_open: bool = False
    """Whether `GET /metrics` is public. By default, it requires the scope `read`."""
    metrics_environments_max: Count = 50
    """Maximum number of environments with their own series in `GET /metrics`: the most recently played."""
    metrics_cache_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """How long a server caches the response of `GET /metrics`."""

    heartbeat_s: Seconds = 120.0
    """Interval between a worker's heartbeats."""
    heartbeats_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 100.0
    """Maximum heartbeats per second of all workers; above it, the server lengthens each worker's interval."""
    next_poll_s: Seconds = 5.0
    """Interval at which idle workers poll."""
    poll_jitter: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Jitter of that interval as a share, so that workers spread."""
    lease_expiry_s: Seconds = 360.0
    """Lifetime of a lease."""
    lease_grace_s: Annotated[float, Field(ge=0, le=YEAR_S)] = 3600.0
    """How long results of an expired lease are accepted as late."""
    lease_budget_max: Count = 1000
    """Maximum number of matches per lease."""
    lease_sweep_s: Seconds = 30.0
    """Interval at which expired leases are settled."""
    unplayable_tokens: Annotated[int, Field(ge=2, le=MOST)] = 2
    """Number of worker tokens that must report an intact candidate as unplayable before it is quarantined."""
    unplayable_memory_s: Seconds = 3600.0
    """How long a worker gets no leases for a player that it reported, and how long the report counts."""

    retention_days: Annotated[float, Field(gt=0, le=LONGEST_DAYS)] | None = None
    """Age after which leases without matches, refused results and opponent records are deleted; default: never."""

    replays: ReplayConfig = ReplayConfig()
    """Retention of recordings."""

    aggregation_interval_s: Seconds = 2.0
    """Interval at which the server checks whether a rating period is due."""
    aggregation_term_s: Seconds = 30.0
    """Term of the leader election for closing periods."""
    period_games: Count = 15
    """Number of rated games per active player after which a period is due."""
    period_age_s: Seconds = 60.0
    """Age of the oldest unrated match after which a period is due, regardless of the number of games."""
    period_spacing_s: Annotated[float, Field(ge=0, le=YEAR_S)] = 10.0
    """Minimum time between two periods that are due because of their number of games."""
    events_poll_s: Seconds = 1.0
    """Interval at which the event stream sends new events."""
    events_streams_max: Count = 100
    """Maximum clients of the event stream per API process."""

    webhooks: WebhookConfig = WebhookConfig()
    """Webhooks for events."""

    review_matches: Count = 20_000
    """Number of most recent matches per environment used to review workers."""
    suspicion_level: Annotated[float, Field(gt=0, lt=1)] = 1e-6
    """p-value of a worker's results below which the worker is suspect."""

    tau: Annotated[float, Field(gt=0, le=2)] = 0.5
    """Glicko-2's constraint on the change of volatility."""
    deviation_floor: Points = 30.0
    """Minimum rating deviation."""
    deviation_cap: Points = 350.0
    """Maximum rating deviation."""
    volatility_cap: Annotated[float, Field(gt=0)] = 0.1
    """Maximum volatility."""
    burst_games: Annotated[int, Field(ge=0)] = 50
    """Number of games per player and period above which the rating is iterated to the posterior mode instead of one
    Glicko-2 step. 0: always one step."""
    baseline_deviation: Points = 30.0
    """Deviation of baselines, whose rating is fixed."""
    snapshot_deviation: Points = 80.0
    """Minimum initial deviation of a snapshot."""
    reset_deviation: Points = 150.0
    """Minimum initial deviation of the first snapshot after a reset."""
    refit: RefitConfig = RefitConfig()
    """Schedule and parameters of the whole-history fit."""

    automatic_promotion: bool = True
    """Whether promotion, retirement and succession are automatic."""
    promotion: PromotionConfig = PromotionConfig()
    """The rules of promotion, retirement and succession."""
    retire_redundant: bool = False
    """Whether the rules also retire redundant snapshots."""
    redundancy_distance: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Maximum root mean square difference of win rates between redundant players."""
    redundancy_behaviour: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.25
    """Maximum root mean square difference of behaviour between redundant players, in standard deviations."""
    redundancy_opponents: Count = 5
    """Minimum number of common opponents before two players are compared."""
    matchmaking: MatchmakingConfig = MatchmakingConfig()
    """Matchmaking rule."""

    @classmethod
    def load(cls, **overrides: Any) -> Self:  # noqa: ANN401 - whatever the fields take; validated right here
        """Read the environment; `overrides` that are not None take precedence.

        Raises:
            ConfigurationError: A setting has an invalid value, or a `LEAGUE_` variable is unknown.
        """
        _reject_unknown(os.environ)
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
            value = ", ".join(f"{name}={_masked(name, _shown(each))}" for name, each in given_as.items())
            raise ConfigurationError(value, reason(first), f"correct or unset {' or '.join(given_as)}") from error
        except SettingsError as error:
            remedy = "set each number separately, for example LEAGUE_MATCHMAKING__POWER=3"
            raise ConfigurationError("in LEAGUE_MATCHMAKING or LEAGUE_PROMOTION", str(error), remedy) from error
        settings._require_consistent()
        return settings

    @model_validator(mode="before")
    @classmethod
    def _read_lists(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Parse lists of numbers in a group, which pydantic-settings leaves as text."""
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
                f"results of a lease are accepted until LEAGUE_LEASE_GRACE_S={self.lease_grace_s:g} after it expires",
                "raise it",
            )
        return self

    def _require_consistent(self) -> None:
        """Reject settings that contradict each other.

        Raises:
            ConfigurationError: Two settings contradict each other.
        """
        for name in ("heartbeat_s", "next_poll_s"):
            # Otherwise a lease could expire between two signs of life of a healthy worker.
            self._require_below(name, "lease_expiry_s", "a lease must outlast the worker's interval")
        whole = "a worker must be able to upload the largest checkpoint"
        self._require_below("checkpoint_max_bytes", "token_unfinished_max_bytes", whole, or_equal=True)
        self._require_below(
            "token_unfinished_max_bytes",
            "token_stored_max_bytes",
            "unfinished uploads must fit into the store",
            or_equal=True,
        )
        for name in ("baseline_deviation", "snapshot_deviation", "reset_deviation"):
            self._require_below(name, "deviation_cap", "no initial deviation may exceed the cap", or_equal=True)
        if self.database_password and not self.database_url:
            rule = "it requires a postgresql:// database, but LEAGUE_DATABASE_URL is unset"
            remedy = "unset it, or set LEAGUE_DATABASE_URL=postgresql://USER@HOST/NAME"
            raise ConfigurationError("LEAGUE_DATABASE_PASSWORD", rule, remedy)
        for name in ("store_endpoint_url", "store_public_url"):
            if getattr(self, name) is not None and not (self.store_url or "").startswith("s3://"):
                rule = f"it requires an s3:// store, but LEAGUE_STORE_URL is {_shown(self.store_url) or 'unset'}"
                remedy = "unset it, or set LEAGUE_STORE_URL=s3://BUCKET/PREFIX"
                raise ConfigurationError(f"{_variable(name)}={_shown(getattr(self, name))}", rule, remedy)

    def _require_below(self, low: str, high: str, rule: str, *, or_equal: bool = False) -> None:
        one, other = getattr(self, low), getattr(self, high)
        if one < other or (or_equal and one == other):
            return
        raise ConfigurationError(
            f"{_variable(low)}={one:.15g}",
            f"{rule}, {_variable(high)}={other:.15g}",
            "lower the first or raise the second",
        )

    def listing(self) -> list[Setting]:
        """List all settings by variable, including those of groups."""
        return [
            Setting(variable, self._listed_value(variable, path), _shown(_default(path)), _about(path))
            for variable, path in _paths().items()
        ]

    def _listed_value(self, variable: str, path: tuple[str, ...]) -> str:
        value = _shown(_at(self, path))
        return value if value == _shown(_default(path)) else _masked(variable, value)

    @property
    def database_address(self) -> str:
        """URL of the database with its password; default: a SQLite file in the home folder."""
        address = self.database_url or f"sqlite:///{self.home / 'league.db'}"
        return _with_password(address, self.database_password) if self.database_password else address

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Return True if a host name or address is loopback."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _with_password(address: str, password: str) -> str:
    """Add a password to a PostgreSQL URL without one."""
    from sqlalchemy import make_url  # here, because client commands do not need it
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except ArgumentError:
        return address  # opening the database reports it with the variable's name
    # A password in the URL takes precedence.
    if url.get_backend_name() != "postgresql" or url.password is not None:
        return address
    return url.set(password=password).render_as_string(hide_password=False)


def _variable(*path: int | str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + "__".join(str(part) for part in path).upper()


def _as_given(path: tuple[int | str, ...], value: object) -> dict[str, object]:
    """Return a value by its variable, or the values of a group by theirs."""
    if isinstance(value, dict):
        return {_variable(*path, name): each for name, each in value.items()}
    return {_variable(*path): value}


def _paths() -> dict[str, tuple[str, ...]]:
    """Return the attribute path of each variable: a field, or a group and its member."""
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
    """Return a setting's description: the field's docstring, or the member's line in the docstring of its group."""
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
        return value  # validation reports it with the variable's name


def _shown(value: object) -> str:
    """Format a value as a variable accepts it, without its password."""
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, tuple) else _PASSWORD.sub(r"\1\2***", str(value))


def _masked(variable: str, value: str) -> str:
    return "***" if variable in _SECRET and value else value


def _reject_unknown(names: Iterable[str]) -> None:
    """Reject unknown variables with the prefix of settings.

    Raises:
        ConfigurationError: A variable is unknown.
    """
    groups = {PREFIX + name.upper() for name in Settings.model_fields}
    files = {_variable(name) + SUFFIX for name in FROM_FILES}
    known = {*_paths(), *groups, *files, *CLIENT_SIDE}
    for name in sorted(names):
        variable = name.upper()
        if variable.startswith(PREFIX) and not variable.startswith(_OF_TESTS) and variable not in known:
            close = get_close_matches(variable.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
            hint = f"use {PREFIX}{close[0]}" if close else "see `league settings`"
            raise ConfigurationError(name, "there is no such setting", f"{hint}, or unset it")
