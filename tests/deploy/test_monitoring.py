"""What dashboard and alerts ask for is what a server says of itself."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from composition import ROOT
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from tools import tool

from league.app import create_app
from league.cli.maintenance.database import migrate
from league.settings import Settings

MONITORING = ROOT / "deploy" / "monitoring"
ALERTS, DASHBOARD = MONITORING / "alerts.yml", MONITORING / "grafana" / "league.json"
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that no server gives."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    settings = Settings.load(home=tmp_path_factory.mktemp("home"))
    migrate(settings)
    made = create_app(settings)
    with TestClient(made) as http:
        made.state.http = http
        yield made


@pytest.fixture(scope="module")
def exported(app: FastAPI) -> dict[str, set[str]]:
    """The labels of every metric, by the names that Prometheus keeps."""
    said = {family.name for family in text_string_to_metric_families(app.state.http.get("/metrics").text)}
    found: dict[str, set[str]] = {}
    for metric in app.state.league.metrics.registry._collector_to_names:
        [family] = metric.describe()
        assert family.name in said
        names = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
        for suffix in names.get(family.type, ("",)):
            found[family.name + suffix] = set(metric._labelnames)
    return found


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text())["panels"])


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    return [*asked, *(variable["definition"] for variable in variables), *(rule["expr"] for rule in rules())]


def test_every_metric_and_label_that_is_asked_for_is_exported(exported: dict[str, set[str]]) -> None:
    asked = set()
    for expression in expressions():
        for name, labels in re.findall(r"\b(league_\w+)(?:\{([^}]*(?:\{\w+\}[^}]*)*)\})?", expression):
            asked.add(name)
            assert name in exported, f"{name} in {expression}"
            named = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', labels))
            assert named <= exported[name] | OF_PROMETHEUS, f"{named} of {name} in {expression}"
        grouped = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)}
        known = set().union(*(exported[name] for name in exported if name in expression)) | OF_PROMETHEUS
        assert grouped <= known, expression
    counted = {name.removesuffix("_count").removesuffix("_sum").removesuffix("_bucket") for name in exported}
    shown = {name.removesuffix("_count").removesuffix("_sum").removesuffix("_bucket") for name in asked}
    assert counted == shown, "what a server counts and nobody is shown"


def test_every_route_that_is_asked_for_is_one(app: FastAPI) -> None:
    routes = set(app.openapi()["paths"]) | {"/live"}
    for expression in expressions():
        for named in re.findall(r'route!?=~?"([^"]*)"', expression):
            assert set(named.split("|")) <= routes, expression


def test_every_legend_is_a_label_that_its_expression_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            kept = {
                label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in re.split(r",\s*", group)
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]


def test_panels_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_source_that_is_named_is_provisioned() -> None:
    [source] = yaml.safe_load((MONITORING / "grafana" / "datasources.yml").read_text())["datasources"]
    named = {each["datasource"]["uid"] for panel in panels() for each in (panel, *panel["targets"])}
    assert named == {source["uid"]}
    [provider] = yaml.safe_load((MONITORING / "grafana" / "dashboards.yml").read_text())["providers"]
    composition = (ROOT / "docker-compose.yml").read_text()
    assert f"league.json:{provider['options']['path']}/league.json:ro" in composition
    assert re.fullmatch(r"http://(\w+):(\d+)", source["url"])[1] in yaml.safe_load(composition)["services"]


def test_every_alert_is_in_the_operations_guide() -> None:
    guide = (ROOT / "docs/guides/operate" / "monitor.md").read_text()
    for rule in rules():
        assert f"`{rule['alert']}`" in guide, rule["alert"]
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_prometheus_takes_rules_and_configuration(tmp_path: Path) -> None:
    promtool = tool("promtool", "it comes with Prometheus")
    configuration = (MONITORING / "prometheus.yml").read_text()
    assert "/etc/prometheus/alerts.yml" in configuration
    (tmp_path / "prometheus.yml").write_text(configuration.replace("/etc/prometheus/alerts.yml", str(ALERTS)))
    subprocess.run([promtool, "check", "config", tmp_path / "prometheus.yml"], check=True, capture_output=True)


BEATS = 'league_request_seconds_bucket{job="league", route="/api/v1/workers/{worker_id}/heartbeat",'
SERIES = {
    "NoServer": [],
    "ServerDown": ['up{job="league", instance="a"} 0', 'up{job="league", instance="b"} 1'],
    "PeriodsNotClosed": ['league_period_lag_seconds{job="league", instance="a", environment="rps"} 700'],
    "NoResults": [
        'league_leases_total{job="league", instance="a", kind="training"} 0+10x240',
        'league_results_total{job="league", instance="a", status="accepted"} 5+0x240',
    ],
    "ResultsRefused": [
        'league_results_total{job="league", instance="a", status="accepted"} 0+100x240',
        'league_results_total{job="league", instance="a", status="rejected"} 0+5x240',
    ],
    "CallsFail": [
        'league_requests_total{job="league", instance="a", status="200"} 0+100x240',
        'league_requests_total{job="league", instance="a", status="500"} 0+1x240',
    ],
    "CallsSentAway": ['league_calls_refused_total{job="league", instance="a", request_class="reads"} 0+60x240'],
    "HeartbeatsSlow": [
        BEATS + ' le="1.0"} 0+90x240',
        BEATS + ' le="2.5"} 0+100x240',
        BEATS + ' le="+Inf"} 0+100x240',
    ],
    "ConnectionsUsedUp": ['league_database_connections{job="league", instance="a"} 20'],
    "Regression": ['league_regressions{job="league", instance="a", environment="rps"} 1'],
    "WebhookNotConfirmed": [
        'league_webhook_lag_seconds{job="league", instance="a", receiver="chat.example 3f2a91"} 700'
    ],
}
WELL = [
    'up{job="league", instance="a"} 1+0x240',
    'league_period_lag_seconds{job="league", instance="a", environment="rps"} 30+0x240',
    'league_leases_total{job="league", instance="a", kind="training"} 0+10x240',
    'league_results_total{job="league", instance="a", status="accepted"} 0+100x240',
    'league_results_total{job="league", instance="a", status="duplicate"} 0+9x240',
    'league_requests_total{job="league", instance="a", status="200"} 0+1000x240',
    'league_requests_total{job="league", instance="a", status="503"} 0+50x240',
    'league_calls_refused_total{job="league", instance="a", request_class="reads"} 0+1x240',
    BEATS + ' le="1.0"} 0+100x240',
    BEATS + ' le="+Inf"} 0+100x240',
    'league_database_connections{job="league", instance="a"} 7+0x240',
    'league_regressions{job="league", instance="a", environment="rps"} 0+0x240',
    'league_webhook_lag_seconds{job="league", instance="a", receiver="chat.example 3f2a91"} 40+0x240',
]


def test_each_alert_is_raised_when_it_should_and_none_while_all_is_well(tmp_path: Path) -> None:
    promtool = tool("promtool", "it comes with Prometheus")
    assert set(SERIES) == {rule["alert"] for rule in rules()}
    tests = [_played(alert, series, raised=True) for alert, series in SERIES.items()]
    tests += [_played(alert, WELL, raised=False) for alert in SERIES]
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    played = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stdout + played.stderr


def _played(alert: str, series: list[str], *, raised: bool) -> dict[str, Any]:
    """Two hours of some series: whether anything is raised then is asked as a number, whatever its labels are."""
    lines = [line if "+" in line.rpartition(" ")[2] else f"{line}+0x240" for line in series]
    inputs = [dict(zip(("series", "values"), line.rsplit(" ", 1), strict=True)) for line in lines]
    asked = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)'
    return {
        "interval": "1m",
        "input_series": inputs,
        "promql_expr_test": [
            {"expr": asked, "eval_time": "2h", "exp_samples": [{"labels": "{}", "value": int(raised)}]}
        ],
    }
