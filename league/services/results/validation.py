"""Validation of results against their lease.

A lease fixes the players, their sides, the environment and the seeds, and a result names its lease. Two checks remain:
the lease belongs to the reporting worker, and the match can be one of its matches.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from league import wire
from league.services.matchmaking.lease_cache import LeaseRecord

INTEGER_LIMIT = 2**63  # largest integer of both databases
REASON_MAX_LENGTH = 64

_SHOWN = 64  # characters of the caller's text in a message


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reporting worker: its id and the environment signatures that it registered."""

    worker_id: str
    signatures: Collection[str]


@dataclass(frozen=True, slots=True)
class Submission:
    """Worker and time of a batch, and the grace period after a lease expires, in seconds."""

    reporter: Reporter
    now: datetime
    grace_s: float


def not_owned(result: wire.Result, lease: LeaseRecord | None) -> str:
    """Return the reason to reject a result whose lease is unknown or belongs to another worker."""
    if lease is None:
        return f"unknown lease {result.lease_id[:_SHOWN]!r}: this league granted no such lease; request a new one"
    return f"foreign lease {lease.lease_id}: it belongs to another worker; report only your own leases"


def refusal(
    result: wire.Result, lease: LeaseRecord, seed: int, max_decisions: int | None, submission: Submission
) -> str | None:
    """Return the reason to reject a new result of one of the worker's own leases, or None to accept it.

    Args:
        result: The reported match.
        lease: Its lease.
        seed: Seed of the match, derived from the lease and the sequence.
        max_decisions: Largest match length of the environment; None if no learner declared it.
        submission: Worker and time of the report.
    """
    if lease.signature not in submission.reporter.signatures:
        rule = f"it is for {lease.environment} with signature {lease.signature}, which this worker did not register"
        return f"lease {lease.lease_id}: {rule}; register with the signatures that you play"
    if submission.now > lease.expires_at + timedelta(seconds=submission.grace_s):
        expired_at = f"{lease.expires_at:%Y-%m-%dT%H:%M:%SZ}"
        rule = f"it expired at {expired_at}, more than {submission.grace_s:g} s before the report"
        return f"expired lease {lease.lease_id}: {rule}; drop the result and request a new lease"
    if not 0 <= result.sequence < lease.budget:
        return f"sequence {result.sequence}: it has matches 0 to {lease.budget - 1}; request a new lease for more"
    return _bad_outcome(result) or _bad_length(result, lease, max_decisions) or _bad_origin(result, lease, seed)


def _bad_outcome(result: wire.Result) -> str | None:
    # Written so that NaN fails as well.
    if not 0 <= result.score <= 1:
        return f"score {result.score}: home's score must be in [0, 1]; report a win as 1, a draw as 0.5, a loss as 0"
    if len(result.reason) > REASON_MAX_LENGTH or "\0" in result.reason:
        rule = f"it has at most {REASON_MAX_LENGTH} characters, none of them NUL"
        return f"reason {result.reason[:_SHOWN]!r}: {rule}; report a short name of the outcome"
    return None


def _bad_length(result: wire.Result, lease: LeaseRecord, max_decisions: int | None) -> str | None:
    limit = INTEGER_LIMIT - 1 if max_decisions is None else max_decisions
    if 1 <= result.decisions <= limit:
        return None
    declared = (
        "a match has at least one" if max_decisions is None else f"a match of {lease.environment} has 1 to {limit}"
    )
    return f"decisions {result.decisions}: {declared}; report how many the match took"


def _bad_origin(result: wire.Result, lease: LeaseRecord, seed: int) -> str | None:
    # The results protocol allows the seed of the match and that of its lease.
    if result.seed not in (seed, lease.seed):
        rule = f"match {result.sequence} of the lease has seed {seed}"
        return f"seed {result.seed}: {rule}; report the match that was played under this lease"
    step = result.learner_step
    if step is not None and not 0 <= step < INTEGER_LIMIT:
        return f"learner_step {step}: it must be in [0, 2^63); report the learner's step"
    return None
