"""Holds an environment to what environments promise, and says what it breaks, where, and what to do."""

from arena.conformance.report import Finding, Report, Verdict
from arena.conformance.run import verify

__all__ = ["Finding", "Report", "Verdict", "verify"]
