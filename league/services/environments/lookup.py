"""Lookup of environments: all names, suggestions for errors, and the most recently played.

An environment is known once a learner of it has registered. Before that an admin may create it, see `admission`.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league.db.models import Environment, Match
from league.errors import InvalidRequestError, UnknownEnvironmentError

NAMED_MAX = 5
"""Maximum number of environments in an error."""

_PLAYED = Environment.signature.is_not(None)
_COMPARED = 50  # candidates with the most common bigrams, because comparing thousands takes 0.7 s
_COMPARED_CHARS = 64  # bounds the comparison, which is quadratic


def names(session: Session) -> list[str]:
    """Return the environments with learners in alphabetical order."""
    return list(session.scalars(select(Environment.name).where(_PLAYED).order_by(Environment.name)))


def last_played(session: Session, limit: int) -> list[str]:
    """Return at most `limit` environments by their newest match, newest first; those without matches come last."""
    played = Match.environment == Environment.name  # one index lookup per environment instead of a scan
    newest = select(func.max(Match.id)).where(played).correlate(Environment).scalar_subquery()
    order = func.coalesce(newest, 0).desc(), Environment.created_at.desc(), Environment.name.desc()
    return list(session.scalars(select(Environment.name).where(_PLAYED).order_by(*order).limit(limit)))


def count(session: Session) -> int:
    """Return the number of environments with learners."""
    return session.scalar(select(func.count()).where(_PLAYED)) or 0


def exists(session: Session, environment: str) -> bool:
    """Return True if an environment has a learner."""
    return session.scalar(select(Environment.name).where(Environment.name == environment, _PLAYED)) is not None


def is_created(session: Session, environment: str) -> bool:
    """Return whether an environment has a learner, or an admin created it."""
    return session.get(Environment, environment) is not None


def require(session: Session, environment: str) -> None:
    """Reject an environment without learners.

    Raises:
        UnknownEnvironmentError: The environment has no learner; the error suggests similar names.
    """
    if not exists(session, environment):
        raise unknown(session, environment)


def sides(session: Session, environment: str) -> tuple[str, str] | None:
    """Return the names of the two sides if the environment is asymmetric, else None."""
    names = session.scalar(select(Environment.sides).where(Environment.name == environment))
    return None if names is None else (names[0], names[1])


def require_known(session: Session, environment: str | None) -> None:
    """Reject an unknown environment; None means all.

    In a league without learners every name is accepted.

    Raises:
        UnknownEnvironmentError: The environment does not exist.
    """
    if environment is None or exists(session, environment):
        return
    if count(session):
        raise unknown(session, environment)


def unknown(session: Session, environment: str) -> UnknownEnvironmentError:
    """Return the error for an unknown environment."""
    known = names(session)
    if not known:
        remedy = f"start a learner with `trainer run --environment {environment}`"
        return UnknownEnvironmentError(environment, "the league has no environment yet", remedy)
    remedy = "use one of them" if len(known) <= NAMED_MAX else "`league environment list` lists them all"
    return UnknownEnvironmentError(environment, f"the league has {described(known, environment)}", remedy)


def only(session: Session) -> str:
    """Return the only environment of a league.

    Raises:
        InvalidRequestError: The league has several environments, or none.
    """
    known = names(session)
    if not known:
        remedy = "start a learner with `trainer run`"
        raise InvalidRequestError("without an environment", "the league has no environment yet", remedy)
    if len(known) > 1:
        rule = f"the league has {described(known)}"
        raise InvalidRequestError("without an environment", rule, "name an environment")
    return known[0]


def described(known: Sequence[str], name: str | None = None) -> str:
    """Return names of environments as one line: all if there are few, else the ones most similar to a name."""
    if len(known) <= NAMED_MAX:
        return ", ".join(known)
    close = [] if name is None else nearest(known, name)
    if close:
        return f"{len(known):,} environments; the nearest names are {', '.join(close)}"
    return f"{len(known):,} environments, {', '.join(known[:NAMED_MAX])} among them"


def nearest(known: Sequence[str], name: str) -> list[str]:
    """Return at most `NAMED_MAX` names similar to a misspelt one, most similar first."""
    wanted = _bigrams(name[:_COMPARED_CHARS])
    # Shared bigrams are a cheap filter before the quadratic comparison.
    likely = nlargest(_COMPARED, known, key=lambda each: len(wanted & _bigrams(each[:_COMPARED_CHARS])))
    by_start = {each[:_COMPARED_CHARS]: each for each in reversed(likely)}
    return [by_start[each] for each in get_close_matches(name[:_COMPARED_CHARS], by_start, n=NAMED_MAX)]


def _bigrams(text: str) -> set[str]:
    return {first + second for first, second in pairwise(text)}
