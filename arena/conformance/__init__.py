"""Environment checker: tests an environment against the contract and reports each violation with a remedy."""

from arena.conformance.report import Finding, Report, Verdict
from arena.conformance.run import verify

__all__ = ["Finding", "Report", "Verdict", "verify"]
