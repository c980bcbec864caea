"""Holds an environment to what environments promise, and says what it breaks, where, and what to do."""

from arena.verification.inspection import verify
from arena.verification.report import Report, Row, Verdict

__all__ = ["Report", "Row", "Verdict", "verify"]
