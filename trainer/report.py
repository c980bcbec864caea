"""The report of `trainer doctor` as a file: a page with findings, advice and charts, or a picture of the charts."""

from html import escape
from pathlib import Path

from trainer.charts import Curve, Span, sheet
from trainer.doctor import CHARTS, COLUMNS, Diagnosis, advice_of, bounds, findings, means
from trainer.errors import ConfigError
from trainer.health import Severity, Verdict

POINTS = 320
"""Most points of a curve: about one for every pixel."""

COLOURS = {Severity.HINT: "#2aa1b3", Severity.WARNING: "#e5a50a", Severity.ALARM: "#c01c28"}

STYLE = (
    "body{font:14px system-ui,sans-serif;color:#333;background:#fff;margin:24px;max-width:820px}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:2px 14px 2px 0;vertical-align:top}"
)

CAPTION = "Charts, tinted where a finding lasted"

SUFFIXES = (".html", ".svg")


def write(diagnosis: Diagnosis, path: Path) -> None:
    """Write the report as a page or a picture.

    Raises:
        ConfigError: The file's name says neither, or it cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"--out is {str(path)!r}: its name must end in .html or .svg")
    text = page(diagnosis) if path.suffix == ".html" else picture(diagnosis, diagnosis.title)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out is {str(path)!r}: {error.strerror}; name a file that can be written") from error


def page(diagnosis: Diagnosis) -> str:
    """Findings, advice and charts as HTML that needs no other file."""
    title = escape(diagnosis.title)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = f"<h1>{title}</h1>{_findings(diagnosis)}{picture(diagnosis, CAPTION)}"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def picture(diagnosis: Diagnosis, title: str) -> str:
    """The charts as SVG, tinted where a finding lasted."""
    updates = diagnosis.records.updates
    steps = [updates[end - 1].step for _, end in bounds(len(updates), POINTS)]
    curves = (Curve(label, steps, means(updates, metric, POINTS)) for label, metric in CHARTS.items())
    known = [curve for curve in curves if any(value is not None for value in curve.values)]
    return sheet(title, known, [_span(diagnosis, verdict) for verdict in diagnosis.verdicts], "steps")


def _span(diagnosis: Diagnosis, verdict: Verdict) -> Span:
    ended = diagnosis.last.step if verdict.ended is None else diagnosis.step_of(verdict.ended)
    return Span(verdict.name, diagnosis.step_of(verdict.since), ended, COLOURS[verdict.symptom.severity])


def _findings(diagnosis: Diagnosis) -> str:
    if not diagnosis.verdicts:
        return "<p>nothing wrong was found</p>"
    cells = "</th><th>".join(COLUMNS)
    rows = "".join(f"<tr><td>{'</td><td>'.join(map(escape, row))}</td></tr>" for row in findings(diagnosis))
    advice = "".join(f"<li>{escape(line)}</li>" for line in advice_of(diagnosis))
    return f"<table><tr><th>{cells}</th></tr>{rows}</table><ul>{advice}</ul>"
