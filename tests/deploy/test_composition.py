"""The composition is one: by the specification, by its own references, and by the settings of the programs in it."""

import json
import os
import re
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import composition
import jsonschema_rs
import pytest
import yaml
from composition import BASE, ROOT, TLS
from tools import compose

from league.private_files import SUFFIX
from league.settings import CLIENT_SIDE, FROM_FILES, Settings

SCHEMA = Path(__file__).parent / "schemas" / "compose-spec.json"
CERTIFICATE = {"TLS_CERTIFICATE": "/etc/ssl/league.pem", "TLS_KEY": "/etc/ssl/league.key"}
TLS_VARIABLES = {"PUBLIC_SCHEME": "https", "PUBLIC_PORT": "443", "PUBLIC_HOST": "league.example.org", **CERTIFICATE}
ENGINES = ("postgres", "objects")  # their images begin as root to take over their volume, and drop it by themselves
JOBS = {"bucket", "migrate", "tokens", "environment"}
MONITORING_JOBS = {"metrics-token"}
WORKERS = {"trainer", "trainer-gpu", "evaluator"}

SERVICES = composition.services()
OURS = {name for name, service in SERVICES.items() if "build" in service}


@pytest.mark.parametrize(("file", "variables"), [(BASE, {}), (TLS, CERTIFICATE)])
def test_it_is_valid_by_the_specification(file: Path, variables: dict[str, str]) -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema_rs.validate(schema, composition.read(file, **variables))
    wrong = composition.read(file, **variables)
    wrong["services"]["proxy"]["port"] = ["80:80"]
    assert not jsonschema_rs.is_valid(schema, wrong)


@pytest.mark.parametrize("files", [[BASE], [BASE, TLS]])
def test_the_engine_reads_it_as_these_tests_do(files: list[Path]) -> None:
    """Asks the real program where there is one: merges, variables and defaults are its own."""
    named = [word for file in files for word in ("--file", str(file))]
    command = [*compose(), *named, "--project-directory", str(ROOT), "--profile", "*", "config", "--format", "json"]
    variables = TLS_VARIABLES if TLS in files else {}
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
    told = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    ours = composition.services(**variables)
    assert set(told["services"]) == set(ours)
    for name, service in ours.items():
        theirs = told["services"][name]
        assert theirs.get("command") == service.get("command")
        assert theirs.get("environment") == service.get("environment")
        assert theirs["image"] == service["image"]
    published = {(port["host_ip"], port["published"]) for port in told["services"]["proxy"]["ports"]}
    assert published == ({("127.0.0.1", "443"), ("127.0.0.1", "80")} if variables else {("127.0.0.1", "8000")})


def test_tls_without_a_certificate_is_rejected() -> None:
    with pytest.raises(composition.UnsetError, match="file of the certificate"):
        composition.read(TLS)


# --- references ------------------------------------------------------------------------------------------------------


def test_everything_that_is_named_is_there() -> None:
    document = composition.read()
    for name, service in document["services"].items():
        assert set(service.get("secrets", ())) <= set(document["secrets"]), name
        assert set(service["networks"]) <= set(document["networks"]), name
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith(".") else source in document["volumes"], volume
    for volume in composition.read(TLS, **CERTIFICATE)["services"]["proxy"]["volumes"]:
        assert (ROOT / volume.split(":")[0]).is_file()


def test_services_wait_for_healthy_dependencies() -> None:
    after: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        after[name] = set(service.get("depends_on", {}))
        for needed, terms in service.get("depends_on", {}).items():
            if needed in JOBS | MONITORING_JOBS:
                assert terms["condition"] == "service_completed_successfully"
                assert SERVICES[needed]["restart"] == "no"
            else:
                assert terms["condition"] == "service_healthy"
                assert "test" in SERVICES[needed].get("healthcheck", {"test": needed == "league"})
    ready: set[str] = set()
    while len(ready) < len(after):
        fresh = {name for name, needs in after.items() if needs <= ready} - ready
        assert fresh, f"they wait for each other: {set(after) - ready}"
        ready |= fresh
    assert {"tokens", "migrate", "bucket"} <= after["league"]
    assert after["tokens"] == {"migrate"}


def test_workers_start_only_with_a_profile() -> None:
    without = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert without == {*ENGINES, *JOBS, "league", "proxy"}
    of = {profile: {name for name, each in SERVICES.items() if profile in each.get("profiles", ())}
          for profile in ("cpu", "gpu", "monitoring")}  # fmt: skip
    assert of == {
        "cpu": {"trainer", "evaluator"},
        "gpu": {"trainer-gpu", "evaluator"},
        "monitoring": {"prometheus", "grafana", *MONITORING_JOBS},
    }
    [device] = SERVICES["trainer-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert "--set=run.device=cuda:0" in SERVICES["trainer-gpu"]["command"]
    for name, service in SERVICES.items():
        for needed in service.get("depends_on", {}):
            assert set(SERVICES[needed].get("profiles", ())) <= set(service.get("profiles", ())), (name, needed)


# --- hardening -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.fullmatch(r"[a-z./-]+:v?\d+\.\d+[\w.-]*", image), image


@pytest.mark.parametrize("name", sorted(set(SERVICES) - set(ENGINES)))
def test_services_are_unprivileged_and_write_to_volumes_only(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "privileged" not in service
    assert "/tmp" in service["tmpfs"]


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_wins_privileges_fills_the_disk_with_logs_or_runs_out_of_files(name: str) -> None:
    assert "no-new-privileges:true" in SERVICES[name]["security_opt"]
    assert SERVICES[name]["logging"]["options"]["max-size"]
    [connections] = re.findall(r"worker_connections (\d+);", (ROOT / "deploy" / "proxy" / "nginx.conf").read_text())
    assert SERVICES[name]["ulimits"]["nofile"]["soft"] > 2 * int(connections), "the proxy has two for each caller"


def test_only_proxy_and_grafana_publish_ports_on_loopback_by_default() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"proxy", "grafana"}
    for name in ("proxy", "grafana"):
        assert [port for port in SERVICES[name]["ports"] if not port.startswith("127.0.0.1:")] == []
    assert composition.services(PUBLIC_ADDRESS="0.0.0.0")["proxy"]["ports"] == ["0.0.0.0:8000:8000"]


def members(network: str) -> set[str]:
    return {name for name, service in SERVICES.items() if network in service["networks"]}


def test_only_servers_and_proxy_reach_database_and_store() -> None:
    networks = composition.read()["networks"]
    assert {name for name, network in networks.items() if network.get("internal")} == set(networks) - {"front"}
    assert members("back") == {*ENGINES, *JOBS, *MONITORING_JOBS, "league"}
    assert members("store") == {"objects", "proxy"}
    assert members("monitoring") == {"league", "prometheus", "grafana"}
    for engine in ENGINES:
        assert set(SERVICES[engine]["networks"]) <= {"back", "store"}


@pytest.mark.parametrize("variables", [{}, {"PROXY_IP": "192.168.7.2", "PROXY_SUBNET": "192.168.7.0/24",
                                            "PROXY_IP_RANGE": "192.168.7.64/26"}])  # fmt: skip
def test_servers_trust_forwarded_headers_of_the_proxy_only(variables: dict[str, str]) -> None:
    """Prometheus, Grafana and the database reach the servers' port, too, and could name any address."""
    document = composition.read(BASE, **variables)
    services, trusted = document["services"], composition.services(**variables)["league"]["environment"]
    address = ip_address(trusted["FORWARDED_ALLOW_IPS"])
    assert services["proxy"]["networks"]["edge"]["ipv4_address"] == str(address)
    [pool] = document["networks"]["edge"]["ipam"]["config"]
    subnet, given_out = ip_network(pool["subnet"]), ip_network(pool["ip_range"])
    assert address in subnet
    assert given_out.subnet_of(subnet)
    assert address not in given_out, "a server that starts first would get it"
    assert address != next(subnet.hosts()), "the machine itself has it"
    assert members("edge") == {"league", "proxy"}
    fixed = [name for name, service in services.items() if isinstance(service["networks"], dict)]
    assert fixed == ["proxy"]


def test_no_secret_is_in_the_file() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|CREDENTIALS", variable):
                assert variable.endswith(("_FILE", "__FILE")), (name, variable)
                assert value.startswith(("/run/secrets/", "/var/lib/league/")), (name, variable)


# --- settings --------------------------------------------------------------------------------------------------------


def variables_of(name: str) -> dict[str, Any]:
    return dict(SERVICES[name]["environment"])


@pytest.mark.parametrize("name", sorted(OURS))
def test_variables_are_settings_and_their_values_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {setting.variable for setting in Settings.load().listing()} | CLIENT_SIDE
    known |= {f"LEAGUE_{field.upper()}{SUFFIX}" for field in FROM_FILES}
    own = {variable: value for variable, value in variables_of(name).items() if variable.startswith("LEAGUE_")}
    assert set(own) <= known
    for variable, value in own.items():
        if not variable.endswith(SUFFIX):
            monkeypatch.setenv(variable, value)
    Settings.load()


def test_ports_are_those_that_the_programs_take() -> None:
    port = variables_of("league")["LEAGUE_PORT"]
    proxy = (ROOT / "deploy" / "proxy" / "nginx.conf").read_text()
    assert f"server league:{port} resolve;" in proxy
    assert f"port: {port}\n" in (ROOT / "deploy" / "monitoring" / "prometheus.yml").read_text()
    stages = composition.stages()
    assert ("EXPOSE", port) in stages["league"]
    assert f"http://127.0.0.1:{port}/readyz" in next(rest for word, rest in stages["league"] if word == "HEALTHCHECK")
    store = variables_of("league")["LEAGUE_STORE_ENDPOINT_URL"].removeprefix("http://")
    assert f"server {store} resolve;" in proxy
    assert f"-s3.port={store.partition(':')[2]}" in SERVICES["objects"]["command"]
    health = SERVICES["proxy"]["healthcheck"]["test"][-1]
    assert f"listen {health.removeprefix('http://').partition('/')[0]};" in proxy


def test_one_public_address_serves_api_and_checkpoints() -> None:
    given = {"PUBLIC_SCHEME": "https", "PUBLIC_HOST": "league.example.org", "PUBLIC_PORT": "8443"}
    for variables in ({}, given):
        services = composition.services(**variables)
        address = services["league"]["environment"]["LEAGUE_STORE_PUBLIC_URL"]
        assert {services[name]["environment"]["LEAGUE_URL"] for name in WORKERS} == {address}
        scheme, host, port = re.fullmatch(r"(\w+)://([\w.]+):(\d+)", address).groups()
        assert services["proxy"]["networks"]["front"]["aliases"] == [host]
        assert services["proxy"]["environment"]["PUBLIC_PORT"] == port
        assert services["proxy"]["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert scheme == variables.get("PUBLIC_SCHEME", "http")
    bucket = variables_of("league")["LEAGUE_STORE_URL"].removeprefix("s3://")
    assert f"location /{bucket}/ " in (ROOT / "deploy" / "proxy" / "locations.conf").read_text()


def test_worker_spools_are_on_a_named_volume() -> None:
    folders = {}
    for name in WORKERS:
        [run] = [word.removeprefix("--run=") for word in SERVICES[name]["command"] if word.startswith("--run=")]
        folders[name] = Path(run)
        volumes = dict(volume.split(":")[:2] for volume in SERVICES[name]["volumes"])
        assert Path(volumes["runs"]) in folders[name].parents
    assert folders["trainer"] == folders["trainer-gpu"]  # a run may move from one kind of machine to the other
    assert folders["trainer"].parts[-2:] == ("mech-duel", "main"), "another GAME in the same volume has its own runs"
    assert folders["evaluator"] != folders["trainer"]


def test_the_game_that_is_trained_is_created_before_its_workers_start() -> None:
    services = composition.services(GAME="recall")
    assert services["environment"]["command"] == ["league", "environment", "create", "recall"]
    for name in WORKERS:
        assert "environment" in services[name]["depends_on"]
        assert "--environment=recall" in services[name]["command"]


def test_prometheus_has_a_token_of_its_own_that_may_read() -> None:
    command = SERVICES["metrics-token"]["command"]
    assert command[command.index("--scope") + 1] == "read"
    file = command[command.index("--from") + 1]
    configuration = yaml.safe_load((ROOT / "deploy" / "monitoring" / "prometheus.yml").read_text())
    assert [each["authorization"]["credentials_file"] for each in configuration["scrape_configs"]] == [file]
    for name in ("metrics-token", "prometheus"):
        assert Path(file).name in SERVICES[name]["secrets"]
    assert "LEAGUE_METRICS_OPEN" not in variables_of("league")


def test_workers_read_the_token_that_the_job_writes() -> None:
    command = SERVICES["tokens"]["command"]
    written = command[command.index("--out") + 1]
    assert {variables_of(name)["LEAGUE_TOKEN_FILE"] for name in WORKERS} == {written}
    for name, mode in (("tokens", ""), *((worker, ":ro") for worker in WORKERS)):
        assert f"home:{Path(written).parent}{mode}" in SERVICES[name]["volumes"]
