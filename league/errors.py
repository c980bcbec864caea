"""Errors of the league; the server raises them, and the client raises them again.

On the wire an error is `application/problem+json` (RFC 9457): `type` is the stable slug of the class, and `detail` is
one line made of `value`, `rule` and `remedy`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

_VALUE_MAX_LENGTH = 120
_PART_MAX_CHARS = 2000
"""Maximum length of each part, because a value from a request may have megabytes."""


class LeagueError(Exception):
    """Base class of the league's errors.

    Attributes:
        type: Stable slug for programs.
        title: Readable name of the error.
        status: HTTP status.
        value: The offending value as text.
        rule: The violated rule.
        remedy: The remedy.
        retry_after_s: Whole seconds after which a retry may succeed; None if waiting does not help.
    """

    type: ClassVar[str] = "league-error"
    title: ClassVar[str] = "league error"
    status: ClassVar[int] = 500
    retry_after_s: int | None = None

    def __init__(self, value: object, rule: str, remedy: str) -> None:
        self.value, self.rule, self.remedy = (_cut(part) for part in (str(value), rule, remedy))
        shown = self.value or "''"
        super().__init__(f"{self.title} {shown}: {rule}; {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Allow copies, such as those that Ray makes of an error."""
        return type(self), (self.value, self.rule, self.remedy), self.__dict__

    def problem(self) -> dict[str, Any]:
        """Return the problem document."""
        return {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": str(self),
            "value": self.value,
            "rule": self.rule,
            "remedy": self.remedy,
        }


class UnknownPlayerError(LeagueError):
    """No player has this id."""

    type, title, status = "unknown-player", "unknown player", 404


class UnknownLearnerError(LeagueError):
    """No learner has this id."""

    type, title, status = "unknown-learner", "unknown learner", 404


class UnknownRunError(LeagueError):
    """No run has this id."""

    type, title, status = "unknown-run", "unknown run", 404


class UnknownWorkerError(LeagueError):
    """No worker has this id; the worker must register again."""

    type, title, status = "unknown-worker", "unknown worker", 404


class UnknownLeaseError(LeagueError):
    """No lease has this id."""

    type, title, status = "unknown-lease", "unknown lease", 404


class UnknownMatchError(LeagueError):
    """No match has this id."""

    type, title, status = "unknown-match", "unknown match", 404


class UnknownReplayError(LeagueError):
    """The match has no recording."""

    type, title, status = "unknown-replay", "no replay stored for match", 404


class UnknownPeriodError(LeagueError):
    """No rating period has this id."""

    type, title, status = "unknown-period", "unknown rating period", 404


class UnknownCheckpointError(LeagueError):
    """The store has no bytes with this hash."""

    type, title, status = "unknown-checkpoint", "unknown checkpoint", 404


class UnknownEnvironmentError(LeagueError):
    """No learner of this environment has ever registered."""

    type, title, status = "unknown-environment", "unknown environment", 404


class UnknownChampionError(LeagueError):
    """The environment has no champion."""

    type, title, status = "unknown-champion", "no champion of", 404


class UnknownGateError(LeagueError):
    """No gate has this id."""

    type, title, status = "unknown-gate", "unknown gate", 404


class UnknownTokenError(LeagueError):
    """No token has this name."""

    type, title, status = "unknown-token", "unknown token", 404


class UnknownRouteError(LeagueError):
    """The server has no such path, or the path does not support the method."""

    type, title, status = "unknown-route", "unknown route", 404


class AmbiguousNameError(LeagueError):
    """Several players, learners or workers have this name."""

    type, title, status = "ambiguous-name", "ambiguous name", 409


class LearnerMismatchError(LeagueError):
    """A learner of this name exists with another role or signature."""

    type, title, status = "learner-mismatch", "learner mismatch", 409


class NameTakenError(LeagueError):
    """Something else already has this name."""

    type, title, status = "name-taken", "name taken", 409


class ResultConflictError(LeagueError):
    """Every result of a batch contradicts an earlier report."""

    type, title, status = "result-conflict", "conflicting result", 409


class ReplayConflictError(LeagueError):
    """The match has another recording, which stays."""

    type, title, status = "replay-conflict", "replay conflict", 409


class StandingConflictError(LeagueError):
    """The player's standing does not allow the change."""

    type, title, status = "standing-conflict", "standing conflict for player", 409


class ChampionConflictError(LeagueError):
    """The champion of an environment is not the expected one."""

    type, title, status = "champion-conflict", "champion conflict in", 409


class EnvironmentConflictError(LeagueError):
    """An environment has matches, or changes while it is deleted."""

    type, title, status = "environment-conflict", "conflicting change of environment", 409


class GateConflictError(LeagueError):
    """The gate's state does not allow the change."""

    type, title, status = "gate-conflict", "conflicting change of gate", 409


class WorkerQuarantinedError(LeagueError):
    """A quarantined worker gets no leases."""

    type, title, status = "worker-quarantined", "quarantined worker", 403


class WorkerConflictError(LeagueError):
    """A worker is already quarantined, or is not quarantined."""

    type, title, status = "worker-conflict", "conflicting change of worker", 409


class SignatureMismatchError(LeagueError):
    """A policy was made for another environment than its learner's."""

    type, title, status = "signature-mismatch", "signature mismatch", 409


class HashMismatchError(LeagueError):
    """Bytes do not match their hash."""

    type, title, status = "hash-mismatch", "hash mismatch", 422


class RefusedCheckpointError(LeagueError):
    """Bytes are no well-formed safetensors file or ONNX model."""

    type, title, status = "refused-checkpoint", "refused checkpoint", 422


class RefusedReplayError(LeagueError):
    """Bytes are not a recording, or belong to another match."""

    type, title, status = "refused-replay", "refused replay", 422


def reason(found: Mapping[str, Any]) -> str:
    """Return the reason of a validation error, given one of its `errors()`."""
    if found.get("type") == "union_tag_not_found":
        return f"it has no field {found['ctx']['discriminator']}, which selects its kind"
    text = str(found["ctx"]["error"] if found.get("type") == "value_error" else found["msg"])
    return text[:1].lower() + text[1:]


class InvalidRequestError(LeagueError):
    """A field is missing, unknown, of the wrong type or out of range."""

    type, title, status = "invalid-request", "invalid request", 422

    @classmethod
    def of_field(cls, found: Mapping[str, Any], remedy: str) -> Self:
        """Return the error of an invalid field, given one of a validation error's `errors()`."""
        path = ".".join(str(part) for part in found["loc"])
        value = "" if found.get("type") == "missing" else f"={_brief(found.get('input'))}"
        return cls(f"{path}{value}", reason(found), remedy)


class UnsupportedProtocolError(LeagueError):
    """The server does not support the protocol version of the request."""

    type, title, status = "unsupported-protocol", "unsupported protocol", 400


class TooLargeError(LeagueError):
    """A request body is too large."""

    type, title, status = "too-large", "too large a body", 413


class QuotaExceededError(LeagueError):
    """A token has reached its storage quota."""

    type, title, status = "quota-exceeded", "quota exceeded by", 413


class TokenLimitError(LeagueError):
    """A token has reached its limit of learners, environments or players."""

    type, title, status = "token-limit", "limit reached by", 403


class UnfinishedUploadsError(LeagueError):
    """A token has reached its limit of unfinished uploads."""

    type, title, status = "unfinished-uploads", "too many unfinished uploads for", 429


class UnsatisfiableRangeError(LeagueError):
    """A byte range is invalid or beyond the end of the content."""

    type, title, status = "unsatisfiable-range", "unsatisfiable range", 416


class UnauthenticatedError(LeagueError):
    """The request has no token, or an invalid one."""

    type, title, status = "unauthenticated", "unauthenticated call", 401


class ForbiddenError(LeagueError):
    """The token's scope does not allow the request."""

    type, title, status = "forbidden", "forbidden call", 403


class RateLimitedError(LeagueError):
    """The client exceeds its rate limit."""

    type, title, status = "rate-limited", "too many calls", 429


class OpenServerError(LeagueError):
    """A server without tokens may listen on loopback only."""

    type, title, status = "open-server", "open server on", 403


class ConfigurationError(LeagueError):
    """A setting is invalid."""

    type, title, status = "configuration", "configuration", 500


class OldDatabaseError(LeagueError):
    """The database's schema is older than this version, or empty."""

    type, title, status = "old-database", "old database", 503


class NewerDatabaseError(LeagueError):
    """The database's schema belongs to a newer version."""

    type, title, status = "newer-database", "database of a newer version", 503


class RefusedArchiveError(LeagueError):
    """A file is not a complete archive of a league."""

    type, title, status = "refused-archive", "refused archive", 422


class NewerArchiveError(LeagueError):
    """An archive was written by a newer version."""

    type, title, status = "newer-archive", "archive of a newer version", 422


class OccupiedLeagueError(LeagueError):
    """The target of an import or a fork already contains a league."""

    type, title, status = "occupied-league", "occupied league", 409


class RebuildMismatchError(LeagueError):
    """Ratings recomputed from the match log differ from the stored ones."""

    type, title, status = "rebuild-mismatch", "rebuild mismatch", 500


class InvariantError(LeagueError):
    """An invariant of the league's tables or store is violated."""

    type, title, status = "broken-invariant", "broken invariant", 500


class DatabaseUnavailableError(LeagueError):
    """The database does not respond, or cannot be written."""

    type, title, status = "database-unavailable", "database unavailable", 503


class StoreUnavailableError(LeagueError):
    """The checkpoint store cannot be read or written."""

    type, title, status = "store-unavailable", "checkpoint store unavailable", 503


class DamagedStoreError(LeagueError):
    """Checkpoints of players are missing or damaged."""

    type, title, status = "damaged-store", "damaged checkpoint store", 500


class BusyError(LeagueError):
    """The server is overloaded; the request had no effect."""

    type, title, status = "busy", "server busy", 503


class InternalError(LeagueError):
    """The server failed; the request had no effect."""

    type, title, status = "internal", "internal error", 500


class LeagueUnreachable(LeagueError):  # noqa: N818 - a state of the network
    """The server did not respond; raised by the client only."""

    type, title, status = "league-unreachable", "league unreachable", 503


def _cut(text: str) -> str:
    return text if len(text) <= _PART_MAX_CHARS else f"{text[:_PART_MAX_CHARS]}..."


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_MAX_LENGTH else f"{text[:_VALUE_MAX_LENGTH]}..."


KINDS: dict[str, type[LeagueError]] = {kind.type: kind for kind in LeagueError.__subclasses__()}
"""Error classes by slug."""


def from_problem(problem: dict[str, Any]) -> LeagueError:
    """Return the error of a problem document; an unknown slug becomes a plain `LeagueError`."""
    kind = KINDS.get(str(problem.get("type")), LeagueError)
    value, rule, remedy = (str(problem.get(key, "")) for key in ("value", "rule", "remedy"))
    return kind(value or problem.get("detail", ""), rule, remedy)
