"""What a caller of the league can cause, one class per kind; the server raises them and the client raises them again.

On the wire an error is `application/problem+json` (RFC 9457): `type` is the stable slug of the class, `detail` one line
that names the value, the rule and the way out, and `value`, `rule` and `way_out` are its parts.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

_VALUE_MAX_LENGTH = 120
_PART_MAX_CHARS = 2000
"""Longest value, rule or way out of an error: an upload's metadata or a name in a query may have megabytes."""


class LeagueError(Exception):
    """Base of every error of the league.

    Attributes:
        type: Stable slug; scripts branch on it.
        title: The kind in words.
        status: HTTP status that carries it.
        value: The offending value, as text.
        rule: What it breaks.
        way_out: What to do about it.
        retry_after_s: Whole seconds after which the same call may succeed; None where waiting does not help.
    """

    type: ClassVar[str] = "league-error"
    title: ClassVar[str] = "league error"
    status: ClassVar[int] = 500
    retry_after_s: int | None = None

    def __init__(self, value: object, rule: str, way_out: str) -> None:
        self.value, self.rule, self.way_out = (_cut(part) for part in (str(value), rule, way_out))
        shown = self.value or "''"
        super().__init__(f"{self.title} {shown}: {rule}; {way_out}")

    def problem(self) -> dict[str, Any]:
        """Return the members of the problem document."""
        return {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": str(self),
            "value": self.value,
            "rule": self.rule,
            "way_out": self.way_out,
        }


class UnknownPlayerError(LeagueError):
    """No player has this id."""

    type, title, status = "unknown-player", "unknown player", 404


class UnknownLearnerError(LeagueError):
    """No learner has this id."""

    type, title, status = "unknown-learner", "unknown learner", 404


class UnknownWorkerError(LeagueError):
    """No worker has this id; a worker that meets it registers again."""

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
    """Nobody is champion of the environment."""

    type, title, status = "unknown-champion", "no champion of", 404


class UnknownGateError(LeagueError):
    """No gate has this id."""

    type, title, status = "unknown-gate", "unknown gate", 404


class UnknownTokenError(LeagueError):
    """No token has this name."""

    type, title, status = "unknown-token", "unknown token", 404


class UnknownRouteError(LeagueError):
    """The server has no such path, or not with this method."""

    type, title, status = "unknown-route", "unknown route", 404


class LearnerMismatchError(LeagueError):
    """A learner of this name exists with another role or signature."""

    type, title, status = "learner-mismatch", "learner mismatch", 409


class NameTakenError(LeagueError):
    """Something else already has this name."""

    type, title, status = "name-taken", "name taken", 409


class ResultConflictError(LeagueError):
    """Every result of a batch was reported otherwise before."""

    type, title, status = "result-conflict", "conflicting result", 409


class ReplayConflictError(LeagueError):
    """The match has another recording, which stays."""

    type, title, status = "replay-conflict", "replay conflict", 409


class StandingConflictError(LeagueError):
    """A player is not in a standing that allows the change."""

    type, title, status = "standing-conflict", "standing conflict for player", 409


class ChampionConflictError(LeagueError):
    """The champion of an environment is not who the caller expected."""

    type, title, status = "champion-conflict", "champion conflict in", 409


class EnvironmentConflictError(LeagueError):
    """An environment holds matches, or changes while it is deleted."""

    type, title, status = "environment-conflict", "conflicting change of environment", 409


class GateConflictError(LeagueError):
    """A gate is not in a state that allows the change."""

    type, title, status = "gate-conflict", "conflicting change of gate", 409


class WorkerQuarantinedError(LeagueError):
    """A quarantined worker gets no leases."""

    type, title, status = "worker-quarantined", "quarantined worker", 403


class WorkerConflictError(LeagueError):
    """A worker is quarantined already, or is not."""

    type, title, status = "worker-conflict", "conflicting change of worker", 409


class SignatureMismatchError(LeagueError):
    """A policy was made for another environment than its learner's."""

    type, title, status = "signature-mismatch", "signature mismatch", 409


class HashMismatchError(LeagueError):
    """Bytes do not have the hash that names them."""

    type, title, status = "hash-mismatch", "hash mismatch", 422


class RefusedCheckpointError(LeagueError):
    """Bytes are not a well-formed safetensors file."""

    type, title, status = "refused-checkpoint", "refused checkpoint", 422


class RefusedReplayError(LeagueError):
    """Bytes are not a recording, or show another match."""

    type, title, status = "refused-replay", "refused replay", 422


def reason(found: Mapping[str, Any]) -> str:
    """Say why a value was refused, in the words of whoever refused it, given one of a validation error's `errors()`."""
    if found.get("type") == "union_tag_not_found":
        return f"it lacks the field {found['ctx']['discriminator']}, which says of what kind it is"
    said = str(found["ctx"]["error"] if found.get("type") == "value_error" else found["msg"])
    return said[:1].lower() + said[1:]


class InvalidRequestError(LeagueError):
    """A field is missing, unknown, of the wrong type or out of range."""

    type, title, status = "invalid-request", "invalid request", 422

    @classmethod
    def of_field(cls, found: Mapping[str, Any], way_out: str) -> Self:
        """Say what pydantic found wrong with a field: the first of a validation error's `errors()`."""
        place = ".".join(str(part) for part in found["loc"])
        value = "" if found.get("type") == "missing" else f"={_brief(found.get('input'))}"
        return cls(f"{place}{value}", reason(found), way_out)


class UnsupportedProtocolError(LeagueError):
    """The call is by a protocol that the server does not speak, or not any more; what it carries may be right."""

    type, title, status = "unsupported-protocol", "unsupported protocol", 400


class TooLargeError(LeagueError):
    """A body is larger than the server takes."""

    type, title, status = "too-large", "too large a body", 413


class QuotaExceededError(LeagueError):
    """A token has as much in the store as it may."""

    type, title, status = "quota-exceeded", "quota exceeded by", 413


class TokenLimitError(LeagueError):
    """A token has as many learners, environments or players as it may."""

    type, title, status = "token-limit", "limit reached by", 403


class UnfinishedUploadsError(LeagueError):
    """A token has as much on its way into the store as it may."""

    type, title, status = "unfinished-uploads", "too many unfinished uploads for", 429


class UnsatisfiableRangeError(LeagueError):
    """A range is none, or lies beyond the end of what it is asked of."""

    type, title, status = "unsatisfiable-range", "unsatisfiable range", 416


class UnauthenticatedError(LeagueError):
    """No token came with the call, or one that the league does not know."""

    type, title, status = "unauthenticated", "unauthenticated call", 401


class ForbiddenError(LeagueError):
    """The token's scope does not cover the call."""

    type, title, status = "forbidden", "forbidden call", 403


class RateLimitedError(LeagueError):
    """The caller makes more calls than the server takes of one."""

    type, title, status = "rate-limited", "too many calls", 429


class OpenServerError(LeagueError):
    """A server without any token may listen on loopback only."""

    type, title, status = "open-server", "open server on", 403


class ConfigurationError(LeagueError):
    """A setting cannot be used."""

    type, title, status = "configuration", "configuration", 500


class OldDatabaseError(LeagueError):
    """The database's schema is older than this version, or empty."""

    type, title, status = "old-database", "old database", 503


class NewerDatabaseError(LeagueError):
    """The database's schema belongs to a newer version."""

    type, title, status = "newer-database", "database of a newer version", 503


class RefusedArchiveError(LeagueError):
    """A file is not the whole archive of a league."""

    type, title, status = "refused-archive", "refused archive", 422


class NewerArchiveError(LeagueError):
    """An archive was written by a newer version."""

    type, title, status = "newer-archive", "archive of a newer version", 422


class OccupiedLeagueError(LeagueError):
    """A league is to be imported or forked where one is already."""

    type, title, status = "occupied-league", "occupied league", 409


class RebuildMismatchError(LeagueError):
    """Ratings computed again from the match log differ from the stored ones."""

    type, title, status = "rebuild-mismatch", "rebuild mismatch", 500


class InvariantError(LeagueError):
    """Something that must hold in the league's tables or store does not."""

    type, title, status = "broken-invariant", "broken invariant", 500


class DatabaseUnavailableError(LeagueError):
    """The database does not answer, or cannot be written."""

    type, title, status = "database-unavailable", "database unavailable", 503


class StoreUnavailableError(LeagueError):
    """The checkpoint store cannot be read or written."""

    type, title, status = "store-unavailable", "checkpoint store unavailable", 503


class DamagedStoreError(LeagueError):
    """Bytes that players need are missing or changed."""

    type, title, status = "damaged-store", "damaged checkpoint store", 500


class BusyError(LeagueError):
    """The server has more to do than it can; nothing of the call was done."""

    type, title, status = "busy", "server busy", 503


class InternalError(LeagueError):
    """The server failed; nothing of the request was kept."""

    type, title, status = "internal", "internal error", 500


class LeagueUnreachable(LeagueError):  # noqa: N818 - a state of the network, which callers wait out
    """The server did not answer; raised by the client alone."""

    type, title, status = "league-unreachable", "league unreachable", 503


def _cut(text: str) -> str:
    return text if len(text) <= _PART_MAX_CHARS else f"{text[:_PART_MAX_CHARS]}..."


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_MAX_LENGTH else f"{text[:_VALUE_MAX_LENGTH]}..."


KINDS: dict[str, type[LeagueError]] = {kind.type: kind for kind in LeagueError.__subclasses__()}
"""Every class by its slug."""


def from_problem(problem: dict[str, Any]) -> LeagueError:
    """Make the error that a problem document describes; an unknown slug becomes a plain `LeagueError`."""
    kind = KINDS.get(str(problem.get("type")), LeagueError)
    value, rule, way_out = (str(problem.get(key, "")) for key in ("value", "rule", "way_out"))
    return kind(value or problem.get("detail", ""), rule, way_out)
