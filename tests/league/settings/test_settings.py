"""Settings say the same from the environment and from arguments, and refuse by name what cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest
from refused import refused
from sqlalchemy import make_url

from league.db.engine import Database
from league.errors import ConfigurationError
from league.settings import Settings, WebhookConfig
from league.storage.factory import open_store


def test_defaults_keep_everything_in_var() -> None:
    settings = Settings.load()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.database_address == "sqlite:///var/league.db"
    assert str(open_store(settings)) == "var/checkpoints"
    assert settings.on_loopback


def test_the_environment_sets_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HOST", "0.0.0.0"), ("PORT", "9000"), ("HOME", "/srv"), ("DATABASE_URL", "postgresql://h/d")):
        monkeypatch.setenv(f"LEAGUE_{name}", value)
    monkeypatch.setenv("LEAGUE_STORE_URL", "file:///data/check%20points")
    monkeypatch.setenv("LEAGUE_MATCHMAKING__POWER", "3")
    monkeypatch.setenv("LEAGUE_MATCHMAKING__WARM_UP_WIDTHS", "[100, 300]")
    settings = Settings.load(port=9001, host=None)
    assert (settings.host, settings.port, settings.home) == ("0.0.0.0", 9001, Path("/srv"))
    assert settings.database_address == "postgresql://h/d"
    assert str(open_store(settings)) == "/data/check points"
    assert settings.matchmaking.power == 3
    assert settings.matchmaking.warm_up_widths == (100.0, 300.0)
    assert not settings.on_loopback


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LEAGUE_PORT", "eighty"),
        ("LEAGUE_PORT", "70000"),
        ("LEAGUE_HEARTBEAT_S", "0"),
        ("LEAGUE_LEASE_EXPIRY_S", "inf"),
        ("LEAGUE_SNAPSHOT_DEVIATION", "inf"),
        ("LEAGUE_TAU", "-1"),
        ("LEAGUE_REVIEW_MATCHES", "99999999999999999999"),
        ("LEAGUE_RETENTION_DAYS", "1e9"),
        ("LEAGUE_PERIOD_SPACING_S", "inf"),
        ("LEAGUE_REPLAYS__KEEP_MAX", "99999999999999999999"),
        ("LEAGUE_CONCURRENCY__READS_RUNNING", "-1"),
        ("LEAGUE_PROMOTION__CAPACITY", "0"),
        ("LEAGUE_MATCHMAKING__SELF_PLAY_SHARE", "2"),
        ("LEAGUE_MATCHMAKING__WEIGHTING", "soft"),
        ("LEAGUE_MATCHMAKING__WARM_UP_WIDTHS", "[200, 400"),
        ("LEAGUE_MATCHMAKING__WARM_UP_WIDTHS", "200"),
    ],
)
def test_an_unusable_setting_is_refused_naming_variable_and_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as refusal:
        Settings.load()
    assert str(refusal.value).startswith(f"configuration {name}={value}: ")
    assert str(refusal.value).endswith(f"; correct or unset {name}")
    assert "\n" not in str(refusal.value)
    assert "value error" not in str(refusal.value).lower()


def test_a_group_of_settings_that_is_not_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_MATCHMAKING", "hard")
    with refused("configuration", "LEAGUE_MATCHMAKING__POWER=3"):
        Settings.load()


def test_a_retention_shorter_than_the_grace_of_results_is_refused() -> None:
    with refused("configuration", "LEAGUE_RETENTION_DAYS=0.5", "LEAGUE_LEASE_GRACE_S=86400"):
        Settings.load(retention_days=0.5, lease_grace_s=86400.0)


@pytest.mark.parametrize("url", ["mysql://me:secret@host/league", "postgres://me:secret@host/league", "x/me:secret@h"])
def test_a_refused_database_url_keeps_its_password(url: str) -> None:
    with refused("configuration", "postgresql://USER@HOST/NAME") as refusal:
        Database(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"deviation_floor": 200.0, "deviation_cap": 100.0}, ("DEVIATION_FLOOR=200", "DEVIATION_CAP=100")),
        ({"lease_expiry_s": 120.0}, ("HEARTBEAT_S=120", "LEASE_EXPIRY_S=120")),
        ({"heartbeat_s": 400.0}, ("HEARTBEAT_S=400", "LEASE_EXPIRY_S=360")),
        ({"next_poll_s": 360.0}, ("NEXT_POLL_S=360", "LEASE_EXPIRY_S=360")),
        ({"snapshot_deviation": 400.0}, ("SNAPSHOT_DEVIATION=400", "DEVIATION_CAP=350")),
        ({"baseline_deviation": 351.0}, ("BASELINE_DEVIATION=351", "DEVIATION_CAP=350")),
        ({"checkpoint_max_bytes": 2**33}, ("CHECKPOINT_MAX_BYTES=8589934592", "UNFINISHED_MAX_BYTES=4294967296")),
        ({"token_stored_max_bytes": 2**30}, ("TOKEN_UNFINISHED_MAX_BYTES=", "TOKEN_STORED_MAX_BYTES=1073741824")),
        ({"store_endpoint_url": "http://h:9000"}, ("STORE_ENDPOINT_URL=http://h:9000", "LEAGUE_STORE_URL is unset")),
        ({"store_public_url": "http://h", "store_url": "file:///data"}, ("STORE_PUBLIC_URL=", "file:///data")),
    ],
)
def test_settings_that_contradict_each_other_are_refused_naming_both(
    given: dict[str, Any], refused: tuple[str, str]
) -> None:
    with pytest.raises(ConfigurationError) as error:
        Settings.load(**given)
    assert str(error.value).startswith(f"configuration LEAGUE_{refused[0]}")
    assert refused[1] in error.value.rule


def test_settings_at_the_limits_are_accepted() -> None:
    Settings.load(heartbeat_s=359.0, deviation_floor=350.0, snapshot_deviation=350.0, baseline_deviation=350.0)
    Settings.load(store_url="s3://bucket/league", store_endpoint_url="http://h:9000")


@pytest.mark.parametrize("url", ["https://example.org/store", "file://elsewhere/folder", "s3://", "s3:///league", ""])
def test_a_store_that_is_neither_folder_nor_bucket_is_refused_by_name(url: str) -> None:
    with refused("configuration", f"LEAGUE_STORE_URL={url}"):
        open_store(Settings.load(store_url=url))


def test_a_refused_store_url_keeps_its_secret() -> None:
    with refused("configuration", "s3://BUCKET/PREFIX") as refusal:
        open_store(Settings.load(store_url="s3://key:secret@bucket/league"))
    assert "secret" not in str(refusal.value)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LEAGUE_HEARTBEATS", "use LEAGUE_HEARTBEAT_S"),
        ("LEAGUE_DATABASE", "use LEAGUE_DATABASE_URL"),
        ("LEAGUE_PROMOTION__CAPACITI", "use LEAGUE_PROMOTION__CAPACITY"),
        ("LEAGUE_PROMOTION_CAPACITY", "use LEAGUE_PROMOTION__CAPACITY"),
        ("league_tokn", "use LEAGUE_TOKEN"),
        ("LEAGUE_XYZZY_PLUGH_42", "see `league settings`"),
    ],
)
def test_a_mistyped_variable_is_refused_naming_the_nearest(
    monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setenv(name, "1")
    with refused("configuration", name, hint):
        Settings.load()


def test_variables_of_commands_of_tests_and_of_others_are_no_settings_and_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "LEAGUE_URL",
        "LEAGUE_TOKEN",
        "LEAGUE_TOKEN_FILE",
        "LEAGUE_TEST_POSTGRES_URL",
        "LEAGUES",
        "OTHER_LEAGUE_PORT",
    ):
        monkeypatch.setenv(name, "anything")
    assert Settings.load() == Settings()


# --- secrets out of files --------------------------------------------------------------------------------------------


def test_password_file_may_contain_any_characters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    password = "p@ss/w:rd?#%& ü"
    file = tmp_path / "password"
    file.write_text(f"{password}\n", encoding="utf-8")
    monkeypatch.setenv("LEAGUE_DATABASE_PASSWORD_FILE", str(file))
    monkeypatch.setenv("LEAGUE_DATABASE_URL", "postgresql://league@host/league")
    settings = Settings.load()
    assert make_url(settings.database_address).password == password
    assert make_url(settings.database_address).host == "host"
    assert password not in repr(settings)
    shown = {setting.variable: setting.value for setting in settings.listing()}
    assert shown["LEAGUE_DATABASE_PASSWORD"] == "***"
    assert password not in str(shown)


def test_variable_takes_precedence_over_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://in-file/league\n")
    monkeypatch.setenv("LEAGUE_DATABASE_URL_FILE", str(tmp_path / "url"))
    assert Settings.load().database_address == "postgresql://in-file/league"
    monkeypatch.setenv("LEAGUE_DATABASE_URL", "postgresql://in-variable/league")
    assert Settings.load().database_address == "postgresql://in-variable/league"
    assert Settings.load(database_url="postgresql://as-argument/league").database_address.endswith("as-argument/league")
    monkeypatch.setenv("LEAGUE_DATABASE_PASSWORD", "hunter2")
    with_own = Settings.load(database_url="postgresql://me:mine@host/league")
    assert with_own.database_address == "postgresql://me:mine@host/league"
    assert Settings.load(database_url="sqlite:///a.db").database_address == "sqlite:///a.db"


@pytest.mark.parametrize(
    "content", [None, b"", b"one\ntwo\n", b"\xff\xfe"], ids=["missing", "empty", "two lines", "not text"]
)
def test_a_file_without_a_secret_is_refused_naming_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("LEAGUE_DATABASE_URL_FILE", str(file))
    with refused("configuration", f"LEAGUE_DATABASE_URL_FILE={file}") as refusal:
        Settings.load()
    assert "two" not in str(refusal.value)


def test_a_password_without_a_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_DATABASE_PASSWORD", "hunter2")
    with refused("configuration", "LEAGUE_DATABASE_URL") as refusal:
        Settings.load()
    assert "hunter2" not in str(refusal.value)


def test_only_secrets_come_out_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_PORT_FILE", "/run/secrets/port")
    with refused("configuration", "LEAGUE_PORT_FILE"):
        Settings.load()


# --- showing ---------------------------------------------------------------------------------------------------------


def test_every_setting_is_listed_as_a_variable_that_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = Settings.load().listing()
    assert len({setting.variable for setting in listing}) == len(listing) > len(Settings.model_fields)
    assert {setting.value == setting.default for setting in listing} == {True}
    assert [setting.variable for setting in listing if not setting.about.endswith(".")] == []
    for variable, value in (("LEAGUE_PORT", "8123"), ("LEAGUE_MATCHMAKING__POWER", "3.0"), ("LEAGUE_HOME", "/srv")):
        monkeypatch.setenv(variable, value)
        shown = {setting.variable: setting for setting in Settings.load().listing()}
        assert shown[variable].value == value != shown[variable].default


def test_settings_listing_round_trips_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in Settings.load().listing():
        if setting.value:
            monkeypatch.setenv(setting.variable, setting.value)
    assert Settings.load() == Settings.model_construct()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://league:hunter2@host:5432/league", "postgresql://league:***@host:5432/league"),
        ("postgresql://league:hunter2/3@host/league", "postgresql://league:***@host/league"),
        ("postgresql://host/league?user=me&password=hunter2&sslmode=require",
         "postgresql://host/league?user=me&password=***&sslmode=require"),
        ("postgresql://league@host:5432/league", "postgresql://league@host:5432/league"),
        ("sqlite:////srv/league.db", "sqlite:////srv/league.db"),
    ],
)  # fmt: skip
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    listing = Settings.load(database_url=url).listing()
    assert {setting.value for setting in listing if setting.variable == "LEAGUE_DATABASE_URL"} == {shown}
    assert "hunter2" not in str(listing)


# --- webhooks --------------------------------------------------------------------------------------------------------


def test_webhooks_are_read_from_variables_and_their_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_WEBHOOKS__URLS", '["https://chat.example/hunter2"]')
    monkeypatch.setenv("LEAGUE_WEBHOOKS__EVENTS", '["lost-worker"]')
    monkeypatch.setenv("LEAGUE_WEBHOOKS__SECRET", "hunter2")
    settings = Settings.load()
    assert settings.webhooks == WebhookConfig(("https://chat.example/hunter2",), ("lost-worker",), "hunter2")
    assert "hunter2" not in str(settings.listing())


@pytest.mark.parametrize("url", ["ftp://h/hunter2", "file:///hunter2", "h:1/hunter2", "http:///hunter2", "hunter2"])
def test_a_webhook_needs_an_http_url_and_errors_hide_its_path(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LEAGUE_WEBHOOKS__URLS", json.dumps(["https://good.example", url]))
    monkeypatch.setenv("LEAGUE_WEBHOOKS__SECRET", "hunter2")
    with refused("configuration", "LEAGUE_WEBHOOKS__URLS", "http://", "https://") as refusal:
        Settings.load()
    assert "hunter2" not in str(refusal.value)


def test_a_webhook_of_an_unknown_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_WEBHOOKS__EVENTS", '["champions"]')
    with refused("configuration", "LEAGUE_WEBHOOKS__EVENTS", "champions", "champion"):
        Settings.load()
