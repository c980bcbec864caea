"""Generated reference pages are complete, and every page that asks for generated text gets it."""

import gzip
import json
import re
from pathlib import Path

import pytest
from league_docs import cli, docstrings, http_api, settings, site, tables

from league.settings import Settings
from trainer.config.loading import setting_schemas
from trainer.monitoring.health.rules import HEALTH_RULES

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OPTIONS = [
    ("league up", "--environment"),
    ("league serve", "--port"),
    ("trainer run", "--learner"),
    ("trainer doctor", "--json"),
    ("arena verify", "--matches"),
]

TAG = re.compile(r"f?\"((?:charts|losses|heads|scales|health|reward|reward_share|win_rate|matches)/[^\"]*)\"")


def test_every_marker_names_a_generator() -> None:
    found = {marker[1] for page in PAGES for marker in site.MARKER.finditer(page.read_text(encoding="utf-8"))}
    assert found == set(site.GENERATORS)


def test_command_reference_has_every_command_with_its_options() -> None:
    text = cli.render()
    sections = dict(re.findall(r"^### (.+)\n((?:(?!^##).*\n)*)", text, re.MULTILINE))
    for command, option in OPTIONS:
        assert f"`{option}" in sections[command], command
    assert "\b" not in text
    assert {command.split()[0] for command in sections} == {"league", "trainer", "arena"}


def test_settings_reference_has_every_setting_once() -> None:
    server, trainer = settings.server(), settings.trainer()
    variables = [each.variable for each in Settings.model_construct().listing()]
    assert sorted(re.findall(r"^\| `(LEAGUE_\w+)` \|", server, re.MULTILINE)) == sorted(variables)
    names = [f"{section}.{name}" for section, schemas in setting_schemas().items() for name in schemas]
    assert re.findall(r"^\| `(\w+\.\w+)` \|", trainer, re.MULTILINE) == names


def test_sections_of_server_settings_begin_with_settings() -> None:
    assert settings.SERVER_SECTIONS.keys() <= Settings.model_fields.keys()
    assert "## Other" not in settings.server()


def test_http_reference_has_every_operation_and_defines_every_schema_that_it_links() -> None:
    text = http_api.render()
    operations = [
        f"### {method.upper()} {path}" for path, found in http_api.openapi()["paths"].items() for method in found
    ]
    assert sorted(re.findall(r"^### [A-Z]+ /.*$", text, re.MULTILINE)) == sorted(operations)
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def test_tables_have_every_metric_finding_and_check() -> None:
    assert "| `league_requests_total` | counter | `method`, `route`, `status` |" in tables.server_metrics()
    health = tables.health_findings()
    assert re.findall(r"^## (\w+)$", health, re.MULTILINE) == list(HEALTH_RULES)
    assert tables.environment_checks().count("\n") > 30


def test_dashboard_page_lists_every_address_with_its_scope() -> None:
    intended = [line.split() for line in (ROOT / "tests/snapshots/dashboard-scopes.txt").read_text().splitlines()]
    listed = re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \| (\w+) \|$", tables.dashboard_addresses(), re.MULTILINE)
    assert sorted(listed) == sorted((method, path, scope) for scope, method, path in intended)


def test_metrics_page_describes_every_metric_of_a_trainer() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    described = [re.sub(r"[A-Z]{4,}", "[^/]+", tag) for tag in re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)]
    recorded = gzip.decompress((ROOT / "tests/support/recorded_run/metrics.jsonl.gz").read_bytes()).decode()
    tags = {tag for line in recorded.splitlines() for tag in json.loads(line)} - {"step"}
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "trainer").rglob("*.py"))
    tags |= {re.sub(r"\{.*?\}", "some", tag) for tag in TAG.findall(sources) if not re.search(r"/$|/\{[^/]*$", tag)}
    assert not {tag for tag in tags if not any(re.fullmatch(pattern, tag) for pattern in described)}


@pytest.mark.parametrize(
    ("docstring", "marked"),
    [
        ("Title.\n\n    a = b\n\nRest.", "Title.\n\n::\n\n    a = b\n\nRest."),
        ("Args:\n    one: First.\n\n        More.", "Args:\n    one: First.\n\n        More."),
    ],
)
def test_indented_blocks_of_docstrings_become_code(docstring: str, marked: str) -> None:
    lines = docstring.splitlines()
    docstrings.mark_code(lines)
    assert "\n".join(lines) == marked
