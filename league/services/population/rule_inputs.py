"""Inputs of matchmaking and snapshot rules: roles, pair records and a learner's recent matches.

All inputs cover the matches up to the last closed period, so that they belong to a version of the population.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena.matchmaking.rules import WinRateHistory
from league.db.models import Learner, Player
from league.services.matches import log as match_log
from league.services.matches import pair_records
from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import NO_RECORDS, PairRecords
from league.services.population import role_config
from league.services.population.cache import Population
from league.services.population.roles import LearnerRole
from league.settings import Settings

_SETTINGS_REMEDY = "register it with other settings, or change LEAGUE_MATCHMAKING and restart the server"

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LearnerInputs:
    """Inputs of a learner's rules beyond its population.

    Attributes:
        role: The learner with its rules.
        records: Its pair records since its last reset.
        games: Its last matches against others since its last reset; None if no rule needs them.
        among: Pair records of the environment; None if no rule needs them.
    """

    role: LearnerRole
    records: PairRecords
    games: MatchArrays | None
    among: PairRecords | None


def load_inputs(session: Session, population: Population, settings: Settings, learner: int) -> LearnerInputs:
    """Read the inputs of one learner, once per version of the population.

    Args:
        session: Session for roles, pair records and matches.
        population: Population of the learner's environment.
        settings: Settings with the matchmaking rule.
        learner: Player id of the learner.
    """
    return population.cached(("inputs", learner), lambda: _load(session, population, settings, learner))


def _load(session: Session, population: Population, settings: Settings, learner: int) -> LearnerInputs:
    roles_by_player = population.cached("roles", lambda: _roles(session, population, settings))
    role, environment = roles_by_player[learner], population.environment
    needs = role.needs(int(population.games[population.index(learner)]))
    games, among = None, None
    if role.reset_step or "pasts" in needs:
        through, most = match_log.rated_through(session, environment), settings.matchmaking.past_games
        games = match_log.last_of(session, learner, through, most, from_step=role.reset_step)
    if "between" in needs:
        among = population.cached("pair records", lambda: pair_records.read(session, environment))
    if games is not None and role.reset_step:
        # Stored pair records include the matches of the weights before the reset, so they are recounted without them.
        records = NO_RECORDS.advance(games)
    else:
        records = pair_records.of_player(session, learner)
    return LearnerInputs(role, records, games if "pasts" in needs else None, among)


def _roles(session: Session, population: Population, settings: Settings) -> Mapping[int, LearnerRole]:
    """Read the roles of all learners of a population, by player id."""
    columns = select(Player.id, Learner.id, Learner.name, Learner.role, Learner.rules)
    learning = Player.kind == "learner", Player.environment == population.environment
    found = session.execute(columns.join(Learner, Learner.id == Player.learner_id).where(*learning)).all()
    resets = role_config.resets(session, [learner_id for _, learner_id, *_ in found])
    roles_by_player = {}
    for player_id, learner_id, name, role, given in found:
        member = population.members[population.index(player_id)]
        own = role_config.followed(settings, role, given or {})
        if own.failure:
            log.error("learner %s: %s; using the settings of its role instead. %s", name, own.failure, _SETTINGS_REMEDY)
        reset_step = resets.get(learner_id, role_config.NO_RESETS).step
        roles_by_player[player_id] = LearnerRole(member, learner_id, name, own.rules, own.failure, reset_step)
    return roles_by_player


def win_rate_history(games: MatchArrays, learner: int, opponents: Sequence[int]) -> WinRateHistory:
    """Return a learner's scores against K opponents in the older and the newer half of its games with each.

    Args:
        games: Games of the learner against others.
        learner: Player id of the learner.
        opponents: (K,) ids, ascending.
    """
    home = games.home == learner
    opponent = np.where(home, games.away, games.home)
    score = np.where(home, games.score, 1.0 - games.score)
    ids = np.array(opponents, dtype=np.int64)
    played = np.isin(opponent, ids)
    return WinRateHistory.halves(np.searchsorted(ids, opponent[played]), score[played], ids.size)
