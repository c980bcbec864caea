"""Holds an environment to what environments promise, and says what it breaks, where, and what to do."""

from arena.conformance.report import Report, Row, Verdict
from arena.conformance.run import verify

__all__ = ["Report", "Row", "Verdict", "verify"]
