"""Ids of players, learners and workers from their names."""

from collections.abc import Sequence

from league import wire
from league.client.operation import BodyT, Query, Steps, get
from league.errors import AmbiguousNameError, UnknownLearnerError, UnknownPlayerError

PlayerKey = int | str
"""Id of a player, or text: its name, such as `main@507904`, its call sign, or the digits of its id."""

LearnerKey = int | str
"""Id of a learner, or text: its name, or the digits of its id."""

_LISTED = 10
"""Most namesakes that an error lists."""


def player_id(player: PlayerKey, environment: str | None = None) -> Steps[int]:
    """Return the id of a player in one environment, or in all.

    Raises:
        UnknownPlayerError: No player has this name or call sign.
        AmbiguousNameError: Several players have it.
    """
    if _is_id(player):
        return int(player)
    found = yield from _players_of(str(player), environment)
    if not found:
        raise UnknownPlayerError(player, "no player has this name or call sign", "`league players` lists them all")
    return _only(str(player), found).id


def get_of_player(player: PlayerKey, what: str, kind: type[BodyT], query: Query) -> Steps[BodyT]:
    """Read a resource of a player."""
    found = yield from player_id(player)
    return (yield from get(f"/players/{found}/{what}", kind, query))


def learner_id(learner: LearnerKey, environment: str | None = None) -> Steps[int]:
    """Return the id of a learner in one environment, or in all.

    Raises:
        UnknownLearnerError: No learner has this name.
        AmbiguousNameError: Learners of several environments have this name.
    """
    if _is_id(learner):
        return int(learner)
    found = yield from _players_of(str(learner), environment, kind="learner")
    if not found:
        raise UnknownLearnerError(learner, "no learner has this name", "`league learner list` lists them all")
    return _only(str(learner), found).learner_id or 0


def worker_id(worker: str) -> Steps[str]:
    """Return the id of a worker from its name or id.

    Raises:
        AmbiguousNameError: Several workers have this name.
    """
    page = yield from get("/workers", wire.Page[wire.ListedWorker], {"name": worker})
    if len(page.items) > 1:
        ids = ", ".join(f"{each.id} ({each.kind})" for each in page.items)
        raise AmbiguousNameError(worker, f"workers {ids} have this name", "use the id of one of them")
    return page.items[0].id if page.items else worker


def _is_id(key: int | str) -> bool:
    return isinstance(key, int) or key.isdecimal()


def _players_of(name: str, environment: str | None, kind: wire.Kind | None = None) -> Steps[list[wire.Player]]:
    query = {"q": name, "exact": "true", "environment": environment, "kind": kind, "limit": _LISTED}
    page = yield from get("/players", wire.Page[wire.Player], query)
    return page.items if name else []  # an empty text finds all players


def _only(name: str, found: Sequence[wire.Player]) -> wire.Player:
    if len(found) > 1:
        ids = ", ".join(f"{player.id} ({player.environment})" for player in found)
        raise AmbiguousNameError(name, f"players {ids} have this name", "name the environment, or use the id of one")
    return found[0]
