"""Roles of learners (main agent, main exploiter, league exploiter), and their results against each other.

Win rates are those of the payoff. A learner that began anew has other weights than the one who played before: of it
only the matches count that it has played since, and as its rating is still that of the old weights, nothing is taken to
be known before it has played.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from arena.glicko2 import expected_score
from arena.roles import MainExploiter, Opposition, RoleRules
from arena.rules import NO_LINEAGE, Need
from league.db.models import Learner, Player
from league.services.matches import log as match_log
from league.services.matches import pair_records
from league.services.matches.pair_records import NO_RECORDS
from league.services.population import role_config, rule_inputs
from league.services.population.cache import Member, Population
from league.settings import Settings

EXPLOITERS = ("main_exploiter", "league_exploiter")

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_CORRECT_THE_NUMBERS = "register it with others, or set LEAGUE_MATCHMAKING to what they fit and start again"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LearnerRole:
    """A learner with the rules that it follows.

    Attributes:
        member: The learner as a player.
        id: Of the lineage.
        name: Of the lineage.
        rules: Of its role.
        failure: Why they are not those that it asked for; empty where they are.
        began_step: The step at which its present weights began; 0 for its first ones.
    """

    member: Member
    id: int
    name: str
    rules: RoleRules
    failure: str
    began_step: int

    def needs(self, games: int) -> frozenset[Need]:
        """Return what matchmaking looks at beyond ratings and win rates, once the learner has so many games."""
        return frozenset() if isinstance(self.rules, MainExploiter) else self.rules.matchmaking.needs(games)


@dataclass(frozen=True, eq=False)
class Matchups:
    """How a learner does against K others.

    Attributes:
        win_rates: (K,) estimated probability that it beats each.
        matches: (K,) number of matches behind that.
        against: The same with their roles, as rules of roles see them.
    """

    win_rates: FloatArray
    matches: IntArray
    against: Opposition


@dataclass(frozen=True, eq=False)
class _Sides:
    """Where P players belong, as `Opposition` has it."""

    lineage: IntArray
    main: BoolArray
    exploiter: BoolArray
    step: IntArray


def lineage(session: Session, population: Population, settings: Settings, member: Member) -> LearnerRole:
    """Return what a population's learner follows; those of all its learners are read together, once."""
    return population.cached("lineages", lambda: _lineages(session, population, settings))[member.id]


def standing(
    session: Session, population: Population, settings: Settings, own: LearnerRole, places: IntArray
) -> Matchups:
    """Return how a learner does against the players at K places of its population, up to the last closed period."""
    if own.began_step == 0:
        records = pair_records.of_player(session, own.member.id)
        expected = expected_score(population.ratings, np.full(places.size, population.place(own.member.id)), places)
    else:
        through = rule_inputs.rated_through(session, population.environment)
        most = settings.matchmaking.past_games
        games = match_log.last_of(session, own.member.id, through, most, from_step=own.began_step)
        records, expected = NO_RECORDS.advance(games), np.full(places.size, 0.5)
    tally, matches = pair_records.against(records, own.member.id, population.ids[places])
    win_rates = arithmetic.win_rates(tally, expected)
    sides = _of_all(population)
    lineage, step = sides.lineage[places], sides.step[places]
    of_late = arithmetic.win_rates(arithmetic.of_late(tally, matches, lineage, step), expected)
    against = Opposition(
        win_rates=win_rates,
        of_late=np.where(lineage == NO_LINEAGE, win_rates, of_late),
        lineage=lineage,
        main=sides.main[places],
        exploiter=sides.exploiter[places],
        step=step,
        own=own.id,
    )
    return Matchups(win_rates, matches, against)


def lineages(population: Population, places: Sequence[int]) -> IntArray:
    """Return (K,) int64 whose lineage the players at K places of a population belong to, NO_LINEAGE for baselines."""
    return _of_all(population).lineage[np.asarray(places, dtype=np.int64)]


def _lineages(session: Session, population: Population, settings: Settings) -> Mapping[int, LearnerRole]:
    """Read what all learners of a population follow, by their ids as players."""
    who = select(Player.id, Learner.id, Learner.name, Learner.role, Learner.rules)
    learning = Player.kind == "learner", Player.environment == population.environment
    found = session.execute(who.join(Learner, Learner.id == Player.learner_id).where(*learning)).all()
    began = role_config.resets(session, [learner_id for _, learner_id, *_ in found])
    lineages = {}
    for player_id, learner_id, name, role, given in found:
        member = population.members[population.place(player_id)]
        own, anew = role_config.followed(settings, role, given or {}), began.get(learner_id, role_config.NO_RESETS)
        if own.failure:
            log.error("learner %s: %s; numbers of its role stand in. %s", name, own.failure, _CORRECT_THE_NUMBERS)
        lineages[player_id] = LearnerRole(member, learner_id, name, own.rules, own.failure, anew.step)
    return lineages


def _of_all(population: Population) -> _Sides:
    return population.cached("sides", lambda: _sides(population.members))


def _sides(members: Sequence[Member]) -> _Sides:
    lineages = [NO_LINEAGE if member.learner_id is None else member.learner_id for member in members]
    return _Sides(
        lineage=np.array(lineages, dtype=np.int64),
        main=np.array([member.role == "main" for member in members], dtype=np.bool_),
        exploiter=np.array([member.role in EXPLOITERS for member in members], dtype=np.bool_),
        step=np.array([member.step or 0 for member in members], dtype=np.int64),
    )
