"""Lookup of environments: their names, the nearest ones in errors, and which were played last.

An environment is played once a learner of it has registered. Before that an admin may create it: see `admission`.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league.db.models import Learner, Match
from league.errors import InvalidRequestError, UnknownEnvironmentError

NAMED_MAX = 5
"""Environments that an error names: there may be thousands."""

_COMPARED = 50  # of thousands, those that share the most bigrams with the misspelt name: comparing all takes 0.7 s
_COMPARED_CHARS = 64  # a comparison takes time in proportion to the product of both lengths


def names(session: Session) -> list[str]:
    """Name every environment that has a learner, in alphabetical order."""
    return list(session.scalars(select(Learner.environment).distinct().order_by(Learner.environment)))


def last_played(session: Session, limit: int) -> list[str]:
    """Name the environments of the newest matches, at most `limit`, newest first; those without matches come last."""
    known = select(Learner.environment, func.max(Learner.id).label("learner")).group_by(Learner.environment).subquery()
    played = Match.environment == known.c.environment  # a look into the index for each, not a scan of the log
    newest = select(func.max(Match.id)).where(played).correlate(known).scalar_subquery()
    order = func.coalesce(newest, 0).desc(), known.c.learner.desc()
    return list(session.scalars(select(known.c.environment).order_by(*order).limit(limit)))


def count(session: Session) -> int:
    """Count the environments that have a learner."""
    return session.scalar(select(func.count(Learner.environment.distinct()))) or 0


def exists(session: Session, environment: str) -> bool:
    """Return whether an environment has a learner."""
    return session.scalar(select(Learner.id).where(Learner.environment == environment).limit(1)) is not None


def require(session: Session, environment: str) -> None:
    """Refuse an environment that has no learner.

    Raises:
        UnknownEnvironmentError: It has none; the nearest names are in the error.
    """
    if not exists(session, environment):
        raise unknown(session, environment)


def sides(session: Session, environment: str) -> tuple[str, str] | None:
    """Name the two sides of an environment where they are unlike, as the last learner declared that did."""
    declared = select(Learner.sides).where(Learner.environment == environment, Learner.sides.is_not(None))
    names = session.scalar(declared.order_by(Learner.id.desc()).limit(1))
    return None if names is None else (names[0], names[1])


def require_known(session: Session, environment: str | None) -> None:
    """Refuse the name of an environment that the league does not play; None stands for all, and is fine.

    A league without any learner has nothing that a name could be compared with: there every name passes.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    if environment is None or exists(session, environment):
        return
    if count(session):
        raise unknown(session, environment)


def unknown(session: Session, environment: str) -> UnknownEnvironmentError:
    """Return the error about a name that no environment has."""
    known = names(session)
    if not known:
        way_out = f"start a learner with `trainer run --environment {environment}`"
        return UnknownEnvironmentError(environment, "the league plays none yet", way_out)
    way_out = "name one of those" if len(known) <= NAMED_MAX else "name one of the league's; `league environment list`"
    return UnknownEnvironmentError(environment, f"the league plays {described(known, environment)}", way_out)


def only(session: Session) -> str:
    """Return the environment of a league that plays one.

    Raises:
        InvalidRequestError: The league plays several, or none.
    """
    known = names(session)
    if not known:
        way_out = "start a learner with `trainer run`"
        raise InvalidRequestError("without an environment", "the league plays none yet", way_out)
    if len(known) > 1:
        rule = f"the league plays {described(known)}"
        raise InvalidRequestError("without an environment", rule, "name the environment that is meant")
    return known[0]


def described(known: Sequence[str], asked: str | None = None) -> str:
    """List names of environments in one line: all of a few, else the nearest to the one that was asked for."""
    if len(known) <= NAMED_MAX:
        return ", ".join(known)
    close = [] if asked is None else nearest(known, asked)
    if close:
        return f"{len(known):,} environments; the nearest names are {', '.join(close)}"
    return f"{len(known):,} environments, {', '.join(known[:NAMED_MAX])} among them"


def nearest(known: Sequence[str], asked: str) -> list[str]:
    """Return the names that are likely to be meant by a misspelt one, the nearest first, at most `NAMED_MAX`."""
    wanted = _bigrams(asked[:_COMPARED_CHARS])
    likely = nlargest(_COMPARED, known, key=lambda name: len(wanted & _bigrams(name[:_COMPARED_CHARS])))
    by_start = {name[:_COMPARED_CHARS]: name for name in reversed(likely)}
    return [by_start[each] for each in get_close_matches(asked[:_COMPARED_CHARS], by_start, n=NAMED_MAX)]


def _bigrams(text: str) -> set[str]:
    return {first + second for first, second in pairwise(text)}
