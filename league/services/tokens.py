"""Bearer tokens: made once, shown once, stored hashed, revoked for good."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from league.auth import OPEN, Principal, Scope, digest, new_secret
from league.config import Settings
from league.db.models import Token
from league.db.upsert import insert_into
from league.errors import InvalidRequestError, NameTakenError, OpenServerError, UnauthenticatedError, UnknownTokenError

_CREATE = "make one with `league token create NAME --scope SCOPE`"


@dataclass(frozen=True)
class TokenListing:
    """What is known of a token; its secret is not."""

    name: str
    scope: str
    created_at: datetime
    revoked_at: datetime | None


def create(session: Session, name: str, scope: str, now: datetime) -> str:
    """Make a token and return its secret, which nobody can read again.

    Raises:
        InvalidRequestError: There is no such scope, or the name is not one line of text.
        NameTakenError: A token has this name, perhaps a revoked one.
    """
    words = [known.word for known in Scope]
    if scope not in words:
        raise InvalidRequestError(f"scope {scope!r}", f"a token has one of {', '.join(words)}", "choose one of them")
    if not (name.isprintable() and name.strip()):
        raise InvalidRequestError(f"token name {name!r}", "a name is one line of text", "choose another name")
    secret = new_secret()
    row = {"name": name, "digest": digest(secret), "scope": scope, "created_at": now, "revoked_at": None}
    statement = insert_into(session, Token).values(row).on_conflict_do_nothing().returning(Token.id)
    if session.scalar(statement) is None:
        raise NameTakenError(name, "a token, perhaps a revoked one, has this name", "choose another name")
    return secret


def listing(session: Session) -> list[TokenListing]:
    """List all tokens, oldest first."""
    tokens = session.scalars(select(Token).order_by(Token.id))
    return [TokenListing(token.name, token.scope, token.created_at, token.revoked_at) for token in tokens]


def revoke(session: Session, name: str, now: datetime) -> None:
    """End a token; revoking twice is fine.

    Raises:
        UnknownTokenError: There is no token of this name.
    """
    token = session.scalar(select(Token).where(Token.name == name))
    if token is None:
        raise UnknownTokenError(name, "no token has this name", "see them with `league token list`")
    session.execute(update(Token).where(Token.name == name, Token.revoked_at.is_(None)).values(revoked_at=now))


def any_exists(session: Session) -> bool:
    """Say whether a token was ever made; a revoked one counts, so that revoking the last does not open the server."""
    return session.scalar(select(Token.id).limit(1)) is not None


def authenticate(session: Session, settings: Settings, secret: str | None) -> Principal:
    """Find out who is calling.

    Raises:
        UnauthenticatedError: No token came and the server is not open, or the token is unknown or revoked.
    """
    if secret is None:
        if settings.on_loopback and not any_exists(session):
            return OPEN
        raise UnauthenticatedError("without a token", "this server is closed", f"send a bearer token; {_CREATE}")
    token = session.scalar(select(Token).where(Token.digest == digest(secret), Token.revoked_at.is_(None)))
    if token is None:
        raise UnauthenticatedError("with an unusable token", "it is unknown or revoked", _CREATE)
    return Principal(token.name, Scope[token.scope.upper()])


def require_closed_or_loopback(session: Session, settings: Settings) -> None:
    """Refuse to serve the network without a token.

    Raises:
        OpenServerError: The address is not loopback and no token exists.
    """
    if not settings.on_loopback and not any_exists(session):
        rule = "without any token the server listens on loopback only"
        raise OpenServerError(settings.host, rule, f"{_CREATE}, or listen on 127.0.0.1")
