"""What matchmaking by roles looks at: whose lineage everybody belongs to, and how a learner does against them.

Win rates are those of the payoff. A learner that began anew has other weights than the one who played before: of it
only the matches count that it has played since, and as its rating is still that of the old weights, nothing is taken to
be known before it has played.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from arena.glicko2 import expected_score
from arena.roles import NO_LINEAGE, MainExploiter, Opposition, RoleRules
from arena.rules import Need
from league.config import Settings
from league.db.models import Learner
from league.services import evidence, match_log, payoffs, role_rules
from league.services.payoffs import NO_RECORDS
from league.services.population import Member, Population

EXPLOITERS = ("main_exploiter", "league_exploiter")

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Lineage:
    """A learner with the rules that it follows.

    Attributes:
        member: The learner as a player.
        id: Of the lineage.
        name: Of the lineage.
        rules: Of its role.
        began_step: The step at which its present weights began; 0 for its first ones.
    """

    member: Member
    id: int
    name: str
    rules: RoleRules
    began_step: int

    def needs(self, games: int) -> frozenset[Need]:
        """Return what matchmaking looks at beyond ratings and win rates, once the learner has so many games."""
        return frozenset() if isinstance(self.rules, MainExploiter) else self.rules.matchmaking.needs(games)


@dataclass(frozen=True, eq=False)
class Standing:
    """How a learner does against K others.

    Attributes:
        win_rates: (K,) estimated probability that it beats each.
        matches: (K,) number of matches behind that.
        against: The same with their roles, as rules of roles see them.
    """

    win_rates: FloatArray
    matches: IntArray
    against: Opposition


def lineage(session: Session, population: Population, settings: Settings, member: Member) -> Lineage:
    """Return what a population's learner follows, read once."""

    def read() -> Lineage:
        learner = session.get_one(Learner, member.learner_id)
        began = role_rules.beginnings(session, [learner.id]).get(learner.id, role_rules.NEVER_ANEW)
        return Lineage(member, learner.id, learner.name, role_rules.of_learner(settings, learner), began.step)

    return population.once(("lineage", member.id), read)


def standing(session: Session, population: Population, settings: Settings, own: Lineage, places: IntArray) -> Standing:
    """Return how a learner does against the players at K places of its population, up to the last closed period."""
    members = [population.members[place] for place in places]
    ids = [member.id for member in members]
    if own.began_step == 0:
        records = payoffs.of_player(session, own.member.id)
        expected = expected_score(population.ratings, np.full(places.size, population.place(own.member.id)), places)
    else:
        through = evidence.rated_through(session, population.environment)
        most = settings.matchmaking.past_games
        games = match_log.last_of(session, own.member.id, through, most, from_step=own.began_step)
        records, expected = NO_RECORDS.advance(games), np.full(places.size, 0.5)
    tally, matches = payoffs.against(records, own.member.id, ids)
    win_rates = arithmetic.win_rates(tally, expected)
    return Standing(win_rates, matches, _opposition(members, win_rates, own.id))


def _opposition(members: Sequence[Member], win_rates: FloatArray, own: int) -> Opposition:
    return Opposition(
        win_rates=win_rates,
        lineage=np.array(
            [NO_LINEAGE if member.learner_id is None else member.learner_id for member in members], dtype=np.int64
        ),
        main=np.array([member.role == "main" for member in members], dtype=np.bool_),
        exploiter=np.array([member.role in EXPLOITERS for member in members], dtype=np.bool_),
        step=np.array([member.step or 0 for member in members], dtype=np.int64),
        own=own,
    )
