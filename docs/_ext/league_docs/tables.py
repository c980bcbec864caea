"""Tables of server metrics, health findings, environment checks and the addresses of the dashboard."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from league_docs.markdown import code, document, escape, table


def server_metrics() -> str:
    """Describe the Prometheus metrics of the server, with their labels."""
    from prometheus_client.metrics import MetricWrapperBase

    from league.api.metrics import Metrics

    suffixes = {"counter": "_total"}
    rows = []
    for metric in vars(Metrics()).values():
        if isinstance(metric, MetricWrapperBase):
            family = next(iter(metric.describe()))
            labels = ", ".join(code(label) for label in metric._labelnames)
            rows.append(
                (
                    code(family.name + suffixes.get(family.type, "")),
                    family.type,
                    labels,
                    escape(family.documentation),
                )
            )
    return table(("metric", "type", "labels", "description"), sorted(rows))


def health_findings() -> str:
    """Describe every health rule: when its alert begins and ends, and the remedies."""
    from trainer.config.loading import sections
    from trainer.monitoring.health.rules import HEALTH_RULES

    settings = re.compile(rf"(?<![\w`])(?:{'|'.join(sections())})\.[a-z]\w*")
    blocks = []
    for name, rule in HEALTH_RULES.items():
        limits = rule.hysteresis
        more, less = (">=", "<=") if limits.trip > limits.clear else ("<=", ">=")
        averaged = f", measured over {limits.window} updates" if limits.window > 1 else ""
        updates = f"{limits.updates} consecutive updates" if limits.updates > 1 else "1 update"
        measure = (rule.measure.__doc__ or "").strip().partition("\n\n")[0]
        rows = [
            ("severity", rule.severity.name.lower()),
            ("measure", escape(measure)),
            ("begins", f"{code(f'{more} {limits.trip:g}')} in {updates}{averaged}"),
            ("ends", f"{code(f'{less} {limits.clear:g}')} in {updates}"),
            ("meaning", escape(rule.meaning)),
            ("remedy", escape(settings.sub(r"`\g<0>`", rule.advice))),
            *(
                (f"remedy ({code(case)})", escape(settings.sub(r"`\g<0>`", advice)))
                for case, advice in rule.cases.items()
            ),
            ("can follow from", ", ".join(f"[{each}](#{_target(each)})" for each in rule.causes)),
        ]
        blocks.append(document(f"({_target(name)})=\n## {name}", table(("", ""), [row for row in rows if row[1]])))
    return document(*blocks)


def environment_checks() -> str:
    """Describe every check of `arena verify`: the requirement and how to fix a violation."""
    from arena.conformance.run import TABLE

    rows = ((check.name, check.rule, check.remedy) for check in TABLE)
    return table(("check", "requirement", "fix"), (tuple(map(escape, row)) for row in rows))


def dashboard_addresses() -> str:
    """List every address of the dashboard with the scope that it needs, the unprotected ones first."""
    from league import web

    order = ("none", "read", "admin")
    routes = [route for router in web.ROUTERS for route in router.routes]
    rows = [
        (method, code(route.path), _page_scope(set(_dependencies(route.dependant))))  # type: ignore[attr-defined]
        for route in routes
        for method in route.methods  # type: ignore[attr-defined]
    ]
    return table(("call", "path", "scope"), sorted(rows, key=lambda row: (order.index(row[2]), row[1], row[0])))


def _page_scope(dependencies: set[Callable[..., Any]]) -> str:
    from league.web import cookies

    own = {each for each in dependencies if each.__module__ == cookies.__name__}
    if cookies.actor in own:
        return "admin"
    return "read" if own else "none"


def _dependencies(dependant: Any) -> Iterator[Callable[..., Any]]:
    """Yield the functions that a route depends on, at any depth."""
    for each in dependant.dependencies:
        yield each.call
        yield from _dependencies(each)


def _target(rule: str) -> str:
    return f"health-{rule.replace('_', '-')}"
