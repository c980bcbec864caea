"""Bearer tokens: create, renew, revoke and authenticate. Only hashes are stored, and changes are audited."""

from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import Literal

from sqlalchemy import Connection, bindparam, or_, select, update
from sqlalchemy.orm import Session

from league.auth import OPEN, Principal, Scope, digest, new_secret
from league.db.models import Token
from league.db.upsert import insert_into
from league.errors import InvalidRequestError, NameTakenError, OpenServerError, UnauthenticatedError, UnknownTokenError
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.unplayable_reports import false_reports
from league.settings import Settings

NAME_MAX_CHARS = 128

_ANY = select(Token.id).limit(1)
_LIVE = select(Token.name, Token.scope, Token.expires_at).where(
    Token.digest == bindparam("digest"), Token.revoked_at.is_(None)
)
_CREATE = "create one with `league token create NAME --scope SCOPE`"


@dataclass(frozen=True)
class TokenListing:
    """A token without its secret. `used_at` is exact to some minutes.

    While it has `false_reports`, its reports of unplayable players do not count.
    """

    name: str
    scope: str
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None
    false_reports: int


def create(
    session: Session,
    name: str,
    scope: str,
    cause: Cause,
    *,
    expires_at: datetime | None = None,
    secret: str | None = None,
) -> str:
    """Create a token with a given or a new secret and return the secret, which cannot be read again.

    Raises:
        InvalidRequestError: The scope is unknown, the name is not one short line, or the expiry is in the past.
        NameTakenError: A token, possibly an expired or revoked one, has this name.
    """
    words = [known.word for known in Scope]
    if scope not in words:
        raise InvalidRequestError(f"scope {scope!r}", f"a token has one of {', '.join(words)}", "choose one of them")
    if not (name.isprintable() and name.strip() and len(name) <= NAME_MAX_CHARS):
        rule = f"a name is one line of text of at most {NAME_MAX_CHARS} characters"
        raise InvalidRequestError(f"token name {name!r:.80}", rule, "choose another name")
    _require_future(expires_at, cause.now)
    secret = secret or new_secret()
    row = {"name": name, "digest": digest(secret), "scope": scope, "created_at": cause.now, "expires_at": expires_at}
    # One statement instead of a read and an insert: two concurrent calls cannot both create the name.
    statement = insert_into(session, Token).values(row).on_conflict_do_nothing().returning(Token.id)
    if session.scalar(statement) is None:
        remedy = f"choose another name, or renew that token with `league token renew {quote(name)}`"
        raise NameTakenError(name, "a token, possibly an expired or revoked one, has this name", remedy)
    _record(session, cause, "created", name, scope, expires_at)
    return secret


def renew(session: Session, name: str, cause: Cause, *, expires_at: datetime | None = None) -> str:
    """Give a token, even a revoked one, a new secret and expiry; it keeps its workers and learners.

    Raises:
        InvalidRequestError: The expiry is in the past.
        UnknownTokenError: There is no token of this name.
    """
    token = require(session, name)
    _require_future(expires_at, cause.now)
    secret = new_secret()
    token.digest, token.expires_at, token.revoked_at = digest(secret), expires_at, None
    _record(session, cause, "renewed", name, token.scope, expires_at)
    return secret


def revoke(session: Session, name: str, cause: Cause) -> None:
    """Revoke a token; idempotent.

    Raises:
        UnknownTokenError: There is no token of this name.
    """
    token = require(session, name)
    if token.revoked_at is None:
        token.revoked_at = cause.now
        _record(session, cause, "revoked", name, token.scope, token.expires_at)


def listing(session: Session) -> list[TokenListing]:
    """List all tokens, oldest first."""
    false = false_reports.of_tokens(session)
    return [
        TokenListing(
            token.name,
            token.scope,
            token.created_at,
            token.expires_at,
            token.used_at,
            token.revoked_at,
            false.get(token.name, 0),
        )
        for token in session.scalars(select(Token).order_by(Token.id))
    ]


def name_of(session: Session, secret: str) -> str | None:
    """Return the name of the token with this secret, even if expired or revoked, or None."""
    return session.scalar(select(Token.name).where(Token.digest == digest(secret)))


def any_exists(session: Session | Connection) -> bool:
    """Return True if any token exists; revoked ones count, so that revoking the last one does not open the server."""
    return session.execute(_ANY).first() is not None


def authenticate(session: Session | Connection, settings: Settings, secret: str | None, now: datetime) -> Principal:
    """Return the authenticated caller; a connection without the ORM halves the time, which every request pays.

    Raises:
        UnauthenticatedError: The token is missing, unknown, revoked or expired.
    """
    if secret is None:
        # Asked at every request, so that the first token closes a server that is already running.
        if settings.on_loopback and not any_exists(session):
            return OPEN
        raise UnauthenticatedError(
            "without a token", "this server requires authentication", f"send a bearer token; {_CREATE}"
        )
    token = session.execute(_LIVE, {"digest": digest(secret)}).one_or_none()
    if token is None:
        raise UnauthenticatedError("with an unusable token", "it is unknown or revoked", _CREATE)
    if token.expires_at is not None and token.expires_at <= now:
        rule = f"token {token.name!r} expired at {token.expires_at:%Y-%m-%d %H:%M} UTC"
        remedy = f"renew it with `league token renew {quote(token.name)}`"
        raise UnauthenticatedError("with an unusable token", rule, remedy)
    return Principal(token.name, Scope[token.scope.upper()], token.expires_at)


def note_use(session: Session, name: str, now: datetime) -> None:
    """Record the use of a token, unless a later use is recorded."""
    known = or_(Token.used_at.is_(None), Token.used_at < now)
    session.execute(update(Token).where(Token.name == name, known).values(used_at=now))


def require_closed_or_loopback(session: Session, settings: Settings) -> None:
    """Reject a non-loopback address without a token.

    Raises:
        OpenServerError: The address is not loopback and no token exists.
    """
    if not settings.on_loopback and not any_exists(session):
        raise open_server(settings.host)


def open_server(host: str) -> OpenServerError:
    """Return the error for a non-loopback address without a token."""
    rule = "without any token the server listens on loopback only"
    return OpenServerError(host, rule, f"{_CREATE}, or listen on 127.0.0.1")


def require(session: Session, name: str) -> Token:
    """Return a token for update, even if expired or revoked.

    Raises:
        UnknownTokenError: There is no token of this name.
    """
    # Locked, so that a concurrent renewal and revocation take effect one after the other, and never half of each.
    token = session.scalar(select(Token).where(Token.name == name).with_for_update())
    if token is None:
        raise UnknownTokenError(name, "no token has this name", "`league token list` lists them all")
    return token


def _require_future(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        rule = "a token must expire in the future"
        raise InvalidRequestError(f"expiry {expires_at:%Y-%m-%d %H:%M} UTC", rule, "choose a later time")


def _record(
    session: Session,
    cause: Cause,
    change: Literal["created", "renewed", "revoked"],
    name: str,
    scope: str,
    expires_at: datetime | None,
) -> None:
    end = None if expires_at is None else expires_at.isoformat()
    details = {"change": change, "token": name, "scope": scope, "expires_at": end}
    audit_log.record(session, "token", cause, details=details)
